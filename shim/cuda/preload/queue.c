#include "queue.h"

#include <string.h>

#include "boardmap.h"
#include "device.h"
#include "gate.h"
#include "mark.h"
#include "sys.h"
#include "thread.h"

#define RELAXED __ATOMIC_RELAXED
#define BUCKETS 1024u
#define ORPHAN_NS 1000000000u /* a dead queue without a mark at its end can be asked by nobody: after so long it is taken as complete */
#define GRACE_NS 10000000000u /* a context that is gone for so long writes no more */

static struct xm_queue *buckets[BUCKETS];
static struct xm_queue *dead_first, **dead_last = &dead_first; /* oldest first */
static struct xm_queue *free_queues;

static struct {
	uint16_t list[XM_BOARD_SLOTS]; /* free ones that were used before */
	uint32_t count;
	uint32_t fresh; /* from here on never used on this board */
} slots = {.fresh = 1};

static struct xm_queue **bucket(uintptr_t key, const struct xm_context *context, const struct xm_thread *thread)
{
	uintptr_t h = key ^ (uintptr_t)context ^ (uintptr_t)thread * 3;

	return &buckets[(h * 0x9e3779b97f4a7c15u >> 40) & (BUCKETS - 1)];
}

/* A handle names a queue by itself; a default stream with its context, and a
 * per-thread one with its thread too. */
static struct xm_queue **find(const struct xm_thread *me, uintptr_t key, const struct xm_context *context)
{
	const struct xm_thread *thread = key == XM_KEY_PER_THREAD ? me : NULL;
	struct xm_queue **at;

	if (key > XM_KEY_PER_THREAD)
		context = NULL;
	at = bucket(key, context, thread);
	while (*at && !((*at)->key == key && (!context || (*at)->context == context) && (*at)->thread == thread))
		at = &(*at)->chain;
	return at;
}

struct xm_queue *xm_queue_known(struct xm_thread *me, uintptr_t key, struct xm_context *context)
{
	return *find(me, key, context);
}

void xm_queue_dirty(struct xm_queue *q)
{
	struct xm_dev *d = q->dev;

	if (q->dirty)
		return;
	q->dirty = true;
	q->dirty_prev = NULL;
	q->dirty_next = d->dirty;
	if (d->dirty)
		d->dirty->dirty_prev = q;
	d->dirty = q;
}

void xm_queue_clean(struct xm_queue *q)
{
	if (!q->dirty)
		return;
	q->dirty = false;
	if (q->dirty_prev)
		q->dirty_prev->dirty_next = q->dirty_next;
	else
		q->dev->dirty = q->dirty_next;
	if (q->dirty_next)
		q->dirty_next->dirty_prev = q->dirty_prev;
	q->dirty_prev = q->dirty_next = NULL;
}

uint64_t xm_queue_returned(const struct xm_queue *q, const struct xm_thread *me)
{
	uint64_t n = q->counted;

	for (const struct xm_lease *l = q->leases; l; l = l->next) {
		uint32_t w = atomic_load_explicit(&l->word, memory_order_acquire);

		n += l->start - (w >> 1);
		if (w & 1 && l->owner != me)
			n--;
	}
	return n;
}

uint64_t xm_queue_total(const struct xm_queue *q)
{
	uint64_t n = q->counted;

	for (const struct xm_lease *l = q->leases; l; l = l->next)
		n += l->start - xm_lease_left(l);
	return n;
}

void xm_queue_count(struct xm_thread *me, struct xm_queue *q)
{
	xm_queue_announce(q);
	if (xm_queue_total(q) == q->done)
		q->solo = me;
	else if (q->solo != me)
		q->solo = NULL;
	q->counted++;
	q->dev->launches++;
	xm_state.outstanding++;
	xm_queue_dirty(q);
	xm_queue_publish(q);
	xm_dev_tell(q->dev, true);
	xm_dev_publish(q->dev);
}

void xm_queue_publish(struct xm_queue *q)
{
	struct xm_slot *s = q->slot;

	if (!s || q->generation != atomic_load(&xm_state.generation))
		return;
	__atomic_store_n(&s->submitted, q->counted + q->held, RELAXED);
	__atomic_store_n(&s->synced, q->done, RELAXED);
}

void xm_queue_progress(struct xm_queue *q, uint64_t done)
{
	if (done <= q->done)
		return;
	xm_state.outstanding -= done - q->done;
	q->done = done;
	xm_queue_publish(q);
}

/* Will the GPU say when this queue is complete? */
static bool answers(const struct xm_queue *q)
{
	return q->slot && !q->unmarkable && q->generation == atomic_load(&xm_state.generation) && q->marked >= q->counted;
}

void xm_queue_refresh(struct xm_queue *q)
{
	if (q->slot && q->generation == atomic_load(&xm_state.generation) && q->marked > q->done) {
		uint32_t written = __atomic_load_n(&q->slot->completed, __ATOMIC_ACQUIRE);
		uint64_t behind = (uint32_t)q->marked - written; /* modulo 2^32: marks are less than that apart */

		behind = (uint32_t)behind;
		if (behind <= q->marked - q->done)
			xm_queue_progress(q, q->marked - behind);
	}
	if (q->dead && xm_gate_closed(q->dev))
		q->died_at = xm_now(); /* what is left of it stands still */
	if (q->dead && q->done < q->counted && !answers(q) && xm_now() - q->died_at > ORPHAN_NS)
		xm_queue_progress(q, q->counted);
}

void xm_slots_reset(void)
{
	slots.count = 0;
	slots.fresh = 1;
}

/*
 * A slot goes back only when the GPU owes it nothing: the last mark arrived, or
 * its context is long gone. Until then a late write would count for the next
 * queue there. Frees the record too.
 */
static bool reap(struct xm_queue *q)
{
	xm_queue_refresh(q);
	if (q->done < xm_queue_total(q) || q->done < q->marked || q->dirty || q->leases)
		return false;
	if (q->slot && q->generation == atomic_load(&xm_state.generation)) {
		uint32_t written = __atomic_load_n(&q->slot->completed, __ATOMIC_ACQUIRE);

		if (written != (uint32_t)q->marked && xm_now() - q->died_at < GRACE_NS)
			return false;
		__atomic_store_n(&q->slot->handle, 0, __ATOMIC_RELEASE);
		slots.list[slots.count++] = (uint16_t)(q->slot - xm_state.board->slots);
	}
	q->slot = NULL;
	if (q->over && q->generation == atomic_load(&xm_state.generation))
		__atomic_store_n(&xm_state.board->client.queues_over, --xm_state.queues_over, RELAXED);
	return true;
}

/* Reaps among the oldest `n` dead queues. */
static void reap_some(unsigned n)
{
	struct xm_queue **at = &dead_first;

	while (n-- && *at) {
		struct xm_queue *q = *at;

		if (!reap(q)) {
			at = &q->chain;
			continue;
		}
		*at = q->chain;
		if (dead_last == &q->chain)
			dead_last = at;
		q->chain = free_queues;
		free_queues = q;
	}
}

static struct xm_slot *take_slot(void)
{
	if (!slots.count && slots.fresh == XM_BOARD_SLOTS)
		reap_some(XM_BOARD_SLOTS);
	if (slots.count)
		return &xm_state.board->slots[slots.list[--slots.count]];
	return slots.fresh < XM_BOARD_SLOTS ? &xm_state.board->slots[slots.fresh++] : NULL;
}

static uint32_t flags_of(const struct xm_queue *q)
{
	return (q->key == XM_KEY_LEGACY ? XM_QUEUE_LEGACY : 0) | (q->key == XM_KEY_PER_THREAD ? XM_QUEUE_PER_THREAD : 0) |
	       (q->dead ? XM_QUEUE_DESTROYED : 0);
}

/* Marks that are under way to an older board are not waited for: what is not
 * known to be complete counts as unmarked here. */
void xm_queue_announce(struct xm_queue *q)
{
	uint32_t generation = atomic_load(&xm_state.generation);
	struct xm_slot *s;

	if (!xm_state.board || q->generation == generation)
		return;
	q->generation = generation;
	q->marked = q->done;
	q->unmarkable = false;
	q->slot = NULL;
	if (q->dead)
		return; /* nobody can mark it any more */
	s = q->slot = take_slot();
	q->over = !s;
	if (!s) {
		s = &xm_state.board->slots[0]; /* presence only: its numbers mean nothing */
		__atomic_store_n(&xm_state.board->client.queues_over, ++xm_state.queues_over, RELAXED);
		__atomic_store_n(&s->handle, UINT64_MAX, __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&s->device, q->dev->index, RELAXED);
	__atomic_store_n(&s->flags, flags_of(q), RELAXED);
	__atomic_store_n(&s->completed, (uint32_t)q->done, RELAXED);
	__atomic_store_n(&s->marked, q->marked, RELAXED);
	xm_queue_publish(q);
	__atomic_store_n(&s->handle, (uint64_t)q->key, __ATOMIC_RELEASE);
}

struct xm_queue *xm_queue_add(struct xm_thread *me, uintptr_t key, struct xm_context *context)
{
	struct xm_queue **at = find(me, key, context);
	struct xm_queue *q = *at;

	if (q)
		return q;
	q = free_queues;
	if (q) {
		free_queues = q->chain;
	} else {
		if (!(q = xm_keep(sizeof *q)))
			return NULL;
		pthread_mutex_init(&q->order, NULL);
	}
	memset(q, 0, offsetof(struct xm_queue, order));
	q->key = key;
	q->context = context;
	q->dev = context->dev;
	q->thread = key == XM_KEY_PER_THREAD ? me : NULL;
	q->chain = *at;
	*at = q;
	return q;
}

void xm_queue_die(struct xm_queue *q)
{
	struct xm_queue **at = find(q->thread, q->key, q->context);

	if (*at == q)
		*at = q->chain;
	q->chain = NULL;
	q->dead = true;
	q->died_at = xm_now();
	while (q->leases)
		xm_lease_detach(q->leases);
	q->solo = NULL;
	if (q->slot && q->generation == atomic_load(&xm_state.generation))
		__atomic_store_n(&q->slot->flags, flags_of(q), RELAXED);
	if (q->done < q->counted)
		xm_queue_dirty(q);
	xm_queue_publish(q);
	*dead_last = q;
	dead_last = &q->chain;
	reap_some(4);
}

struct xm_context *xm_queue_context(struct xm_thread *me, uintptr_t key)
{
	struct xm_context *current = xm_context_current(me), *c;
	CUcontext handle = NULL;

	if (key <= XM_KEY_PER_THREAD || !xm_real.cuStreamGetCtx)
		return current;
	if (xm_real.cuStreamGetCtx((CUstream)key, &handle) || !handle)
		return NULL;
	if (current && current->handle == handle)
		return current;
	pthread_mutex_lock(&xm_lock);
	c = xm_context_known(handle);
	pthread_mutex_unlock(&xm_lock);
	if (!c && xm_real.cuCtxPushCurrent_v2 && xm_real.cuCtxPushCurrent_v2(handle) == 0) {
		me->context_epoch = 0;
		c = xm_context_current(me);
		xm_context_pop();
		me->context_epoch = 0;
	}
	return c && c->dev ? c : NULL;
}

struct xm_queue *xm_queue_for(struct xm_thread *me, uintptr_t key)
{
	struct xm_context *context = NULL;
	struct xm_queue *q;

	if (atomic_load_explicit(&xm_state.captures, memory_order_relaxed) && xm_capturing(key))
		return NULL;
	if (key <= XM_KEY_PER_THREAD && !(context = xm_context_current(me)))
		return NULL;
	pthread_mutex_lock(&xm_lock);
	q = *find(me, key, context);
	pthread_mutex_unlock(&xm_lock);
	if (q)
		return q;
	context = xm_queue_context(me, key);
	if (!context)
		return NULL;
	pthread_mutex_lock(&xm_lock);
	q = xm_queue_add(me, key, context);
	pthread_mutex_unlock(&xm_lock);
	return q;
}

static bool of_context(struct xm_queue *q, void *context)
{
	return q->context == context;
}

static bool of_thread(struct xm_queue *q, void *thread)
{
	return q->thread == thread;
}

/* xm_lock held. */
static struct xm_queue *any(bool (*is)(struct xm_queue *, void *), void *what, unsigned *from)
{
	for (; *from < BUCKETS; ++*from)
		for (struct xm_queue *q = buckets[*from]; q; q = q->chain)
			if (is(q, what))
				return q;
	return NULL;
}

void xm_queue_context_gone(struct xm_context *context)
{
	unsigned from = 0;
	struct xm_queue *q;

	for (;;) {
		pthread_mutex_lock(&xm_lock);
		q = any(of_context, context, &from);
		pthread_mutex_unlock(&xm_lock);
		if (!q)
			break;
		pthread_mutex_lock(&q->order);
		pthread_mutex_lock(&xm_lock);
		xm_queue_die(q);
		xm_queue_progress(q, q->counted);
		pthread_mutex_unlock(&xm_lock);
		pthread_mutex_unlock(&q->order);
	}
	pthread_mutex_lock(&xm_lock);
	for (q = dead_first; q; q = q->chain)
		if (q->context == context) {
			q->ring_count = 0; /* its events went with the context */
			xm_queue_progress(q, q->counted);
		}
	pthread_mutex_unlock(&xm_lock);
}

void xm_queue_thread_ended(struct xm_thread *me)
{
	unsigned from = 0;
	struct xm_queue *q;

	while ((q = any(of_thread, me, &from)))
		xm_queue_die(q);
}
