/* Streams that the program makes and destroys. */
#include "device.h"
#include "edge.h"
#include "mark.h"
#include "queue.h"
#include "thread.h"

/* A handle that we know already belonged to a stream whose end we did not see. */
void xm_stream_made(CUstream stream, unsigned flags, int priority)
{
	struct xm_thread *me = xm_enter();
	struct xm_context *context;
	struct xm_queue *q;

	(void)flags;
	(void)priority;
	if (!me)
		return;
	context = (uintptr_t)stream > XM_KEY_PER_THREAD ? xm_queue_context(me, (uintptr_t)stream) : NULL;
	if (context) {
		pthread_mutex_lock(&xm_lock);
		q = xm_queue_known(me, (uintptr_t)stream, NULL);
		if (q)
			xm_queue_die(q);
		xm_queue_add(me, (uintptr_t)stream, context);
		pthread_mutex_unlock(&xm_lock);
	}
	xm_leave(me);
}

/*
 * The driver destroys a stream when its work is done, and says nothing: so its
 * end is marked, before nobody can any more.
 */
void xm_stream_gone(CUstream stream, unsigned flags)
{
	struct xm_thread *me = xm_enter();
	struct xm_queue *q;

	(void)flags;
	if (!me)
		return;
	pthread_mutex_lock(&xm_probe);
	pthread_mutex_lock(&xm_lock);
	q = (uintptr_t)stream > XM_KEY_PER_THREAD ? xm_queue_known(me, (uintptr_t)stream, NULL) : NULL;
	pthread_mutex_unlock(&xm_lock);
	if (q) {
		if (!(atomic_load(&xm_state.captures) && xm_capturing(q->key)))
			xm_queue_mark(me, q);
		pthread_mutex_lock(&q->order);
		xm_mark_drop(q);
		pthread_mutex_lock(&xm_lock);
		xm_queue_die(q);
		xm_settle(q->dev, me, !xm_dev_free_run(q->dev));
		pthread_mutex_unlock(&xm_lock);
		pthread_mutex_unlock(&q->order);
	}
	pthread_mutex_unlock(&xm_probe);
	xm_leave(me);
}
