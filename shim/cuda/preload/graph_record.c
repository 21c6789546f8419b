#include "graph_record.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "graph_nodes.h"
#include "mem_touch.h"
#include "record.h"
#include "sys.h"
#include "thread.h"

#define BUCKETS 1024u
#define ENDED 64u           /* kept after their end, for who has a launch's record and asks late */
#define MOST (256ull << 20) /* bytes of all graphs' records */

struct graph {
	struct graph *next;    /* of the bucket, the ended or the free */
	CUgraphExec exec;      /* NULL: it ended */
	CUgraph source;        /* that it was made from; NULL: gone, or no more the same */
	uint64_t id, version;
	bool read;             /* its nodes are known */
	struct xm_nodes nodes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* no driver call under it */
static struct graph *buckets[BUCKETS], *free_graphs;     /* protected by lock, as what follows */
static struct graph *ended_first, **ended_last = &ended_first;
static uint32_t ended_count;
static uint64_t ids, kept;

/* Runs `work` under the lock on a thread of the program. */
#define LOCKED(work)                                 \
	do {                                         \
		struct xm_thread *me_ = xm_enter();  \
		if (!me_)                            \
			break;                       \
		pthread_mutex_lock(&lock);           \
		work;                                \
		pthread_mutex_unlock(&lock);         \
		xm_leave(me_);                       \
	} while (0)

/* ---- the table. lock held -------------------------------------------------------------- */

static struct graph **place(CUgraphExec exec)
{
	struct graph **at = &buckets[(uintptr_t)exec * 0x9e3779b97f4a7c15u >> 54 & (BUCKETS - 1)];

	while (*at && (*at)->exec != exec)
		at = &(*at)->next;
	return at;
}

static uint64_t size(const struct xm_nodes *n)
{
	return (uint64_t)n->nodes.room + n->records.room;
}

static void forget(struct graph *g)
{
	kept -= size(&g->nodes);
	xm_nodes_free(&g->nodes);
	g->next = free_graphs;
	free_graphs = g;
}

static void forget_oldest(void)
{
	struct graph *g = ended_first;

	ended_first = g->next;
	if (!ended_first)
		ended_last = &ended_first;
	ended_count--;
	forget(g);
}

static void end(CUgraphExec exec)
{
	struct graph **at = place(exec), *g = *at;

	if (!g)
		return;
	*at = g->next;
	g->exec = NULL;
	if (!g->read) {
		forget(g);
		return;
	}
	g->next = NULL;
	*ended_last = g;
	ended_last = &g->next;
	if (++ended_count > ENDED)
		forget_oldest();
}

static struct graph *begin(CUgraphExec exec, CUgraph source)
{
	struct graph **at, *g;

	end(exec); /* whose end we did not see */
	g = free_graphs;
	if (g)
		free_graphs = g->next;
	else if (!(g = xm_keep(sizeof *g)))
		return NULL;
	at = place(exec);
	*g = (struct graph){.exec = exec, .source = source, .id = ++ids};
	*at = g;
	return g;
}

/* Its nodes are these from now on; they are taken over. */
static void keep(CUgraphExec exec, struct xm_nodes *n)
{
	struct graph *g = *place(exec);

	while (kept + size(n) > MOST && ended_first)
		forget_oldest();
	if (!g || g->read || kept + size(n) > MOST)
		return;
	g->nodes = *n;
	g->read = true;
	kept += size(n);
	*n = (struct xm_nodes){.partial = false};
}

/* ---- what the hooks tell ------------------------------------------------------------------ */

static bool wanted(void)
{
	return xm_recording() || atomic_load_explicit(&xm_mem_any, memory_order_relaxed);
}

static void read_now(CUgraphExec exec, CUgraph source)
{
	struct xm_nodes n;

	if (!xm_nodes_read(&n, source))
		return;
	LOCKED(keep(exec, &n));
	xm_nodes_free(&n);
}

void xm_graph_made(CUgraphExec exec, CUgraph from)
{
	LOCKED((void)begin(exec, from));
	if (wanted())
		read_now(exec, from);
}

/* An update came: one whose nodes are not known will not be read later, for it is not as its
 * source was any more. */
static bool changes(CUgraphExec exec)
{
	struct graph *g = *place(exec);

	if (!g)
		return false;
	g->source = NULL;
	return g->read;
}

/* Does `change` to the nodes `n_` of the graph. lock held. */
#define CHANGE(exec, change)                          \
	do {                                          \
		struct graph *g_ = *place(exec);      \
		struct xm_nodes *n_;                  \
		if (!g_ || !g_->read)                 \
			break;                        \
		n_ = &g_->nodes;                      \
		kept -= size(n_);                     \
		change;                               \
		kept += size(n_);                     \
		g_->version++;                        \
	} while (0)

static bool changed(CUgraphExec exec)
{
	bool reads = false;

	LOCKED(reads = changes(exec));
	return reads;
}

static void unknown(struct xm_nodes *n)
{
	n->partial = true;
}

static void replace(CUgraphExec exec, CUgraphNode parent, const struct xm_nodes *n)
{
	CHANGE(exec, n ? xm_nodes_replace(n_, parent, n) : unknown(n_));
}

static void update(CUgraphExec exec, CUgraphNode parent, CUgraph from)
{
	struct xm_nodes n;
	bool known;

	if (!changed(exec))
		return;
	known = xm_nodes_read(&n, from);
	LOCKED(replace(exec, parent, known ? &n : NULL));
	if (known)
		xm_nodes_free(&n);
}

void xm_graph_updated(CUgraphExec exec, CUgraph from)
{
	update(exec, NULL, from);
}

void xm_graph_child_set(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	update(exec, node, child);
}

static void set(struct xm_nodes *n, CUgraphNode handle, const struct xm_record *r)
{
	struct xm_node *node = xm_nodes_find(n, handle);

	if (node)
		xm_nodes_set(n, node, r);
	else
		n->partial = true;
}

static void set_node(CUgraphExec exec, CUgraphNode node, const struct xm_record *r)
{
	CHANGE(exec, set(n_, node, r));
}

void xm_graph_kernel_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct xm_record r;

	if (!changed(exec))
		return;
	xm_node_kernel(&r, p);
	LOCKED(set_node(exec, node, &r));
}

void xm_graph_copy_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p)
{
	struct xm_record r;

	if (!changed(exec))
		return;
	xm_node_copy(&r, p);
	LOCKED(set_node(exec, node, &r));
}

void xm_graph_fill_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p)
{
	struct xm_record r;

	if (!changed(exec))
		return;
	xm_node_fill(&r, p);
	LOCKED(set_node(exec, node, &r));
}

static void enable(struct xm_nodes *n, CUgraphNode handle, bool enabled)
{
	struct xm_node *node = xm_nodes_find(n, handle);

	if (node)
		node->off = !enabled;
}

static void set_enabled(CUgraphExec exec, CUgraphNode node, bool enabled)
{
	CHANGE(exec, enable(n_, node, enabled));
}

void xm_graph_enabled_set(CUgraphExec exec, CUgraphNode node, bool enabled)
{
	if (changed(exec))
		LOCKED(set_enabled(exec, node, enabled));
}

/* CUgraphNodeParams (CUDA 13.0), as far as it is looked at. */
struct any {
	unsigned type, reserved[3];
	union {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY_NODE_PARAMS copy;
		CUDA_MEMSET_NODE_PARAMS fill; /* a context follows */
		CUgraph graph;
	} of;
};

_Static_assert(offsetof(struct any, of) == 16, "CUgraphNodeParams");

void xm_graph_node_set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
	const struct any *p = (const void *)params;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		xm_graph_kernel_set(exec, node, &p->of.kernel);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		xm_graph_copy_set(exec, node, &p->of.copy.copyParams);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		xm_graph_fill_set(exec, node, &p->of.fill);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		xm_graph_child_set(exec, node, p->of.graph);
		break;
	}
}

void xm_graph_goes(CUgraphExec exec)
{
	LOCKED(end(exec));
}

static void source_goes(CUgraph graph)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct graph *g = buckets[i]; g; g = g->next)
			if (g->source == graph)
				g->source = NULL;
}

void xm_graph_source_goes(CUgraph graph)
{
	if (graph)
		LOCKED(source_goes(graph));
}

/* ---- launches ------------------------------------------------------------------------------- */

/* What is known of it; `source` is what it could still be read from. */
static bool known(CUgraphExec exec, struct xm_command_graph *out, CUgraph *source)
{
	const struct graph *g = *place(exec);

	*source = g && !g->read ? g->source : NULL;
	if (!g || !g->read)
		return false;
	*out = (struct xm_command_graph){g->id, g->version};
	return true;
}

void xm_record_graph(CUstream stream, unsigned flags, CUgraphExec exec)
{
	struct xm_command c = {.kind = XM_COMMAND_GRAPH};
	struct xm_command_graph g = {0};
	CUgraph source = NULL;
	bool is_known = false;

	if (!xm_record_place(&c, stream, flags))
		return;
	LOCKED(is_known = known(exec, &g, &source));
	if (!is_known && source) {
		read_now(exec, source);
		LOCKED(is_known = known(exec, &g, &source));
	}
	if (!is_known)
		c.flags = XM_COMMAND_UNKNOWN;
	xm_record_add(&c, &g, sizeof g);
}

/* ---- the agent ---------------------------------------------------------------------------------- */

static const struct graph *by_id(uint64_t id)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct graph *g = buckets[i]; g; g = g->next)
			if (g->id == id)
				return g;
	for (const struct graph *g = ended_first; g; g = g->next)
		if (g->id == id)
			return g;
	return NULL;
}

int xm_graph_nodes(uint64_t id, void *buf, uint32_t bytes, uint64_t *version)
{
	const struct graph *g;
	uint64_t need = 0;
	bool found;

	pthread_mutex_lock(&lock);
	g = by_id(id);
	found = g && g->read;
	if (found) {
		need = xm_nodes_write(&g->nodes, buf, buf ? bytes : 0);
		if (version)
			*version = g->version;
	}
	pthread_mutex_unlock(&lock);
	if (!found)
		return -ENOENT;
	return need <= INT32_MAX ? (int)need : INT32_MAX;
}
