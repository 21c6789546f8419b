/* Copies and memsets. Memory that the driver does not know (pageable) goes
 * through pinned staging memory, as it does in the driver: an asynchronous copy
 * from it returns when the source has been read, one into it when the bytes are
 * there. */
#define _GNU_SOURCE
#include "sim.h"

#include <string.h>
#include <time.h>

enum direction { TO_DEVICE, FROM_DEVICE, WITHIN, ANY };

/* ---- staging ---- */

static struct sim_chunk *chunk_try(struct sim_ctx *c)
{
    for (unsigned i = 0; i < c->chunk_count; i++) {
        struct sim_chunk *k = &c->chunks[i];
        if (!k->taken && sim_done(&k->busy)) {
            k->taken = true;
            return k;
        }
    }
    return NULL;
}

/* Takes a piece of staging memory that the device is through with. The pool
 * grows before anybody waits, so that a gated stream seldom blocks another. */
static int chunk_take(struct sim_ctx *c, struct sim_chunk **out)
{
    const struct timespec moment = {0, 20000};

    for (;;) {
        pthread_mutex_lock(&c->lock);
        struct sim_chunk *k = chunk_try(c);
        bool grow = !k && c->chunk_count < SIM_CHUNKS;
        pthread_mutex_unlock(&c->lock);
        if (k) {
            *out = k;
            return CUDA_SUCCESS;
        }
        int rc = sim_ctx_error(c);
        if (!rc && sim_device_gone())
            rc = CUDA_ERROR_UNKNOWN;
        void *p = NULL;
        if (!rc && grow)
            rc = sim_host_alloc(SIM_CHUNK_BYTES, &p);
        if (rc)
            return rc;
        if (!p) {
            nanosleep(&moment, NULL);
            continue;
        }
        pthread_mutex_lock(&c->lock);
        grow = c->chunk_count < SIM_CHUNKS;
        if (grow)
            c->chunks[c->chunk_count++] = (struct sim_chunk){.data = p};
        pthread_mutex_unlock(&c->lock);
        if (!grow)
            sim_host_free(p, SIM_CHUNK_BYTES);
    }
}

static void chunk_give(struct sim_ctx *c, struct sim_chunk *k, const struct sim_mark *busy)
{
    pthread_mutex_lock(&c->lock);
    k->busy = *busy;
    k->taken = false;
    pthread_mutex_unlock(&c->lock);
}

/* ---- copies ---- */

static int enqueue(struct sim_stream *s, uint64_t dst, uint64_t src, uint64_t n, struct sim_mark *mark)
{
    struct sim_entry e = {.command = SIM_COPY, .a = dst, .b = src, .c = n};
    return sim_submit(s, &e, mark);
}

static int stage_in(struct sim_ctx *c, struct sim_stream *s, uint64_t dst, const char *src, size_t n, struct sim_mark *mark)
{
    for (size_t done = 0; done < n;) {
        size_t now = n - done < SIM_CHUNK_BYTES ? n - done : SIM_CHUNK_BYTES;
        struct sim_chunk *k;
        int rc = chunk_take(c, &k);
        if (rc)
            return rc;
        memcpy(k->data, src + done, now);
        *mark = (struct sim_mark){0};
        rc = enqueue(s, dst + done, (uintptr_t)k->data, now, mark);
        chunk_give(c, k, mark);
        if (rc)
            return rc;
        done += now;
    }
    return CUDA_SUCCESS;
}

struct piece {
    struct sim_chunk *chunk;
    struct sim_mark mark;
    size_t at, n;
};

static int fetch(struct sim_ctx *c, struct piece *p, char *dst)
{
    int rc = sim_wait(&p->mark);
    if (!rc)
        memcpy(dst + p->at, p->chunk->data, p->n);
    chunk_give(c, p->chunk, &p->mark);
    return rc;
}

/* One piece is on its way while the one before is read out. */
static int stage_out(struct sim_ctx *c, struct sim_stream *s, char *dst, uint64_t src, size_t n)
{
    struct piece before = {0};
    int rc = CUDA_SUCCESS;

    for (size_t done = 0; done < n && !rc;) {
        struct piece p = {.at = done, .n = n - done < SIM_CHUNK_BYTES ? n - done : SIM_CHUNK_BYTES};
        rc = chunk_take(c, &p.chunk);
        if (rc)
            break;
        rc = enqueue(s, (uintptr_t)p.chunk->data, src + done, p.n, &p.mark);
        if (rc) {
            chunk_give(c, p.chunk, &(struct sim_mark){0});
            break;
        }
        if (before.chunk)
            rc = fetch(c, &before, dst);
        before = p;
        done += p.n;
    }
    if (before.chunk) {
        int last = fetch(c, &before, dst);
        rc = rc ? rc : last;
    }
    return rc;
}

/* Two ends in memory that the driver does not know: the host copies, in the
 * stream's order. */
static int host_to_host(struct sim_stream *s, void *dst, const void *src, size_t n)
{
    struct sim_mark mark;
    struct sim_entry e = {.command = SIM_NOP};

    int rc = sim_submit(s, &e, &mark);
    if (!rc)
        rc = sim_wait(&mark);
    if (!rc)
        memmove(dst, src, n);
    return rc;
}

static int copy(uint64_t dst, uint64_t src, size_t n, enum direction way, CUstream h, bool ptds, bool async)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_range to, from;
    struct sim_mark mark = {0};

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc || !n)
        return rc;
    if (!dst || !src)
        return CUDA_ERROR_INVALID_VALUE;
    bool dst_known = sim_range_find(dst, n, &to), src_known = sim_range_find(src, n, &from);
    if ((!dst_known && (way == TO_DEVICE || way == WITHIN || sim_range_overlaps(dst, n))) ||
        (!src_known && (way == FROM_DEVICE || way == WITHIN || sim_range_overlaps(src, n))))
        return CUDA_ERROR_INVALID_VALUE;
    if (dst_known && src_known)
        rc = enqueue(s, dst, src, n, &mark);
    else if (dst_known)
        rc = stage_in(c, s, dst, (const char *)(uintptr_t)src, n, &mark);
    else if (src_known)
        return stage_out(c, s, (char *)(uintptr_t)dst, src, n);
    else
        return host_to_host(s, (void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n);
    bool host_end = !dst_known || !src_known || to.kind != SIM_RANGE_DEVICE || from.kind != SIM_RANGE_DEVICE;
    return rc || async || !host_end ? rc : sim_wait(&mark);
}

#define H(p) ((uintptr_t)(p))

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr d, const void *s, size_t n) { return copy(d, H(s), n, TO_DEVICE, NULL, false, false); }
EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr d, const void *s, size_t n) { return copy(d, H(s), n, TO_DEVICE, NULL, true, false); }
EXPORT CUresult cuMemcpyDtoH_v2(void *d, CUdeviceptr s, size_t n) { return copy(H(d), s, n, FROM_DEVICE, NULL, false, false); }
EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *d, CUdeviceptr s, size_t n) { return copy(H(d), s, n, FROM_DEVICE, NULL, true, false); }
EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, WITHIN, NULL, false, false); }
EXPORT CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, WITHIN, NULL, true, false); }
EXPORT CUresult cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, ANY, NULL, false, false); }
EXPORT CUresult cuMemcpy_ptds(CUdeviceptr d, CUdeviceptr s, size_t n) { return copy(d, s, n, ANY, NULL, true, false); }
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream h) { return copy(d, H(s), n, TO_DEVICE, h, false, true); }
EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr d, const void *s, size_t n, CUstream h) { return copy(d, H(s), n, TO_DEVICE, h, true, true); }
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream h) { return copy(H(d), s, n, FROM_DEVICE, h, false, true); }
EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *d, CUdeviceptr s, size_t n, CUstream h) { return copy(H(d), s, n, FROM_DEVICE, h, true, true); }
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, WITHIN, h, false, true); }
EXPORT CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, WITHIN, h, true, true); }
EXPORT CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, ANY, h, false, true); }
EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream h) { return copy(d, s, n, ANY, h, true, true); }

/* ---- memsets: never waited for, like the driver's on device memory ---- */

static int fill(CUdeviceptr dst, unsigned value, unsigned width, size_t n, CUstream h, bool ptds, bool async)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_range r;
    struct sim_mark mark;

    int rc = sim_stream_of(h, ptds, &c, &s);
    size_t bytes = n * width; /* wraps, and then means what it wrapped to: so does the driver's */
    if (rc || !bytes)
        return rc;
    n = bytes / width;
    if (dst % width || !sim_range_find(dst, bytes, &r))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_entry e = {.command = SIM_FILL, .kind = width, .a = dst, .b = value, .c = n};
    rc = sim_submit(s, &e, &mark);
    return rc || async || r.kind == SIM_RANGE_DEVICE ? rc : sim_wait(&mark);
}

#define FILL(bits, type)                                                                         \
    EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr d, type v, size_t n)                         \
    {                                                                                            \
        return fill(d, v, bits / 8, n, NULL, false, false);                                      \
    }                                                                                            \
    EXPORT CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr d, type v, size_t n)                    \
    {                                                                                            \
        return fill(d, v, bits / 8, n, NULL, true, false);                                       \
    }                                                                                            \
    EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr d, type v, size_t n, CUstream h)           \
    {                                                                                            \
        return fill(d, v, bits / 8, n, h, false, true);                                          \
    }                                                                                            \
    EXPORT CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr d, type v, size_t n, CUstream h)      \
    {                                                                                            \
        return fill(d, v, bits / 8, n, h, true, true);                                           \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
