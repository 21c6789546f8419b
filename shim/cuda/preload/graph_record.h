/*
 * Graphs: of each executable one the records of its nodes, as they were when it was made
 * and as updates left them. They are read when it is made, while recording is on or memory is
 * managed; else at its first launch that is recorded, if the graph that it was made from still
 * exists.
 */
#ifndef XMSCHED_GRAPH_RECORD_H
#define XMSCHED_GRAPH_RECORD_H

#include <stdint.h>

#include "abi.h"

/* struct xm_commands' graph. */
XM_INTERNAL int xm_graph_nodes(uint64_t id, void *buf, uint32_t bytes, uint64_t *version);

#endif
