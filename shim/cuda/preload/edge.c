#include "edge.h"

#include "device.h"
#include "mark.h"
#include "probes.h"
#include "queue.h"
#include "sys.h"
#include "thread.h"

#define ASK 8              /* queues asked in one go */
#define ROUNDS 4u          /* a synchronising thread asks so often at most */
#define ASK_AGAIN_NS 20000u /* after "not yet" a synchronising thread does not ask again for so long; the tail's thread does */
#define NOT_READY 600      /* CUDA_ERROR_NOT_READY */
#define CAPTURE_FIRST 900  /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, the first of the capture errors */
#define CAPTURE_LAST 908   /* CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD */

/* Takes the leases of other threads away, as far as there are any that could
 * still be used. After the fence each of them has either been seen to take its
 * command or will find its key gone. */
static void take_leases(struct xm_dev *dev, const struct xm_thread *me)
{
	bool any = false;

	for (struct xm_queue *q = dev->dirty; q; q = q->dirty_next)
		for (struct xm_lease *l = q->leases; l; l = l->next)
			if (l->owner != me && xm_lease_usable(l)) {
				xm_lease_revoke(l);
				any = true;
			}
	if (any)
		(void)xm_fence_all();
}

static bool others_may_launch(const struct xm_dev *dev, const struct xm_thread *me)
{
	for (struct xm_queue *q = dev->dirty; q; q = q->dirty_next)
		for (struct xm_lease *l = q->leases; l; l = l->next)
			if (l->owner != me && xm_lease_usable(l))
				return true;
	return false;
}

/* Is every command of q that was admitted complete, and none on its way? */
static bool complete(const struct xm_queue *q, const struct xm_thread *me)
{
	for (const struct xm_lease *l = q->leases; l; l = l->next)
		if (l->owner != me && xm_lease_in_driver(l))
			return false;
	return xm_queue_total(q) == q->done;
}

bool xm_dev_rests(struct xm_dev *dev)
{
	for (struct xm_queue *q = dev->dirty; q; q = q->dirty_next) {
		xm_queue_refresh(q);
		if (!complete(q, NULL))
			return false;
	}
	return true;
}

/* Nothing is outstanding: leases end, so that the next command, whichever
 * thread's, comes through the slow path and is a ready edge. */
static void clean(struct xm_queue *q, const struct xm_thread *me)
{
	struct xm_lease *next;

	for (struct xm_lease *l = q->leases; l; l = next) {
		next = l->next;
		if (me && l->owner == me) {
			xm_lease_end(l);
		} else {
			xm_lease_revoke(l);
			xm_lease_settle(l);
		}
	}
	xm_queue_publish(q);
	xm_queue_clean(q);
}

bool xm_settle(struct xm_dev *dev, struct xm_thread *me, bool strict)
{
	if (!dev->ready)
		return true;
	if (dev->pending)
		return false;
	for (struct xm_queue *q = dev->dirty; q; q = q->dirty_next) {
		xm_queue_refresh(q);
		if (q->marked > q->done)
			return false; /* the GPU has yet to say so */
	}
	if (strict)
		take_leases(dev, me);
	else if (others_may_launch(dev, me))
		return false;
	for (struct xm_queue *q = dev->dirty; q; q = q->dirty_next)
		if (!complete(q, me))
			return false;
	while (dev->dirty)
		clean(dev->dirty, me);
	xm_dev_tell(dev, false);
	return true;
}

/* A queue to be asked about. */
struct question {
	struct xm_queue *q;
	struct xm_context *context;
	uintptr_t key;
	uint64_t returned; /* complete if the answer is yes */
};

/*
 * Which queues would have to be complete for the device to be idle, the first
 * ASK of them. The stream of another thread has no name here, so the legacy stream
 * is asked instead. Recorded on the H200 (conformance, case order): per-thread
 * streams are blocking ones, and a command on the legacy stream waits for what
 * they hold. Whether a query of a legacy stream that has no command of its own says
 * so too is case legacy-query-and-other-threads-per-thread-streams. xm_lock held.
 * -1: for one of them nobody can answer now.
 */
static int questions(struct xm_dev *dev, struct xm_thread *me, struct question *ask)
{
	int n = 0;

	for (struct xm_queue *q = dev->dirty; q && n < ASK; q = q->dirty_next) {
		uint64_t returned = xm_queue_returned(q, me);

		if (returned != xm_queue_total(q) || (q->dead && returned != q->done))
			return -1;
		if (returned == q->done)
			continue;
		ask[n++] = (struct question){.q = q,
					     .context = q->context,
					     .key = q->thread && q->thread != me ? XM_KEY_LEGACY : q->key,
					     .returned = returned};
	}
	return n;
}

/* True: yes. A device that answers with an error of its own has nothing
 * outstanding that could still complete. */
static bool answer(struct xm_thread *me, const struct question *k)
{
	struct xm_quiet quiet;
	bool pushed = false;
	CUresult r;

	if (!me || k->key <= XM_KEY_PER_THREAD || !xm_context_current(me))
		pushed = xm_context_push(me, k->context);
	quiet = xm_quiet_begin();
	r = xm_real.cuStreamQuery((CUstream)k->key);
	xm_quiet_end(quiet);
	if (pushed)
		xm_context_pop();
	return r != NOT_READY && !(r >= CAPTURE_FIRST && r <= CAPTURE_LAST);
}

/* One round of questions; true: all were answered yes and there are more. */
static bool ask_round(struct xm_dev *dev, struct xm_thread *me)
{
	struct question ask[ASK];
	bool yes = true;
	int n;

	pthread_mutex_lock(&xm_lock);
	n = dev->ready && !dev->pending ? questions(dev, me, ask) : -1;
	pthread_mutex_unlock(&xm_lock);
	for (int i = 0; i < n && yes; i++) {
		yes = answer(me, &ask[i]);
		if (!yes)
			break;
		pthread_mutex_lock(&xm_lock);
		xm_queue_progress(ask[i].q, ask[i].returned);
		pthread_mutex_unlock(&xm_lock);
	}
	pthread_mutex_lock(&xm_lock);
	dev->asked_at = yes ? 0 : xm_now();
	if (yes && n >= 0)
		xm_settle(dev, me, true);
	pthread_mutex_unlock(&xm_lock);
	return yes && n == ASK;
}

/* The questions' queues cannot be destroyed meanwhile, nor begin to capture,
 * since who does that takes xm_probe first. */
void xm_settle_asking(struct xm_dev *dev, struct xm_thread *me)
{
	bool idle, ask = true;
	unsigned rounds = me ? ROUNDS : XM_BOARD_SLOTS;

	pthread_mutex_lock(&xm_lock);
	idle = xm_settle(dev, me, true);
	for (struct xm_queue *q = dev->dirty; q && ask; q = q->dirty_next)
		ask = q->marked <= q->done || q->events;
	if (me && xm_now() - dev->asked_at < ASK_AGAIN_NS)
		ask = false;
	pthread_mutex_unlock(&xm_lock);
	if (idle || !ask || !xm_real.cuStreamQuery || pthread_mutex_trylock(&xm_probe))
		return;
	while (rounds-- && !atomic_load(&xm_state.captures) && !atomic_load(&xm_state.leaving) && ask_round(dev, me))
		;
	pthread_mutex_unlock(&xm_probe);
}

/* Own proof: all that is outstanding in q was submitted by this thread, so
 * before the call that waited. xm_lock held. */
static void synced(struct xm_queue *q, struct xm_thread *me)
{
	if (q->solo == me || q->dead)
		xm_queue_progress(q, xm_queue_returned(q, me));
}

static void after_sync(struct xm_dev *dev, struct xm_thread *me)
{
	if (xm_dev_free_run(dev)) {
		pthread_mutex_lock(&xm_lock);
		xm_settle(dev, me, false);
		pthread_mutex_unlock(&xm_lock);
	} else {
		xm_settle_asking(dev, me);
	}
}

/* A handler waited for something while its thread is in the driver with a command:
 * that one may not be there yet, and nothing is proven. */
static struct xm_thread *enter_synced(void)
{
	return atomic_load_explicit(&xm_inside, memory_order_relaxed) ? NULL : xm_enter();
}

void xm_synced_stream(CUstream stream, unsigned flags)
{
	struct xm_thread *me = enter_synced();
	uintptr_t key = xm_key(stream, flags);
	struct xm_context *context = NULL;
	struct xm_dev *dev = NULL;
	struct xm_queue *q;

	XM_SITE(complete, stream, flags, 1);
	if (!me)
		return;
	if (key <= XM_KEY_PER_THREAD)
		context = xm_context_current(me);
	if (key > XM_KEY_PER_THREAD || context) {
		pthread_mutex_lock(&xm_lock);
		q = xm_queue_known(me, key, context);
		if (q) {
			dev = q->dev;
			synced(q, me);
		}
		pthread_mutex_unlock(&xm_lock);
	}
	if (dev)
		after_sync(dev, me);
	xm_leave(me);
}

void xm_query_ok(CUstream stream, unsigned flags)
{
	xm_synced_stream(stream, flags);
}

void xm_synced_context(void)
{
	struct xm_thread *me = enter_synced();
	struct xm_context *c;

	XM_SITE(complete, 0, 0, 2);
	if (!me)
		return;
	c = xm_context_current(me);
	if (c) {
		pthread_mutex_lock(&xm_lock);
		for (struct xm_queue *q = c->dev->dirty; q; q = q->dirty_next)
			if (q->context == c)
				synced(q, me);
		pthread_mutex_unlock(&xm_lock);
		after_sync(c->dev, me);
	}
	xm_leave(me);
}

/* In free run nobody waits for the answer, and programs ask for events often. */
void xm_synced_event(void)
{
	struct xm_thread *me;
	struct xm_context *c;

	XM_SITE(complete, 0, 0, 3);
	if (!atomic_load_explicit(&xm_state.competitor, memory_order_relaxed))
		return;
	me = enter_synced();
	if (!me)
		return;
	c = xm_context_current(me);
	if (c && !xm_dev_free_run(c->dev))
		xm_settle_asking(c->dev, me);
	xm_leave(me);
}
