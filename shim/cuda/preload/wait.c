#include "wait.h"

#include "probes.h"
#include "state.h"
#include "sys.h"
#include "thread.h"

/* The device that the calling thread has to do with, as far as it is known
 * without asking; nobody else's state is touched, so no lock. */
static struct xm_dev *device(void)
{
	struct xm_thread *me = xm_thread_known();
	struct xm_context *c;

	if (!me || !(atomic_load_explicit(&xm_state.generation, memory_order_relaxed) & 1) ||
	    me->context_epoch != atomic_load_explicit(&xm_state.context_epoch, memory_order_relaxed))
		return NULL;
	c = me->context;
	return c ? c->dev : NULL;
}

void xm_wait_begins(void)
{
	struct xm_dev *dev = device();

	XM_SITE(wait_begin, 0, 0, 0);
	if (dev)
		atomic_store_explicit(&dev->wait_from, xm_now(), memory_order_relaxed);
}

void xm_poll_begins(void)
{
	struct xm_dev *dev = device();

	if (dev && atomic_load_explicit(&dev->wait_from, memory_order_relaxed) < atomic_load_explicit(&dev->ready_at, memory_order_relaxed))
		atomic_store_explicit(&dev->wait_from, xm_now(), memory_order_relaxed);
}
