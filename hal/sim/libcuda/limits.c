/* Limits and preferences of contexts. The device has no stacks, heaps and caches to
 * size: a program finds again what it has set. */
#include "sim.h"

enum { STACK_SIZE, PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE, DEV_RUNTIME_SYNC_DEPTH, DEV_RUNTIME_PENDING_LAUNCH_COUNT, MAX_L2_FETCH_GRANULARITY, PERSISTING_L2_CACHE_SIZE };

_Static_assert(SIM_LIMITS == PERSISTING_L2_CACHE_SIZE + 1, "limits that a context keeps");

/* What the driver gives a context, of an H200. */
static const size_t defaults[SIM_LIMITS] = {1024, 7 << 20, 8 << 20, 2, 2048, 64, 0};

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit >= SIM_LIMITS)
        return CUDA_ERROR_NOT_SUPPORTED;
    *value = c->limit_set[limit] ? c->limits[limit] : defaults[limit];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (limit < 0 || limit >= SIM_LIMITS)
        return CUDA_ERROR_NOT_SUPPORTED;
    c->limits[limit] = value;
    c->limit_set[limit] = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCacheConfig(int *config)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = c->cache_config;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCacheConfig(int config)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    c->cache_config = config;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetSharedMemConfig(int *config)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = 1; /* banks of four bytes */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetSharedMemConfig(int config)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    return rc ? rc : config >= 0 && config <= 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
    struct sim_ctx *c;
    return sim_current(&c);
}
