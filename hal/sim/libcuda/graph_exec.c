/* Executable graphs: made, updated, launched. */
#include "graph.h"

#include <stdlib.h>

/* ---- life ---- */

static size_t nodes_within(const struct sim_graph *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->count; i++)
        n += g->nodes[i]->work.type == CU_GRAPH_NODE_TYPE_GRAPH ? nodes_within(g->nodes[i]->work.child) : 1;
    return n;
}

/* Appends a graph's nodes, with those of its children in their places. CUresult. */
static int put_in_order(struct sim_exec *x, const struct sim_graph *g)
{
    bool circle;
    size_t *order = sim_graph_order(g, &circle);
    int rc = order ? CUDA_SUCCESS : circle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; !rc && i < g->count; i++) {
        struct sim_node *n = g->nodes[order[i]];
        if (n->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
            rc = put_in_order(x, n->work.child);
        else
            x->order[x->count++] = n;
    }
    free(order);
    return rc;
}

/* Precondition of these two: sim_graph_lock is held. */
static void exec_free(struct sim_exec *x)
{
    if (x->graph)
        sim_graph_drop(x->graph);
    free(x->order);
    pthread_mutex_destroy(&x->lock);
    x->live = 1;
    sim_object_free(x);
}

static int exec_make(const struct sim_graph *g, uint64_t flags, struct sim_exec **out)
{
    struct sim_exec *x = sim_exec_new();

    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&x->lock, NULL);
    x->flags = flags;
    x->graph = sim_graph_copy(g);
    x->order = x->graph ? malloc((nodes_within(x->graph) + 1) * sizeof *x->order) : NULL;
    int rc = x->order ? put_in_order(x, x->graph) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc) {
        exec_free(x);
        return rc;
    }
    __atomic_store_n(&x->live, 1, __ATOMIC_RELEASE);
    *out = x;
    return CUDA_SUCCESS;
}

static bool hold(struct sim_exec *x)
{
    pthread_mutex_lock(&sim_graph_lock);
    bool ok = sim_is_exec(x);
    if (ok)
        x->users++;
    pthread_mutex_unlock(&sim_graph_lock);
    if (ok)
        pthread_mutex_lock(&x->lock);
    return ok;
}

void sim_exec_leave(CUgraphExec x)
{
    pthread_mutex_unlock(&x->lock);
    pthread_mutex_lock(&sim_graph_lock);
    if (!--x->users && x->destroyed)
        exec_free(x);
    pthread_mutex_unlock(&sim_graph_lock);
}

static struct sim_node *made_from(const struct sim_graph *g, const struct sim_node *original)
{
    for (size_t i = 0; i < g->count; i++) {
        struct sim_node *n = g->nodes[i];
        if (n->original == original)
            return n;
        struct sim_node *within = n->work.type == CU_GRAPH_NODE_TYPE_GRAPH ? made_from(n->work.child, original) : NULL;
        if (within)
            return within;
    }
    return NULL;
}

struct sim_node *sim_exec_enter(CUgraphExec x, CUgraphNode n)
{
    if (!sim_is_node(n) || !hold(x))
        return NULL;
    struct sim_node *found = made_from(x->graph, n);
    if (!found)
        sim_exec_leave(x);
    return found;
}

/* ---- making ---- */

#define KNOWN_FLAGS 15u /* AUTO_FREE_ON_LAUNCH, UPLOAD, DEVICE_LAUNCH, USE_NODE_PRIORITY */
#define UPLOAD 2u

static int instantiate(CUgraphExec *out, CUgraph g, uint64_t flags)
{
    struct sim_exec *x = NULL;
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || flags & ~(uint64_t)KNOWN_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_capture_unsafe();
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    rc = sim_is_graph(g) && !g->capturing ? exec_make(g, flags, &x) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&sim_graph_lock);
    if (!rc)
        *out = x;
    return rc;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    return flags & UPLOAD ? (sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE) : instantiate(out, g, flags);
}

/* The log is for errors that the result does not tell; there are none. */
static int with_log(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *log, size_t n)
{
    if (bad)
        *bad = NULL;
    if (log && n)
        *log = 0;
    return instantiate(out, g, 0);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *log, size_t n) { return with_log(out, g, bad, log, n); }
EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *log, size_t n) { return with_log(out, g, bad, log, n); }

static int with_params(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    int rc = instantiate(out, g, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = rc ? 1 : 0;
    return rc;
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) { return with_params(out, g, p); }
EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) { return with_params(out, g, p); }

EXPORT CUresult cuGraphExecGetFlags(CUgraphExec x, cuuint64_t *flags)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!flags || !sim_is_exec(x))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = x->flags & ~(cuuint64_t)UPLOAD; /* that was done once */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec x)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    rc = sim_capture_unsafe();
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (!sim_is_exec(x)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else if (x->users) {
        x->destroyed = true;
        __atomic_store_n(&x->live, 0, __ATOMIC_RELEASE);
    } else {
        exec_free(x);
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* ---- launches ---- */

/* One launch of an executable graph waits for the one before, whatever the stream. */
static int after_last(struct sim_stream *s, const struct sim_mark *last)
{
    struct sim_entry e = {.command = SIM_AFTER, .a = last->ctx_id, .b = last->channel, .c = last->count};
    return sim_done(last) ? CUDA_SUCCESS : sim_submit(s, &e, NULL);
}

/* Whether a launch returns only when the graph has run: bytes on their way to memory
 * that the driver does not know have come then. */
static bool brings_bytes(const struct sim_exec *x)
{
    for (size_t i = 0; i < x->count; i++) {
        const struct sim_work *w = &x->order[i]->work;
        if (!x->order[i]->off && w->type == CU_GRAPH_NODE_TYPE_MEMCPY && !w->copy.transfer.to.known && w->copy.transfer.from.known)
            return true;
    }
    return false;
}

static int put_all(struct sim_exec *x, struct sim_stream *s, struct sim_ctx *c)
{
    struct sim_entry end = {.command = SIM_NOP};

    sim_stream_own(s);
    int rc = after_last(s, &x->last);
    for (size_t i = 0; i < x->count && !rc; i++)
        if (!x->order[i]->off)
            rc = sim_work_run(s, c, &x->order[i]->work);
    if (!rc)
        rc = sim_submit(s, &end, &x->last);
    sim_stream_disown(s);
    return rc;
}

static int launch(CUgraphExec x, CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!hold(x))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mark end = {0};
    rc = sim_capture_sync(s); /* no graph is launched inside of another */
    if (!rc && x->count) /* one without nodes leaves no trace */
        rc = put_all(x, s, c);
    if (!rc && brings_bytes(x))
        end = x->last;
    sim_exec_leave(x);
    return rc ? rc : sim_wait(&end);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec x, CUstream h) { return launch(x, h, false); }
EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec x, CUstream h) { return launch(x, h, true); }

/* There is nothing to bring to the device ahead of a launch. */
static int upload(CUgraphExec x, CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    return rc ? rc : sim_is_exec(x) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphUpload(CUgraphExec x, CUstream h) { return upload(x, h, false); }
EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec x, CUstream h) { return upload(x, h, true); }

/* ---- updates ---- */

struct verdict {
    int result;
    CUgraphNode node, from;
};

static bool same_edges(const struct sim_node *a, const struct sim_node *b)
{
    if (a->befores != b->befores)
        return false;
    for (size_t i = 0; i < a->befores; i++)
        if (a->before[i]->index != b->before[i]->index)
            return false;
    return true;
}

static struct verdict compare(const struct sim_graph *have, const struct sim_graph *want)
{
    if (have->count != want->count)
        return (struct verdict){.result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED};
    for (size_t i = 0; i < have->count; i++) {
        const struct sim_node *a = have->nodes[i];
        struct sim_node *b = want->nodes[i];
        if (!same_edges(a, b))
            return (struct verdict){CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, b, NULL};
        if (a->work.type != b->work.type)
            return (struct verdict){CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, b, NULL};
        if (a->work.type != CU_GRAPH_NODE_TYPE_GRAPH)
            continue;
        struct verdict within = compare(a->work.child, b->work.child);
        if (within.result)
            return within;
    }
    return (struct verdict){0};
}

/* Precondition: they compare as the same. What there is no memory for stays. */
static bool take_over(struct sim_graph *have, const struct sim_graph *want)
{
    bool ok = true;

    for (size_t i = 0; i < have->count && ok; i++) {
        struct sim_work w;
        if (have->nodes[i]->work.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            ok = take_over(have->nodes[i]->work.child, want->nodes[i]->work.child);
            continue;
        }
        ok = sim_work_clone(&w, &want->nodes[i]->work);
        if (ok) {
            sim_work_free(&have->nodes[i]->work);
            have->nodes[i]->work = w;
        }
    }
    return ok;
}

static int update(CUgraphExec x, CUgraph g, struct verdict *v)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    *v = (struct verdict){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!hold(x))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (!sim_is_graph(g)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        *v = compare(x->graph, g);
        rc = v->result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : take_over(x->graph, g) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    sim_exec_leave(x);
    return rc;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
    struct verdict v;

    if (!info)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    int rc = update(x, g, &v);
    *info = (CUgraphExecUpdateResultInfo){v.result, v.node, v.from};
    return rc;
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphNode *node, int *result)
{
    struct verdict v;

    if (!node || !result)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    int rc = update(x, g, &v);
    *node = v.node;
    *result = v.result;
    return rc;
}

/* ---- nodes left out ---- */

static bool can_be_off(const struct sim_node *n)
{
    return n->work.type == CU_GRAPH_NODE_TYPE_KERNEL || n->work.type == CU_GRAPH_NODE_TYPE_MEMCPY || n->work.type == CU_GRAPH_NODE_TYPE_MEMSET;
}

EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode n, unsigned on)
{
    int rc = sim_ready();
    struct sim_node *node = rc ? NULL : sim_exec_enter(x, n);
    if (!node)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    if (can_be_off(node))
        node->off = !on;
    else
        rc = CUDA_ERROR_INVALID_VALUE;
    sim_exec_leave(x);
    return rc;
}

EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode n, unsigned *on)
{
    int rc = sim_ready();
    struct sim_node *node = rc || !on ? NULL : sim_exec_enter(x, n);
    if (!node)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    if (can_be_off(node))
        *on = !node->off;
    else
        rc = CUDA_ERROR_INVALID_VALUE;
    sim_exec_leave(x);
    return rc;
}
