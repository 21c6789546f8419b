#define _GNU_SOURCE
#include "thread.h"

#include <errno.h>

#include "device.h"
#include "queue.h"
#include "sys.h"

static struct xm_lease empty = {.gate = &xm_gate_absent};

_Thread_local struct xm_lease *xm_lease_now __attribute__((tls_model("initial-exec"))) = &empty;
static _Thread_local struct xm_thread *self __attribute__((tls_model("initial-exec")));
static _Thread_local int kept_errno __attribute__((tls_model("initial-exec")));

struct xm_state xm_state = {.board_fd = -1, .event_fd = -1, .context_epoch = 1};
pthread_mutex_t xm_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t xm_probe = PTHREAD_MUTEX_INITIALIZER;
_Atomic bool xm_aside;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static bool have_key;
static struct xm_thread *free_threads; /* protected by xm_lock */

static void ended(void *record);

static void make_key(void)
{
	have_key = pthread_key_create(&exit_key, ended) == 0;
}

static void enter(struct xm_thread *me)
{
	me->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &me->cancel_state);
}

static void leave(struct xm_thread *me)
{
	pthread_setcancelstate(me->cancel_state, NULL);
	atomic_signal_fence(memory_order_seq_cst);
	me->busy = false;
}

/* While the record is being made or given back, commands of this thread (of a
 * signal handler, then) pass: the lock may be held here. */
static _Thread_local volatile bool unmade __attribute__((tls_model("initial-exec")));

static struct xm_thread *make(void)
{
	struct xm_thread *t;

	if (unmade)
		return NULL;
	unmade = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_once(&key_once, make_key);
	pthread_mutex_lock(&xm_lock);
	t = free_threads;
	if (t)
		free_threads = t->next;
	pthread_mutex_unlock(&xm_lock);
	if (!t && (t = xm_keep(sizeof *t)))
		for (unsigned i = 0; i < XM_LEASES; i++)
			t->leases[i] = (struct xm_lease){.gate = &xm_gate_absent, .owner = t};
	if (t) {
		t->context_epoch = 0;
		self = t;
		if (have_key)
			pthread_setspecific(exit_key, t);
	}
	atomic_signal_fence(memory_order_seq_cst);
	unmade = false;
	return t;
}

/* Destructor of the thread-specific value. Commands that later destructors
 * launch make a new record, and this runs again. */
static void ended(void *record)
{
	struct xm_thread *me = record;
	int cancel_state;

	if (atomic_load(&xm_aside) || me->busy)
		return;
	unmade = true;
	self = NULL;
	xm_lease_now = &empty;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&xm_lock);
	for (unsigned i = 0; i < XM_LEASES; i++)
		xm_lease_end(&me->leases[i]);
	xm_queue_thread_ended(me);
	me->next = free_threads;
	free_threads = me;
	pthread_mutex_unlock(&xm_lock);
	pthread_setcancelstate(cancel_state, NULL);
	atomic_signal_fence(memory_order_seq_cst);
	unmade = false;
}

struct xm_thread *xm_thread_known(void)
{
	return atomic_load_explicit(&xm_aside, memory_order_relaxed) ? NULL : self;
}

struct xm_thread *xm_enter(void)
{
	struct xm_thread *me = self;
	int was = errno;

	if (atomic_load_explicit(&xm_aside, memory_order_relaxed))
		return NULL;
	if (!me && !(me = make())) {
		errno = was;
		return NULL;
	}
	if (me->busy)
		return NULL;
	enter(me);
	kept_errno = was;
	return me;
}

void xm_leave(struct xm_thread *me)
{
	errno = kept_errno;
	leave(me);
}

void xm_thread_forget_context(struct xm_thread *me)
{
	me->context_epoch = 0;
	if (atomic_load_explicit(&xm_lease_now->key, memory_order_relaxed) > XM_KEY_PER_THREAD)
		return;
	if (atomic_load_explicit(&xm_inside, memory_order_relaxed)) /* a handler's doing: a command is under way with it */
		xm_lease_revoke(xm_lease_now);
	else
		xm_lease_now = &empty;
}

void xm_forked_child(void)
{
	atomic_store(&xm_aside, true);
	xm_lease_now = &empty;
	self = NULL;
}

static struct xm_lease *place(struct xm_thread *me, uintptr_t key)
{
	uintptr_t h = key;

	if (key <= XM_KEY_PER_THREAD)
		h ^= (uintptr_t)me->context >> 6; /* records are 64-byte aligned */
	h ^= h >> 17;
	return &me->leases[(h * 0x9e3779b97f4a7c15u >> 40) & (XM_LEASES - 1)];
}

struct xm_lease *xm_lease_of(struct xm_thread *me, uintptr_t key)
{
	struct xm_lease *l = place(me, key);

	if ((atomic_load_explicit(&l->key, memory_order_relaxed) & ~XM_GATED) != key)
		return NULL;
	if (key <= XM_KEY_PER_THREAD) {
		struct xm_queue *q = __atomic_load_n(&l->queue, __ATOMIC_RELAXED);

		if (!q || q->context != me->context)
			return NULL;
	}
	return l;
}

static void unlink_lease(struct xm_lease *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else
		l->queue->leases = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = l->next = NULL;
	__atomic_store_n(&l->queue, NULL, __ATOMIC_RELAXED);
}

static void account(struct xm_lease *l)
{
	struct xm_queue *q = l->queue;
	uint32_t used = l->start - xm_lease_left(l);

	q->counted += used;
	q->held -= l->held;
	q->dev->launches += used;
	xm_state.outstanding += used;
	xm_state.outstanding -= l->held;
	unlink_lease(l);
	xm_queue_publish(q);
	xm_dev_publish(q->dev);
}

void xm_lease_end(struct xm_lease *l)
{
	if (l->queue)
		account(l);
	atomic_store_explicit(&l->key, XM_KEY_NONE, memory_order_relaxed);
	atomic_store_explicit(&l->word, 0, memory_order_relaxed);
}

void xm_lease_detach(struct xm_lease *l)
{
	atomic_store_explicit(&l->key, XM_KEY_NONE, memory_order_relaxed);
	account(l);
}

void xm_lease_revoke(struct xm_lease *l)
{
	atomic_store_explicit(&l->key, XM_KEY_NONE, memory_order_relaxed);
}

void xm_lease_settle(struct xm_lease *l)
{
	uint32_t used = l->start - xm_lease_left(l);

	l->queue->held -= l->held - used;
	xm_state.outstanding -= l->held - used;
	l->held = (uint16_t)used;
}

void xm_lease_give(struct xm_thread *me, struct xm_queue *q, uint32_t n, uint32_t gate, CUdeviceptr wait_at)
{
	struct xm_lease *l = place(me, q->key);

	xm_lease_end(l);
	me->lease_base[l - me->leases] = xm_queue_total(q);
	__atomic_store_n(&l->queue, q, __ATOMIC_RELAXED);
	l->next = q->leases;
	if (l->next)
		l->next->prev = l;
	q->leases = l;
	l->start = l->held = (uint16_t)n;
	l->gated = wait_at != 0;
	q->held += n;
	atomic_store_explicit(&q->wait_at, wait_at, memory_order_relaxed);
	if (wait_at) {
		q->waited = q->counted + q->held;
		q->wait_generation = atomic_load(&xm_state.generation);
	}
	xm_state.outstanding += n;
	l->gate_seen = gate;
	l->gate = atomic_load_explicit(&q->dev->gate, memory_order_relaxed);
	atomic_store_explicit(&l->word, 2 * n - 1, memory_order_relaxed);
	atomic_store_explicit(&l->key, q->key | (wait_at ? XM_GATED : 0), memory_order_relaxed);
	xm_lease_now = l;
}

void xm_thread_revoke_all(void)
{
	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		for (struct xm_queue *q = xm_state.devs[i].dirty; q; q = q->dirty_next)
			for (struct xm_lease *l = q->leases; l; l = l->next)
				xm_lease_revoke(l);
}
