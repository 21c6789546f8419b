/*
 * Hardware queues: which there are, how much of each is outstanding, and the
 * marks by which the GPU says so.
 */
#ifndef XMSCHED_QUEUE_H
#define XMSCHED_QUEUE_H

#include "state.h"

/*
 * The queue that a command on `key` goes to, made when it is new; calls the
 * driver when something has to be learnt. NULL: the command is not ours to
 * count (no context, a device without a section, a stream that captures).
 */
XM_INTERNAL struct xm_queue *xm_queue_for(struct xm_thread *me, uintptr_t key);


/* The context whose stream this is; NULL: none of ours. Calls the driver; no lock held. */
XM_INTERNAL struct xm_context *xm_queue_context(struct xm_thread *me, uintptr_t key);

/* All queues of a context end as complete. xm_probe held, xm_lock not. */
XM_INTERNAL void xm_queue_context_gone(struct xm_context *context);

/* Everything below: xm_lock held. */

/* The queue when it is known; `context` counts for the default streams alone. */
XM_INTERNAL struct xm_queue *xm_queue_known(struct xm_thread *me, uintptr_t key, struct xm_context *context);

/* The queue, made when it is new. NULL: no memory. */
XM_INTERNAL struct xm_queue *xm_queue_add(struct xm_thread *me, uintptr_t key, struct xm_context *context);

/* Its stream is being destroyed: no command, mark or question goes to it any more. q->order held, where another thread might. */
XM_INTERNAL void xm_queue_die(struct xm_queue *q);

/* Commands that have entered the driver: of `me` all, of other threads those whose call has returned. */
XM_INTERNAL uint64_t xm_queue_returned(const struct xm_queue *q, const struct xm_thread *me);

/* Counts a command of `me` that entered the driver without having been admitted. */
XM_INTERNAL void xm_queue_count(struct xm_thread *me, struct xm_queue *q);

/* The same as xm_queue_returned, those on their way included. */
XM_INTERNAL uint64_t xm_queue_total(const struct xm_queue *q);

/* Commands up to `done` are complete. */
XM_INTERNAL void xm_queue_progress(struct xm_queue *q, uint64_t done);

/* Takes in what the GPU has written. */
XM_INTERNAL void xm_queue_refresh(struct xm_queue *q);

/* Gives q a slot of the attached board when it has none, and publishes its numbers. */
XM_INTERNAL void xm_queue_announce(struct xm_queue *q);
XM_INTERNAL void xm_queue_publish(struct xm_queue *q);

/* On and off its device's list of queues that matter to idleness. */
XM_INTERNAL void xm_queue_dirty(struct xm_queue *q);
XM_INTERNAL void xm_queue_clean(struct xm_queue *q);

/* The per-thread streams of a thread that ends are nobody's any more. */
XM_INTERNAL void xm_queue_thread_ended(struct xm_thread *me);

/* A new board: all slots are free again. */
XM_INTERNAL void xm_slots_reset(void);

#endif
