/*
 * Idle edges: when is nothing outstanding any more?
 *
 * A thread that synchronised knows it of what it waited for, the marks tell the
 * rest, and when a competitor would like to know, the driver is asked.
 */
#ifndef XMSCHED_EDGE_H
#define XMSCHED_EDGE_H

#include "state.h"

/*
 * Tells the device idle if it is known to be. Strict: leases of other threads
 * are taken away to be certain (a competitor waits for the answer); else a
 * usable lease of another thread leaves the device ready. `me` is the calling
 * thread, NULL one of ours. xm_lock held. True: the device is idle.
 */
XM_INTERNAL bool xm_settle(struct xm_dev *dev, struct xm_thread *me, bool strict);

/*
 * The same, and asks the driver about queues whose end is not marked. No lock
 * held; calls the driver.
 */
XM_INTERNAL void xm_settle_asking(struct xm_dev *dev, struct xm_thread *me);

/* Is every command that was admitted complete, and none on its way? Threads may be
 * waiting, and have leases. xm_lock held. */
XM_INTERNAL bool xm_dev_rests(struct xm_dev *dev);

#endif
