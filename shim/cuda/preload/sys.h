/*
 * What admission asks of the kernel: time, sleep, wake, and the expensive half
 * of a fence. Nothing here is a cancellation point, allocates, or changes errno
 * for longer than the call (the callers of the slow path restore it).
 */
#ifndef XMSCHED_SYS_H
#define XMSCHED_SYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in ns. */
uint64_t xm_now(void);

/* A moment of a spinning wait. */
void xm_pause(void);

/*
 * Sleeps while *word is `seen`, at most `ns`. Returns early when it likes (a
 * signal, a wake, another value): the caller looks again. The word may lie in
 * memory shared with another process.
 */
void xm_wait_word(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns);

/* One word to watch and the value it had. */
struct xm_watch {
	const _Atomic uint32_t *word;
	uint32_t seen;
};

/*
 * The same for several words. Where the kernel cannot watch several (before
 * 5.16) it watches the first, for at most 2 ms.
 */
void xm_wait_words(const struct xm_watch *watches, unsigned n, uint64_t ns);

void xm_wake_word(const _Atomic uint32_t *word);

/* Registers this process for xm_fence_all. Once, not on a thread of the program: it may take ms. */
void xm_fence_prepare(void);

/*
 * A full fence on every thread of this process. False: this kernel has none,
 * and a lease taken away may see one more command.
 */
bool xm_fence_all(void);

/* Adds 1 to the eventfd; a full one has been told enough. */
void xm_signal_fd(int fd);

/* Replaces a mapping in place by pages of our own, which are zero but for what
 * `fill` writes and cannot be written afterwards. Readers see the old bytes or
 * the new, never a fault or anything between: the kernel holds the map's lock
 * over all of it. Without memory for it the old mapping stays. */
void xm_blank(void *at, size_t bytes, void (*fill)(void *));

/* Memory that is never given back, zeroed, 64-byte aligned; NULL: none left. */
void *xm_keep(size_t bytes);

/* In the child of a fork, which one of the parent's threads may have been in the middle of. */
void xm_keep_anew(void);

#endif
