/*
 * Admission: may this thread hand its next command to the driver now?
 *
 * The doors (hooks_*.c) call xm_admit before a command enters the driver and
 * xm_done after the driver returned, on the program's own thread. A thread
 * that must wait waits inside xm_admit; no command is ever stored by us, and
 * none is ever refused by us: xm_admit cannot fail.
 *
 * The model. A thread holds a *lease* on each queue it uses: so
 * many commands it may launch without asking. The lease names the gate word it
 * was given under; another word in the board, or a key taken away by another
 * thread, ends it. Taking and ending leases, marks, edges and waits are the
 * slow path (admission.c, queue.c). With a lease left the way through is two
 * loads of the lease, one store, one load of the gate: nothing shared is
 * written, no lock, no system call.
 *
 * At level 2 (gate.h) a gated lease makes the thread put a wait for the gate
 * word into the stream before each command: then a closed gate stops the GPU,
 * and the thread goes on until it is over the bound. There the way through is a
 * call, the lookup of the lease, and the driver's call for the wait.
 *
 * What may not happen here: calling Go, synchronising a device or a stream,
 * holding a lock while waiting, ending the process.
 */
#ifndef XMSCHED_ADMISSION_H
#define XMSCHED_ADMISSION_H

#include <stdatomic.h>
#include <stdint.h>

#include "abi.h"

#define XM_PTDS 1u /* the call was the per-thread-default-stream variant */

/* Keys of the two default streams; the driver gives these handles meaning too. */
#define XM_KEY_NONE 0u
#define XM_KEY_LEGACY 1u
#define XM_KEY_PER_THREAD 2u

/* In a lease's key: a wait for the gate goes before each of its commands. So the
 * key is no stream's, and the way through leads to xm_admit_slow. */
#define XM_GATED ((uintptr_t)1 << 63)

struct xm_queue;
struct xm_thread;

/*
 * One thread's lease on one queue: one cache line, written by its thread.
 * Other threads read `word` (accounting) and may store XM_KEY_NONE into `key`
 * (taking the lease away); the rest is private to the owner or protected by
 * the admission lock.
 *
 * word = commands left << 1 | 1 while a command is on its way into the driver.
 */
struct xm_lease {
	_Atomic uint32_t word;
	uint32_t gate_seen;
	_Atomic uintptr_t key;
	const _Atomic uint32_t *gate;
	struct xm_queue *queue;
	struct xm_thread *owner;
	struct xm_lease *prev, *next; /* leases of the same queue */
	uint16_t start; /* commands left when it was given; protected by the admission lock */
	uint16_t held;  /* what it counts for in the bound: start, or what was used once it was taken away */
	uint32_t gated; /* its key has, or had, XM_GATED */
} __attribute__((aligned(64)));

/* The lease this thread used last; never NULL (an empty one to begin with). */
extern _Thread_local struct xm_lease *xm_lease_now __attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Commands of this thread between xm_admit and xm_done: 1, and more when a signal
 * handler of the program interrupted one and launches (or the driver called the
 * program back). Such a one passes: no lease is touched under the command that it
 * interrupted, no lock taken, nothing waited for. It is remembered above XM_NESTED,
 * and counted when that command is done. While a thread waits in admission this is 0,
 * and handlers are admitted like anybody else.
 */
#define XM_NESTED 256u
extern _Thread_local _Atomic uint32_t xm_inside __attribute__((tls_model("initial-exec"), visibility("hidden")));

void xm_admit_slow(uintptr_t key);
void xm_admit_undo(uintptr_t key);
void xm_admit_nested(uintptr_t key);
CUresult xm_done_nested(CUresult result);
void xm_refused(void); /* the driver refused the command just admitted: its place is given back */

static inline uintptr_t xm_key(CUstream stream, unsigned flags)
{
	if (stream)
		return (uintptr_t)stream;
	return flags & XM_PTDS ? XM_KEY_PER_THREAD : XM_KEY_LEGACY;
}

/*
 * The way through with a lease.
 *
 * Order matters: the count is stored before key and gate are looked at. Who
 * takes a lease away stores the key, then calls membarrier(2), then reads the
 * count: either he sees this command or this thread sees him (Dekker, with the
 * expensive half of the fence on the side that is rare).
 */
static inline void xm_take(uintptr_t key)
{
	struct xm_lease *l = xm_lease_now;
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (__builtin_expect(w <= 1 || atomic_load_explicit(&l->key, memory_order_relaxed) != key, 0)) {
		xm_admit_slow(key);
		return;
	}
	atomic_store_explicit(&l->word, (w | 1) - 2, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&l->key, memory_order_relaxed) != key ||
				     atomic_load_explicit(l->gate, memory_order_relaxed) != l->gate_seen, 0))
		xm_admit_undo(key);
}

/*
 * Before a command (a graph launch is one) enters the driver on `stream`
 * (0, 1 legacy, 2 per-thread, or a handle). May wait. Never fails. errno is
 * preserved. Precondition: not called with a lock of ours held.
 */
static inline void xm_admit(CUstream stream, unsigned flags)
{
	uint32_t inside = atomic_load_explicit(&xm_inside, memory_order_relaxed);
	uintptr_t key = xm_key(stream, flags);

	atomic_store_explicit(&xm_inside, inside + 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(inside != 0, 0))
		xm_admit_nested(key);
	else
		xm_take(key);
}

/* With the lease that the command just admitted was counted in. */
static inline CUresult xm_entered(CUresult result)
{
	struct xm_lease *l = xm_lease_now;
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);

	if (__builtin_expect(result != 0, 0))
		xm_refused();
	else if (w & 1)
		atomic_store_explicit(&l->word, w & ~1u, memory_order_release);
	return result;
}

/*
 * After the driver returned from the command just admitted, with its result:
 * the command is in the queue (or was refused). Every xm_admit has exactly one
 * xm_done: while it is missing the command counts as not yet handed over, and
 * the task cannot become idle through another thread's synchronisation.
 * Returns its argument, so that a door may end in `return xm_done(real(…))`.
 */
static inline CUresult xm_done(CUresult result)
{
	if (__builtin_expect(atomic_load_explicit(&xm_inside, memory_order_relaxed) != 1, 0))
		return xm_done_nested(result);
	xm_entered(result);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&xm_inside, 0, memory_order_relaxed);
	return result;
}

/*
 * After a call returned success that waited for (part of) the device, and
 * after its own xm_done if it was a command: which tells what is complete.
 */
void xm_synced_stream(CUstream stream, unsigned flags);
void xm_synced_context(void);                        /* everything of the current context */
void xm_synced_event(void);                          /* event waits and queries, blocking copies: the queues are asked */
void xm_query_ok(CUstream stream, unsigned flags);   /* a stream query said "complete" */

/* The thread's current context changed (set, push, pop, create, destroy). */
void xm_context_changed(void);

/*
 * A primary retain, create or set-current succeeded on this thread: claims the
 * device's section and registers the board with the driver, once a context.
 * Cheap when nothing is new. The context may or may not be current.
 */
void xm_context_made(CUdevice device);

/* Before the driver destroys (releases, resets) the context, and after it returned,
 * whatever it said. In between, which at a closed gate lasts, the device stays ready. */
void xm_context_gone(CUcontext context);
void xm_context_ended(void);

/* After the driver made the stream (its context is current) / before it destroys it. */
void xm_stream_made(CUstream stream, unsigned flags, int priority);
void xm_stream_gone(CUstream stream, unsigned flags);

/*
 * Before the driver is asked to begin a capture; xm_capture_ended after it
 * ended the capture, or when it refused to begin. Process-wide count; while it
 * is above 0 no lease is given and every command asks whether its own stream
 * captures: a capturing stream is neither bounded nor gated nor counted.
 */
void xm_capture_began(CUstream stream);
void xm_capture_ended(CUstream stream);

/* In the child of a process that had used CUDA: stand aside for ever. */
void xm_forked_child(void);

#endif
