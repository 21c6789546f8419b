/*
 * What admission knows: threads, leases, queues, contexts, devices. Internal
 * to the files of admission; the doors see admission.h alone.
 *
 * Locks, in this order, none of them ever held while waiting:
 *   xm_probe   who asks the driver about a queue that is not his own (watchdog,
 *              synchronisation hooks). Taken by who is about to destroy or to
 *              capture a stream, so that no question is under way meanwhile.
 *   q->order   marks of one queue, in order; held over the driver call.
 *   xm_lock    everything else; short, no driver call under it.
 *
 * A signal handler of the program may interrupt any of this and launch. While
 * its thread is inside (`busy`) the handler's command passes uncounted and
 * takes no lock; while its thread merely waits, no lock is held and the handler
 * is admitted like anybody else. A fork leaves locks in any state: the child
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
#define XM_LEASE_NS 1000000000u  /* the daemon's heartbeat may stand still for this long */
#define XM_GREET_NS 20000000u    /* a newcomer's first command waits at most so long for the daemon's answer */
#define XM_LEASES 32u            /* leases a thread keeps; a power of two */
#define XM_RING 16u              /* event marks in flight a queue, where stream writes are refused */

struct xm_event_mark {
	CUevent event;
	uint64_t sequence;
};

/* A context: how its queues reach the board. */
struct xm_context {
	CUcontext handle; /* NULL: free */
	struct xm_dev *dev;
	struct xm_context *next;
	uint32_t generation;  /* board its mapping belongs to; 0 none */
	bool refused;         /* registration or stream writes refused under `generation` */
	bool broken;          /* not even events: its queues are counted only */
	void *mapping;        /* its own view of the board, registered with the driver in this context */
	CUdeviceptr base;     /* the view's device address; 0 none */
};

/* A device: one section of the board. */
struct xm_dev {
	bool known;
	bool greeted;             /* the newcomer's wait is over */
	bool ready;               /* as last told */
	uint32_t index;           /* section */
	uint32_t edge;
	uint32_t pending;         /* threads inside admission with a command for this device */
	uint32_t waiting;         /* of these, blocked at the gate or the bound */
	uint32_t acked;           /* watchdog's: gate word acknowledged */
	uint64_t launches;        /* commands of ended leases */
	uint64_t asked_at;        /* ns of the last question that was answered "not yet" */
	CUdevice handle;
	uint8_t uuid[16];
	char name[64];
	struct xm_queue *dirty;   /* queues with leases or outstanding commands */
	struct xm_device *_Atomic section; /* NULL: no board */
	const _Atomic uint32_t *_Atomic gate; /* never NULL */
};

/*
 * A hardware queue. Invariant (under xm_lock): done <= total; marked <= total,
 * where total = counted + sum over its leases of (start - left).
 */
struct xm_queue {
	uintptr_t key;             /* stream handle, XM_KEY_LEGACY or XM_KEY_PER_THREAD */
	struct xm_context *context;
	struct xm_dev *dev;
	struct xm_thread *thread;  /* whose per-thread stream */
	struct xm_thread *solo;    /* the only thread with commands beyond `done`; NULL several */
	struct xm_queue *chain;    /* hash chain, dead list or free list */
	struct xm_queue *dirty_prev, *dirty_next;
	struct xm_lease *leases;
	struct xm_slot *slot;      /* in the mapping of board `generation`; NULL none */
	uint32_t generation;
	bool dirty, dead, over;    /* over: shares slot 0 */
	bool unbounded;            /* no mark can be had: counted only */
	uint64_t counted;          /* commands of ended leases */
	uint64_t done;             /* known to be complete */
	uint64_t marked;           /* last sequence number whose mark is enqueued */
	uint64_t quiet_total;      /* watchdog's: total at its last look */
	uint64_t died_at;          /* ns */
	pthread_mutex_t order;
	struct xm_event_mark *ring; /* protected by order */
	uint32_t ring_head, ring_count;
};

struct xm_thread {
	struct xm_lease leases[XM_LEASES];
	struct xm_thread *next; /* free list */
	volatile bool busy;     /* inside admission, possibly with a lock */
	int cancel_state;
	bool context_known;
	struct xm_context *context; /* current, when known */
	uint64_t strays;        /* commands that passed from signal handlers */
};

/* Protected by xm_lock unless said otherwise. */
struct xm_state {
	struct xm_board *board;      /* our view; NULL: none */
	uint32_t generation;         /* adds 1 at every attach and detach; odd: attached */
	int event_fd;                /* -1 none */
	int board_fd;                /* kept to make a view per context */
	struct xm_dev devs[XM_BOARD_DEVICES];
	uint32_t dev_count;
	struct xm_context *contexts;
	uint64_t outstanding;        /* sum over queues of counted - done + held */
	uint64_t completed;          /* sum of all progress of done; tells waiters that something moved */
	_Atomic uint32_t captures;   /* captures under way */
	_Atomic bool competitor;     /* some device is not in free run */
	_Atomic bool expecting;      /* an agent is starting and the daemon's socket is there */
	_Atomic bool leaving;        /* the program is ending: no driver calls of our own */
};

extern XM_INTERNAL struct xm_state xm_state;
extern XM_INTERNAL pthread_mutex_t xm_lock;
extern XM_INTERNAL pthread_mutex_t xm_probe;
extern XM_INTERNAL _Atomic bool xm_aside;

#endif
