/* Nodes: how a program adds them, asks what they do, and sets it. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static bool before_ok(CUgraph g, const CUgraphNode *before, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!before || !sim_is_node(before[i]) || before[i]->graph != g)
            return false;
        for (size_t k = 0; k < i; k++)
            if (before[k] == before[i])
                return false;
    }
    return true;
}

/* Adds a node that does w, which is freed when it cannot be. */
static int add(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n, struct sim_work *w)
{
    int rc = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    if (!out || !sim_is_graph(g) || !before_ok(g, before, n)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        struct sim_node *node = sim_graph_add(g, w, before, n);
        if (node)
            *out = node;
        else
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc)
        sim_work_free(w);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* The context that a node's parameters name, or the current one. */
static int context_of(CUcontext given, struct sim_ctx **c)
{
    if (!given)
        return sim_current(c);
    *c = given;
    return sim_is_ctx(given) && given->id ? sim_ctx_error(given) : CUDA_ERROR_INVALID_CONTEXT;
}

/* Version 1 of the parameters, as the whole. */
static CUDA_KERNEL_NODE_PARAMS whole(const void *p, bool v1)
{
    CUDA_KERNEL_NODE_PARAMS out = {0};
    memcpy(&out, p, v1 ? CU_KERNEL_NODE_PARAMS_V1_BYTES : sizeof out);
    return out;
}

static int kernel_work(struct sim_work *w, const void *params, bool v1)
{
    struct sim_ctx *c;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS p = whole(params, v1);
    rc = context_of(p.ctx, &c);
    return rc ? rc : sim_work_kernel(w, &p, c);
}

static int copy_work(struct sim_work *w, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    struct sim_ctx *c;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = context_of(ctx, &c);
    return rc ? rc : sim_work_copy(w, p, c);
}

static int set_work(struct sim_work *w, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    struct sim_ctx *c;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = context_of(ctx, &c);
    return rc ? rc : sim_work_set(w, p, c);
}

static int host_work(struct sim_work *w, const CUDA_HOST_NODE_PARAMS *p)
{
    int rc = sim_ready();
    return rc ? rc : p ? sim_work_host(w, p) : CUDA_ERROR_INVALID_VALUE;
}

static int event_work(struct sim_work *w, CUevent e, unsigned type)
{
    int rc = sim_ready();
    *w = (struct sim_work){.type = type, .event = e};
    return rc ? rc : sim_is_event(e) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int batch_work(struct sim_work *w, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    struct sim_ctx *c;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = context_of(p->ctx, &c);
    return rc ? rc : sim_work_batch(w, p->count, p->paramArray, p->flags, c);
}

#define NODE CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n
#define ADD(make)               \
    {                           \
        struct sim_work w;      \
        int rc = make;          \
        return rc ? rc : add(out, g, before, n, &w); \
    }

EXPORT CUresult cuGraphAddKernelNode(NODE, const void *p) ADD(kernel_work(&w, p, true))
EXPORT CUresult cuGraphAddKernelNode_v2(NODE, const CUDA_KERNEL_NODE_PARAMS *p) ADD(kernel_work(&w, p, false))
EXPORT CUresult cuGraphAddMemcpyNode(NODE, const CUDA_MEMCPY3D *p, CUcontext ctx) ADD(copy_work(&w, p, ctx))
EXPORT CUresult cuGraphAddMemsetNode(NODE, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx) ADD(set_work(&w, p, ctx))
EXPORT CUresult cuGraphAddHostNode(NODE, const CUDA_HOST_NODE_PARAMS *p) ADD(host_work(&w, p))
EXPORT CUresult cuGraphAddEventRecordNode(NODE, CUevent e) ADD(event_work(&w, e, CU_GRAPH_NODE_TYPE_EVENT_RECORD))
EXPORT CUresult cuGraphAddEventWaitNode(NODE, CUevent e) ADD(event_work(&w, e, CU_GRAPH_NODE_TYPE_WAIT_EVENT))
EXPORT CUresult cuGraphAddBatchMemOpNode(NODE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) ADD(batch_work(&w, p))

EXPORT CUresult cuGraphAddEmptyNode(NODE)
{
    struct sim_work w = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    int rc = sim_ready();
    return rc ? rc : add(out, g, before, n, &w);
}

EXPORT CUresult cuGraphAddChildGraphNode(NODE, CUgraph child)
{
    struct sim_work w = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (!sim_is_graph(child) || child == g)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (!(w.child = sim_graph_copy(child)))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (!rc)
        w.child->child = true;
    pthread_mutex_unlock(&sim_graph_lock);
    return rc ? rc : add(out, g, before, n, &w);
}

/* ---- questions ---- */

EXPORT CUresult cuGraphNodeGetType(CUgraphNode n, unsigned *type)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!type || !sim_is_node(n))
        return CUDA_ERROR_INVALID_VALUE;
    *type = n->work.type;
    return CUDA_SUCCESS;
}

/* Pointers into a kernel node's own arguments. */
static int argument_list(struct sim_work *w, void ***out)
{
    int rc = CUDA_SUCCESS;
    struct sim_function *f = w->kernel.function || w->kernel.kern
                                 ? sim_function_of(w->kernel.function ? w->kernel.function : (CUfunction)(void *)w->kernel.kern, w->ctx, &rc)
                                 : NULL;

    *out = NULL;
    if (!f || !f->params)
        return rc;
    if (!w->kernel.params) {
        w->kernel.params = malloc(f->params * sizeof *w->kernel.params);
        if (!w->kernel.params)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (unsigned i = 0; i < f->params; i++)
            w->kernel.params[i] = w->kernel.entry.args + f->offsets[i];
    }
    *out = w->kernel.params;
    return CUDA_SUCCESS;
}

static int get_kernel(CUgraphNode n, void *out, bool v1)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (sim_is_node(n) && n->work.type == CU_GRAPH_NODE_TYPE_KERNEL) {
        const struct sim_entry *e = &n->work.kernel.entry;
        CUDA_KERNEL_NODE_PARAMS p = {n->work.kernel.function, e->grid[0], e->grid[1], e->grid[2], e->block[0], e->block[1], e->block[2], e->shared,
                                     NULL, NULL, n->work.kernel.kern, v1 ? NULL : n->work.ctx};
        rc = argument_list(&n->work, &p.kernelParams);
        if (!rc)
            memcpy(out, &p, v1 ? CU_KERNEL_NODE_PARAMS_V1_BYTES : sizeof p);
    } else {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode n, void *p) { return get_kernel(n, p, true); }
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *p) { return get_kernel(n, p, false); }

/* Questions whose answer lies in the node as it was given. */
#define GET(name, kind, answer, place)                                     \
    EXPORT CUresult name(CUgraphNode n, answer *p)                         \
    {                                                                      \
        int rc = sim_ready();                                              \
        if (rc)                                                            \
            return rc;                                                     \
        pthread_mutex_lock(&sim_graph_lock);                               \
        if (!p || !sim_is_node(n) || n->work.type != (kind))               \
            rc = CUDA_ERROR_INVALID_VALUE;                                 \
        else                                                               \
            *p = n->work.place;                                            \
        pthread_mutex_unlock(&sim_graph_lock);                             \
        return rc;                                                         \
    }

GET(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copy.given)
GET(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, set.given)
GET(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host)
GET(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent, event)
GET(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent, event)
GET(cuGraphChildGraphNodeGetGraph, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph, child)

/* ---- setting ---- */

static int replace(CUgraphNode n, struct sim_work *w)
{
    int rc = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    if (sim_is_node(n) && n->work.type == w->type) {
        sim_work_free(&n->work);
        n->work = *w;
    } else {
        sim_work_free(w);
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* In an executable graph: the node is found by the handle it was made from. */
static int replace_in(CUgraphExec x, CUgraphNode n, struct sim_work *w)
{
    struct sim_node *to = sim_exec_enter(x, n);
    int rc = CUDA_ERROR_INVALID_VALUE;

    if (to && to->work.type == w->type) {
        struct sim_work old = to->work;
        to->work = *w;
        *w = old;
        rc = CUDA_SUCCESS;
    }
    if (to)
        sim_exec_leave(x);
    pthread_mutex_lock(&sim_graph_lock);
    sim_work_free(w);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

#define SET(make)               \
    {                           \
        struct sim_work w;      \
        int rc = make;          \
        return rc ? rc : replace(n, &w); \
    }
#define SET_IN(make)            \
    {                           \
        struct sim_work w;      \
        int rc = make;          \
        return rc ? rc : replace_in(x, n, &w); \
    }

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const void *p) SET(kernel_work(&w, p, true))
EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p) SET(kernel_work(&w, p, false))
EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D *p) SET(copy_work(&w, p, NULL))
EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p) SET(set_work(&w, p, NULL))
EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p) SET(host_work(&w, p))
EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode n, CUevent e) SET(event_work(&w, e, CU_GRAPH_NODE_TYPE_EVENT_RECORD))
EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode n, CUevent e) SET(event_work(&w, e, CU_GRAPH_NODE_TYPE_WAIT_EVENT))
EXPORT CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) SET(batch_work(&w, p))

#define EXEC CUgraphExec x, CUgraphNode n

EXPORT CUresult cuGraphExecKernelNodeSetParams(EXEC, const void *p) SET_IN(kernel_work(&w, p, true))
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(EXEC, const CUDA_KERNEL_NODE_PARAMS *p) SET_IN(kernel_work(&w, p, false))
EXPORT CUresult cuGraphExecMemcpyNodeSetParams(EXEC, const CUDA_MEMCPY3D *p, CUcontext ctx) SET_IN(copy_work(&w, p, ctx))
EXPORT CUresult cuGraphExecMemsetNodeSetParams(EXEC, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx) SET_IN(set_work(&w, p, ctx))
EXPORT CUresult cuGraphExecHostNodeSetParams(EXEC, const CUDA_HOST_NODE_PARAMS *p) SET_IN(host_work(&w, p))
EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(EXEC, CUevent e) SET_IN(event_work(&w, e, CU_GRAPH_NODE_TYPE_EVENT_RECORD))
EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(EXEC, CUevent e) SET_IN(event_work(&w, e, CU_GRAPH_NODE_TYPE_WAIT_EVENT))
EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(EXEC, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) SET_IN(batch_work(&w, p))
