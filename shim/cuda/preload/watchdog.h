/*
 * The watchdog: one small thread of ours, from attach to detach, that does what
 * no thread of the program may be awake to do: acknowledges gate words, opens a
 * gate whose lease ran out, finds out that the tail of a queue is complete.
 */
#ifndef XMSCHED_WATCHDOG_H
#define XMSCHED_WATCHDOG_H

/* Starts it when none runs. xm_lock held. */
void xm_watchdog_start(void) __attribute__((visibility("hidden")));

/* Makes it look again: a device was claimed, the board is gone. */
void xm_watchdog_kick(void) __attribute__((visibility("hidden")));

#endif
