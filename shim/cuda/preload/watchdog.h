/*
 * The watchdog: one small thread of ours that does what no thread of the program
 * may be awake to do: acknowledges gate words, opens a gate whose lease ran out
 * or whose process is leaving, and guards boards that were let go of (guard.h).
 * It lives from attach until the last of these is done with.
 *
 * It calls the driver only to make memory good that was taken away from a process which
 * it is about to let run (memory_ready.h); mapping waits for no work of the device
 * (h200.md). Otherwise not: a thread of the program may hold the driver's lock while
 * it waits for work that the closed gate holds back.
 */
#ifndef XMSCHED_WATCHDOG_H
#define XMSCHED_WATCHDOG_H

#include <stdbool.h>
#include <stddef.h>

/* Starts it when none runs. xm_lock held. */
void xm_watchdog_start(void) __attribute__((visibility("hidden")));

/* Makes it look again: a device was claimed, the board is gone. */
void xm_watchdog_kick(void) __attribute__((visibility("hidden")));

/* A detached thread of ours: all signals blocked, `stack` bytes where that is enough,
 * else the usual. 0 or the error. */
int xm_small_thread(void *(*body)(void *), size_t stack) __attribute__((visibility("hidden")));

#endif
