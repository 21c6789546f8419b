#include "record_ring.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "sys.h"

#define ABANDONED 64u /* refused in a row: who was writing will not come back */
#define RELAXED memory_order_relaxed

static struct xm_ring *_Atomic rings[XM_RINGS]; /* filled in order */
static _Atomic uint32_t taken;                   /* places given, some perhaps in vain */
static _Atomic uint64_t lost;                    /* without a ring */
static pthread_mutex_t reader = PTHREAD_MUTEX_INITIALIZER;

struct xm_ring *xm_ring_new(void)
{
	uint32_t i = atomic_load_explicit(&taken, RELAXED);
	struct xm_ring *r;

	do {
		if (i >= XM_RINGS)
			return NULL;
	} while (!atomic_compare_exchange_weak(&taken, &i, i + 1));
	r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&rings[i], r, memory_order_release);
	return r;
}

void xm_ring_lost(void)
{
	atomic_fetch_add_explicit(&lost, 1, RELAXED);
}

static void lose(struct xm_ring *r)
{
	atomic_store_explicit(&r->lost, atomic_load_explicit(&r->lost, RELAXED) + 1, RELAXED);
}

static uint64_t put(struct xm_ring *r, uint64_t at, const void *from, uint32_t bytes)
{
	uint32_t place = at & (XM_RING_BYTES - 1), first = XM_RING_BYTES - place;

	if (first > bytes)
		first = bytes;
	memcpy(r->data + place, from, first);
	memcpy(r->data, (const uint8_t *)from + first, bytes - first);
	return at + bytes;
}

static void get(const struct xm_ring *r, uint64_t at, void *into, uint32_t bytes)
{
	uint32_t place = at & (XM_RING_BYTES - 1), first = XM_RING_BYTES - place;

	if (first > bytes)
		first = bytes;
	memcpy(into, r->data + place, first);
	memcpy((uint8_t *)into + first, r->data, bytes - first);
}

/* A handler that interrupted this thread below finds `writing`. */
static bool begin(struct xm_ring *r)
{
	if (r->writing && ++r->refused < ABANDONED) {
		lose(r);
		return false;
	}
	r->refused = 0;
	r->writing = true;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static void end(struct xm_ring *r)
{
	atomic_signal_fence(memory_order_seq_cst);
	r->writing = false;
}

bool xm_ring_add(struct xm_ring *r, const struct xm_command *c, const void *payload, uint32_t bytes)
{
	static const uint64_t zero;
	uint64_t head, at;
	bool room;

	if (!begin(r))
		return false;
	head = atomic_load_explicit(&r->head, RELAXED);
	room = XM_RING_BYTES - (head - atomic_load_explicit(&r->tail, memory_order_acquire)) >= c->bytes;
	if (room) {
		at = put(r, head, c, sizeof *c);
		at = put(r, at, payload, bytes);
		(void)put(r, at, &zero, (uint32_t)(head + c->bytes - at));
		atomic_store_explicit(&r->head, head + c->bytes, memory_order_release);
	} else {
		lose(r);
	}
	end(r);
	return room;
}

/* Where a reader stands. */
struct cursor {
	struct xm_ring *ring;
	uint64_t at, end;
	struct xm_command next; /* at `at`, when that is before `end` */
};

static void look(struct cursor *c)
{
	if (c->at != c->end)
		get(c->ring, c->at, &c->next, sizeof c->next);
}

/* The oldest record before `now`. What is later waits: something that came before it
 * in time may stand in a ring that was looked at too early to see it. */
static struct cursor *oldest(struct cursor *cursors, uint32_t n, uint64_t now)
{
	struct cursor *first = NULL;

	for (struct cursor *c = cursors; c < cursors + n; c++)
		if (c->at != c->end && c->next.ns < now && (!first || c->next.ns < first->next.ns))
			first = c;
	return first;
}

static uint32_t take(struct cursor *cursors, uint32_t n, uint64_t now, uint8_t *buf, uint32_t bytes)
{
	uint32_t used = 0;
	struct cursor *c;

	while ((c = oldest(cursors, n, now)) && c->next.bytes <= bytes - used) {
		get(c->ring, c->at, buf + used, c->next.bytes);
		used += c->next.bytes;
		c->at += c->next.bytes;
		look(c);
	}
	return used;
}

int xm_ring_take(void *buf, uint32_t bytes)
{
	struct cursor cursors[XM_RINGS];
	uint32_t n = 0, used;
	uint64_t now = xm_now();

	if (!buf || bytes < XM_COMMAND_MOST)
		return -EINVAL;
	if (bytes > INT32_MAX)
		bytes = INT32_MAX;
	pthread_mutex_lock(&reader);
	for (uint32_t i = 0; i < XM_RINGS; i++) {
		struct xm_ring *r = atomic_load_explicit(&rings[i], memory_order_acquire);

		if (!r)
			continue;
		cursors[n].ring = r;
		cursors[n].at = atomic_load_explicit(&r->tail, RELAXED);
		cursors[n].end = atomic_load_explicit(&r->head, memory_order_acquire);
		look(&cursors[n++]);
	}
	used = take(cursors, n, now, buf, bytes);
	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(&cursors[i].ring->tail, cursors[i].at, memory_order_release);
	pthread_mutex_unlock(&reader);
	return (int)used;
}

uint64_t xm_ring_dropped(void)
{
	uint64_t n = atomic_load_explicit(&lost, RELAXED);

	for (uint32_t i = 0; i < XM_RINGS; i++) {
		struct xm_ring *r = atomic_load_explicit(&rings[i], memory_order_acquire);

		if (r)
			n += atomic_load_explicit(&r->lost, RELAXED);
	}
	return n;
}
