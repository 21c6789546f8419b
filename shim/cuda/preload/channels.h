/*
 * Level 3 and the board: a small thread of ours, "xm-channels", carries out what
 * the daemon wants of each device's channels (hold.h) and says so in the section.
 * It lives from when a board and a device are there until both the board has gone
 * and nothing is held any more for it. No agent is on this path, and no driver
 * library: a want is a word of the board, carrying it out one or a few controls.
 *
 * In one change the slice is set before channels are switched off, and channels
 * are switched on before the slice is set. While anything is held the thread looks
 * at the daemon's heart; when that has stood still for a second, the session has
 * ended or the process is leaving, it switches everything on and puts the slices
 * back. After the second it says so: held is none, did is unchanged, and the
 * eventfd rings; it obeys again from the next want on.
 */
#ifndef XMSCHED_CHANNELS_H
#define XMSCHED_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/board.h"

/* --- for our own measuring and test programs: exported, with or without a board ---- */

/* All return 0, a negative errno (-ENODEV: this process has no channels there), or the
 * driver's status, which is positive. uuid has 16 bytes. */

/* hold: XM_HOLD_*. ns, unless NULL: how long it took. */
int xm_channels_hold(const uint8_t uuid[16], uint32_t hold, uint64_t *ns);

/* us 1 or more; 0: what the compute groups had before. */
int xm_channels_slice(const uint8_t uuid[16], uint32_t us, uint64_t *ns);

/* How much of each this process has there. */
int xm_channels_count(const uint8_t uuid[16], uint32_t *compute_groups, uint32_t *groups, uint32_t *channels);

/* --- inside ------------------------------------------------------------------------- */

#define XM_CHANNELS_INTERNAL __attribute__((visibility("hidden")))

/* Starts the thread when none runs and a device is there. xm_lock held. */
XM_CHANNELS_INTERNAL void xm_channels_start(void);

/* Makes it look: a board or a device came or went, or something is left to do. */
XM_CHANNELS_INTERNAL void xm_channels_kick(void);

/* The same where objects came or went, when it waits for such. */
XM_CHANNELS_INTERNAL void xm_channels_news(void);

#endif
