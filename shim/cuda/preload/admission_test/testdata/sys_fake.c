/* A clock that the test moves. A sleep is a step of that clock and a chance for
 * the test to change the world; so waits are deterministic, on one thread. */
#define _GNU_SOURCE
#include "sys_fake.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../sys.h"
#include "../../tail.h"
#include "../../watchdog.h"

/* The threads of our own have no part in these tests. */
void xm_tail_start(void)
{
}

void xm_tail_kick(void)
{
}

void xm_watchdog_start(void)
{
}

void xm_watchdog_kick(void)
{
}

uint64_t clock_ns = 1000000000;
void (*on_sleep)(uint64_t slept);
void (*on_clock)(void);
uint64_t sleeps;
unsigned fences;
bool have_fence = true;

uint64_t xm_now(void)
{
	uint64_t now = clock_ns;
	void (*once)(void) = on_clock;

	on_clock = NULL;
	if (once)
		once();
	return now;
}

void xm_pause(void)
{
	clock_ns += 1000;
}

static void sleep_for(uint64_t ns)
{
	clock_ns += ns;
	sleeps++;
	if (on_sleep)
		on_sleep(ns);
}

void xm_wait_word(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	if (atomic_load(word) == seen)
		sleep_for(ns);
}

void xm_wait_words(const struct xm_watch *watches, unsigned n, uint64_t ns)
{
	for (unsigned i = 0; i < n; i++)
		if (atomic_load(watches[i].word) != watches[i].seen)
			return;
	sleep_for(ns);
}

void xm_wake_word(const _Atomic uint32_t *word)
{
	(void)word;
}

void xm_fence_prepare(void)
{
}

bool xm_fence_all(void)
{
	fences++;
	return have_fence;
}

void xm_signal_fd(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof one) < 0)
		abort();
}

void xm_blank(void *at, size_t bytes, void (*fill)(void *))
{
	void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fresh == MAP_FAILED)
		abort();
	fill(fresh);
	if (mprotect(fresh, bytes, PROT_READ) || mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
		abort();
}

void *xm_keep(size_t bytes)
{
	void *p = NULL;

	bytes = (bytes + 63) & ~(size_t)63;
	if (posix_memalign(&p, 64, bytes))
		return NULL;
	return __builtin_memset(p, 0, bytes);
}
