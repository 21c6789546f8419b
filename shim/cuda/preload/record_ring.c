#include "record_ring.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "record_ticks.h"

#define ABANDONED 64u /* refused in a row: who was writing will not come back */
#define SKIP 0        /* kind of what is no record: the rest of the ring */
#define RELAXED memory_order_relaxed

static struct xm_ring *_Atomic rings[XM_RINGS]; /* filled in order */
static _Atomic uint32_t taken;                  /* places given, some perhaps in vain */
static _Atomic uint64_t lost;                   /* without a ring */
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

/* ---- the thread ---------------------------------------------------------------------- */

/* A handler that interrupted this thread before xm_ring_add finds `writing`. */
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

void xm_ring_leave(struct xm_ring *r)
{
	atomic_signal_fence(memory_order_seq_cst);
	r->writing = false;
}

struct xm_record *xm_ring_place(struct xm_ring *r)
{
	uint64_t head, room;
	uint32_t at, rest;

	if (!begin(r))
		return NULL;
	head = atomic_load_explicit(&r->head, RELAXED);
	room = XM_RING_BYTES - (head - atomic_load_explicit(&r->tail, memory_order_acquire));
	at = (uint32_t)(head % XM_RING_BYTES);
	rest = XM_RING_BYTES - at;
	r->skipped = rest < XM_COMMAND_MOST ? rest : 0;
	if (room < r->skipped + XM_COMMAND_MOST) {
		lose(r);
		xm_ring_leave(r);
		return NULL;
	}
	return (struct xm_record *)(void *)(r->data + (r->skipped ? 0 : at));
}

void xm_ring_add(struct xm_ring *r, const struct xm_record *made)
{
	uint64_t head = atomic_load_explicit(&r->head, RELAXED);
	struct xm_command *skip = (struct xm_command *)(void *)(r->data + head % XM_RING_BYTES);

	if (r->skipped) {
		skip->bytes = (uint32_t)r->skipped;
		skip->kind = SKIP;
	}
	atomic_store_explicit(&r->head, head + r->skipped + made->head.bytes, memory_order_release);
	xm_ring_leave(r);
}

/* ---- the reader ------------------------------------------------------------------------ */

/* Where a reader stands in a ring. */
struct cursor {
	struct xm_ring *ring;
	uint64_t at, end;
};

/* The next record; NULL: there is none. */
static const struct xm_command *look(struct cursor *c)
{
	const struct xm_command *next;

	while (c->at != c->end) {
		next = (const void *)(c->ring->data + c->at % XM_RING_BYTES);
		if (next->kind != SKIP)
			return next;
		c->at += next->bytes;
	}
	return NULL;
}

/* The oldest record before `now`. What is later waits: something that came before it
 * in time may stand in a ring that was looked at too early to see it. */
static struct cursor *oldest(struct cursor *cursors, uint32_t n, uint64_t now, const struct xm_command **out)
{
	struct cursor *first = NULL;

	for (struct cursor *c = cursors; c < cursors + n; c++) {
		const struct xm_command *next = look(c);

		if (next && next->ns < now && (!first || next->ns < (*out)->ns)) {
			first = c;
			*out = next;
		}
	}
	return first;
}

static uint32_t take(struct cursor *cursors, uint32_t n, const struct xm_ticks *now, uint8_t *buf, uint32_t bytes)
{
	const struct xm_command *next;
	uint32_t used = 0;
	struct cursor *c;

	while ((c = oldest(cursors, n, now->ticks, &next)) && next->bytes <= bytes - used) {
		uint64_t ns = xm_ticks_ns(now, next->ns);

		memcpy(buf + used, next, next->bytes);
		memcpy(buf + used + offsetof(struct xm_command, ns), &ns, sizeof ns);
		used += next->bytes;
		c->at += next->bytes;
	}
	return used;
}

int xm_ring_take(void *buf, uint32_t bytes)
{
	struct cursor cursors[XM_RINGS];
	struct xm_ticks now;
	uint32_t n = 0, used;

	if (!buf || bytes < XM_COMMAND_MOST)
		return -EINVAL;
	if (bytes > INT32_MAX)
		bytes = INT32_MAX;
	pthread_mutex_lock(&reader);
	now = xm_ticks_now(); /* before the rings are looked at */
	for (uint32_t i = 0; i < XM_RINGS; i++) {
		struct xm_ring *r = atomic_load_explicit(&rings[i], memory_order_acquire);

		if (!r)
			continue;
		cursors[n++] = (struct cursor){.ring = r, .at = atomic_load_explicit(&r->tail, RELAXED),
					       .end = atomic_load_explicit(&r->head, memory_order_acquire)};
	}
	used = take(cursors, n, &now, buf, bytes);
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
