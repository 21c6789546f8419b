/*
 * The nodes of one graph as records: read from the driver, or changed one by one.
 * A value of its user, which nobody else looks at meanwhile; memory comes from the kernel, as
 * much as it needs.
 */
#ifndef XMSCHED_GRAPH_NODES_H
#define XMSCHED_GRAPH_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "record.h"

struct xm_pile {
	uint8_t *data;
	uint32_t used, room;
};

struct xm_node {
	CUgraphNode handle;
	CUgraphNode parent; /* that holds the graph it is of; NULL: the graph itself */
	uint32_t type;      /* CU_GRAPH_NODE_TYPE_* */
	uint32_t at, room;  /* its record, and the bytes kept for it; room 0: it has none */
	bool off;           /* does not run */
};

struct xm_nodes {
	struct xm_pile nodes;   /* struct xm_node */
	struct xm_pile records;
	bool partial;           /* not all that the graph touches is in the records */
};

/* Reads a graph. Calls the driver; no lock held. False, with nothing kept: it cannot be read. */
XM_INTERNAL bool xm_nodes_read(struct xm_nodes *n, CUgraph graph);
XM_INTERNAL void xm_nodes_free(struct xm_nodes *n);

static inline uint32_t xm_nodes_count(const struct xm_nodes *n)
{
	return n->nodes.used / (uint32_t)sizeof(struct xm_node);
}

static inline struct xm_node *xm_nodes_get(const struct xm_nodes *n, uint32_t i)
{
	return (struct xm_node *)(void *)n->nodes.data + i;
}

/* NULL: there is no such node. */
XM_INTERNAL struct xm_node *xm_nodes_find(const struct xm_nodes *n, CUgraphNode handle);

/* The node's record from now on. */
XM_INTERNAL void xm_nodes_set(struct xm_nodes *n, struct xm_node *node, const struct xm_record *r);

/* What `from` says of the nodes below `parent` (NULL: of all), under the handles that
 * they have here. When they are not the same nodes, not all is known from then on. */
XM_INTERNAL void xm_nodes_replace(struct xm_nodes *n, CUgraphNode parent, const struct xm_nodes *from);

/* struct xm_commands' graph, of these. */
XM_INTERNAL uint64_t xm_nodes_write(const struct xm_nodes *n, uint8_t *buf, uint32_t bytes);

/* A node's record from its parameters. */
XM_INTERNAL void xm_node_copy(struct xm_record *r, const CUDA_MEMCPY3D *p);
XM_INTERNAL void xm_node_fill(struct xm_record *r, const CUDA_MEMSET_NODE_PARAMS *p);
XM_INTERNAL void xm_node_kernel(struct xm_record *r, const CUDA_KERNEL_NODE_PARAMS *p);

#endif
