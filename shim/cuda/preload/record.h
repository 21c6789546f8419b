/*
 * Recording: what the hooks tell of the commands that the driver took. While it is off
 * that is one load and a branch. On the program's own threads; nothing here fails a
 * call, waits for anybody, or enters the driver but for what a kernel is when it is new.
 *
 * record_ring.c   a ring for each thread, and taking records out of them
 * record.c        where a command went; fills, ranges and the rest
 * record_copy.c   copies of every form
 * record_launch.c kernels with their parameters
 * record_ranges.c which memory there is
 * kernels.c       which kernels; kernels_code.c what they came in
 * tensormap.c     tensor maps
 * graph_record.c  graphs
 */
#ifndef XMSCHED_RECORD_H
#define XMSCHED_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "commands.h"

extern XM_INTERNAL _Atomic bool xm_record_on;

static inline bool xm_recording(void)
{
	return __builtin_expect(atomic_load_explicit(&xm_record_on, memory_order_relaxed), 0);
}

/* ---- what the hooks call, after the driver's success and xm_done ---------------- */

struct xm_launch {
	CUfunction f;
	uint32_t grid[3], block[3], shared;
	void **params, **extra;
};

/* Keys of `extra`, in pairs with what they say (CUDA 13.0, CU_LAUNCH_PARAM_*). */
#define XM_EXTRA_END ((void *)0)
#define XM_EXTRA_POINTER ((void *)1)
#define XM_EXTRA_SIZE ((void *)2)
#define XM_EXTRA_PAIRS 8 /* the driver knows two */

XM_INTERNAL void xm_record_launch(CUstream stream, unsigned flags, const struct xm_launch *l);
XM_INTERNAL void xm_record_config(unsigned flags, const CUlaunchConfig *config, CUfunction f, void **params, void **extra);

/* Addresses of the host's memory, or of arrays, say so by `where`: XM_COMMAND_SRC_HOST and its like. */
XM_INTERNAL void xm_record_copy(CUstream stream, unsigned flags, uint64_t dst, uint64_t src, size_t bytes, uint32_t where);
XM_INTERNAL void xm_record_copy2d(CUstream stream, unsigned flags, const CUDA_MEMCPY2D *p);
XM_INTERNAL void xm_record_copy3d(CUstream stream, unsigned flags, const CUDA_MEMCPY3D *p);
XM_INTERNAL void xm_record_copy_peer(CUstream stream, unsigned flags, const CUDA_MEMCPY3D_PEER *p);
XM_INTERNAL void xm_record_copies(CUstream stream, unsigned flags, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
				  const size_t *sizes, size_t n);
XM_INTERNAL void xm_record_copies3d(CUstream stream, unsigned flags, const void *ops, size_t n);

XM_INTERNAL void xm_record_fill(CUstream stream, unsigned flags, uint64_t dst, size_t pitch, size_t width, size_t height);
XM_INTERNAL void xm_record_prefetch(CUstream stream, unsigned flags, uint64_t at, size_t bytes, int64_t place);
XM_INTERNAL void xm_record_prefetches(CUstream stream, unsigned flags, const CUdeviceptr *at, const size_t *bytes, size_t n);
XM_INTERNAL void xm_record_writes(CUstream stream, unsigned flags, const CUstreamBatchMemOpParams *ops, unsigned n);
XM_INTERNAL void xm_record_graph(CUstream stream, unsigned flags, CUgraphExec exec);
XM_INTERNAL void xm_record_other(CUstream stream, unsigned flags, enum xm_command_kind kind);

/* A prefetch's place from its CUmemLocation. */
#define XM_RECORD_PLACE(location) ((location).type == CU_MEM_LOCATION_TYPE_DEVICE ? (location).id : -1)

/* ---- memory: told whether recording is on or not -------------------------------- */

/* A range came to be; `how` is XM_COMMAND_POOL and its like. */
XM_INTERNAL void xm_range_came(CUstream stream, unsigned flags, uint64_t at, size_t bytes, uint32_t how);

/* Before the driver is asked to free what is there, or to unmap so many bytes (0: what is there). */
XM_INTERNAL void xm_range_goes(CUstream stream, unsigned flags, uint64_t at, size_t bytes);

/* What the driver then said: when it refused, all is as it was. Returns its result. */
XM_INTERNAL CUresult xm_range_gone(CUresult result, uint64_t at, size_t bytes);

/* The context ended, and what was allocated there. */
XM_INTERNAL void xm_range_context_ended(CUcontext context);

XM_INTERNAL int xm_ranges(void *buf, uint32_t bytes);

/* ---- among ourselves -------------------------------------------------------------- */

/* A command's record with room for the longest. */
struct xm_record {
	struct xm_command head;
	uint8_t payload[XM_COMMAND_MOST - sizeof(struct xm_command)] __attribute__((aligned(8)));
};

_Static_assert(sizeof(struct xm_command) == 72, "records");
_Static_assert(sizeof(struct xm_command_map) % 8 == 0, "records");
_Static_assert(XM_COMMAND_PARAMETERS + XM_COMMAND_MAPS * sizeof(struct xm_command_map) <= sizeof ((struct xm_record *)0)->payload,
	       "a launch's record");

/* Fills in where the command just done went. False: its stream captures, and it is not to be recorded. */
XM_INTERNAL bool xm_record_place(struct xm_command *c, CUstream stream, unsigned flags);

/* A record's place, to be made there and then ended, with nothing of ours called in between that records;
 * NULL: it is lost. Its `payload` bytes are to be said; size and time are filled in. */
XM_INTERNAL struct xm_record *xm_record_begin(void);
XM_INTERNAL void xm_record_end(struct xm_record *r);

/* The same at once. */
XM_INTERNAL void xm_record_add(const struct xm_command *c, const void *payload, uint32_t bytes);

/* The launch as a record, but for where it went; for those of graphs as well. */
XM_INTERNAL void xm_record_build(struct xm_record *r, const struct xm_launch *l);

/* A copy's record, the same way. */
XM_INTERNAL void xm_copy3d_build(struct xm_command *c, struct xm_command_copy *to, const CUDA_MEMCPY3D *p);

extern XM_INTERNAL const struct xm_commands xm_commands;

#endif
