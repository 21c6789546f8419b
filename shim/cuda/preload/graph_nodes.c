#define _GNU_SOURCE
#include "graph_nodes.h"

#include <string.h>
#include <sys/mman.h>

#include "mark.h"
#include "resolve.h"

#define FIRST (16u << 10)
#define MOST (16u << 20) /* bytes of a graph's records: about 100,000 nodes */
#define DEPTH 16u        /* graphs in graphs */

/* Room for so many bytes more at the end of it; NULL: there is none. */
static void *pile_more(struct xm_pile *p, uint32_t bytes)
{
	uint32_t room = p->room ? p->room : FIRST;
	void *data;

	while (room - p->used < bytes && room < MOST)
		room *= 2;
	if (room - p->used < bytes)
		return NULL;
	if (room != p->room) {
		data = p->data ? mremap(p->data, p->room, room, MREMAP_MAYMOVE)
			       : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (data == MAP_FAILED)
			return NULL;
		p->data = data;
		p->room = room;
	}
	p->used += bytes;
	return p->data + p->used - bytes;
}

static void pile_free(struct xm_pile *p)
{
	if (p->data)
		munmap(p->data, p->room);
	*p = (struct xm_pile){.data = NULL};
}

void xm_nodes_free(struct xm_nodes *n)
{
	pile_free(&n->nodes);
	pile_free(&n->records);
	n->partial = false;
}

struct xm_node *xm_nodes_find(const struct xm_nodes *n, CUgraphNode handle)
{
	for (uint32_t i = 0; i < xm_nodes_count(n); i++)
		if (xm_nodes_get(n, i)->handle == handle)
			return xm_nodes_get(n, i);
	return NULL;
}

/* A record that does not fit where the node's old one is goes to the end. */
static void place(struct xm_nodes *n, struct xm_node *node, const struct xm_command *head, const void *payload)
{
	uint8_t *to;

	if (node->room < head->bytes) {
		to = pile_more(&n->records, head->bytes);
		if (!to) {
			node->room = 0;
			n->partial = true;
			return;
		}
		node->at = (uint32_t)(to - n->records.data);
		node->room = head->bytes;
	}
	to = n->records.data + node->at;
	memcpy(to, head, sizeof *head);
	memcpy(to + sizeof *head, payload, head->payload);
	memset(to + sizeof *head + head->payload, 0, head->bytes - sizeof *head - head->payload);
}

void xm_nodes_set(struct xm_nodes *n, struct xm_node *node, const struct xm_record *r)
{
	place(n, node, &r->head, r->payload);
}

/* ---- records from parameters ------------------------------------------------------------ */

static void finish(struct xm_record *r, uint32_t payload)
{
	r->head.payload = payload;
	r->head.bytes = ((uint32_t)sizeof r->head + payload + 7) & ~7u;
	r->head.section = XM_COMMAND_NO_SECTION;
	r->head.queue = XM_COMMAND_NO_QUEUE;
}

void xm_node_copy(struct xm_record *r, const CUDA_MEMCPY3D *p)
{
	xm_copy3d_build(&r->head, (struct xm_command_copy *)(void *)r->payload, p);
	finish(r, sizeof(struct xm_command_copy));
}

void xm_node_fill(struct xm_record *r, const CUDA_MEMSET_NODE_PARAMS *p)
{
	const struct xm_command_fill f = {p->dst, p->width * p->elementSize, p->height,
					  p->height > 1 ? p->pitch : p->width * p->elementSize};

	r->head = (struct xm_command){.kind = XM_COMMAND_FILL};
	memcpy(r->payload, &f, sizeof f);
	finish(r, sizeof f);
}

void xm_node_kernel(struct xm_record *r, const CUDA_KERNEL_NODE_PARAMS *p)
{
	const struct xm_launch l = {.f = p->func ? p->func : (CUfunction)(void *)p->kern,
				    .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
				    .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
				    .shared = p->sharedMemBytes,
				    .params = p->kernelParams,
				    .extra = p->extra};

	xm_record_build(r, &l);
	finish(r, r->head.payload);
}

/* ---- from the driver ---------------------------------------------------------------------- */

static struct xm_node *add(struct xm_nodes *n, CUgraphNode handle, CUgraphNode parent, uint32_t type)
{
	struct xm_node *node = pile_more(&n->nodes, sizeof *node);

	if (node)
		*node = (struct xm_node){.handle = handle, .parent = parent, .type = type};
	else
		n->partial = true;
	return node;
}

/* The node's parameters as a record. False: it has none, or they cannot be had (`partial`). */
static bool ask(struct xm_record *r, CUgraphNode handle, uint32_t type, bool *partial)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {0};
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;

	*partial = true;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		if (!xm_real.cuGraphKernelNodeGetParams_v2 || xm_real.cuGraphKernelNodeGetParams_v2(handle, &kernel))
			return false;
		xm_node_kernel(r, &kernel);
		return true;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		if (!xm_real.cuGraphMemcpyNodeGetParams || xm_real.cuGraphMemcpyNodeGetParams(handle, &copy))
			return false;
		xm_node_copy(r, &copy);
		return true;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		if (!xm_real.cuGraphMemsetNodeGetParams || xm_real.cuGraphMemsetNodeGetParams(handle, &fill))
			return false;
		xm_node_fill(r, &fill);
		return true;
	}
	*partial = type >= CU_GRAPH_NODE_TYPE_CONDITIONAL; /* and what later drivers bring; the others touch nothing that could move */
	return false;
}

/* Not a part of its caller, which calls itself: a record is large. */
static __attribute__((noinline)) void read_node(struct xm_nodes *n, CUgraphNode handle, CUgraphNode parent, uint32_t type)
{
	struct xm_node *node = add(n, handle, parent, type);
	struct xm_record r;
	bool partial = false;

	if (node && ask(&r, handle, type, &partial))
		xm_nodes_set(n, node, &r);
	else if (partial)
		n->partial = true;
}

static bool read_graph(struct xm_nodes *n, CUgraph graph, CUgraphNode parent, unsigned depth)
{
	struct xm_pile list = {.data = NULL};
	CUgraphNode *handles = NULL;
	size_t count = 0;
	bool known;

	if (depth > DEPTH || xm_real.cuGraphGetNodes(graph, NULL, &count))
		return false;
	if (count && (count > MOST / sizeof *handles || !(handles = pile_more(&list, (uint32_t)(count * sizeof *handles)))))
		return false;
	known = !count || !xm_real.cuGraphGetNodes(graph, handles, &count);
	for (size_t i = 0; known && i < count; i++) {
		CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
		CUgraph child;

		if (xm_real.cuGraphNodeGetType(handles[i], &type))
			known = false;
		else
			read_node(n, handles[i], parent, type);
		if (known && type == CU_GRAPH_NODE_TYPE_GRAPH)
			known = !xm_real.cuGraphChildGraphNodeGetGraph(handles[i], &child) && read_graph(n, child, handles[i], depth + 1);
	}
	pile_free(&list);
	return known;
}

bool xm_nodes_read(struct xm_nodes *n, CUgraph graph)
{
	struct xm_quiet quiet;
	bool known;

	*n = (struct xm_nodes){.partial = false};
	if (!xm_real.cuGraphGetNodes || !xm_real.cuGraphNodeGetType || !xm_real.cuGraphChildGraphNodeGetGraph)
		return false;
	quiet = xm_quiet_begin();
	known = read_graph(n, graph, NULL, 0);
	xm_quiet_end(quiet);
	if (!known)
		xm_nodes_free(n);
	return known;
}

/* ---- changes ------------------------------------------------------------------------------- */

/* Whether the node lies below: in the graph that `parent` holds, or in one that is held there. */
static bool below(const struct xm_nodes *n, const struct xm_node *node, CUgraphNode parent)
{
	if (!parent)
		return true;
	for (unsigned depth = 0; node && node->parent && depth <= DEPTH; depth++) {
		if (node->parent == parent)
			return true;
		node = xm_nodes_find(n, node->parent);
	}
	return false;
}

void xm_nodes_replace(struct xm_nodes *n, CUgraphNode parent, const struct xm_nodes *from)
{
	uint32_t next = 0, all = xm_nodes_count(from);

	n->partial |= from->partial;
	for (uint32_t i = 0; i < xm_nodes_count(n); i++) {
		struct xm_node *node = xm_nodes_get(n, i), *now = xm_nodes_get(from, next);

		if (!below(n, node, parent))
			continue;
		if (next++ == all || now->type != node->type) {
			n->partial = true;
			return;
		}
		if (now->room)
			place(n, node, (const void *)(from->records.data + now->at), from->records.data + now->at + sizeof(struct xm_command));
	}
	if (next != all)
		n->partial = true;
}

uint64_t xm_nodes_write(const struct xm_nodes *n, uint8_t *buf, uint32_t bytes)
{
	struct xm_command c = {.bytes = sizeof c, .kind = XM_COMMAND_OTHER, .section = XM_COMMAND_NO_SECTION,
			       .queue = XM_COMMAND_NO_QUEUE, .flags = XM_COMMAND_UNKNOWN};
	uint64_t need = 0;

	for (uint32_t i = 0; i < xm_nodes_count(n) + n->partial; i++) {
		const struct xm_node *node = i < xm_nodes_count(n) ? xm_nodes_get(n, i) : NULL;
		const void *from = node ? n->records.data + node->at : (const void *)&c;
		struct xm_command head;

		if (node && !node->room)
			continue;
		memcpy(&head, from, sizeof head);
		if (node && node->off)
			head.flags |= XM_COMMAND_DISABLED;
		if (need + head.bytes <= bytes) {
			memcpy(buf + need, &head, sizeof head);
			memcpy(buf + need + sizeof head, (const uint8_t *)from + sizeof head, head.bytes - sizeof head);
		}
		need += head.bytes;
	}
	return need;
}
