#define _GNU_SOURCE
#include "sys.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Raw system calls throughout: glibc's wrappers of some are cancellation
 * points, and a thread cancelled inside would keep our locks. */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* One element of futex_waitv(2), kernel 5.16; older headers lack it. */
struct waitv {
	uint64_t value;
	uint64_t address;
	uint32_t flags;
	uint32_t reserved;
};
#define WAITV_32 2u
#define WAITV_MAX 128u

uint64_t xm_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void xm_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

void xm_wait_word(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

	syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void xm_wait_words(const struct xm_watch *watches, unsigned n, uint64_t ns)
{
	static _Atomic bool absent;
	struct waitv v[WAITV_MAX];
	struct timespec until;
	uint64_t t;

	if (n == 1 || atomic_load_explicit(&absent, memory_order_relaxed)) {
		if (n > 1 && ns > 2000000)
			ns = 2000000;
		xm_wait_word(watches[0].word, watches[0].seen, ns);
		return;
	}
	if (n > WAITV_MAX)
		n = WAITV_MAX;
	for (unsigned i = 0; i < n; i++)
		v[i] = (struct waitv){.value = watches[i].seen, .address = (uintptr_t)watches[i].word, .flags = WAITV_32};
	t = xm_now() + ns;
	until = (struct timespec){.tv_sec = (time_t)(t / 1000000000u), .tv_nsec = (long)(t % 1000000000u)};
	if (syscall(SYS_futex_waitv, v, n, 0, &until, CLOCK_MONOTONIC) < 0 && (errno == ENOSYS || errno == EPERM))
		atomic_store_explicit(&absent, true, memory_order_relaxed);
}

void xm_wake_word(const _Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void xm_fence_prepare(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

bool xm_fence_all(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void xm_signal_fd(int fd)
{
	uint64_t one = 1;

	syscall(SYS_write, fd, &one, sizeof one);
}

void xm_blank(void *at, size_t bytes, void (*fill)(void *))
{
	void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fresh == MAP_FAILED)
		return;
	fill(fresh);
	if (mprotect(fresh, bytes, PROT_READ) || syscall(SYS_mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) < 0)
		munmap(fresh, bytes);
}

static pthread_mutex_t keep_lock = PTHREAD_MUTEX_INITIALIZER;
static char *at, *end;

void xm_keep_anew(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	keep_lock = unlocked;
	at = end = NULL;
}

/* Our records do not come from malloc: a thread's first command may come from
 * a handler that interrupted malloc, and the program may have replaced it. */
void *xm_keep(size_t bytes)
{
	const size_t piece = 256u << 10;
	void *got = NULL;

	bytes = (bytes + 63u) & ~(size_t)63u;
	if (bytes > piece)
		return NULL;
	pthread_mutex_lock(&keep_lock);
	if ((size_t)(end - at) < bytes) {
		char *p = mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED) {
			pthread_mutex_unlock(&keep_lock);
			return NULL;
		}
		at = p;
		end = p + piece;
	}
	got = at;
	at += bytes;
	pthread_mutex_unlock(&keep_lock);
	return got;
}
