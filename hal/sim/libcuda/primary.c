/* The primary contexts: counted, and one for each device. */
#include "sim.h"

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;
static struct primary {
    struct sim_ctx *ctx; /* the handle stays the same for ever */
    unsigned count;
    bool alive; /* it was not reset since it was retained */
    unsigned flags;
} primaries[SIM_DEVICES];

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct primary *p = &primaries[device];
    pthread_mutex_lock(&primary_lock);
    if (!p->ctx && (p->ctx = sim_ctx_new())) {
        p->ctx->primary = true;
        p->ctx->device = device;
    }
    rc = p->ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!rc && !p->alive) {
        p->ctx->flags = p->flags | CU_CTX_MAP_HOST;
        rc = sim_ctx_begin(p->ctx);
        p->alive = !rc;
    }
    if (!rc) {
        p->count++;
        *out = p->ctx;
    }
    pthread_mutex_unlock(&primary_lock);
    return rc;
}

static int release(CUdevice device, bool all)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct primary *p = &primaries[device];
    pthread_mutex_lock(&primary_lock);
    if (!all && !p->count)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    else if (!all)
        p->count--;
    if ((all || !p->count) && p->alive) { /* a reset leaves the count as it is */
        sim_ctx_end(p->ctx);
        p->alive = false;
        p->flags = 0;
    }
    pthread_mutex_unlock(&primary_lock);
    return rc;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return release(device, false); }
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return release(device, false); }
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return release(device, true); }
EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) { return release(device, true); }

static int set_flags(CUdevice device, unsigned flags, bool first)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!sim_ctx_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct primary *p = &primaries[device];
    pthread_mutex_lock(&primary_lock);
    if (first && p->alive)
        rc = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    else
        p->flags = flags;
    if (!rc && p->ctx)
        p->ctx->flags = flags | CU_CTX_MAP_HOST;
    pthread_mutex_unlock(&primary_lock);
    return rc;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) { return set_flags(device, flags, false); }
EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) { return set_flags(device, flags, true); }

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&primary_lock);
    *flags = primaries[device].flags;
    *active = primaries[device].alive;
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}
