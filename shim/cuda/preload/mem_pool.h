/*
 * Memory of stream-ordered pools, made of segments that can move (mem.h). The driver's
 * pool is kept as what the program names and sets attributes of; nothing is allocated
 * there while the pool is ours. Ours are the devices' default pools and those that
 * cuMemPoolCreate makes of a device's memory without handle types, until a peer is given
 * access. All else is the driver's, and counted (mem_count.h): what a capture allocates,
 * pools that can be shared, pools of the host.
 *
 * A pool takes memory in chunks of 32 MiB, as the driver's does, and hands out pieces of
 * them. What is free lies on shelves: one for everybody, and one for each stream
 * that freed pieces which it may not have reached yet. A stream takes from its own shelf
 * at once, for whatever it does next comes behind what was there; others get such a
 * piece when the stream has passed the event that was recorded when it was freed, or, before
 * the program is told that there is no memory, by being made to wait for that event.
 *
 * mem_pool.c        allocating and freeing
 * mem_pool_which.c  the pools, and which are ours
 * mem_pool_piece.c  shelves, pieces and chunks
 * mem_pool_order.c  streams, and how far they have come
 * mem_pool_going.c  contexts that are about to end, of whose events nobody asks
 * mem_pool_trim.c   giving back what nobody needs
 * hooks_pool*.c     the doors
 *
 * Locks: xm_mem_lock, over no driver call. Records are type-stable; who uses an order beside
 * the lock holds it.
 */
#ifndef XMSCHED_MEM_POOL_H
#define XMSCHED_MEM_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "mem.h"

#define XM_CHUNK XM_PIECE /* pools take so much at once (recorded of the driver, hal/cuda) */
#define XM_MARKS 16u      /* events of a stream that are looked at; more frees than that share the last */
#define XM_SPARES 24u

/* How far a stream has come. Places count its frees. */
struct xm_order {
	struct xm_order *next; /* of its bucket, or of the free */
	struct xm_order *all;  /* of all that there are */
	uintptr_t key;         /* as admission's; 0: the stream is gone */
	CUcontext context;
	uint64_t thread;      /* whose per-thread stream */
	struct xm_mem *m;     /* of the device where it is; NULL: not managed */
	uint64_t last, done;  /* places given, and passed by the device */
	uint32_t held;        /* pieces on its shelves, memory that waits for it, threads that look at it */
	uint32_t marks;       /* invariant: covers grow */
	struct {
		CUevent event;
		uint64_t covers; /* passed: so are places up to it */
	} mark[XM_MARKS];
	uint32_t watched; /* threads that make a stream wait for one of its events */
	uint32_t spares;
	CUevent spare[XM_SPARES]; /* of its context, and nobody waits for them */
};

struct xm_shelf {
	struct xm_shelf *next; /* of the pool's, or of the free */
	struct xm_pool *pool;
	struct xm_order *order; /* NULL: everybody's */
	struct xm_bins bins;
	uint32_t pieces;
};

struct xm_pool {
	struct xm_pool *next;
	CUmemoryPool handle;
	struct xm_mem *m;
	bool standard; /* the device's default pool */
	bool shut;     /* it is the driver's from now on, but for what is here */
	bool ended;    /* destroyed; goes with the last of its memory */
	bool due;      /* counted in xm_pool_due */
	uint32_t held; /* threads that look at it */
	bool opportunistic, internal; /* its attributes: take what has been passed, make wait for what has not */
	uint64_t most;      /* bytes; 0: no bound */
	uint64_t threshold; /* beyond that it gives back when somebody synchronises */
	uint64_t used, used_high; /* of allocations, as asked for */
	uint64_t reserved, reserved_high;
	uint64_t idle; /* of the reserved: free pieces */
	struct xm_range *chunks; /* by `sibling` */
	struct xm_shelf common, *shelves;
};

/* Pools that hold more than they are to, and memory that waits for a stream: who synchronises looks. */
extern XM_INTERNAL _Atomic uint32_t xm_pool_due;

/* --- mem_pool_piece.c: xm_mem_lock held ------------------------------------------ */

/* A piece of so much, from the stream's own shelf or from everybody's; it is on no shelf then. */
XM_INTERNAL struct xm_block *xm_piece_take(struct xm_pool *p, const struct xm_order *o, uint64_t room);
/* The same from a stream's shelf that is not the caller's. *order: who must be waited for, up to the piece's place;
 * held. */
XM_INTERNAL struct xm_block *xm_piece_take_behind(struct xm_pool *p, uint64_t room, struct xm_order **order);
/* Free from that place of the stream on; NULL: at once. */
XM_INTERNAL void xm_piece_give(struct xm_pool *p, struct xm_block *b, struct xm_order *o);
/* What streams have passed becomes everybody's. */
XM_INTERNAL void xm_pieces_pass(struct xm_pool *p);
/* A chunk is the pool's, all of it free; its bytes are reserved already. False: no memory for its record. */
XM_INTERNAL bool xm_chunk_add(struct xm_pool *p, struct xm_range *r);
/* Takes a chunk out of which nothing is in use, or waited for; of at most so many bytes. NULL: there is none. */
XM_INTERNAL struct xm_range *xm_chunk_take(struct xm_pool *p, uint64_t most);
XM_INTERNAL void xm_pool_due_again(struct xm_pool *p);

/* --- mem_pool_order.c --------------------------------------------------------------- */

/* The stream's as far as it is known; xm_mem_lock held. */
XM_INTERNAL struct xm_order *xm_order_find(uintptr_t key, CUcontext current);
/* The stream's, held; the driver may be asked. NULL: *result says why. No lock held. */
XM_INTERNAL struct xm_order *xm_order_hold(uintptr_t key, CUcontext current, CUresult *result);
XM_INTERNAL void xm_order_keep(struct xm_order *o);    /* xm_mem_lock held */
XM_INTERNAL void xm_order_let_go(struct xm_order *o);  /* xm_mem_lock held */
/* A place behind all that the stream was given so far, with an event there. No lock held; the order is. */
XM_INTERNAL CUresult xm_order_mark(struct xm_order *o, uintptr_t key, CUcontext current, uint64_t *place);
/* Asks how far it has come. The same. */
XM_INTERNAL void xm_order_poll(struct xm_order *o);
/* Makes the stream of `key` wait for it. The same. An error too when its context goes, and does for long. */
XM_INTERNAL CUresult xm_order_wait(struct xm_order *o, uint64_t place, uintptr_t key);
/* Asks of every stream that something waits for. No lock held. */
XM_INTERNAL void xm_orders_poll(void);
XM_INTERNAL void xm_orders_stream_gone(uintptr_t key);
XM_INTERNAL void xm_orders_context_ended(CUcontext context);

/* --- mem_pool_going.c ---------------------------------------------------------------- */

/* A thread that is in the driver with events of a context, which does not end meanwhile; on its stack. */
struct xm_asker {
	struct xm_asker *next;
	CUcontext context;
};

/* Its events are nobody's to ask for, its streams are no further than they were. xm_mem_lock held. */
XM_INTERNAL bool xm_context_goes(CUcontext context);
/* Brackets what is asked of a context's events. False: it goes. xm_mem_lock held, but not over what is asked. */
XM_INTERNAL bool xm_ask_begin(struct xm_asker *me, CUcontext context);
XM_INTERNAL void xm_ask_end(const struct xm_asker *me);
/* The same, and waits so long for what becomes of a context that goes: what is at `context` is another when it has
 * ended. The lock is let go meanwhile. */
XM_INTERNAL bool xm_ask_begin_late(struct xm_asker *me, const CUcontext *context, uint64_t ns);
/* Before the driver is asked for what may end the context: returns when nobody asks it of events there / when it has
 * answered, and xm_pool_context_ended has been told if so. No lock held, and the thread is inside. */
XM_INTERNAL void xm_orders_context_goes(CUcontext context);
XM_INTERNAL void xm_orders_context_answered(CUcontext context);

/* --- mem_pool_trim.c ------------------------------------------------------------------ */

/* Waits for nobody, not for the move lock either. Asks the streams that something waits for, and then gives back what pools hold beyond their
 * thresholds, and memory of cuMemAlloc that streams have passed. No lock held, and the thread is inside. */
XM_INTERNAL void xm_pools_settle(void);
/* Gives back until the pool holds `keep`, or less when `below`. Waits for the move lock, as cuMemFree does. True: some
 * went. */
XM_INTERNAL bool xm_pool_trim(struct xm_pool *p, uint64_t keep, bool below);
/* All that pools of the device do not need: others want it. `wait` for the move lock, or let it be. */
XM_INTERNAL bool xm_pools_release(struct xm_mem *m, bool wait);
/* Memory of cuMemAlloc is given back when the stream, which is held, has passed that place. xm_mem_lock held. */
XM_INTERNAL void xm_pool_defer(struct xm_block *b, struct xm_order *o, uint64_t place);

/* --- mem_pool_which.c --------------------------------------------------------------------------- */

extern XM_INTERNAL _Atomic bool xm_pool_any; /* there was a pool of ours */

/* The pool of that handle, or the one that is current on the device, held; NULL: it is the driver's. One that is shut
 * is found. The driver may be asked. No lock held. */
XM_INTERNAL struct xm_pool *xm_pool_of(CUmemoryPool handle);
XM_INTERNAL struct xm_pool *xm_pool_current(struct xm_mem *m);
/* One that has been met, held; the driver is not asked. */
XM_INTERNAL struct xm_pool *xm_pool_known(CUmemoryPool handle);
XM_INTERNAL void xm_pool_let_go(struct xm_pool *p);
/* The next of all that have memory or a handle, held, and p let go. NULL: from the first one on / there is none. */
XM_INTERNAL struct xm_pool *xm_pool_next(struct xm_pool *p);
/* One that the program made, of at most so many bytes; 0: no bound. */
XM_INTERNAL void xm_pool_made(struct xm_mem *m, CUmemoryPool handle, uint64_t most);
/* The driver has destroyed it; it is held. */
XM_INTERNAL void xm_pool_ended(struct xm_pool *p);
/* Another pool may be a device's current one. */
XM_INTERNAL void xm_pool_current_changed(void);
/* What is known of these at once, not held. xm_mem_lock held. */
XM_INTERNAL struct xm_pool *xm_pool_find(CUmemoryPool handle);
XM_INTERNAL struct xm_pool *xm_pool_current_known(const struct xm_mem *m);

/* --- mem_pool.c --------------------------------------------------------------------------- */

/* For the stream of that key, whose order is held: usable at once by what it does next. */
XM_INTERNAL CUresult xm_pool_allocate(struct xm_pool *p, struct xm_order *o, uintptr_t key, uint64_t asked, CUdeviceptr *out);
/* The same at once, when all that it needs is known and there is a piece; of the current pool, or the named one. */
XM_INTERNAL bool xm_pool_allocate_kept(uintptr_t key, CUcontext current, const CUmemoryPool *named, uint64_t asked, CUdeviceptr *out);
/* The address is a pool's or cuMemAlloc's, of ours. *order: the stream's, held, when it is known. */
XM_INTERNAL bool xm_pool_holds(CUdeviceptr at, uintptr_t key, CUcontext current, struct xm_order **order);
/* Such memory is free when the stream, whose order is held and let go, has passed that place. */
XM_INTERNAL CUresult xm_pool_free_behind(CUdeviceptr at, struct xm_order *o, uint64_t place);
/* Of a pool, at once: the caller knows that nobody uses it, as for the driver. */
XM_INTERNAL CUresult xm_pool_free_now(CUdeviceptr at);
XM_INTERNAL void xm_pool_context_ended(CUcontext context);

#endif
