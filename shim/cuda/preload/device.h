/*
 * Devices and contexts: which section of the board a command belongs to, what
 * the daemon answered there, and telling it ready and idle.
 */
#ifndef XMSCHED_DEVICE_H
#define XMSCHED_DEVICE_H

#include "state.h"

/* The daemon's answer for a device, as of one gate word. */
struct xm_grant {
	uint32_t gate;
	uint32_t limit; /* outstanding a queue */
	uint32_t batch; /* commands of a lease, between two marks */
	bool governed;  /* there is a board */
	bool open;
	bool gated;     /* level 2: commands wait at the gate on the device, where they can */
	bool answered;  /* false: the daemon has not seen the section yet */
};

/*
 * The context that is current on this thread, learnt when it is new (calls the
 * driver). NULL: none is, or its device has no section. No lock held.
 */
XM_INTERNAL struct xm_context *xm_context_current(struct xm_thread *me);

/* The context of that handle when it is known. xm_lock held. */
XM_INTERNAL struct xm_context *xm_context_known(CUcontext handle);

/* Makes `context` current around driver calls of ours; true: xm_context_pop must follow. */
XM_INTERNAL bool xm_context_push(struct xm_thread *me, struct xm_context *context);
XM_INTERNAL void xm_context_pop(void);

/* Everything below: xm_lock held. */

/* Announces the device on the board just attached, its state included / lets go of the board. */
XM_INTERNAL void xm_dev_claim(struct xm_dev *dev);
XM_INTERNAL void xm_dev_release(struct xm_dev *dev);

XM_INTERNAL struct xm_grant xm_dev_grant(struct xm_dev *dev);
XM_INTERNAL bool xm_dev_free_run(const struct xm_dev *dev);

/* The ready and the idle edge; nothing when it is so already. */
XM_INTERNAL void xm_dev_tell(struct xm_dev *dev, bool ready);

/* Publishes waiting and launches. */
XM_INTERNAL void xm_dev_publish(struct xm_dev *dev);

/* The gate is closed, and the daemon's heartbeat stood still too long or the process is leaving: opens it. Takes xm_lock. */
XM_INTERNAL void xm_dev_expire(struct xm_dev *dev);

#endif
