/* Graphs: lists of nodes, their copies, and the order that keeps their edges. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t sim_graph_lock = PTHREAD_MUTEX_INITIALIZER;

struct sim_graph *sim_graph_make(void)
{
    struct sim_graph *g = sim_graph_new();

    if (g)
        __atomic_store_n(&g->live, 1, __ATOMIC_RELEASE);
    return g;
}

void sim_node_drop(struct sim_node *n)
{
    sim_work_free(&n->work);
    free(n->before);
    sim_object_free(n);
}

void sim_graph_drop(struct sim_graph *g)
{
    for (size_t i = 0; i < g->count; i++)
        sim_node_drop(g->nodes[i]);
    free(g->nodes);
    sim_object_free(g);
}

static bool room(struct sim_graph *g)
{
    if (g->count < g->room)
        return true;
    size_t more = g->room ? 2 * g->room : 8;
    struct sim_node **p = realloc(g->nodes, more * sizeof *p);
    if (!p)
        return false;
    g->nodes = p;
    g->room = more;
    return true;
}

struct sim_node *sim_graph_add(struct sim_graph *g, struct sim_work *w, struct sim_node *const *before, size_t n)
{
    struct sim_node *node = room(g) ? sim_node_new() : NULL;

    if (!node)
        return NULL;
    node->before = n ? malloc(n * sizeof *before) : NULL;
    __atomic_store_n(&node->live, 1, __ATOMIC_RELEASE);
    if (n && !node->before) {
        sim_object_free(node);
        return NULL;
    }
    if (n)
        memcpy(node->before, before, n * sizeof *before);
    node->befores = n;
    node->graph = g;
    node->index = g->count;
    node->work = *w;
    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_EMPTY};
    g->nodes[g->count++] = node;
    return node;
}

struct sim_graph *sim_graph_copy(const struct sim_graph *g)
{
    struct sim_graph *copy = sim_graph_make();
    bool ok = copy != NULL;

    for (size_t i = 0; ok && i < g->count; i++) {
        struct sim_work w = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
        const struct sim_node *from = g->nodes[i];
        ok = sim_work_clone(&w, &from->work);
        struct sim_node *to = ok ? sim_graph_add(copy, &w, from->before, from->befores) : NULL;
        ok = to != NULL;
        if (ok)
            to->original = g->nodes[i];
        else
            sim_work_free(&w);
    }
    if (!ok) {
        if (copy)
            sim_graph_drop(copy);
        return NULL;
    }
    for (size_t i = 0; i < g->count; i++) /* the same places in the copy */
        for (size_t k = 0; k < copy->nodes[i]->befores; k++)
            copy->nodes[i]->before[k] = copy->nodes[copy->nodes[i]->before[k]->index];
    return copy;
}

/* ---- order ---- */

/* For each node how many are before it, and who is behind it, in one piece. */
struct follow {
    size_t *missing, *first, *next, *who;
};

static bool follow_make(struct follow *f, const struct sim_graph *g)
{
    size_t edges = 0;

    for (size_t i = 0; i < g->count; i++)
        edges += g->nodes[i]->befores;
    f->missing = calloc(2 * g->count + 2 * edges + 1, sizeof *f->missing);
    if (!f->missing)
        return false;
    f->first = f->missing + g->count; /* lists of edges, through next; 0 ends one */
    f->next = f->first + g->count;
    f->who = f->next + edges;
    size_t edge = 0;
    for (size_t i = 0; i < g->count; i++)
        for (size_t k = 0; k < g->nodes[i]->befores; k++, edge++) {
            size_t from = g->nodes[i]->before[k]->index;
            f->missing[i]++;
            f->who[edge] = i;
            f->next[edge] = f->first[from];
            f->first[from] = edge + 1;
        }
    return true;
}

/* Ready nodes, those that may hold the stream apart: these come last, so that what
 * they wait for is launched when it is in the same graph. */
struct ready {
    size_t *list[2], first[2], end[2];
};

static void ready_put(struct ready *r, const struct sim_graph *g, size_t i)
{
    const int kind = sim_work_waits(&g->nodes[i]->work);
    r->list[kind][r->end[kind]++] = i;
}

static size_t ready_take(struct ready *r, const struct sim_graph *g)
{
    for (int kind = 0; kind < 2; kind++)
        if (r->first[kind] < r->end[kind])
            return r->list[kind][r->first[kind]++];
    return g->count;
}

size_t *sim_graph_order(const struct sim_graph *g, bool *circle)
{
    struct follow f;
    struct ready r = {0};
    size_t n = 0, *order = calloc(3 * g->count + 1, sizeof *order);

    *circle = false;
    if (!order || !follow_make(&f, g)) {
        free(order);
        return NULL;
    }
    r.list[0] = order + g->count;
    r.list[1] = r.list[0] + g->count;
    for (size_t i = 0; i < g->count; i++)
        if (!f.missing[i])
            ready_put(&r, g, i);
    for (size_t i; (i = ready_take(&r, g)) < g->count;) {
        order[n++] = i;
        for (size_t edge = f.first[i]; edge; edge = f.next[edge - 1])
            if (!--f.missing[f.who[edge - 1]])
                ready_put(&r, g, f.who[edge - 1]);
    }
    free(f.missing);
    if (n == g->count)
        return order;
    *circle = true;
    free(order);
    return NULL;
}
