/* Launches. The limits are those of compute capability 9.0, which the device
 * claims. */
#include "sim.h"

#include <string.h>

#define MAX_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define MAX_GRID_X 0x7fffffffu
#define MAX_GRID_YZ 65535u
#define MAX_SHARED (48u * 1024u) /* without the opt-in */

static bool dimensions_ok(const struct sim_entry *e)
{
    const uint32_t *g = e->grid, *b = e->block;

    if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2])
        return false;
    if (g[0] > MAX_GRID_X || g[1] > MAX_GRID_YZ || g[2] > MAX_GRID_YZ)
        return false;
    if (b[0] > MAX_THREADS || b[1] > MAX_THREADS || b[2] > MAX_BLOCK_Z)
        return false;
    return (uint64_t)b[0] * b[1] * b[2] <= MAX_THREADS && e->shared <= MAX_SHARED;
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

struct shape {
    unsigned grid[3], block[3], shared;
};

static int launch(CUfunction f, const struct shape *shape, CUstream h, bool ptds, void **params, void **extra)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_entry e;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_is_function(f) || f->module->ctx != c || f->module->ctx_id != c->id)
        return CUDA_ERROR_INVALID_HANDLE;
    memset(&e, 0, offsetof(struct sim_entry, args));
    e.command = SIM_LAUNCH;
    memcpy(e.grid, shape->grid, sizeof e.grid);
    memcpy(e.block, shape->block, sizeof e.block);
    e.shared = shape->shared;
    if (!dimensions_ok(&e))
        return CUDA_ERROR_INVALID_VALUE;
    if (f->kernel < 0 || f->arg_bytes > SIM_ARGS)
        return sim_unsupported(f->name);
    e.kernel = (uint32_t)f->kernel;
    rc = gather_args(f, params, extra, &e);
    return rc ? rc : sim_submit(s, &e, NULL);
}

#define LAUNCH(name, extra_params, extra)                                                                    \
    EXPORT CUresult name(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,       \
                         unsigned bz, unsigned shared, CUstream h, void **params extra_params)               \
    {                                                                                                        \
        struct shape shape = {{gx, gy, gz}, {bx, by, bz}, shared};                                           \
        return launch(f, &shape, h, false, params, extra);                                                   \
    }                                                                                                        \
    EXPORT CUresult name##_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,             \
                                unsigned by, unsigned bz, unsigned shared, CUstream h,                       \
                                void **params extra_params)                                                  \
    {                                                                                                        \
        struct shape shape = {{gx, gy, gz}, {bx, by, bz}, shared};                                           \
        return launch(f, &shape, h, true, params, extra);                                                    \
    }

#define COMMA_EXTRA , void **extra
#define NOTHING
LAUNCH(cuLaunchKernel, COMMA_EXTRA, extra)
LAUNCH(cuLaunchCooperativeKernel, NOTHING, NULL)

/* Attributes that change only how a kernel is placed or ordered beyond the
 * stream's own order; the rest would change what the program sees. */
static bool attribute_ok(const struct cu_launch_attribute *a)
{
    switch (a->id) {
    case 0: /* IGNORE */
    case 1: /* ACCESS_POLICY_WINDOW */
    case 2: /* COOPERATIVE */
    case 3: /* SYNCHRONIZATION_POLICY */
    case 8: /* PRIORITY */
        return true;
    }
    return false;
}

static int launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra, bool ptds)
{
    if (!config || (config->numAttrs && !config->attrs))
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (!attribute_ok(&config->attrs[i]))
            return sim_unsupported("cuLaunchKernelEx with a launch attribute that it cannot honour");
    struct shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          config->sharedMemBytes};
    return launch(f, &shape, config->hStream, ptds, params, extra);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_ex(config, f, params, extra, false);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_ex(config, f, params, extra, true);
}
