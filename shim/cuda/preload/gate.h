/*
 * Level 2: the gate that the GPU reads.
 *
 * In bounded mode a wait for bit 0 of the section's gate word goes into the
 * stream in front of every command. Closing the word then stops the device at
 * the next command, with no thread of this process awake, and a thread that
 * launches goes on until it is over the bound.
 *
 * What a wait promises: a command enters a stream after the wait that its own
 * thread put there, so no command passes a gate that was closed before its wait
 * was reached. Another thread's command may stand between the two; its own wait
 * stands before it as well. While it runs the gate may close, and then the first
 * thread's command still passes, as one whose wait was passed. So a stream goes
 * on for as many commands as threads share it, at most.
 *
 * Whatever is enqueued waits until somebody opens the word; so the word is never
 * given up closed: at detach, at exit and when the daemon is dead it is opened
 * from here, and guard.c keeps it open while a wait may be left. No path to that
 * takes a lock that is held over a driver call: xm_lock alone.
 */
#ifndef XMSCHED_GATE_H
#define XMSCHED_GATE_H

#include "device.h"
#include "state.h"

/* Where commands of q wait; 0: the board is not within reach of its context. xm_lock held. */
XM_INTERNAL CUdeviceptr xm_gate_address(const struct xm_queue *q);

/* Puts a wait into the stream. The stream's context is current. Calls the driver. */
XM_INTERNAL CUresult xm_gate_enqueue(uintptr_t key, CUdeviceptr at);

enum xm_put {
	XM_PUT,      /* the wait is in the stream */
	XM_PUT_LEVEL, /* this device has no waits: level 1 from now on, ask again */
	XM_PUT_ERROR, /* the stream is not fit for any command: the driver will tell the program */
};

/* The same for the lease just given on q, whatever is current; finds out why a
 * wait is refused. Calls the driver; no lock held. */
XM_INTERNAL enum xm_put xm_gate_put(struct xm_thread *me, struct xm_queue *q, CUdeviceptr at);

/* Everything below: xm_lock held. */

/* Has the daemon closed the device's gate? */
XM_INTERNAL bool xm_gate_closed(const struct xm_dev *dev);

/* Opens the section's gate if it is closed, whoever closed it. True: it was. */
XM_INTERNAL bool xm_gate_open(struct xm_device *section);

/* Says in the section how far this process can go there, when that is news. */
XM_INTERNAL void xm_level_tell(struct xm_dev *dev);

#endif
