/* Copies in one dimension, and how any copy runs. */
#include "graph.h"

#include <string.h>

/* Bytes from the first of an end to behind its last; 0: they have no number. */
static size_t footprint(const struct sim_transfer *t, const struct sim_end *e)
{
    size_t layers, rows, n;

    if (__builtin_mul_overflow(t->depth - 1, e->slice, &layers) || __builtin_mul_overflow(t->height - 1, e->pitch, &rows) ||
        __builtin_add_overflow(layers, rows, &n) || __builtin_add_overflow(n, t->width, &n) || e->base + n < e->base)
        return 0;
    return n;
}

/* must: the caller says that the driver knows this end. */
static bool resolve(const struct sim_transfer *t, struct sim_end *e, bool must)
{
    struct sim_range r;
    size_t n = footprint(t, e);

    if (!e->base || !n)
        return false;
    e->known = sim_range_find(e->base, n, &r);
    if (e->known) {
        e->kind = r.kind;
        e->sync = r.sync;
    }
    if (e->known && r.kind == SIM_RANGE_MAPPED && !r.readable)
        return false; /* nobody was given access */
    return e->known || (!must && !sim_range_overlaps(e->base, n) && !sim_reserved(e->base, n));
}

int sim_transfer_bytes(struct sim_transfer *t, uint64_t dst, uint64_t src, size_t n, enum sim_direction way)
{
    *t = (struct sim_transfer){.to = {.base = dst}, .from = {.base = src}, .width = n, .height = 1, .depth = 1};
    return resolve(t, &t->to, way == SIM_TO_DEVICE || way == SIM_WITHIN) && resolve(t, &t->from, way == SIM_FROM_DEVICE || way == SIM_WITHIN)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* What a description says of one end, the same for both. */
struct described {
    size_t x, y, z;
    unsigned type;
    uint64_t host, device;
    size_t pitch, rows; /* rows of a layer, as it lies in memory */
};

static int end_of(struct sim_transfer *t, struct sim_end *e, const struct described *d)
{
    size_t at, in_layer, row, rows;

    if (d->type == CU_MEMORYTYPE_ARRAY)
        return sim_unsupported("a copy from or to an array");
    if (d->type < CU_MEMORYTYPE_HOST || d->type > CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_add_overflow(d->x, t->width, &row) || __builtin_add_overflow(d->y, t->height, &rows) || (d->pitch && d->pitch < row) ||
        (d->rows && d->rows < rows))
        return CUDA_ERROR_INVALID_VALUE;
    e->pitch = d->pitch ? d->pitch : row; /* none given: as much as the copy reaches over */
    rows = d->rows ? d->rows : rows;
    if (__builtin_mul_overflow(e->pitch, rows, &e->slice) || __builtin_mul_overflow(d->z, e->slice, &at) ||
        __builtin_mul_overflow(d->y, e->pitch, &in_layer) || __builtin_add_overflow(at, in_layer, &at) ||
        __builtin_add_overflow(at, d->x, &at))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t base = d->type == CU_MEMORYTYPE_HOST ? d->host : d->device;
    if (!base || __builtin_add_overflow(base, at, &e->base))
        return CUDA_ERROR_INVALID_VALUE;
    return resolve(t, e, d->type == CU_MEMORYTYPE_DEVICE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_transfer_of(struct sim_transfer *t, const CUDA_MEMCPY3D *p, bool *nothing)
{
    *t = (struct sim_transfer){.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    *nothing = !t->width || !t->height || !t->depth;
    if (*nothing)
        return CUDA_SUCCESS;
    const struct described from = {p->srcXInBytes, p->srcY,      p->srcZ,     p->srcMemoryType,
                                   (uintptr_t)p->srcHost, p->srcDevice, p->srcPitch, p->srcHeight};
    const struct described to = {p->dstXInBytes, p->dstY,      p->dstZ,     p->dstMemoryType,
                                 (uintptr_t)p->dstHost, p->dstDevice, p->dstPitch, p->dstHeight};
    int rc = end_of(t, &t->from, &from);
    return rc ? rc : end_of(t, &t->to, &to);
}

/* Rows that lie side by side at both ends are one row. */
static struct sim_transfer joined(struct sim_transfer t)
{
    if (t.to.pitch == t.width && t.from.pitch == t.width) {
        t.width *= t.height;
        t.height = 1;
        if (t.to.slice == t.width && t.from.slice == t.width) {
            t.width *= t.depth;
            t.depth = 1;
        }
    }
    return t;
}

int sim_transfer_enqueue(struct sim_stream *s, const struct sim_transfer *given, struct sim_mark *mark)
{
    struct sim_transfer t = joined(*given);
    struct sim_entry e = {.command = SIM_COPY, .flags = t.to.known && t.from.known ? 0 : SIM_LOOSE, .a = t.to.base, .b = t.from.base, .c = t.width};

    if (t.height > 1 || t.depth > 1) {
        const struct sim_rows rows = {t.height, t.depth, t.to.pitch, t.to.slice, t.from.pitch, t.from.slice};
        e.command = SIM_COPY_ROWS;
        e.arg_bytes = sizeof rows;
        memcpy(e.args, &rows, sizeof rows);
    }
    return sim_submit(s, &e, mark);
}

/* Two ends in memory that the driver does not know: the host copies, in the
 * stream's order. */
static int host_to_host(struct sim_stream *s, const struct sim_transfer *t)
{
    struct sim_mark mark;
    struct sim_entry e = {.command = SIM_NOP};

    int rc = sim_submit(s, &e, &mark);
    if (!rc)
        rc = sim_wait(&mark);
    for (size_t z = 0; !rc && z < t->depth; z++)
        for (size_t y = 0; y < t->height; y++)
            memmove((void *)(uintptr_t)(t->to.base + z * t->to.slice + y * t->to.pitch),
                    (const void *)(uintptr_t)(t->from.base + z * t->from.slice + y * t->from.pitch), t->width);
    return rc;
}

int sim_transfer_run(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t, bool async)
{
    struct sim_mark mark = {0};
    int rc;

    if (sim_capturing(s)) {
        struct sim_work w;
        sim_work_transfer(&w, t, c);
        return async ? sim_capture_work(s, &w) : sim_capture_sync(s);
    }
    if (t->to.known && t->from.known)
        rc = sim_transfer_enqueue(s, t, &mark);
    else if (t->to.known)
        rc = sim_stage_in(c, s, t, &mark);
    else if (t->from.known)
        return sim_stage_out(c, s, t);
    else
        return host_to_host(s, t);
    bool waits = !t->to.known || !t->from.known || !sim_on_device(t->to.kind) || !sim_on_device(t->from.kind) || t->to.sync || t->from.sync;
    return rc || async || !waits ? rc : sim_wait(&mark);
}

static int copy(uint64_t dst, uint64_t src, size_t n, enum sim_direction way, CUstream h, bool ptds, bool async)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_transfer t;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc || !n)
        return rc;
    rc = sim_transfer_bytes(&t, dst, src, n, way);
    return rc ? rc : sim_transfer_run(c, s, &t, async);
}

#define H(p) ((uintptr_t)(p))

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr d, const void *s, size_t n) { return copy(d, H(s), n, SIM_TO_DEVICE, NULL, false, false); }
EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr d, const void *s, size_t n) { return copy(d, H(s), n, SIM_TO_DEVICE, NULL, true, false); }
EXPORT CUresult cuMemcpyDtoH_v2(void *d, CUdeviceptr s, size_t n) { return copy(H(d), s, n, SIM_FROM_DEVICE, NULL, false, false); }
EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *d, CUdeviceptr s, size_t n) { return copy(H(d), s, n, SIM_FROM_DEVICE, NULL, true, false); }
EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, SIM_WITHIN, NULL, false, false); }
EXPORT CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, SIM_WITHIN, NULL, true, false); }
EXPORT CUresult cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, SIM_ANY, NULL, false, false); }
EXPORT CUresult cuMemcpy_ptds(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, SIM_ANY, NULL, true, false); }
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream h) { return copy(d, H(s), n, SIM_TO_DEVICE, h, false, true); }
EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr d, const void *s, size_t n, CUstream h) { return copy(d, H(s), n, SIM_TO_DEVICE, h, true, true); }
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream h) { return copy(H(d), s, n, SIM_FROM_DEVICE, h, false, true); }
EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *d, CUdeviceptr s, size_t n, CUstream h) { return copy(H(d), s, n, SIM_FROM_DEVICE, h, true, true); }
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, SIM_WITHIN, h, false, true); }
EXPORT CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, SIM_WITHIN, h, true, true); }
EXPORT CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, SIM_ANY, h, false, true); }
EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, SIM_ANY, h, true, true); }
