/*
 * Whoever lets the process run again on a device makes its memory good first: channels
 * that are switched on, a gate that is opened from here, the process's end. While
 * between xm_memory_ready and xm_memory_opened nothing can be taken away.
 *
 * None of these may be called with a lock of ours held: they call the driver.
 */
#ifndef XMSCHED_MEMORY_READY_H
#define XMSCHED_MEMORY_READY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Every address of the device's memory is mapped to its bytes when this returns 0.
 * Waits for a move that is under way, for at most about a second. Otherwise something is
 * still mapped to nothing: the process must stay as it is, and it is to be tried again.
 * xm_memory_opened follows in either case.
 */
int xm_memory_ready(uint32_t section) __attribute__((visibility("hidden")));
void xm_memory_opened(uint32_t section) __attribute__((visibility("hidden")));

/* Every channel on the device has been switched off: the board's ALL is in force. */
void xm_memory_stopped(uint32_t section) __attribute__((visibility("hidden")));

/* A board was attached: it is told what there is. */
void xm_memory_announce(void) __attribute__((visibility("hidden")));

/* Is anything mapped to nothing, or may it be at any moment? */
bool xm_memory_gone(uint32_t section) __attribute__((visibility("hidden")));

/* The daemon took back its leave to move a drained process's memory: it is made good.
 * True: it could not be, and is to be tried again. */
bool xm_memory_recall(uint32_t section) __attribute__((visibility("hidden")));

#endif
