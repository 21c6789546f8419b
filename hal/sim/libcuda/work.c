/* What the nodes of graphs do: checked, copied, put into a stream. */
#include "graph.h"
#include "launch.h"
#include "memops.h"

#include <stdlib.h>
#include <string.h>

int sim_work_kernel(struct sim_work *w, const CUDA_KERNEL_NODE_PARAMS *p, struct sim_ctx *c)
{
    const struct sim_shape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes};
    CUfunction f = p->func ? p->func : (CUfunction)(void *)p->kern;

    if (!f || (p->func && !sim_is_function(p->func)))
        return CUDA_ERROR_INVALID_HANDLE; /* a kernel is one only in its own place */
    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_KERNEL, .ctx = c, .ctx_id = c->id, .kernel = {.function = p->func, .kern = p->kern}};
    return sim_launch_entry(c, f, &shape, p->kernelParams, p->extra, &w->kernel.entry);
}

int sim_work_copy(struct sim_work *w, const CUDA_MEMCPY3D *p, struct sim_ctx *c)
{
    bool nothing;

    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .ctx = c, .ctx_id = c->id, .copy = {.given = *p}};
    int rc = sim_transfer_of(&w->copy.transfer, p, &nothing);
    return rc ? rc : nothing ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* A copy that the program has put into a capturing stream, described as a node's. */
void sim_work_transfer(struct sim_work *w, const struct sim_transfer *t, struct sim_ctx *c)
{
    const bool from_device = t->from.known && sim_on_device(t->from.kind), to_device = t->to.known && sim_on_device(t->to.kind);
    CUDA_MEMCPY3D p = {.srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                       .dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                       .srcPitch = t->from.pitch,
                       .srcHeight = t->from.pitch ? t->from.slice / t->from.pitch : 0,
                       .dstPitch = t->to.pitch,
                       .dstHeight = t->to.pitch ? t->to.slice / t->to.pitch : 0,
                       .WidthInBytes = t->width,
                       .Height = t->height,
                       .Depth = t->depth};

    if (from_device)
        p.srcDevice = t->from.base;
    else
        p.srcHost = (const void *)(uintptr_t)t->from.base;
    if (to_device)
        p.dstDevice = t->to.base;
    else
        p.dstHost = (void *)(uintptr_t)t->to.base;
    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .ctx = c, .ctx_id = c->id, .copy = {*t, p}};
}

int sim_work_set(struct sim_work *w, const CUDA_MEMSET_NODE_PARAMS *p, struct sim_ctx *c)
{
    struct sim_range r;

    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width || !p->height)
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct sim_work){
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .ctx = c,
        .ctx_id = c->id,
        .set = {{.dst = p->dst, .pitch = p->pitch, .n = p->width, .rows = p->height, .value = p->value, .width = p->elementSize}, *p}};
    return sim_fill_check(&w->set.fill, &r);
}

int sim_work_host(struct sim_work *w, const CUDA_HOST_NODE_PARAMS *p)
{
    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_HOST, .host = *p};
    return p->fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_work_batch(struct sim_work *w, unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags, struct sim_ctx *c)
{
    int rc = sim_memops_check(count, ops, flags);
    if (rc)
        return rc;
    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .ctx = c, .ctx_id = c->id, .batch = {NULL, count, flags}};
    w->batch.ops = malloc((count ? count : 1) * sizeof *ops);
    if (!w->batch.ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(w->batch.ops, ops, count * sizeof *ops);
    return CUDA_SUCCESS;
}

bool sim_work_clone(struct sim_work *to, const struct sim_work *from)
{
    *to = *from;
    switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        to->kernel.params = NULL;
        return true;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        to->child = sim_graph_copy(from->child);
        if (to->child)
            to->child->child = true;
        return to->child != NULL;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        to->batch.ops = malloc((from->batch.count ? from->batch.count : 1) * sizeof *to->batch.ops);
        if (to->batch.ops)
            memcpy(to->batch.ops, from->batch.ops, from->batch.count * sizeof *to->batch.ops);
        return to->batch.ops != NULL;
    }
    return true;
}

void sim_work_free(struct sim_work *w)
{
    if (w->type == CU_GRAPH_NODE_TYPE_KERNEL)
        free(w->kernel.params);
    else if (w->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        free(w->batch.ops);
    else if (w->type == CU_GRAPH_NODE_TYPE_GRAPH && w->child)
        sim_graph_drop(w->child);
    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_EMPTY};
}

bool sim_work_waits(const struct sim_work *w)
{
    if (w->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        return true;
    for (unsigned i = 0; w->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && i < w->batch.count; i++)
        if (w->batch.ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || w->batch.ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            return true;
    return false;
}

int sim_work_run(struct sim_stream *s, struct sim_ctx *c, const struct sim_work *w)
{
    struct sim_entry e;

    switch (w->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        e = w->kernel.entry;
        return sim_submit(s, &e, NULL);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_transfer_enqueue(s, &w->copy.transfer, NULL);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sim_fill_run(s, &w->set.fill, true);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sim_host_submit(s, w->host.fn, NULL, w->host.userData);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sim_is_event(w->event) ? sim_event_wait(s, w->event) : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sim_is_event(w->event) ? sim_event_record(s, c, w->event) : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sim_memops_run(s, w->batch.count, w->batch.ops);
    }
    return CUDA_SUCCESS;
}
