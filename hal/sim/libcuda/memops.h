/* Stream memory operations, one or many. */
#ifndef XM_SIM_MEMOPS_H
#define XM_SIM_MEMOPS_H

#include "cu_graph.h"
#include "sim.h"

/* CUresult: whether the driver takes all of them. */
int sim_memops_check(unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags);
/* Precondition: they are checked. */
int sim_memops_run(struct sim_stream *s, unsigned count, const CUstreamBatchMemOpParams *ops);

#endif
