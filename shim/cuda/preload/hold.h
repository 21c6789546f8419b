/*
 * Level 3: stopping what runs, at any instruction, by switching this process's
 * own channels off, and the time slice of its compute groups.
 *
 * What is wished of a GPU stands in its record (objects.h) and is stored before
 * anything is done; each channel remembers whether it is off. Carrying out is
 * one loop: find channels that differ from the wish, at most 64 of one engine,
 * switch them, look again until none is left. A second suspension, or resuming what
 * is not suspended, finds none. Who makes a channel looks at the wish after the
 * driver returned: if its GPU is held it is switched off before the program gets
 * it. The locks are owned.h's.
 *
 * No function here takes admission's locks or calls the driver library: a thread
 * that hangs in the driver for its suspended work holds none of these locks.
 */
#ifndef XMSCHED_HOLD_H
#define XMSCHED_HOLD_H

#include "gen/board.h"
#include "objects.h"

/* Results: 0; a negative errno; or the driver's status, which is positive. */

/*
 * XM_HOLD_* for all channels that this process has on the GPU now or later; takes
 * and returns once it is so. A refused suspension is undone. A refused resumption
 * is not: xm_hold_again goes on with it. ns, unless NULL: how long the calls took.
 * -EINVAL: no such hold. -ESHUTDOWN: the process is leaving.
 */
XM_INTERNAL int xm_hold_set(const uint8_t uuid[16], uint32_t hold, uint64_t *ns);

/* Time slice in us for the compute groups; 0: what they had. Where there are several
 * they get 1000 at least, since short ones would keep each other from running:
 * xm_hold_look tells. A refusal is undone. */
XM_INTERNAL int xm_hold_slice(const uint8_t uuid[16], uint32_t us, uint64_t *ns);

/* What is left to be done on the GPU, because the driver refused it or somebody made a channel. */
enum xm_hold_rest {
	XM_HOLD_REST_NONE,
	XM_HOLD_REST_SOON,  /* a newcomer could not be switched off yet */
	XM_HOLD_REST_LATER, /* a channel could not be switched on, or a slice not be put back */
};

/* Tries again what is left. *refused: the status with which a newcomer stays refused; the suspension has to be
 * ended then, which is the caller's. */
XM_INTERNAL enum xm_hold_rest xm_hold_again(const uint8_t uuid[16], int *refused);

/* What is in force. */
struct xm_hold_now {
	uint32_t hold;  /* of the channels themselves: the most that any of them is subject to */
	uint32_t slice; /* us; 0: their own; else 1 or more, which may be longer than wished */
	uint32_t compute_groups, groups, channels;
	uint32_t compute_channels;
	bool subdevice; /* one was found to which controls can go */
	uint64_t changes; /* another number when objects came or went, of whatever GPU */
};
XM_INTERNAL struct xm_hold_now xm_hold_look(const uint8_t uuid[16]);

/* Whether level 3 can be had on that GPU: an XM_LEVEL_WHY_*; NONE: yes. May ask the
 * driver something harmless. */
XM_INTERNAL uint32_t xm_hold_why(const uint8_t uuid[16]);

/*
 * Switches everything on, everywhere, and nothing off any more: the process is
 * leaving. Called where a lock may be held below on this very thread, so it gives
 * up after a while; false: it did.
 */
XM_INTERNAL bool xm_hold_leave(void);

/* --- what ioctl.c tells ------------------------------------------------- */

/* An allocation succeeded, or a duplication (source 0: none). May switch the new channel off. */
XM_INTERNAL void xm_hold_made(const struct xm_rm_made *m, uint32_t source_client, uint32_t source);

/* Groups and channels that this thread's calls make from here on are never held, sliced or
 * counted: they are our own, and memory is moved by them while all else is held. */
XM_INTERNAL void xm_hold_spare(bool on);

/* An allocation was not understood / was made by a handler that interrupted its
 * own thread here (takes no lock). Level 3 is off from then on. */
XM_INTERNAL void xm_hold_strange(void);
XM_INTERNAL void xm_hold_missed(void);

/* Whether an object is kept here. */
XM_INTERNAL bool xm_hold_knows(uint32_t client, uint32_t handle);

/* Around the driver's freeing of an object that is kept. */
XM_INTERNAL void xm_hold_free_begin(void);
XM_INTERNAL void xm_hold_free_end(uint32_t client, uint32_t handle, bool freed);

/* Whether any GPU is held: then xm_hold_touched must follow what the program's
 * driver does to a group or channel, which might switch it on. */
XM_INTERNAL bool xm_hold_any(void);
XM_INTERNAL void xm_hold_touched(uint32_t client, uint32_t handle);

#endif
