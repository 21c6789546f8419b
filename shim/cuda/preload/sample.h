/*
 * Learning: the program's allocations are made managed, as far as that is safe, and a few
 * of its launches are offered to the agent as samples (samples.h). While the program
 * does not learn that is one load and a branch.
 *
 * sample.c         the turn of one, on either side
 * sample_choice.c  which launches
 * sample_read.c    whether their parameters can be read
 * sample_memory.c  allocations
 */
#ifndef XMSCHED_SAMPLE_H
#define XMSCHED_SAMPLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "abi.h"
#include "record.h"
#include "samples.h"

struct xm_mem;

/* 0: nobody has looked at the environment yet. */
enum { XM_LEARNS_UNKNOWN, XM_LEARNS_NOT, XM_LEARNS };
extern XM_INTERNAL _Atomic int xm_learning;

XM_INTERNAL bool xm_learns_now(void);

static inline bool xm_learns(void)
{
	int how = atomic_load_explicit(&xm_learning, memory_order_relaxed);

	return __builtin_expect(how != XM_LEARNS_NOT, 0) && (how == XM_LEARNS || xm_learns_now());
}

/*
 * Before a launch is admitted. True: it is a sample, and xm_sample_end follows, whatever
 * the driver says of it. The launch's parameters are read; where they cannot be, it is none,
 * and the driver's to refuse. Nobody else's launch is in the driver until then, or for a second.
 */
XM_INTERNAL bool xm_sample_begin(const struct xm_launch *l);
XM_INTERNAL bool xm_sample_begin_config(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
XM_INTERNAL void xm_sample_end(CUresult result);

/* Before a capture begins: no sample is under way any more, as far as a second's waiting can tell. */
XM_INTERNAL void xm_sample_quiet(void);

/* One line for the user, when the program ends. */
XM_INTERNAL void xm_sample_report(void);

/* An allocation as managed memory; false: it is to be made as ever. */
XM_INTERNAL bool xm_sample_alloc(struct xm_mem *m, CUcontext context, CUdeviceptr *at, size_t bytes);
/* The one that holds the address, which is the device's memory for all that the program knows. */
struct xm_truth_range;
XM_INTERNAL bool xm_sample_range(CUdeviceptr address, struct xm_truth_range *range);
/* Before it is freed. */
XM_INTERNAL void xm_sample_freed(CUdeviceptr at);
XM_INTERNAL void xm_sample_context_ended(CUcontext context);

/* ---- among ourselves -------------------------------------------------------------- */

/* Of a kernel by its id: NULL unless this launch is to be one. */
struct xm_shape;
XM_INTERNAL struct xm_shape *xm_sample_choose(const struct xm_launch *l, uint32_t kernel);
/* Its parameters, as the recorder would read them (record_launch.c), can be read. */
struct xm_known;
XM_INTERNAL bool xm_sample_readable(const struct xm_launch *l, const struct xm_known *k);
/* It is over, and took so long. Not 0: there are to be no more, and why. */
XM_INTERNAL uint32_t xm_sample_took(struct xm_shape *s, uint64_t ns, bool taken, bool missed);

XM_INTERNAL void xm_sample_figures(struct xm_sample_figures *f);
XM_INTERNAL int xm_sample_ranges(struct xm_sample_range *views, int n);
XM_INTERNAL void xm_sample_memory_figures(struct xm_sample_figures *f);
XM_INTERNAL bool xm_samples_over(void);

extern XM_INTERNAL const struct xm_samples xm_samples;

#endif
