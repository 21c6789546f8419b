/*
 * Boards that were let go of while the GPU may still wait at their gates.
 *
 * They are opened when they are let go of. But their pages are shared with a
 * daemon that may have been stopped in the middle of a decision, and store one
 * more closed word when it goes on; nobody renews that lease any more. So the
 * watchdog keeps looking, and opens what it finds closed, until no command that
 * waits there is outstanding. Then our view becomes a page of its own whose
 * gate words say open: whoever still reads it, and whenever, waits for nothing.
 *
 * Views that contexts registered show the same pages and stay as they are.
 */
#ifndef XMSCHED_GUARD_H
#define XMSCHED_GUARD_H

#include "state.h"
#include "sys.h"

#define XM_GUARD_WATCHES 32u

/* Takes over our view of the board of that generation, which is attached no more.
 * All leases were taken away and every thread has passed a fence. xm_lock held. */
XM_INTERNAL void xm_guard_take(struct xm_board *board, uint32_t generation, uint32_t devices);

/* Is there any board left? xm_lock held. */
XM_INTERNAL bool xm_guard_busy(void);

/* Opens and lets go. Names up to `room` words to be watched; returns how many.
 * On the watchdog's thread alone; takes xm_lock. */
XM_INTERNAL unsigned xm_guard_round(struct xm_watch *watches, unsigned room);

#endif
