/*
 * The time of a record, as cheaply as it can be had: a counter of the processor that runs at one rate on all
 * of them, turned into nanoseconds by who reads it. Where there is none it is the clock itself.
 */
#ifndef XMSCHED_RECORD_TICKS_H
#define XMSCHED_RECORD_TICKS_H

#include <stdint.h>

#include "abi.h"
#include "sys.h"

extern XM_INTERNAL bool xm_ticks_counter; /* the counter is used; set before the first record */

static inline uint64_t xm_ticks(void)
{
#if defined(__x86_64__)
	if (xm_ticks_counter)
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	if (xm_ticks_counter) {
		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
		return t;
	}
#endif
	return xm_now();
}

/* A moment in both. */
struct xm_ticks {
	uint64_t ticks, ns;
};

/* Before recording begins. Any number of times; of the agent's threads alone. */
XM_INTERNAL void xm_ticks_begin(void);

XM_INTERNAL struct xm_ticks xm_ticks_now(void);

/* CLOCK_MONOTONIC of a moment before `now`, as exact as the time since xm_ticks_begin is long. */
XM_INTERNAL uint64_t xm_ticks_ns(const struct xm_ticks *now, uint64_t ticks);

#endif
