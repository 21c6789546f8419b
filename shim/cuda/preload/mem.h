/*
 * What the library knows of the program's memory: ranges, the segments that they
 * are made of, the blocks that the program has. Internal to mem*.c.
 *
 * Locks, in this order:
 *   move lock      one a device (mem_lock.c): whoever changes the state of segments that
 *                  exist, or takes a range out. May be held over driver calls and copies; who
 *                  waits for it may have to wait for the engine to finish a batch.
 *   xm_mem_lock    the table of all devices; short, no driver call under it.
 *   xm_lock        admission's; for the board's lines.
 *
 * Records are type-stable, as admission's (state.h).
 */
#ifndef XMSCHED_MEM_H
#define XMSCHED_MEM_H

#include <pthread.h>
#include <stdbool.h>

#include "gen/board.h"
#include "mem_count.h"
#include "memory.h"
#include "resolve.h"

#define XM_GRANULE ((uint64_t)2 << 20) /* of segments; what the driver maps at least, on the device and the host (h200.md) */
#define XM_PIECE ((uint64_t)32 << 20)  /* segments are no larger: their calls hide behind the copy of them (h200.md) */
#define XM_SMALL ((uint64_t)1 << 20)   /* up to that an allocation lies in an arena */
#define XM_UNIT 512u                   /* small allocations are multiples of it, as the driver's */
#define XM_CACHE ((uint64_t)128 << 20) /* freed ranges of one segment kept for the next allocation of that size */
#define XM_SLOTS_IDLE ((uint64_t)1 << 30) /* free slots beyond that go when a range goes */

/* Host memory for a segment, at its pool address. */
struct xm_host_slot {
	struct xm_host_slot *next; /* of the free */
	CUdeviceptr at;
	uint64_t bytes;
	CUmemGenericAllocationHandle handle;
	bool shown;   /* an address of the program's that could not be unmapped reaches it */
	bool foreign; /* another process may have left something in it: the program is not to see it before all of it is overwritten */
};

/* Invariants, but while its range is made: mapped to `device` in DEVICE and LOADING, to
 * the slot in HOST, to nothing in AWAY. `device` is a handle exactly in DEVICE and LOADING;
 * `slot` is set in HOST, AWAY and LOADING, and in DEVICE when it is kept, or during a move when a copy out was begun (and
 * after it if the engine lost the lock). */
struct xm_seg {
	struct xm_seg *next; /* of its range, by address; or of the free */
	struct xm_range *range;
	uint64_t id;
	CUdeviceptr at;
	uint64_t bytes;
	uint32_t state; /* XM_SEGMENT_DEVICE ... */
	bool mapped;
	CUmemGenericAllocationHandle device;
	struct xm_host_slot *slot;
	bool kept;        /* DEVICE, and the slot has the bytes as they came in */
	uint64_t version; /* of what the slot holds */
};

/* What the program got from one allocation, or a free piece of an arena. */
struct xm_block {
	CUdeviceptr at;
	uint64_t asked; /* bytes; 0: free */
	uint64_t room;
	struct xm_range *range;
	uint64_t id; /* the buffer's, as the program is told */
	struct xm_block *left, *right; /* tree by address, of those that are in use */
	uint32_t rank;
	struct xm_block *before, *behind;  /* neighbours in the arena */
	struct xm_block *free_prev, *free_next;
	struct xm_shelf *shelf; /* of a pool, and free: where it lies (mem_pool.h) */
	struct xm_order *order; /* freed behind what that stream does, not of a pool: not given back yet */
	uint64_t place;         /* in its shelf's stream, or that one, from which on it is free */
};

#define XM_BINS 152u /* up to 2^47 bytes */

/* Free pieces by size. */
struct xm_bins {
	struct xm_block *of[XM_BINS];
};

/* Small allocations of one context. */
struct xm_arena {
	struct xm_arena *next;
	CUcontext context;
	uint64_t bytes; /* of its ranges */
	struct xm_bins bins;
};

/* An address range of its own. */
struct xm_range {
	struct xm_range *prev, *next; /* of the device, by number */
	struct xm_mem *mem;
	CUcontext context; /* NULL: in the cache, or a pool's */
	CUdeviceptr at;
	uint64_t bytes;
	uint64_t number;
	uint64_t used_at;      /* ns of the last command known to name it */
	struct xm_seg *segs;
	struct xm_arena *arena; /* NULL: one allocation, or a pool's */
	struct xm_pool *pool;   /* whose it is; it belongs to no context then */
	struct xm_range *sibling; /* the pool's next */
	struct xm_block *blocks; /* the first: by address */
};

enum xm_mover { XM_MOVER_NONE, XM_MOVER_ENGINE, XM_MOVER_US };

/* Memory of one device; index as the board's section. */
struct xm_mem {
	_Atomic uint32_t verdict; /* XM_MEM_* */
	uint32_t why_off;         /* XM_MEMORY_LATE or _UNABLE, when it is OFF */
	CUdevice device;
	int numa; /* node of its host memory */
	uint64_t card; /* bytes that it really has */
	/* Protected by xm_mem_lock. */
	struct xm_range *first, *last;
	struct xm_range *cache; /* by `next`; no part of the list */
	struct xm_arena *arenas;
	struct xm_host_slot *slots; /* free */
	uint64_t resident, host; /* of segments, by state; the cache is resident */
	uint64_t loading;  /* of the resident: LOADING */
	uint64_t promised; /* of the resident: of a batch about to be LOADING, which is counted where it is as well */
	uint64_t cached;
	uint64_t slots_all, slots_free; /* bytes of slots that exist, being made included; of those nobody has */
	uint64_t slots_kept; /* of those that are clean copies */
	uint64_t asked;   /* by allocations that exist: what the program wants of it */
	uint64_t pinned;  /* passed through (mem_count.c) */
	uint64_t pinned_by[XM_COUNT_KINDS];
	uint64_t in, out; /* moved so far */
	uint64_t want_room; /* that an allocation waits for */
	uint64_t peers;   /* devices that may reach it: then nothing is movable */
	bool stays;       /* what is allocated is the driver's, counted: xrun --pin-memory */
	enum xm_mover mover;
	uint32_t calls;       /* of the engine, inside this library; and what it has in flight */
	uint64_t left_at;      /* ns; when a call or a flight ended last */
	uint64_t wanted_since; /* ns; 0: nobody waits for the move lock */
	uint32_t waiters;
	uint32_t opening; /* who is about to let the process run */
	bool stopped;     /* by a hold of everything */
	uint32_t gone;    /* segments AWAY or LOADING */
	_Atomic uint32_t turn; /* adds 1 when the move lock or the door is let go; futex word */
	_Atomic bool door;     /* closed: commands that name memory wait */
};

enum { XM_MEM_UNKNOWN = 0, XM_MEM_OFF, XM_MEM_ON };

extern XM_INTERNAL struct xm_mem xm_mems[XM_BOARD_DEVICES];
extern XM_INTERNAL pthread_mutex_t xm_mem_lock;
extern XM_INTERNAL _Atomic bool xm_mem_any; /* the memory of some device is managed */

/* What is allocated is the driver's from now on, and counted. */
static inline bool xm_mem_plain(const struct xm_mem *m)
{
	return m->peers || m->stays;
}

static inline uint64_t xm_round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* The section's memory when it is managed, else NULL. */
XM_INTERNAL struct xm_mem *xm_mem_of(uint32_t section);
/* Of the device that the context is on; NULL: it is not known, or not managed. xm_lock not held. */
XM_INTERNAL struct xm_mem *xm_mem_of_context(CUcontext context);
static inline uint32_t xm_mem_index(const struct xm_mem *m)
{
	return (uint32_t)(m - xm_mems);
}

/* --- mem_table.c: records. xm_mem_lock held ------------------------------- */

XM_INTERNAL struct xm_seg *xm_seg_new(struct xm_range *r); /* with an id; NULL: no memory for it, as all of these */
XM_INTERNAL void xm_seg_free(struct xm_seg *s);
XM_INTERNAL struct xm_seg *xm_seg_find(const struct xm_mem *m, uint64_t id);
XM_INTERNAL struct xm_range *xm_range_new(struct xm_mem *m);
XM_INTERNAL void xm_range_free(struct xm_range *r); /* with its segments' and blocks' records */
XM_INTERNAL void xm_range_list(struct xm_range *r);
XM_INTERNAL void xm_range_unlist(struct xm_range *r);
XM_INTERNAL struct xm_block *xm_block_new(struct xm_range *r, CUdeviceptr at, uint64_t room);
XM_INTERNAL void xm_block_free(struct xm_block *b);
XM_INTERNAL void xm_block_enter(struct xm_block *b); /* into the tree */
XM_INTERNAL void xm_block_take(struct xm_block *b);
XM_INTERNAL struct xm_block *xm_block_at(CUdeviceptr address); /* that holds the address */
XM_INTERNAL struct xm_host_slot *xm_slot_record(void);
XM_INTERNAL void xm_slot_forget(struct xm_host_slot *slot);
XM_INTERNAL void xm_seg_state(struct xm_seg *s, uint32_t state); /* and the sums over states */

/* What the slot holds is to change, or the slot to go: it is no clean copy any more. */
XM_INTERNAL void xm_seg_forget(struct xm_seg *s);

/* Shows the figures on the board. */
XM_INTERNAL void xm_mem_tell(struct xm_mem *m);
/* Tells the daemon, for those who wait for room, if there is less on the device than there was. No lock held. */
XM_INTERNAL void xm_mem_fell(struct xm_mem *m, uint64_t before);

/* --- mem_vmm.c: the driver. No lock but the move lock ---------------------- */

XM_INTERNAL CUresult xm_vmm_device(const struct xm_mem *m, uint64_t bytes, CUmemGenericAllocationHandle *h);
XM_INTERNAL CUresult xm_vmm_map(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle h);
XM_INTERNAL CUresult xm_vmm_access(const struct xm_mem *m, CUdeviceptr at, uint64_t bytes);
XM_INTERNAL CUresult xm_vmm_unmap(CUdeviceptr at, uint64_t bytes);
XM_INTERNAL void xm_vmm_release(CUmemGenericAllocationHandle h);
XM_INTERNAL CUresult xm_vmm_reserve(uint64_t bytes, CUdeviceptr *at);
XM_INTERNAL void xm_vmm_unreserve(CUdeviceptr at, uint64_t bytes);
XM_INTERNAL bool xm_vmm_usable(struct xm_mem *m); /* asks what the device can; fills numa and card */

/* --- mem_slot.c ------------------------------------------------------------ */

/* A free slot of that size, or a new one. Beyond what the daemon allows, or the host has,
 * a clean copy is given up for it, or free ones of other sizes; then CUDA_ERROR_OUT_OF_MEMORY.
 * `own`: none in which another process may have left something. */
XM_INTERNAL CUresult xm_slot_get(struct xm_mem *m, uint64_t bytes, bool own, struct xm_host_slot **slot);
/* A slot more would be beyond the process's part of the host. */
XM_INTERNAL bool xm_slot_bounded(struct xm_mem *m, uint64_t bytes);
/* After one was not to be had: trying again is worth while. */
XM_INTERNAL bool xm_slot_likely(struct xm_mem *m, uint64_t bytes);
/* xm_mem_lock held. */
XM_INTERNAL void xm_slot_put(struct xm_mem *m, struct xm_host_slot *slot);
XM_INTERNAL CUresult xm_slot_ahead(struct xm_mem *m, uint32_t count, uint64_t bytes);
XM_INTERNAL void xm_slot_trim(struct xm_mem *m, uint64_t keep);
XM_INTERNAL void xm_slot_pool(struct xm_mem *m, uint64_t *all, uint64_t *idle);
/* A free slot leaves for another process, by a descriptor that the caller closes; -1: there is none, *bytes 0, or it could
 * not be had, and the slot is no more. It counts as this process's until it is said to be given. */
XM_INTERNAL CUresult xm_slot_give(struct xm_mem *m, int *fd, uint64_t *bytes);
XM_INTERNAL void xm_slot_given(struct xm_mem *m, uint64_t bytes);
/* One of another process becomes a free one of this; the descriptor stays the caller's. */
XM_INTERNAL CUresult xm_slot_accept(struct xm_mem *m, int fd, uint64_t bytes);
/* Clean copies become free until at most so many bytes are kept; returns how many are. */
XM_INTERNAL uint64_t xm_slot_forgo(struct xm_mem *m, uint64_t keep);

/* --- mem_room.c ------------------------------------------------------------ */

/* The daemon's answer; without one everything goes as far as the card. */
struct xm_mem_bounds {
	uint64_t target, limit, total;
	uint64_t host; /* of slots; 0: no bound */
};
XM_INTERNAL struct xm_mem_bounds xm_mem_bounds(const struct xm_mem *m);

/* What the program has there. xm_mem_lock held. */
XM_INTERNAL uint64_t xm_mem_used(const struct xm_mem *m);

/* Would so many bytes more be beyond the limit? xm_mem_lock held. */
XM_INTERNAL bool xm_mem_beyond(const struct xm_mem *m, uint64_t bytes);

/* Device memory for a piece, within the target, counted as resident; 0: there is no room, the host's is to be
 * taken. While *patient the daemon is asked, for `all` that is still to come; in vain but once. */
XM_INTERNAL CUmemGenericAllocationHandle xm_room_piece(struct xm_mem *m, uint64_t bytes, uint64_t all, bool *patient);

/* How much more there may be on the device and the host together; UINT64_MAX: as much as there is. */
XM_INTERNAL uint64_t xm_room_left(struct xm_mem *m);

/* Asks the daemon for that much room and waits for at most 20 ms. True: something changed. */
XM_INTERNAL bool xm_room_ask(struct xm_mem *m, uint64_t bytes);

/* The same, and waits on until there may be room for `enough`, on the device and the host together, or in a slot: an
 * answer may bring nothing yet, as others have to give up theirs first. */
XM_INTERNAL void xm_room_await(struct xm_mem *m, uint64_t bytes, uint64_t enough);
XM_INTERNAL void xm_room_await_slot(struct xm_mem *m, uint64_t bytes, uint64_t enough);

/* --- mem_range.c ----------------------------------------------------------- */

/* A range with its memory, mapped, unlisted; from the cache where one fits. */
XM_INTERNAL CUresult xm_range_make(struct xm_mem *m, CUcontext context, uint64_t bytes, struct xm_range **made);
/* Gives all of it back. The range is not listed any more; the move lock is held unless it never was. */
XM_INTERNAL CUresult xm_range_end(struct xm_range *r, bool cache);
/* Lets the cache go; true: there was something. */
XM_INTERNAL bool xm_cache_flush(struct xm_mem *m);

/* --- mem_arena.c: xm_mem_lock held ------------------------------------------ */

XM_INTERNAL void xm_bins_put(struct xm_bins *bins, struct xm_block *b);
XM_INTERNAL void xm_bins_take(struct xm_bins *bins, struct xm_block *b);
/* A free piece of at least that size; it stays where it is. */
XM_INTERNAL struct xm_block *xm_bins_find(const struct xm_bins *bins, uint64_t room);
/* Cuts a piece, which is in no bin, down to so much; the rest, NULL: there is none, or no memory for its
 * record, and the piece is as it was. */
XM_INTERNAL struct xm_block *xm_block_cut(struct xm_block *b, uint64_t room);
/* b and the piece behind it, which is in no bin, become b. */
XM_INTERNAL void xm_block_merge(struct xm_block *b);

XM_INTERNAL struct xm_arena *xm_arena_of(struct xm_mem *m, CUcontext context);
XM_INTERNAL struct xm_block *xm_arena_take(struct xm_arena *a, uint64_t room);
XM_INTERNAL bool xm_arena_add(struct xm_arena *a, struct xm_range *r);
/* True: nothing of its range is in use any more, and the range has left the arena. */
XM_INTERNAL bool xm_arena_give(struct xm_block *b);
/* The context's arena is no more; its ranges are the caller's. */
XM_INTERNAL void xm_arena_forget(struct xm_mem *m, CUcontext context);

/* --- mem_alloc.c ------------------------------------------------------------ */

XM_INTERNAL CUresult xm_mem_allocate(struct xm_mem *m, CUcontext context, uint64_t asked, CUdeviceptr *out);
/* The device and context (NULL: it is a pool's) of the allocation that holds the address; false: it is none of ours. */
XM_INTERNAL bool xm_mem_owner(CUdeviceptr at, struct xm_mem **m, CUcontext *context);
/* Waits as the driver's cuMemFree does, and says what it says. No lock held, and the thread is not inside. */
XM_INTERNAL CUresult xm_mem_wait(CUcontext context);
/* The allocation, which is out of the tree, is given back; what is to be ended with it, or NULL. xm_mem_lock held, and
 * the move lock. */
XM_INTERNAL struct xm_range *xm_block_give(struct xm_block *b);
/* After that; not of a pool. */
XM_INTERNAL CUresult xm_mem_free(struct xm_mem *m, CUdeviceptr at);
XM_INTERNAL void xm_mem_context_ended(CUcontext context);

/* --- mem_lock.c ------------------------------------------------------------- */

/* For ourselves. An engine that does not let go for 1 s loses the lock, when nothing of it is in flight. */
XM_INTERNAL void xm_move_take(struct xm_mem *m);
XM_INTERNAL void xm_move_give(struct xm_mem *m);
/* False: somebody has it, and nothing was waited for. */
XM_INTERNAL bool xm_move_try(struct xm_mem *m);

/* For the engine: struct xm_memory's begin, end and wanted. */
XM_INTERNAL int xm_move_begin(uint32_t section);
XM_INTERNAL int xm_move_end(uint32_t section);
XM_INTERNAL int xm_move_wanted(uint32_t section);

/* Brackets each call of the engine between these, and each flight. 0 or -EPERM. */
XM_INTERNAL int xm_move_enter(struct xm_mem *m);
XM_INTERNAL void xm_move_leave(struct xm_mem *m);

/* --- mem_move.c ------------------------------------------------------------- */

/* Maps what is AWAY or LOADING to its slot. Move lock held. */
XM_INTERNAL int xm_move_home(struct xm_mem *m);

/* --- mem_touch.c ------------------------------------------------------------ */

/* Whether the range is named by a command that is in the driver. xm_mem_lock held. */
XM_INTERNAL bool xm_touched(const struct xm_range *r);

/* The door before commands that name memory of the device: closed from a move's
 * beginning until nothing is gone any more. xm_mem_lock held. */
XM_INTERNAL void xm_door_close(struct xm_mem *m);
XM_INTERNAL void xm_door_open(struct xm_mem *m);

extern XM_INTERNAL const struct xm_memory xm_memory;

#endif
