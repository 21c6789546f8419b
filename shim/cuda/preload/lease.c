/* The way through for a thread that has a lease, but not the one it used last, or
 * one whose commands wait at the gate; and commands that come back. */
#include <errno.h>

#include "admission.h"
#include "device.h"
#include "edge.h"
#include "gate.h"
#include "pass.h"
#include "queue.h"
#include "thread.h"

/* Is `context` of the thread's record the current one? A default stream means
 * nothing before, and no stream takes a wait from another context's thread. */
static bool in_context(struct xm_thread *me)
{
	struct xm_thread *inside;

	if (me->context_epoch == atomic_load_explicit(&xm_state.context_epoch, memory_order_relaxed))
		return true;
	inside = xm_enter();
	if (!inside)
		return false;
	xm_context_current(inside);
	xm_leave(inside);
	return me->context != NULL;
}

/* A thread that goes from stream to stream keeps a lease on each. */
static bool other_lease(struct xm_lease *l, uintptr_t key)
{
	if (l == xm_lease_now)
		return false;
	xm_lease_now = l;
	xm_take(key);
	return true;
}

/*
 * A command under a gated lease: as in xm_admit, and then the wait. What another
 * thread takes away or gives anew between the look at the key and the wait is
 * harmless: addresses of older boards stay good, and their gates open. The
 * capture mode is left alone: captures take every lease away before they begin
 * and then give them one command at a time (xm_gate_put), so nothing captures
 * here but what began in this very moment, and then the command that follows
 * would have met it just so.
 */
static bool gated_lease(struct xm_thread *me, struct xm_lease *l, uintptr_t key)
{
	struct xm_queue *q = __atomic_load_n(&l->queue, __ATOMIC_RELAXED);
	CUdeviceptr at;
	uint32_t w;
	bool put;

	if (!q || !in_context(me) || me->context != q->context || !xm_enter())
		return false;
	w = atomic_load_explicit(&l->word, memory_order_relaxed);
	if (w <= 1) {
		xm_leave(me);
		return false;
	}
	xm_lease_now = l;
	atomic_store_explicit(&l->word, (w | 1) - 2, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	at = atomic_load_explicit(&q->wait_at, memory_order_relaxed);
	put = at && atomic_load_explicit(&l->key, memory_order_relaxed) == (key | XM_GATED) &&
	      atomic_load_explicit(l->gate, memory_order_relaxed) == l->gate_seen && xm_gate_enqueue(key, at) == 0;
	if (!put)
		xm_lease_give_back(l);
	xm_leave(me);
	return put;
}

static bool by_lease(struct xm_thread *me, uintptr_t key)
{
	struct xm_lease *l;

	if (key <= XM_KEY_PER_THREAD && !in_context(me))
		return false;
	l = xm_lease_of(me, key);
	if (!l || atomic_load_explicit(&l->word, memory_order_relaxed) <= 1)
		return false;
	return l->gated ? gated_lease(me, l, key) : other_lease(l, key);
}

void xm_admit_slow(uintptr_t key)
{
	struct xm_thread *me = xm_thread_known();
	int was = errno;

	if (!me || me->busy || !by_lease(me, key))
		xm_pass_through(key);
	errno = was;
}

/* The lease was taken away, or the gate word changed, after the count went
 * down. While the thread is on its way here the command counts as being on its
 * way into the driver, so nobody takes the queue for complete. */
void xm_admit_undo(uintptr_t key)
{
	xm_lease_give_back(xm_lease_now);
	xm_admit_slow(key);
}

/* ---- commands inside of another: of signal handlers ---- */

#define STRAYS 8u /* remembered of one command; more than that are not counted */

_Thread_local _Atomic uint32_t xm_inside __attribute__((tls_model("initial-exec")));
static _Thread_local uintptr_t strays[STRAYS] __attribute__((tls_model("initial-exec")));

void xm_admit_nested(uintptr_t key)
{
	uint32_t inside = atomic_load_explicit(&xm_inside, memory_order_relaxed);

	if (inside / XM_NESTED == STRAYS)
		return;
	atomic_store_explicit(&xm_inside, inside + XM_NESTED, memory_order_relaxed);
	strays[inside / XM_NESTED] = key;
}

/* They are in the driver by now: the device is ready, whatever it was told. */
static void count_strays(unsigned n)
{
	struct xm_thread *me = xm_enter();
	struct xm_queue *q;

	if (!me)
		return;
	for (unsigned i = 0; i < n; i++) {
		q = xm_queue_for(me, strays[i]);
		if (!q)
			continue;
		pthread_mutex_lock(&xm_lock);
		xm_queue_count(me, q);
		pthread_mutex_unlock(&xm_lock);
	}
	xm_leave(me);
}

/* The end of a command that others were inside of, or that is inside of another. */
CUresult xm_done_nested(CUresult result)
{
	uint32_t inside = atomic_load_explicit(&xm_inside, memory_order_relaxed);
	unsigned n = inside / XM_NESTED;

	if (inside % XM_NESTED > 1) {
		if (result && n)
			n--;
		atomic_store_explicit(&xm_inside, n * XM_NESTED + inside % XM_NESTED - 1, memory_order_relaxed);
		return result;
	}
	if (n)
		count_strays(n); /* before its own end: the device cannot become idle until then */
	xm_entered(result);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&xm_inside, 0, memory_order_relaxed);
	return result;
}

/* An error path of the program, so it may cost: the command may have been the
 * ready edge, and then this is the idle one. The wait before a gated command
 * cannot be taken back; it stays as the command that it is. */
void xm_refused(void)
{
	struct xm_lease *l = xm_lease_now;
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);
	struct xm_queue *q;
	struct xm_thread *me;

	if (!(w & 1))
		return;
	if (l->gated) {
		atomic_store_explicit(&l->word, w & ~1u, memory_order_release);
		return;
	}
	xm_lease_give_back(l);
	me = xm_enter();
	if (!me)
		return;
	pthread_mutex_lock(&xm_lock);
	q = l->queue;
	if (q && q->dev)
		xm_settle(q->dev, me, !xm_dev_free_run(q->dev));
	pthread_mutex_unlock(&xm_lock);
	xm_leave(me);
}
