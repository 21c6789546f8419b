/* The program's calls that make graphs, copy them, list them, and change edges. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_graph *g = sim_graph_make();
    pthread_mutex_unlock(&sim_graph_lock);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = g;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph g)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (!sim_is_graph(g) || g->child || g->capturing)
        rc = CUDA_ERROR_INVALID_VALUE;
    else
        sim_graph_drop(g);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph g)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_graph *copy = NULL;
    if (!sim_is_graph(g))
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (!(copy = sim_graph_copy(g)))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim_graph_lock);
    if (!rc)
        *out = copy;
    return rc;
}

EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    rc = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; sim_is_graph(clone) && sim_is_node(original) && rc && i < clone->count; i++)
        if (clone->nodes[i]->original == original) {
            *out = clone->nodes[i];
            rc = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* Gives a list the way the driver does: without a place for it its length, and else
 * as much as there is room for, the rest of the room cleared. */
struct listing {
    CUgraphNode *to;
    size_t room, count;
};

static void list_put(struct listing *l, CUgraphNode n)
{
    if (l->to && l->count < l->room)
        l->to[l->count] = n;
    l->count++;
}

static void list_end(struct listing *l, size_t *count)
{
    for (size_t i = l->count; l->to && i < l->room; i++)
        l->to[i] = NULL;
    *count = l->to && l->count > l->room ? l->room : l->count;
}

static int nodes_of(CUgraph g, CUgraphNode *nodes, size_t *count, bool roots)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (sim_is_graph(g)) {
        struct listing l = {nodes, *count, 0};
        for (size_t i = 0; i < g->count; i++)
            if (!roots || !g->nodes[i]->befores)
                list_put(&l, g->nodes[i]);
        list_end(&l, count);
    } else {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count) { return nodes_of(g, nodes, count, false); }
EXPORT CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *nodes, size_t *count) { return nodes_of(g, nodes, count, true); }

static int edges_of(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (sim_is_graph(g)) {
        struct listing a = {from, *count, 0}, b = {to, *count, 0};
        for (size_t i = 0; i < g->count; i++)
            for (size_t k = 0; k < g->nodes[i]->befores; k++) {
                list_put(&a, g->nodes[i]->before[k]);
                list_put(&b, g->nodes[i]);
            }
        if (data && from)
            memset(data, 0, *count * sizeof *data);
        list_end(&a, count);
        b.room = a.room;
        size_t same;
        list_end(&b, &same);
    } else {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count) { return edges_of(g, from, to, NULL, count); }
EXPORT CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count)
{
    return edges_of(g, from, to, data, count);
}

static bool depends(const struct sim_node *n, const struct sim_node *on)
{
    for (size_t i = 0; i < n->befores; i++)
        if (n->before[i] == on)
            return true;
    return false;
}

static int neighbours(CUgraphNode n, CUgraphNode *list, CUgraphEdgeData *data, size_t *count, bool behind)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (sim_is_node(n)) {
        struct listing l = {list, *count, 0};
        const struct sim_graph *g = n->graph;
        if (data && list)
            memset(data, 0, *count * sizeof *data);
        for (size_t i = 0; behind && i < g->count; i++)
            if (depends(g->nodes[i], n))
                list_put(&l, g->nodes[i]);
        for (size_t i = 0; !behind && i < n->befores; i++)
            list_put(&l, n->before[i]);
        list_end(&l, count);
    } else {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode n, CUgraphNode *list, size_t *count) { return neighbours(n, list, NULL, count, false); }
EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode n, CUgraphNode *list, CUgraphEdgeData *data, size_t *count)
{
    return neighbours(n, list, data, count, false);
}
EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode n, CUgraphNode *list, size_t *count) { return neighbours(n, list, NULL, count, true); }
EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode n, CUgraphNode *list, CUgraphEdgeData *data, size_t *count)
{
    return neighbours(n, list, data, count, true);
}

/* ---- changes of edges ---- */

static bool edge_remove(struct sim_node *from, struct sim_node *to)
{
    for (size_t i = 0; i < to->befores; i++)
        if (to->before[i] == from) {
            memmove(&to->before[i], &to->before[i + 1], (--to->befores - i) * sizeof *to->before);
            return true;
        }
    return false;
}

static int edge_add(struct sim_node *from, struct sim_node *to)
{
    if (from == to || depends(to, from))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node **p = realloc(to->before, (to->befores + 1) * sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p[to->befores++] = from;
    to->before = p;
    return CUDA_SUCCESS;
}

static int change_edges(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool add)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (!sim_is_graph(g) || (n && (!from || !to)))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && !rc; i++)
        if (!sim_is_node(from[i]) || !sim_is_node(to[i]) || from[i]->graph != g || to[i]->graph != g)
            rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && !rc; i++)
        rc = add ? edge_add(from[i], to[i]) : edge_remove(from[i], to[i]) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* Edges of programmatic kind would let a kernel begin early: they wait, too. */
EXPORT CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) { return change_edges(g, from, to, n, true); }
EXPORT CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t n)
{
    (void)data;
    return change_edges(g, from, to, n, true);
}
EXPORT CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) { return change_edges(g, from, to, n, false); }
EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t n)
{
    (void)data;
    return change_edges(g, from, to, n, false);
}

EXPORT CUresult cuGraphDestroyNode(CUgraphNode n)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (sim_is_node(n) && !n->graph->capturing) {
        struct sim_graph *g = n->graph;
        for (size_t i = 0; i < g->count; i++)
            edge_remove(n, g->nodes[i]);
        memmove(&g->nodes[n->index], &g->nodes[n->index + 1], (--g->count - n->index) * sizeof *g->nodes);
        for (size_t i = n->index; i < g->count; i++)
            g->nodes[i]->index = i;
        sim_node_drop(n);
    } else {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}
