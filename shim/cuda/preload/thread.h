/*
 * Threads and their leases. A thread's record is found through its TLS, made at
 * its first command and recycled when it ends.
 */
#ifndef XMSCHED_THREAD_H
#define XMSCHED_THREAD_H

#include "state.h"

/* This thread's record when it has one. */
XM_INTERNAL struct xm_thread *xm_thread_known(void);

/*
 * Goes inside: from here to xm_leave the thread may take locks, is not
 * cancelled, and its signal handlers' commands pass uncounted. NULL: it must
 * not go inside (a forked child, a handler that interrupted its own thread
 * inside, no memory); then nothing is done. Keeps errno for xm_leave.
 */
XM_INTERNAL struct xm_thread *xm_enter(void);
XM_INTERNAL void xm_leave(struct xm_thread *me);

/* The thread's default streams mean another context now. */
XM_INTERNAL void xm_thread_forget_context(struct xm_thread *me);

/* The lease of this thread on that queue as far as it has one; no lock needed by the owner. */
XM_INTERNAL struct xm_lease *xm_lease_of(struct xm_thread *me, uintptr_t key);

/* Everything below: xm_lock held. */

/* Gives n commands on q under gate word `gate`, and takes the first of them. Before
 * each a wait goes to device address `wait_at`; 0: none does. */
XM_INTERNAL void xm_lease_give(struct xm_thread *me, struct xm_queue *q, uint32_t n, uint32_t gate, CUdeviceptr wait_at);

/* Ends a lease of the calling thread: what was used goes to the queue. */
XM_INTERNAL void xm_lease_end(struct xm_lease *l);

/*
 * Takes a lease away from whichever thread: its next command asks again. What
 * it used is certain only after xm_fence_all; then xm_lease_settle drops what
 * was not used out of the bound.
 */
XM_INTERNAL void xm_lease_revoke(struct xm_lease *l);
XM_INTERNAL void xm_lease_settle(struct xm_lease *l);

/* Its queue is being recycled. */
XM_INTERNAL void xm_lease_detach(struct xm_lease *l);

XM_INTERNAL void xm_thread_revoke_all(void);

static inline uint32_t xm_lease_left(const struct xm_lease *l)
{
	return atomic_load_explicit(&l->word, memory_order_relaxed) >> 1;
}

static inline bool xm_lease_in_driver(const struct xm_lease *l)
{
	return atomic_load_explicit(&l->word, memory_order_acquire) & 1;
}

/* The command that the calling thread's lease was last used for is none after all. */
static inline void xm_lease_give_back(struct xm_lease *l)
{
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (w & 1)
		atomic_store_explicit(&l->word, (w & ~1u) + 2, memory_order_relaxed);
}

static inline bool xm_lease_usable(const struct xm_lease *l)
{
	return atomic_load_explicit(&l->key, memory_order_relaxed) != XM_KEY_NONE && xm_lease_left(l) > 0;
}

#endif
