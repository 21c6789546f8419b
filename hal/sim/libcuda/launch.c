/* Launches. The limits are those of compute capability 9.0, which the device
 * claims. */
#include "graph.h"
#include "launch.h"

#include <string.h>

#define MAX_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define MAX_GRID_X 0x7fffffffu
#define MAX_GRID_YZ 65535u

static bool dimensions_ok(const struct sim_function *f, const struct sim_entry *e)
{
    const uint32_t *g = e->grid, *b = e->block;

    if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2])
        return false;
    if (g[0] > MAX_GRID_X || g[1] > MAX_GRID_YZ || g[2] > MAX_GRID_YZ)
        return false;
    if (b[0] > MAX_THREADS || b[1] > MAX_THREADS || b[2] > MAX_BLOCK_Z)
        return false;
    return (uint64_t)b[0] * b[1] * b[2] <= MAX_THREADS && e->shared <= (unsigned)f->max_dynamic;
}

/* Arguments as one block: pairs of a key and a value, up to key 0. */
static int packed_args(const struct sim_function *f, void **extra, struct sim_entry *e)
{
    const void *block = NULL;
    size_t n = 0;

    for (; extra[0]; extra += 2) {
        if ((uintptr_t)extra[0] == 1)
            block = extra[1];
        else if ((uintptr_t)extra[0] == 2)
            n = extra[1] ? *(const size_t *)extra[1] : 0;
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (f->arg_bytes && (!block || !n))
        return CUDA_ERROR_INVALID_VALUE;
    if (n > ((f->arg_bytes + 7) & ~(size_t)7)) /* a structure may end in padding */
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (n > f->arg_bytes)
        n = f->arg_bytes;
    if (n)
        memcpy(e->args, block, n); /* the driver takes a short block, too */
    return CUDA_SUCCESS;
}

static int gather_args(const struct sim_function *f, void **params, void **extra, struct sim_entry *e)
{
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    e->arg_bytes = (uint32_t)f->arg_bytes;
    memset(e->args, 0, f->arg_bytes);
    if (extra)
        return packed_args(f, extra, e);
    if (!params)
        return f->params ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned i = 0; i < f->params; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(e->args + f->offsets[i], params[i], f->sizes[i]);
    }
    return CUDA_SUCCESS;
}

int sim_launch_entry(struct sim_ctx *c, CUfunction handle, const struct sim_shape *shape, void **params, void **extra, struct sim_entry *e)
{
    int rc = CUDA_ERROR_INVALID_HANDLE;
    struct sim_function *f = sim_function_of(handle, c, &rc);

    if (!f)
        return rc;
    if (f->module->ctx != c || f->module->ctx_id != c->id)
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < 3; i++)
        if (f->required_cluster[i] > 1 && shape->grid[i] % (unsigned)f->required_cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    memset(e, 0, offsetof(struct sim_entry, args));
    e->command = SIM_LAUNCH;
    memcpy(e->grid, shape->grid, sizeof e->grid);
    memcpy(e->block, shape->block, sizeof e->block);
    e->shared = shape->shared;
    if (!dimensions_ok(f, e))
        return CUDA_ERROR_INVALID_VALUE;
    if (f->kernel < 0 || f->arg_bytes > SIM_ARGS)
        return sim_unsupported(f->name);
    e->kernel = (uint32_t)f->kernel;
    return gather_args(f, params, extra, e);
}

int sim_launch_run(struct sim_ctx *c, struct sim_stream *s, CUfunction f, struct sim_entry *e)
{
    if (!sim_capturing(s))
        return sim_submit(s, e, NULL);
    struct sim_work w = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .ctx = c, .ctx_id = c->id, .kernel = {.entry = *e}};
    if (sim_is_kernel(f))
        w.kernel.kern = (CUkernel)(void *)f;
    else
        w.kernel.function = f;
    return sim_capture_work(s, &w);
}

static int launch(CUfunction f, const struct sim_shape *shape, CUstream h, bool ptds, void **params, void **extra)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_entry e;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    rc = sim_launch_entry(c, f, shape, params, extra, &e);
    return rc ? sim_capture_refused(s, rc) : sim_launch_run(c, s, f, &e);
}

#define DIMENSIONS unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream h
#define SHAPE {{gx, gy, gz}, {bx, by, bz}, shared}

EXPORT CUresult cuLaunchKernel(CUfunction f, DIMENSIONS, void **params, void **extra)
{
    const struct sim_shape shape = SHAPE;
    return launch(f, &shape, h, false, params, extra);
}

EXPORT CUresult cuLaunchKernel_ptsz(CUfunction f, DIMENSIONS, void **params, void **extra)
{
    const struct sim_shape shape = SHAPE;
    return launch(f, &shape, h, true, params, extra);
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, DIMENSIONS, void **params)
{
    const struct sim_shape shape = SHAPE;
    return sim_launch_together(f, &shape, h, false, params);
}

EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, DIMENSIONS, void **params)
{
    const struct sim_shape shape = SHAPE;
    return sim_launch_together(f, &shape, h, true, params);
}
