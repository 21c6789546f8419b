/*
 * The tail of a queue: commands that no mark covers and that nobody
 * synchronises. While a competitor exists a thread of ours asks the driver about
 * them, so that a task which has fallen silent is told idle.
 *
 * It may get stuck in the driver, behind a thread of the program: so nothing
 * else is its business.
 */
#ifndef XMSCHED_TAIL_H
#define XMSCHED_TAIL_H

/* Starts it when none runs. xm_lock held. */
void xm_tail_start(void) __attribute__((visibility("hidden")));

/* A competitor is there, or has gone, or the board has. */
void xm_tail_kick(void) __attribute__((visibility("hidden")));

#endif
