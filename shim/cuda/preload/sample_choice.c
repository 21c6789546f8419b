/* Which launches are samples, and what they cost. */
#include <pthread.h>

#include "sample.h"
#include "sys.h"

#ifndef BUDGET_NS
#define BUDGET_NS 100000000000u /* launches may take longer by so much, all together */
#endif
#define MISSES 3u    /* steps in a row that the agent did not take in time: of a device that others use, one now and then is late */
#define SAMPLES 8u   /* of one kernel in one shape */
#define SHAPES 8192u /* kernels and shapes that are told apart; a power of two */
#define PROBES 32u

/* A kernel, launched with so many blocks and threads. */
struct xm_shape {
	uint64_t key; /* 0: the place is free */
	uint32_t launches;
	uint16_t taken;
	bool enough;
};

/* Protected by the lock, which is short, and none of whose holders is interrupted by a launch (sample.c). */
static struct xm_shape *shapes;
static struct xm_sample_figures figures;
static uint32_t misses; /* since the last that was seen to its end */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t key_of(const struct xm_launch *l, uint32_t kernel)
{
	const uint32_t all[7] = {l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared};
	uint64_t h = kernel * 0x9e3779b97f4a7c15u;

	for (unsigned i = 0; i < 7; i++) {
		h = (h ^ all[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h | 1;
}

/* NULL: there is no more room. */
static struct xm_shape *shape_of(uint64_t key)
{
	if (!shapes && !(shapes = xm_keep(SHAPES * sizeof *shapes)))
		return NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct xm_shape *s = &shapes[(key / 2 + i) & (SHAPES - 1)];

		if (!s->key)
			s->key = key;
		if (s->key == key)
			return s;
	}
	return NULL;
}

/* The first launch of a shape, the second, the fourth, the eighth: what changes slowly from launch to
 * launch is seen at different times. */
struct xm_shape *xm_sample_choose(const struct xm_launch *l, uint32_t kernel)
{
	struct xm_shape *s;
	bool yes = false;

	pthread_mutex_lock(&lock);
	s = shape_of(key_of(l, kernel));
	if (s && !s->enough && s->taken < SAMPLES) {
		s->launches += s->launches < UINT32_MAX;
		yes = (s->launches & (s->launches - 1)) == 0;
	}
	pthread_mutex_unlock(&lock);
	return yes ? s : NULL;
}

uint32_t xm_sample_took(struct xm_shape *s, uint64_t ns, bool taken, bool missed)
{
	uint32_t why = 0;

	pthread_mutex_lock(&lock);
	figures.asked++;
	figures.ns += ns;
	figures.taken += taken;
	figures.missed += missed;
	s->taken += taken;
	s->enough |= missed; /* what takes so long is not tried again */
	misses = taken ? 0 : misses + missed;
	if (misses >= MISSES)
		why = XM_SAMPLES_MISSED;
	else if (figures.ns > BUDGET_NS)
		why = XM_SAMPLES_LONG;
	pthread_mutex_unlock(&lock);
	return why;
}

void xm_sample_figures(struct xm_sample_figures *f)
{
	pthread_mutex_lock(&lock);
	*f = figures;
	pthread_mutex_unlock(&lock);
}
