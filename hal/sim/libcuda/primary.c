/* The primary context: counted, and one for the device. */
#include "sim.h"

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_ctx *primary; /* the handle stays the same for ever */
static unsigned primary_count;
static bool primary_alive; /* it was not reset since it was retained */
static unsigned primary_flags;

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&primary_lock);
    if (!primary && (primary = sim_ctx_new()))
        primary->primary = true;
    rc = primary ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!rc && !primary_alive) {
        primary->flags = primary_flags | CU_CTX_MAP_HOST;
        rc = sim_ctx_begin(primary);
        primary_alive = !rc;
    }
    if (!rc) {
        primary_count++;
        *out = primary;
    }
    pthread_mutex_unlock(&primary_lock);
    return rc;
}

static int release(CUdevice device, bool all)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&primary_lock);
    if (!all && !primary_count)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    else if (!all)
        primary_count--;
    if ((all || !primary_count) && primary_alive) { /* a reset leaves the count as it is */
        sim_ctx_end(primary);
        primary_alive = false;
        primary_flags = 0;
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
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!sim_ctx_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&primary_lock);
    if (first && primary_alive)
        rc = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    else
        primary_flags = flags;
    if (!rc && primary)
        primary->flags = flags | CU_CTX_MAP_HOST;
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
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&primary_lock);
    *flags = primary_flags;
    *active = primary_alive;
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}
