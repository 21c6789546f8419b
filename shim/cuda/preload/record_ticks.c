#include "record_ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>

bool xm_ticks_counter;

static struct xm_ticks base;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Whether it runs at one rate, whatever the processor does, and the same on all. */
static bool steady(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
#elif defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

struct xm_ticks xm_ticks_now(void)
{
	return (struct xm_ticks){.ticks = xm_ticks(), .ns = xm_now()};
}

static void calibrate(void)
{
	xm_ticks_counter = steady();
	base = xm_ticks_now();
}

void xm_ticks_begin(void)
{
	pthread_once(&once, calibrate);
}

uint64_t xm_ticks_ns(const struct xm_ticks *now, uint64_t ticks)
{
	uint64_t span = now->ticks - base.ticks, ago = now->ticks - ticks;

	if (!span)
		return now->ns;
	return now->ns - (uint64_t)((unsigned __int128)ago * (now->ns - base.ns) / span);
}
