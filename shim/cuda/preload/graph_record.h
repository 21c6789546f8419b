/*
 * Graphs: of each executable one the records of its nodes, as they were when it was made
 * and as updates left them. They are read when it is made, while recording is on or memory is
 * managed; else at its first launch that is recorded, if the graph that it was made from still
 * exists and no update came in between.
 *
 * Told by the hooks after the driver's success, whether recording is on or not.
 */
#ifndef XMSCHED_GRAPH_RECORD_H
#define XMSCHED_GRAPH_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

XM_INTERNAL void xm_graph_made(CUgraphExec exec, CUgraph from);
XM_INTERNAL void xm_graph_updated(CUgraphExec exec, CUgraph from);
XM_INTERNAL void xm_graph_kernel_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p);
XM_INTERNAL void xm_graph_copy_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p);
XM_INTERNAL void xm_graph_fill_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p);
XM_INTERNAL void xm_graph_child_set(CUgraphExec exec, CUgraphNode node, CUgraph child);
XM_INTERNAL void xm_graph_node_set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *p);
XM_INTERNAL void xm_graph_enabled_set(CUgraphExec exec, CUgraphNode node, bool enabled);

/* Before the driver destroys one, or a graph that some may have been made from. */
XM_INTERNAL void xm_graph_goes(CUgraphExec exec);
XM_INTERNAL void xm_graph_source_goes(CUgraph graph);

/* struct xm_commands' graph. */
XM_INTERNAL int xm_graph_nodes(uint64_t id, void *buf, uint32_t bytes, uint64_t *version);

#endif
