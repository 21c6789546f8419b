/*
 * The board as this process sees it: taking one over, letting go of it, and
 * making it reachable for the GPU.
 */
#ifndef XMSCHED_BOARDMAP_H
#define XMSCHED_BOARDMAP_H

#include "state.h"

/* The agent's attach and detach (agent.h). On the agent's threads. */
XM_INTERNAL int xm_board_attach(int board_fd, int event_fd);
XM_INTERNAL void xm_board_detach(void);

/*
 * Makes the attached board writable for the queues of `context`, which is
 * current on this thread of the program. Calls the driver; no lock held. What
 * cannot be had is remembered and not asked for again on this board.
 */
XM_INTERNAL void xm_board_register(struct xm_context *context);

/*
 * The same for a context that need not be current, when there is something to
 * do. Where a thread comes by with a command, so that the daemon soon learns
 * how far this process can go. No lock held.
 */
XM_INTERNAL void xm_board_reach(struct xm_thread *me, struct xm_context *context);

/* The context is about to go / the driver has let go of it: its view is kept until
 * a while after. Both on thread `me`. xm_lock held. */
XM_INTERNAL void xm_board_forget(struct xm_thread *me, struct xm_context *context);
XM_INTERNAL void xm_board_forgotten(struct xm_thread *me);

/* Did the daemon's heartbeat stand still for XM_LEASE_NS? By our own clock, from when we first saw it so. xm_lock held. */
XM_INTERNAL bool xm_daemon_dead(void);

/* In how many ns it will have, unless the heart beats: at most XM_LEASE_NS, 0 when it has, and
 * UINT64_MAX without a daemon. Who waits for that looks again then. xm_lock held. */
XM_INTERNAL uint64_t xm_daemon_left(void);

#endif
