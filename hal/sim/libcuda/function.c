/* Functions: what they say of themselves and what can be set. */
#include "cu_graph.h"
#include "launch.h"

static int check(CUfunction f)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    return sim_is_function(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    int rc = f ? check(f) : CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    if (!offset || index >= f->params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->offsets[index];
    if (size)
        *size = f->sizes[index];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction f)
{
    int rc = check(f);
    if (rc)
        return rc;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = f->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction f)
{
    int rc = check(f);
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f->module;
    return CUDA_SUCCESS;
}

/* Every function is on the device when its module's load returns. */
EXPORT CUresult cuFuncIsLoaded(int *state, CUfunction f)
{
    int rc = check(f);
    if (rc)
        return rc;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncLoad(CUfunction f) { return check(f); }

EXPORT CUresult cuFuncSetCacheConfig(CUfunction f, unsigned config)
{
    int rc = check(f);
    return rc ? rc : config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction f, unsigned config)
{
    int rc = check(f);
    return rc ? rc : config <= 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- attributes; the numbers are the vendor's ---- */

enum {
    MAX_THREADS_PER_BLOCK,
    SHARED_SIZE_BYTES,
    CONST_SIZE_BYTES,
    LOCAL_SIZE_BYTES,
    NUM_REGS,
    PTX_VERSION,
    BINARY_VERSION,
    CACHE_MODE_CA,
    MAX_DYNAMIC_SHARED_SIZE_BYTES,
    PREFERRED_SHARED_MEMORY_CARVEOUT,
    CLUSTER_SIZE_MUST_BE_SET,
    REQUIRED_CLUSTER_WIDTH,
    REQUIRED_CLUSTER_HEIGHT,
    REQUIRED_CLUSTER_DEPTH,
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    CLUSTER_SCHEDULING_POLICY_PREFERENCE
};

int sim_function_get(const struct sim_function *f, int attribute, int *value)
{
    switch (attribute) {
    case MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return CUDA_SUCCESS;
    case SHARED_SIZE_BYTES:
    case CONST_SIZE_BYTES:
    case LOCAL_SIZE_BYTES:
    case CACHE_MODE_CA:
    case CLUSTER_SIZE_MUST_BE_SET:
        *value = 0;
        return CUDA_SUCCESS;
    case REQUIRED_CLUSTER_WIDTH:
    case REQUIRED_CLUSTER_HEIGHT:
    case REQUIRED_CLUSTER_DEPTH:
        *value = f->required_cluster[attribute - REQUIRED_CLUSTER_WIDTH];
        return CUDA_SUCCESS;
    case NUM_REGS:
        *value = 32;
        return CUDA_SUCCESS;
    case PTX_VERSION:
        *value = 70;
        return CUDA_SUCCESS;
    case BINARY_VERSION:
        *value = 90;
        return CUDA_SUCCESS;
    case MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->max_dynamic;
        return CUDA_SUCCESS;
    case PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = f->carveout;
        return CUDA_SUCCESS;
    case NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = f->wide_clusters;
        return CUDA_SUCCESS;
    case CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = f->cluster_policy;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

int sim_function_set(struct sim_function *f, int attribute, int value)
{
    switch (attribute) {
    case MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > SIM_SHARED_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic = value;
        return CUDA_SUCCESS;
    case PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    case REQUIRED_CLUSTER_WIDTH:
    case REQUIRED_CLUSTER_HEIGHT:
    case REQUIRED_CLUSTER_DEPTH:
        if (value < 0)
            return CUDA_ERROR_INVALID_VALUE;
        f->required_cluster[attribute - REQUIRED_CLUSTER_WIDTH] = value;
        return CUDA_SUCCESS;
    case NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        f->wide_clusters = value != 0;
        return CUDA_SUCCESS;
    case CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > 2)
            return CUDA_ERROR_INVALID_VALUE;
        f->cluster_policy = value;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction f)
{
    if (!value)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    int rc = check(f);
    return rc ? rc : sim_function_get(f, attribute, value);
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
    int rc = check(f);
    return rc ? rc : sim_function_set(f, attribute, value);
}
