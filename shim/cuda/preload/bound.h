/*
 * The bound: how many commands a thread may be given, and which marks are due
 * so that somebody learns of their end.
 */
#ifndef XMSCHED_BOUND_H
#define XMSCHED_BOUND_H

#include "device.h"
#include "state.h"

/* Commands that `me` gets on q under the grant; 0: it is over the bound. xm_lock held. */
XM_INTERNAL uint32_t xm_bound_measure(struct xm_thread *me, struct xm_queue *q, const struct xm_grant *g);

/* Is a mark due in q before `me` goes on? Starved: it cannot go on. xm_lock held. */
XM_INTERNAL bool xm_bound_mark_due(const struct xm_queue *q, struct xm_thread *me, const struct xm_grant *g, bool starved);

/*
 * The process is at its limit, and what is outstanding may be single commands
 * in many queues: no mark of their own thread covers them, or it is an event, of
 * whose arrival only he hears who asks. Marks some of them and asks some; false: there
 * was none to mark, and none of them has come further. No lock held; calls the driver.
 */
XM_INTERNAL bool xm_bound_sweep(struct xm_thread *me);

#endif
