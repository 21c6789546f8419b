/* Contexts: admission must know when a device is first used, when a thread
 * changes contexts, and when a context ends. */
#include <stddef.h>

#include "admission.h"
#include "hooks.h"
#include "ioctl.h"
#include "kernels.h"
#include "mem_count.h"
#include "mem_pool_synced.h"
#include "record.h"
#include "sample.h"
#include "wait.h"

/* Primary contexts are named by their device; the handle is known from the
 * retain. Devices beyond the last are not forgotten by us: their contexts end
 * with the process. */
#define PRIMARIES 64

static CUcontext primaries[PRIMARIES];

static void remember_primary(CUdevice dev, CUcontext ctx)
{
    if ((unsigned)dev < PRIMARIES)
        __atomic_store_n(&primaries[(unsigned)dev], ctx, __ATOMIC_RELAXED);
}

static CUcontext primary_of(CUdevice dev)
{
    return (unsigned)dev < PRIMARIES ? __atomic_load_n(&primaries[(unsigned)dev], __ATOMIC_RELAXED) : NULL;
}

static void forget_primary(CUdevice dev)
{
    CUcontext ctx = primary_of(dev);

    if (!ctx)
        return;
    remember_primary(dev, NULL);
    xm_context_gone(ctx);
}

/* While the driver makes a context on this thread, what it allocates is for that
 * device: remembered in case it cannot be asked. */
static void begins(CUdevice dev)
{
    CUuuid uuid;

    if ((xm_real.cuDeviceGetUuid_v2 && xm_real.cuDeviceGetUuid_v2(&uuid, dev) == CUDA_SUCCESS) ||
        (xm_real.cuDeviceGetUuid && xm_real.cuDeviceGetUuid(&uuid, dev) == CUDA_SUCCESS))
        xm_context_begins((const uint8_t *)uuid.bytes);
}

static CUresult made(CUresult result, CUdevice dev)
{
    xm_context_begins(NULL);
    if (result != CUDA_SUCCESS)
        return result;
    xm_context_changed();
    xm_context_made(dev);
    return result;
}

void xm_door_context_set(CUresult result)
{
    CUdevice dev;

    if (result != CUDA_SUCCESS)
        return;
    xm_context_changed();
    if (xm_real.cuCtxGetDevice && xm_real.cuCtxGetDevice(&dev) == CUDA_SUCCESS)
        xm_context_made(dev);
}

void xm_door_context_ended(CUcontext context)
{
    xm_count_context_ended(context);
    xm_range_context_ended(context);
    if (xm_learns())
        xm_sample_context_ended(context);
    xm_code_context_ended(context);
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    begins(dev);
    return made(XM_DRIVER(cuCtxCreate)(pctx, flags, dev), dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    begins(dev);
    return made(XM_DRIVER(cuCtxCreate_v2)(pctx, flags, dev), dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int n, unsigned int flags, CUdevice dev)
{
    begins(dev);
    return made(XM_DRIVER(cuCtxCreate_v3)(pctx, params, n, flags, dev), dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
    begins(dev);
    return made(XM_DRIVER(cuCtxCreate_v4)(pctx, params, flags, dev), dev);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    CUresult result;

    begins(dev);
    result = XM_DRIVER(cuDevicePrimaryCtxRetain)(pctx, dev);
    xm_context_begins(NULL);
    if (result == CUDA_SUCCESS) {
        remember_primary(dev, *pctx);
        xm_context_made(dev);
    }
    return result;
}

/* Before the driver is asked for what may end it. */
static CUcontext primary_goes(CUdevice dev)
{
    CUcontext ctx = primary_of(dev);

    xm_pools_context_goes(ctx);
    return ctx;
}

/* A release ends the context only when it was the last one, which the driver
 * knows: it is asked afterwards. */
static CUresult released(CUresult result, CUdevice dev, CUcontext may_go)
{
    unsigned flags;
    int active = 1;

    if (result == CUDA_SUCCESS && xm_real.cuDevicePrimaryCtxGetState &&
        xm_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active) {
        CUcontext was = primary_of(dev);

        forget_primary(dev);
        xm_door_context_ended(was);
        xm_context_ended();
    }
    xm_pools_context_answered(may_go);
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    CUcontext may_go = primary_goes(dev);

    return released(XM_DRIVER(cuDevicePrimaryCtxRelease)(dev), dev, may_go);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    CUcontext may_go = primary_goes(dev);

    return released(XM_DRIVER(cuDevicePrimaryCtxRelease_v2)(dev), dev, may_go);
}

/* A reset ends the context at once, whoever retains it. */
CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    CUcontext was = primary_goes(dev);
    CUresult result;

    forget_primary(dev);
    result = XM_DRIVER(cuDevicePrimaryCtxReset)(dev);
    if (result == CUDA_SUCCESS)
        xm_door_context_ended(was);
    xm_pools_context_answered(was);
    xm_context_ended();
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    CUcontext was = primary_goes(dev);
    CUresult result;

    forget_primary(dev);
    result = XM_DRIVER(cuDevicePrimaryCtxReset_v2)(dev);
    if (result == CUDA_SUCCESS)
        xm_door_context_ended(was);
    xm_pools_context_answered(was);
    xm_context_ended();
    return result;
}

CUresult cuCtxSynchronize(void)
{
    CUresult result;

    xm_wait_begins();
    result = XM_DRIVER(cuCtxSynchronize)();
    if (result == CUDA_SUCCESS)
        xm_synced_context(), xm_pools_synced();
    return result;
}

/* Waits for a context that need not be the current one. */
CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    CUcontext current = NULL;
    CUresult result;

    xm_wait_begins();
    result = XM_DRIVER(cuCtxSynchronize_v2)(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (xm_real.cuCtxGetCurrent && xm_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && (!ctx || ctx == current))
        xm_synced_context();
    else
        xm_synced_event();
    xm_pools_synced();
    return result;
}
