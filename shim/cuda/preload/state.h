/*
 * What admission knows: threads, leases, queues, contexts, devices. Internal
 * to the files of admission; the doors see admission.h alone.
 *
 * Locks, in this order, none of them ever held while waiting:
 *   xm_probe   who asks the driver about a queue that is not his own (tail.c,
 *              synchronisation hooks, sweeps). Taken by who is about to destroy or to
 *              capture a stream, so that no question is under way meanwhile.
 *   q->order   marks of one queue, in order; held over the driver call.
 *   xm_lock    everything else; short, no driver call under it.
 *
 * A signal handler of the program may interrupt any of this and launch. While
 * its thread is inside (`busy`), or in the driver with a command, the handler's
 * command passes and takes no lock; it is counted when its thread's own command is
 * done, if there is one (xm_inside). While its thread merely waits, no lock is held
 * and the handler is admitted like anybody else. A fork leaves locks in any state: the child
 * stands aside (xm_aside) before it would take one.
 *
 * All records are type-stable: recycled, never unmapped. So a stale pointer of
 * another thread reads an old number, not somebody else's memory.
 */
#ifndef XMSCHED_STATE_H
#define XMSCHED_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "admission.h"
#include "gen/board.h"
#include "resolve.h"

#define XM_FREE_LEASE 64u        /* commands between two marks in free run */
#define XM_FREE_LIMIT 256u       /* outstanding a queue in free run */
#define XM_TASK_LIMIT 1000u      /* outstanding of the whole process */
#define XM_SPIN_NS 20000u        /* a waiting thread spins this long first */
#define XM_PASS_NS 50000000u     /* no completion for so long: one command passes */
/* The daemon's heartbeat may stand still for this long. A look comes up to 100 ms after the
 * beat, and whatever is let run then runs within a second of the daemon's death. */
#define XM_LEASE_NS 850000000u
#define XM_GREET_NS 20000000u    /* a newcomer's first command waits at most so long for the daemon's answer */
#define XM_LEASES 32u            /* leases a thread keeps; a power of two */
#define XM_RING 16u              /* event marks in flight a queue, where stream writes are refused */
#define XM_VIEWS 16u             /* boards a context registers in its life: each stays pinned (528 KiB) */

struct xm_event_mark {
	CUevent event;
	uint64_t sequence;
};

/* A context: how its queues reach the board. */
struct xm_context {
	CUcontext handle; /* NULL: the record is free */
	struct xm_dev *dev; /* NULL: more devices than the board has sections */
	struct xm_context *next;
	_Atomic uint32_t generation; /* board that `base` belongs to, or that was refused; 0 none yet */
	uint32_t views;      /* views registered so far */
	bool asking;         /* a thread is registering one now */
	void *view;          /* its own mapping of the board, registered with the driver in this context */
	CUdeviceptr base;    /* the view's device address; 0: marks are events, and nothing can wait at the gate */
};

/* A device: one section of the board. */
struct xm_dev {
	bool greeted;      /* the newcomer's wait is over */
	bool ready;        /* as last told */
	bool reached;      /* a context of it has the board registered */
	bool unreached;    /* a context of it could not have it */
	bool no_waits;     /* the driver refused a wait: level 1 for good */
	bool shared;       /* its contexts are a multi-process server's */
	bool level3;       /* its channels are known and can be switched (channels.c) */
	uint32_t level3_why; /* XM_LEVEL_WHY_*: why not */
	uint32_t index;    /* of the section */
	uint32_t edge;
	uint32_t pending;  /* threads inside admission with a command for this device, or for which the driver ends a context there */
	uint32_t waiting;  /* of these, blocked at the gate or over the bound, or for what the context still does */
	uint64_t launches; /* commands of ended leases */
	uint64_t grants;   /* leases given; tail.c sees by it that something goes on */
	_Atomic uint64_t ready_at;  /* ns of the last ready edge; read without the lock */
	_Atomic uint64_t wait_from; /* ns at which a thread last began to wait (wait.h); written without the lock */
	uint64_t asked_at; /* ns of the last question that was answered "not yet" */
	CUdevice handle;
	uint8_t uuid[16];
	char name[64];
	struct xm_queue *dirty;            /* queues with leases or with outstanding commands */
	struct xm_device *section;         /* NULL: no board */
	const _Atomic uint32_t *_Atomic gate; /* never NULL; read without the lock */
};

/*
 * A hardware queue. Invariants, under xm_lock, with total = counted + the used
 * part of its leases: done <= total, marked <= total, both only grow. A queue
 * that is not dirty has done == total and no lease that can still be used.
 */
struct xm_queue {
	uintptr_t key; /* stream handle, XM_KEY_LEGACY or XM_KEY_PER_THREAD */
	struct xm_context *context;
	struct xm_dev *dev;
	struct xm_thread *thread; /* whose per-thread stream; NULL: not one */
	struct xm_thread *solo;   /* the only thread with commands beyond `done`; NULL: several */
	struct xm_queue *chain;   /* of the hash, the dead or the free */
	struct xm_queue *dirty_prev, *dirty_next;
	struct xm_lease *leases;
	struct xm_slot *slot; /* in the board of `generation`; NULL none, or it shares slot 0 */
	uint32_t generation;  /* board that it was announced on */
	bool dirty;
	bool dead;
	bool over;           /* shares slot 0 */
	bool unmarkable;     /* no mark can be had: counted, not bounded */
	bool events;         /* its marks are events: `marked` says nothing before somebody asks */
	uint32_t turn;       /* of the sweep that asked for them last: bound.c */
	uint64_t counted;    /* commands of ended leases */
	uint64_t held;       /* what its leases count for in the bound */
	uint64_t done;       /* known to be complete */
	uint64_t marked;     /* last sequence number whose mark is enqueued */
	uint64_t died_at;    /* ns */
	uint64_t waited;     /* no command beyond this one has a wait for a gate before it */
	uint32_t wait_generation; /* board of the last such wait */
	_Atomic CUdeviceptr wait_at; /* where its gated leases wait; 0: they must not. Read without the lock */
	uint32_t ring_head, ring_count; /* protected by order */
	/* From here on kept when the record is recycled. */
	pthread_mutex_t order;
	struct xm_event_mark *ring; /* XM_RING of them, or NULL; protected by order */
};

struct xm_thread {
	struct xm_lease leases[XM_LEASES];
	uint64_t lease_base[XM_LEASES]; /* of each lease: commands of its queue when it was given */
	struct xm_ring *ring;           /* of records (record_ring.h); NULL: none yet */
	struct xm_thread *next;     /* of the free */
	volatile bool busy;         /* inside admission, possibly with a lock held */
	int cancel_state;           /* the thread's own, while it is inside */
	uint32_t context_epoch;     /* `context` is current while this is the state's */
	struct xm_context *context; /* NULL: none is current, or it is not ours to govern */
	struct xm_dev *ending;      /* of the context that the driver is destroying on this thread */
};

/* Protected by xm_lock, but for the atomics. */
struct xm_state {
	struct xm_board *board;       /* our view; NULL: none */
	_Atomic uint32_t generation;  /* adds 1 at every attach and detach: odd while attached. Futex word of the newcomer's wait */
	int board_fd, event_fd;       /* -1 none */
	struct xm_dev devs[XM_BOARD_DEVICES];
	uint32_t dev_count;
	struct xm_context *contexts;
	uint32_t queues_over;         /* announced without a slot of their own */
	uint64_t outstanding;         /* sum over queues of counted + held - done */
	_Atomic uint32_t context_epoch; /* adds 1 when any context goes; never 0 */
	_Atomic uint32_t captures;    /* captures under way */
	_Atomic bool competitor;      /* some device is not in free run */
	_Atomic bool expecting;       /* an agent is starting and the daemon's socket is there */
	_Atomic bool leaving;         /* the program is ending: no driver calls of our own any more */
};

extern XM_INTERNAL struct xm_state xm_state;
extern XM_INTERNAL pthread_mutex_t xm_lock;
extern XM_INTERNAL pthread_mutex_t xm_probe;
extern XM_INTERNAL _Atomic bool xm_aside; /* a forked child: nothing is done any more */
extern XM_INTERNAL const _Atomic uint32_t xm_gate_absent; /* the gate word where there is no board: open */

#endif
