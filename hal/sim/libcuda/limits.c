/* Limits and preferences of contexts. The device has no stacks, heaps and caches to
 * size: a program finds again what it has set. */
#include "sim.h"

enum { STACK_SIZE, PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE, DEV_RUNTIME_SYNC_DEPTH, DEV_RUNTIME_PENDING_LAUNCH_COUNT, MAX_L2_FETCH_GRANULARITY, PERSISTING_L2_CACHE_SIZE, SHMEM_SIZE, CIG_ENABLED };

#define LAST_LIMIT 9 /* CIG_SHMEM_FALLBACK_ENABLED: this device has neither it nor a depth */

_Static_assert(SIM_LIMITS == CIG_ENABLED + 1, "limits that a context keeps");

/* What the driver gives a context, of an H200. */
static const size_t defaults[SIM_LIMITS] = {1024, 8650752, 8 << 20, 0, 2048, 64, 11796480, 232448, 0};

static int check(int limit)
{
    if (limit < 0 || limit > LAST_LIMIT)
        return CUDA_ERROR_INVALID_VALUE;
    return limit == DEV_RUNTIME_SYNC_DEPTH || limit == LAST_LIMIT ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    rc = check(limit);
    if (rc)
        return rc;
    *value = c->limit_set[limit] ? c->limits[limit] : defaults[limit];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    rc = check(limit);
    if (rc)
        return rc;
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
