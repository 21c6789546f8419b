/*
 * When a thread began to wait for the device: what of a task's time lies before
 * that, it spent launching. Told to the daemon with the idle edge.
 */
#ifndef XMSCHED_WAIT_H
#define XMSCHED_WAIT_H

/* At the entry of a call that blocks until (part of) the device is done. */
void xm_wait_begins(void) __attribute__((visibility("hidden")));

/* At the entry of a question whether it is; the first since the device became ready counts. */
void xm_poll_begins(void) __attribute__((visibility("hidden")));

#endif
