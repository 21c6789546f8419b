/* Rings of records alone: order, fullness, interruptions; with threads, also under
 * ThreadSanitizer (records.mk). */
#define _GNU_SOURCE
#include "record_ring.c"
#include "record_ticks.c"
#include "sys.c"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WANT(x)                                                            \
	do {                                                               \
		if (!(x)) {                                                \
			fprintf(stderr, "record_ring_test:%d: not %s\n", __LINE__, #x); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static uint8_t buf[1 << 20] __attribute__((aligned(8)));
static uint32_t filled, looked;

/* Puts a record with `words` words of payload, all of which are `value`. */
static bool put(struct xm_ring *r, uint64_t value, uint32_t words)
{
	struct xm_record *to = xm_ring_place(r);

	if (!to)
		return false;
	to->head = (struct xm_command){.kind = XM_COMMAND_KERNEL, .payload = 8 * words, .sequence = value};
	for (uint32_t i = 0; i < words; i++)
		memcpy(to->payload + 8 * i, &value, 8);
	to->head.bytes = (uint32_t)sizeof to->head + 8 * words;
	to->head.ns = xm_ticks();
	xm_ring_add(r, to);
	return true;
}

static const struct xm_command *next(void)
{
	const struct xm_command *c;

	if (looked == filled) {
		int n = xm_ring_take(buf, sizeof buf);

		WANT(n >= 0 && (size_t)n <= sizeof buf);
		filled = (uint32_t)n;
		looked = 0;
	}
	if (looked == filled)
		return NULL;
	c = (const void *)(buf + looked);
	WANT(c->bytes == sizeof *c + c->payload && c->bytes <= filled - looked);
	for (uint32_t i = 0; i < c->payload / 8; i++)
		WANT(!memcmp((const uint8_t *)(c + 1) + 8 * i, &c->sequence, 8));
	looked += c->bytes;
	return c;
}

/* Several times round the ring, records of every size. */
static void wraps(struct xm_ring *r)
{
	uint64_t in = 0, out = 0;
	uint64_t before = xm_now();
	const struct xm_command *c;

	while (in < 2000) {
		for (uint32_t i = 0; i < 20; i++, in++)
			WANT(put(r, in, (uint32_t)(in * 37 % ((XM_COMMAND_MOST - sizeof(struct xm_command)) / 8 + 1) / (in % 3 ? 8 : 1))));
		while ((c = next())) {
			WANT(c->sequence == out++);
			WANT(c->ns + 1000000 > before && c->ns < xm_now() + 1000000);
		}
	}
	WANT(out == in);
	WANT(xm_ring_dropped() == 0);
}

static void full(struct xm_ring *r)
{
	uint64_t in = 0, lost = xm_ring_dropped(), out = 0;

	while (put(r, in, 10))
		in++;
	WANT(in > 1000 && xm_ring_dropped() == lost + 1);
	WANT(!put(r, in, 0) && xm_ring_dropped() == lost + 2);
	for (const struct xm_command *c; (c = next()); out++)
		WANT(c->sequence == out);
	WANT(out == in);
	WANT(put(r, 7, 1) && next()->sequence == 7 && !next());
	WANT(xm_ring_take(buf, XM_COMMAND_MOST - 1) == -EINVAL && xm_ring_take(NULL, sizeof buf) == -EINVAL);
}

/* A buffer that does not hold everything gets whole records, and the rest later. */
static void pieces(struct xm_ring *r)
{
	static uint8_t small[XM_COMMAND_MOST] __attribute__((aligned(8)));
	uint64_t out = 0;
	int n;

	for (uint64_t i = 0; i < 100; i++)
		WANT(put(r, i, 100));
	while ((n = xm_ring_take(small, sizeof small)) > 0)
		for (uint32_t k = 0; k < (uint32_t)n; out++) {
			const struct xm_command *c = (const void *)(small + k);

			WANT(c->sequence == out);
			k += c->bytes;
		}
	WANT(n == 0 && out == 100);
}

static struct xm_ring *interrupted;
static volatile sig_atomic_t handled, refused;

static void handler(int sig)
{
	(void)sig;
	handled++;
	if (!put(interrupted, 1000, 2))
		refused++;
}

/* A handler in the middle of a record loses its own; one that does not come back from there is
 * noticed. */
static void interruptions(struct xm_ring *r)
{
	struct sigaction a = {.sa_handler = handler};
	struct xm_record *to;
	uint64_t lost = xm_ring_dropped();
	unsigned tries = 0;

	WANT(sigaction(SIGUSR1, &a, NULL) == 0);
	interrupted = r;
	to = xm_ring_place(r);
	WANT(to != NULL);
	to->head = (struct xm_command){.kind = XM_COMMAND_COPY, .bytes = sizeof to->head, .sequence = 5};
	raise(SIGUSR1);
	WANT(handled == 1 && refused == 1 && xm_ring_dropped() == lost + 1);
	to->head.ns = xm_ticks();
	xm_ring_add(r, to);
	raise(SIGUSR1);
	WANT(handled == 2 && refused == 1);
	WANT(next()->sequence == 5 && next()->sequence == 1000 && !next());

	WANT(xm_ring_place(r) != NULL); /* and away, by longjmp */
	while (!put(r, 3, 1))
		WANT(++tries < 1000);
	WANT(next()->sequence == 3 && !next());
}

/* Two threads by turns: what one does because the other has done something comes after it. */
static _Atomic uint64_t turn;
static _Atomic int running;
enum { TURNS = 2000 };

static void *alternate(void *arg)
{
	uint64_t mine = (uintptr_t)arg;
	struct xm_ring *r = xm_ring_new();

	WANT(r != NULL);
	for (uint64_t i = mine; i < TURNS; i += 2) {
		while (atomic_load_explicit(&turn, memory_order_acquire) != i)
			sched_yield();
		while (!put(r, i, (uint32_t)(i % 50)))
			sched_yield();
		atomic_store_explicit(&turn, i + 1, memory_order_release);
	}
	running--;
	return NULL;
}

static void causality(void)
{
	pthread_t a, b;
	const struct xm_command *c;
	uint64_t out = 0;

	running = 2;
	WANT(!pthread_create(&a, NULL, alternate, (void *)0) && !pthread_create(&b, NULL, alternate, (void *)1));
	while (out < TURNS) {
		bool ended = !running;

		while ((c = next()))
			WANT(c->sequence == out++);
		WANT(!ended || out == TURNS);
		sched_yield();
	}
	WANT(!pthread_join(a, NULL) && !pthread_join(b, NULL));
}

/* Each thread's records arrive once and in order, while two readers share them. */
enum { WRITERS = 3, EACH = 5000 };
static _Atomic uint64_t seen[WRITERS];

static void *write_many(void *arg)
{
	uint64_t mine = (uintptr_t)arg;
	struct xm_ring *r = xm_ring_new();

	WANT(r != NULL);
	for (uint64_t i = 0; i < EACH; i++)
		while (!put(r, mine << 32 | i, (uint32_t)(i % 30)))
			sched_yield();
	running--;
	return NULL;
}

static void *read_some(void *arg)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	const struct xm_command *c;
	bool ended;

	do {
		ended = !running;
		pthread_mutex_lock(&one);
		while ((c = next()))
			WANT(atomic_fetch_add(&seen[c->sequence >> 32], 1) == (uint32_t)c->sequence);
		pthread_mutex_unlock(&one);
		sched_yield();
	} while (!ended);
	return arg;
}

static void threads(void)
{
	pthread_t writers[WRITERS], readers[2];

	running = WRITERS;
	for (uint64_t i = 0; i < WRITERS; i++)
		WANT(!pthread_create(&writers[i], NULL, write_many, (void *)i));
	for (unsigned i = 0; i < 2; i++)
		WANT(!pthread_create(&readers[i], NULL, read_some, NULL));
	for (unsigned i = 0; i < WRITERS; i++)
		WANT(!pthread_join(writers[i], NULL));
	for (unsigned i = 0; i < 2; i++)
		WANT(!pthread_join(readers[i], NULL));
	for (unsigned i = 0; i < WRITERS; i++)
		WANT(seen[i] == EACH);
}

static void no_more(void)
{
	unsigned n = 0;
	uint64_t lost = xm_ring_dropped();

	while (xm_ring_new())
		n++;
	WANT(n < XM_RINGS && !xm_ring_new());
	xm_ring_lost();
	WANT(xm_ring_dropped() == lost + 1);
}

int main(void)
{
	struct xm_ring *r;

	xm_ticks_begin();
	r = xm_ring_new();
	WANT(r && !next());
	wraps(r);
	full(r);
	pieces(r);
	interruptions(r);
	causality();
	threads();
	no_more();
	return 0;
}
