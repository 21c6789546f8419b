/* Many copies in one call. CUDA 13 left the index of the one that failed out; the
 * calls of before have it. A batch is checked whole before any of it begins. */
#include "copy.h"

#include <stdlib.h>

#define NO_INDEX ((size_t)-1) /* what failed is not one of the copies */

enum { ORDER_STREAM = 1, ORDER_DURING_CALL = 2, ORDER_ANY = 3 };

struct batch_copy {
    struct sim_transfer t;
    int order; /* when the source may be read */
    bool nothing;
};

struct batch {
    struct sim_ctx *ctx;
    struct sim_stream *stream;
    struct batch_copy *copies;
    size_t count;
    size_t failed;
    bool silent; /* it says nothing of what failed */
};

/* A batch has no place in the legacy stream. */
static int begin(struct batch *b, size_t count, CUstream h, bool ptds)
{
    *b = (struct batch){.failed = NO_INDEX};
    int rc = sim_stream_of(h, ptds, &b->ctx, &b->stream);
    if (!rc && b->stream->legacy)
        rc = CUDA_ERROR_INVALID_VALUE;
    b->silent = rc != CUDA_SUCCESS;
    if (rc)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    b->copies = calloc(count, sizeof *b->copies);
    b->count = count;
    return b->copies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Waits until the stream has come here, or until a copy is over. */
static int reached(struct sim_stream *s)
{
    struct sim_entry e = {.command = SIM_NOP};
    struct sim_mark mark;

    int rc = sim_submit(s, &e, &mark);
    return rc ? rc : sim_wait(&mark);
}

static int run(struct batch *b)
{
    int rc = CUDA_SUCCESS;

    for (size_t i = 0; i < b->count && !rc; i++) {
        const struct batch_copy *k = &b->copies[i];
        if (k->nothing)
            continue;
        if (k->order == ORDER_STREAM && !k->t.from.known)
            rc = reached(b->stream); /* its source is read where the driver cannot go */
        if (!rc && !k->t.to.known)
            rc = sim_transfer_enqueue(b->stream, &k->t, NULL); /* the call does not wait for the bytes */
        else if (!rc)
            rc = sim_transfer_run(b->ctx, b->stream, &k->t, true);
        if (!rc && k->order == ORDER_DURING_CALL && k->t.from.known)
            rc = reached(b->stream);
    }
    return rc;
}

static int finish(struct batch *b, int rc, size_t *failed)
{
    if (!rc && sim_capturing(b->stream))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* and the capture goes on */
    if (!rc)
        rc = run(b);
    if (rc && failed && !b->silent)
        *failed = b->failed;
    free(b->copies);
    return rc;
}

static bool order_ok(int order) { return order >= ORDER_STREAM && order <= ORDER_ANY; }

/* ---- bytes ---- */

struct list {
    const CUdeviceptr *to, *from;
    const size_t *sizes;
    size_t count;
    const CUmemcpyAttributes *attributes;
    const size_t *first; /* copy that each of the attributes begins with */
    size_t attribute_count;
};

static bool attributes_ok(const struct list *l)
{
    if (!l->attributes || !l->first || !l->attribute_count || l->attribute_count > l->count || l->first[0])
        return false;
    for (size_t i = 0; i < l->attribute_count; i++)
        if (!order_ok(l->attributes[i].srcAccessOrder) || l->attributes[i].flags > 1 || l->first[i] >= l->count ||
            (i && l->first[i] <= l->first[i - 1]))
            return false;
    return true;
}

static int read_list(struct batch *b, const struct list *l)
{
    size_t which = 0;

    if (!l->to || !l->from || !l->sizes || !attributes_ok(l))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < l->count; i++) {
        while (which + 1 < l->attribute_count && l->first[which + 1] <= i)
            which++;
        b->failed = i;
        b->copies[i].order = l->attributes[which].srcAccessOrder;
        int rc = l->sizes[i] ? sim_transfer_bytes(&b->copies[i].t, l->to[i], l->from[i], l->sizes[i], SIM_ANY)
                             : CUDA_ERROR_INVALID_VALUE;
        if (rc)
            return rc;
    }
    b->failed = NO_INDEX;
    return CUDA_SUCCESS;
}

static int copy_list(const struct list *l, size_t *failed, CUstream h, bool ptds)
{
    struct batch b;

    int rc = begin(&b, l->count, h, ptds);
    return finish(&b, rc ? rc : read_list(&b, l), failed);
}

#define LIST_PARAMS                                                                                            \
    CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *first, \
        size_t attribute_count
#define LIST (&(struct list){to, from, sizes, count, attributes, first, attribute_count})

EXPORT CUresult cuMemcpyBatchAsync(LIST_PARAMS, size_t *failed, CUstream h) { return copy_list(LIST, failed, h, false); }
EXPORT CUresult cuMemcpyBatchAsync_ptsz(LIST_PARAMS, size_t *failed, CUstream h) { return copy_list(LIST, failed, h, true); }
EXPORT CUresult cuMemcpyBatchAsync_v2(LIST_PARAMS, CUstream h) { return copy_list(LIST, NULL, h, false); }

/* The second versions do not know the per-thread stream by NULL. */
#define NOT_NULL(h) ((h) ? (h) : (CUstream)1)
EXPORT CUresult cuMemcpyBatchAsync_v2_ptsz(LIST_PARAMS, CUstream h) { return copy_list(LIST, NULL, NOT_NULL(h), true); }

/* ---- boxes ---- */

static int read_box(struct batch_copy *k, const CUDA_MEMCPY3D_BATCH_OP *op)
{
    const CUmemcpy3DOperand *from = &op->src, *to = &op->dst;

    if (from->type == 2 || to->type == 2)
        return sim_unsupported("a copy from or to an array");
    if (from->type != 1 || to->type != 1 || !order_ok(op->srcAccessOrder) || op->flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    k->order = op->srcAccessOrder;
    const CUDA_MEMCPY3D d = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = from->op.ptr.ptr,
        .srcPitch = from->op.ptr.rowLength ? from->op.ptr.rowLength : op->width,
        .srcHeight = from->op.ptr.layerHeight ? from->op.ptr.layerHeight : op->height,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = to->op.ptr.ptr,
        .dstPitch = to->op.ptr.rowLength ? to->op.ptr.rowLength : op->width,
        .dstHeight = to->op.ptr.layerHeight ? to->op.ptr.layerHeight : op->height,
        .WidthInBytes = op->width, .Height = op->height, .Depth = op->depth,
    };
    int rc = sim_transfer_of(&k->t, &d, &k->nothing);
    return k->nothing ? CUDA_ERROR_INVALID_VALUE : rc;
}

static int copy_boxes(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags, CUstream h, bool ptds)
{
    struct batch b;

    int rc = begin(&b, count, h, ptds);
    if (!rc && (!ops || flags))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !rc; i++) {
        rc = read_box(&b.copies[i], &ops[i]);
        if (rc && ops[i].src.op.ptr.ptr && ops[i].dst.op.ptr.ptr) /* an address of 0 shows later */
            b.failed = i;
    }
    return finish(&b, rc, failed);
}

EXPORT CUresult cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags, CUstream h)
{
    return copy_boxes(n, ops, failed, flags, h, false);
}

EXPORT CUresult cuMemcpy3DBatchAsync_ptsz(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags, CUstream h)
{
    return copy_boxes(n, ops, failed, flags, h, true);
}

EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream h)
{
    return copy_boxes(n, ops, NULL, flags, h, false);
}

EXPORT CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream h)
{
    return copy_boxes(n, ops, NULL, flags, NOT_NULL(h), true);
}
