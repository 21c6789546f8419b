/*
 * Marks: how the GPU says how far it has come in a queue. A stream write of the
 * sequence number to the queue's slot where that can be had, else an event.
 */
#ifndef XMSCHED_MARK_H
#define XMSCHED_MARK_H

#include "state.h"

/* Makes our own driver calls harmless to captures of other threads: brackets them. */
struct xm_quiet {
	CUstreamCaptureMode mode;
	bool set;
};
XM_INTERNAL struct xm_quiet xm_quiet_begin(void);
XM_INTERNAL void xm_quiet_end(struct xm_quiet q);

/* Does this stream capture, or would asking disturb a capture? Calls the driver. */
XM_INTERNAL bool xm_capturing(uintptr_t key);

/*
 * Marks what the driver has been handed of q so far. On a thread of the
 * program for which q->key means this queue. Calls the driver; no lock held
 * but xm_probe.
 */
XM_INTERNAL void xm_queue_mark(struct xm_thread *me, struct xm_queue *q);

/* Takes in q's event marks, when it has any. True: one has arrived. Calls the
 * driver; no lock held but xm_probe. */
XM_INTERNAL bool xm_queue_poll(struct xm_queue *q);

/* Gives q's events back. q->order held, xm_lock not. */
XM_INTERNAL void xm_mark_drop(struct xm_queue *q);

#endif
