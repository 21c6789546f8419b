/*
 * Memory, as the agent's engine sees it: the segments that this process's
 * allocations are made of, and the calls that move them. The table is in C: whoever
 * lets the process run again must be able to make every address good, with no
 * agent (mem_ready.c). The engine copies and decides; everything that maps or unmaps
 * is done here.
 *
 * A segment is in exactly one state:
 *   DEVICE   its address is mapped to device memory, which is the truth
 *   HOST     its address is mapped to its slot, which is the truth
 *   AWAY     its address is mapped to nothing, its slot is the truth; only while Stopped
 *   LOADING  its address is mapped to new device memory, its slot is still the truth
 *
 * A slot is host memory of the segment's size, with a second address by which
 * copies reach it (its pool address). It is this process's own.
 *
 * To move out:  begin, slot, copy address -> slot, wait for the copy, away, end.
 * To move in:   begin, load, copy slot -> address, wait for the copy, loaded, end.
 * A segment that came in keeps its slot for as long as nobody needs that more: it has
 * the bytes as they came, and what did not change since goes out by spare, uncopied.
 * Whether it changed the engine finds out, by the bytes; here nobody looks.
 * Copies are made in a context of the agent's own, with the driver's functions as
 * `driver` gives them, and nothing is copied but between begin and end. A copy, or a kernel
 * of the engine's, that finds nothing at its address ends every context of the process,
 * the program's as well, and none can be made any more (H200, driver 580.159); one that is
 * late writes into what is another's by then. So what the device is given to do with segments is
 * bracketed by `flight`, and nothing is taken from under it.
 *
 * Several threads may call at once, as long as no segment is in two calls: load and away take as long as
 * copies where other processes' calls are in the driver.
 *
 * Results: 0 (or a count); a negative errno; or the driver's result, which is
 * positive. -EINVAL: no such section or segment, or not in that state. -EPERM: no
 * begin is in force: never made, ended, or taken away after 1 s of `wanted` with nothing in
 * flight, or for the process is leaving; the engine drops its plan. -ENODEV: the section's memory is not
 * managed. Calls that change memory count it on the board (client_memory), all but
 * `did`, and the stall of the client line, which are the engine's to tell.
 */
#ifndef XMSCHED_MEMORY_H
#define XMSCHED_MEMORY_H

#include <stdint.h>

#define XM_MEMORY_VERSION 1u
#define XM_MEMORY_BATCH 1024 /* segments in one call */

enum { XM_SEGMENT_DEVICE = 0, XM_SEGMENT_HOST = 1, XM_SEGMENT_AWAY = 2, XM_SEGMENT_LOADING = 3 };

enum {
	XM_SEGMENT_PINNED = 1, /* is not to be moved, for good */
	XM_SEGMENT_ARENA = 2,  /* holds small allocations */
	XM_SEGMENT_BUSY = 4,   /* a thread is in the driver with a command on it: not in this move */
	XM_SEGMENT_KEPT = 8,   /* DEVICE, and its slot has its bytes as they came in */
};

struct xm_segment {
	uint64_t id; /* never given twice */
	uint64_t address, bytes;
	uint32_t state, flags;
	uint64_t allocation; /* number of the address range it is a piece of; later ones have larger numbers */
	uint64_t used;       /* when a copy or memset last named it, CLOCK_MONOTONIC ns; 0: none did */
	uint64_t version;    /* of what its slot holds: while it is the same so are the bytes there */
};

struct xm_memory {
	uint32_t version; /* XM_MEMORY_VERSION */
	uint32_t size;    /* sizeof(struct xm_memory) */

	/* The section's segments, in order of their addresses within an allocation, up
	 * to n of them; returns how many there are. */
	int (*list)(uint32_t section, struct xm_segment *views, int n);

	/* The device's number in this process. */
	int (*device)(uint32_t section);

	/* -EAGAIN: not Stopped. -ECANCELED: somebody wants the process to run, or to free memory. */
	int (*begin)(uint32_t section);
	/* Slots of what is still DEVICE, and not kept, are free again. -EBUSY: something is in flight; the move stays, for
	 * whoever wants it to take it away later. */
	int (*end)(uint32_t section);

	/* 1: end soon. To be asked after each batch. */
	int (*wanted)(uint32_t section);

	/* Makes slots of that size ahead until `count` are free; no begin is needed. It
	 * takes 7 ms for 32 MiB, and holds the driver's lock meanwhile (h200.md). -ENOMEM:
	 * there is no host memory, or no more is allowed (daemon_memory.host). */
	int (*slots)(uint32_t section, uint32_t count, uint64_t bytes);

	/* Gives free slots back to the system until at most so many bytes are kept. */
	int (*trim)(uint32_t section, uint64_t bytes);

	/* The pool address of the segment's slot; takes a free one, or makes one, when it
	 * has none. -ENOMEM: as above, with no free ones of other sizes and no clean copies left
	 * to give up. Of a DEVICE one the slot is about to be written: it is kept no more. */
	int (*slot)(uint32_t section, uint64_t id, uint64_t *pool_address);

	/* DEVICE -> AWAY: the bytes are in the slots. LOADING -> AWAY: they still are, what
	 * was copied does not count. -EBUSY: one is pinned or busy, and nothing was done.
	 * Another failure leaves some as they were. */
	int (*away)(uint32_t section, const uint64_t *ids, int n);

	/* AWAY or HOST -> LOADING. -ENOSPC: beyond the target. A failure leaves all as
	 * they were, but that a HOST one may be AWAY. */
	int (*load)(uint32_t section, const uint64_t *ids, int n);

	/* LOADING -> DEVICE: the bytes are there. Slots are kept. */
	int (*loaded)(uint32_t section, const uint64_t *ids, int n);

	/* Brackets, on one thread, the making of a context that must never be held: the
	 * engine's own. begin is 1 or 0. */
	int (*unheld)(uint32_t section, int begin);

	/* The driver's own function of that exported name, never a hook; NULL: there is none. */
	void *(*driver)(const char *name);

	/* Bytes of slots that there are, and of these those that are free. */
	int (*pool)(uint32_t section, uint64_t *all, uint64_t *idle);

	/* DEVICE -> AWAY for segments that are KEPT and did not change. -ESTALE: one is kept
	 * no more; -EBUSY as for away: nothing was done. Another failure leaves some as they were. */
	int (*spare)(uint32_t section, const uint64_t *ids, int n);

	/* Gives up clean copies until at most so many bytes are kept: their slots are free
	 * then. *kept: how much is kept afterwards. No begin is needed. */
	int (*forgo)(uint32_t section, uint64_t keep, uint64_t *kept);

	/* begin 1: before the device is given something to do that reads or writes segments or
	 * slots. 0: when it has done it, or never will. As long as anything is in flight the move is not taken
	 * away, however long it takes: it depends on nothing that waits for the move. From any thread. */
	int (*flight)(uint32_t section, int begin);

	/* AWAY -> HOST, ahead of the process's next run, which would wait for that: 20 ms a GiB. A
	 * failure leaves some as they were. */
	int (*home)(uint32_t section, const uint64_t *ids, int n);

	/* A free slot for another process of the user, by a descriptor that the caller closes. *bytes 0: there is none.
	 * *fd -1: it could not be passed on, and is no more. It counts as this process's until `given` says that so many
	 * bytes are another's. No begin is needed, nor for `accept`. */
	int (*give)(uint32_t section, int *fd, uint64_t *bytes);
	int (*given)(uint32_t section, uint64_t bytes);

	/* A slot of so many bytes that another process gave becomes a free one; the descriptor stays the caller's. The
	 * program never sees what the other one left in it. -ENOMEM: as for `slots`. */
	int (*accept)(uint32_t section, int fd, uint64_t bytes);
};

#endif
