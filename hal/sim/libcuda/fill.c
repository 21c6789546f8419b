/* Memsets, in one dimension and two: never waited for on device memory, like the
 * driver's. */
#include "copy.h"

#include <string.h>

int sim_fill_check(const struct sim_fill *f, struct sim_range *r)
{
    size_t row = f->n * f->width, n;

    if (f->dst % f->width || (f->rows > 1 && (f->pitch < row || f->pitch % f->width)))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(f->rows - 1, f->pitch, &n) || __builtin_add_overflow(n, row, &n))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_range_find(f->dst, n, r) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int sim_fill_run(struct sim_stream *s, const struct sim_fill *f, bool async)
{
    struct sim_entry e = {.command = SIM_FILL, .kind = f->width, .a = f->dst, .b = f->value, .c = f->n};
    struct sim_range r;
    struct sim_mark mark;

    int rc = sim_fill_check(f, &r);
    if (rc)
        return rc;
    if (f->rows > 1) {
        const struct sim_rows rows = {.height = f->rows, .depth = 1, .dst_pitch = f->pitch};
        e.command = SIM_FILL_ROWS;
        e.arg_bytes = sizeof rows;
        memcpy(e.args, &rows, sizeof rows);
    }
    rc = sim_submit(s, &e, &mark);
    return rc || async || (sim_on_device(r.kind) && !r.sync) ? rc : sim_wait(&mark);
}

static int fill(struct sim_fill f, CUstream h, bool ptds, bool async)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    size_t bytes = f.n * f.width; /* wraps, and then means what it wrapped to: so does the driver's */
    if (rc || !bytes || !f.rows)
        return rc;
    f.n = bytes / f.width;
    return sim_fill_run(s, &f, async);
}

/* The four forms of a call, by whose default stream it means and whether it may
 * return at once. */
#define FORMS(name, async_name, params, ...)                                                                       \
    EXPORT CUresult name(params) { return fill((struct sim_fill){__VA_ARGS__}, NULL, false, false); }               \
    EXPORT CUresult name##_ptds(params) { return fill((struct sim_fill){__VA_ARGS__}, NULL, true, false); }         \
    EXPORT CUresult async_name(params, CUstream h) { return fill((struct sim_fill){__VA_ARGS__}, h, false, true); } \
    EXPORT CUresult async_name##_ptsz(params, CUstream h) { return fill((struct sim_fill){__VA_ARGS__}, h, true, true); }

#define P1(type) CUdeviceptr d, type v, size_t n
#define P2(type) CUdeviceptr d, size_t pitch, type v, size_t n, size_t rows
#define ONE(bits) .dst = d, .n = n, .rows = 1, .value = v, .width = (bits) / 8
#define TWO(bits) .dst = d, .pitch = pitch, .n = n, .rows = rows, .value = v, .width = (bits) / 8

FORMS(cuMemsetD8_v2, cuMemsetD8Async, P1(unsigned char), ONE(8))
FORMS(cuMemsetD16_v2, cuMemsetD16Async, P1(unsigned short), ONE(16))
FORMS(cuMemsetD32_v2, cuMemsetD32Async, P1(unsigned), ONE(32))
FORMS(cuMemsetD2D8_v2, cuMemsetD2D8Async, P2(unsigned char), TWO(8))
FORMS(cuMemsetD2D16_v2, cuMemsetD2D16Async, P2(unsigned short), TWO(16))
FORMS(cuMemsetD2D32_v2, cuMemsetD2D32Async, P2(unsigned), TWO(32))
