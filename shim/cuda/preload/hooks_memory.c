/* Memory that the program allocates by address, and what it asks about it. */
#include <stddef.h>

#include "admission.h"
#include "hooks.h"
#include "mem.h"
#include "mem_count.h"
#include "mem_pool.h"
#include "mem_touch.h"
#include "mem_truth.h"
#include "memory_here.h"
#include "probes.h"
#include "record.h"
#include "sample.h"
#include "state.h"
#include "thread.h"
#include "uncovered.h"
#include "wait.h"

/* Every H200 and its predecessors have rows begin at multiples of it. */
#define PITCH 512u
/* More than there is: the driver refuses, after it has looked whether a capture forbids it. */
#define TOO_MUCH ((size_t)1 << 62)

CUresult xm_door_forbidden(void)
{
    CUdeviceptr none = 0;
    CUresult r;

    if (!atomic_load(&xm_state.captures))
        return CUDA_SUCCESS;
    r = xm_real.cuMemAlloc_v2(&none, TOO_MUCH);
    return r == CUDA_ERROR_OUT_OF_MEMORY || r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
}

static CUresult allocate(struct xm_mem *m, CUcontext context, CUdeviceptr *dptr, size_t bytes)
{
    struct xm_thread *me;
    CUresult r;

    *dptr = 0;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    r = xm_door_forbidden();
    if (r)
        return r;
    me = xm_enter();
    if (!me)
        return XM_DRIVER(cuMemAlloc_v2)(dptr, bytes);
    r = xm_mem_allocate(m, context, bytes, dptr);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && xm_pools_release(m, true))
        r = xm_mem_allocate(m, context, bytes, dptr);
    xm_leave(me);
    return r;
}

/* True: it is managed, for what the program does with it to be learnt. */
static bool learnt(struct xm_mem *m, CUcontext context, CUdeviceptr *dptr, size_t bytes)
{
    if (!xm_learns() || xm_count_before(m, bytes) != CUDA_SUCCESS || !xm_sample_alloc(m, context, dptr, bytes))
        return false;
    xm_range_came(NULL, 0, *dptr, bytes, XM_COMMAND_UNIFIED);
    (void)xm_site_made(CUDA_SUCCESS, dptr, bytes);
    return true;
}

/* The driver's answer, or ours, on its way to the program. */
static inline CUresult came(CUresult result, const CUdeviceptr *at, uint64_t bytes)
{
    if (result == CUDA_SUCCESS && at)
        xm_range_came(NULL, 0, *at, bytes, 0);
    return xm_site_made(result, at, bytes);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    return XM_DRIVER(cuMemAlloc)(dptr, bytesize);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    CUcontext context;
    struct xm_mem *m = xm_memory_here(&context);

    if (learnt(m, context, dptr, bytesize))
        return CUDA_SUCCESS;
    if (!m || !dptr)
        return came(XM_DRIVER(cuMemAlloc_v2)(dptr, bytesize), dptr, bytesize);
    if (xm_memory_plain(m))
        return came(xm_count_plain(m, context, dptr, bytesize), dptr, bytesize);
    return came(allocate(m, context, dptr, bytesize), dptr, bytesize);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element)
{
    return XM_DRIVER(cuMemAllocPitch)(dptr, pitch, width, height, element);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    CUcontext context;
    struct xm_mem *m = xm_memory_here(&context);
    size_t row, bytes;
    CUresult r;

    if (dptr && pitch && width && height && (element == 4 || element == 8 || element == 16) &&
        !__builtin_add_overflow(width, (size_t)PITCH - 1, &row) && !__builtin_mul_overflow(row / PITCH * PITCH, height, &bytes) &&
        learnt(m, context, dptr, bytes)) {
        *pitch = row / PITCH * PITCH;
        return CUDA_SUCCESS;
    }
    /* What is wrong the driver says better. */
    if (!m || !dptr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16) || xm_memory_plain(m) ||
        __builtin_add_overflow(width, (size_t)PITCH - 1, &row) || __builtin_mul_overflow(row / PITCH * PITCH, height, &bytes)) {
        r = XM_DRIVER(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
        return came(r, dptr, pitch ? *pitch * height : 0);
    }
    r = allocate(m, context, dptr, bytes);
    *pitch = r ? 0 : row / PITCH * PITCH;
    return came(r, dptr, bytes);
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    CUresult result;

    xm_wait_begins();
    result = XM_DRIVER(cuMemFree)(dptr);
    if (result == CUDA_SUCCESS)
        xm_synced_event();
    return result;
}

/* Memory of a pool that is freed so is waited for by nobody, as by the driver (recorded on an H200, hal/cuda). */
static void free_of_pool(CUdeviceptr dptr, CUresult *result)
{
    struct xm_thread *me;

    *result = xm_door_forbidden();
    if (*result || !(me = xm_enter()))
        return;
    *result = xm_pool_free_now(dptr);
    xm_pools_settle();
    xm_leave(me);
}

/* False: it is for the driver. */
static bool free_ours(CUdeviceptr dptr, CUresult *result)
{
    struct xm_thread *me;
    struct xm_mem *m;
    CUcontext context;
    bool ours;

    if (!atomic_load_explicit(&xm_mem_any, memory_order_relaxed) || !dptr || !(me = xm_enter()))
        return false;
    ours = xm_mem_owner(dptr, &m, &context);
    xm_leave(me);
    if (!ours)
        return false;
    if (!context)
        return free_of_pool(dptr, result), true;
    *result = xm_mem_wait(context);
    if (*result || !(me = xm_enter()))
        return true;
    *result = xm_mem_free(m, dptr);
    xm_leave(me);
    return true;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    CUresult result;

    XM_SITE(free, dptr, 0, 0);
    xm_wait_begins();
    if (xm_learns())
        xm_sample_freed(dptr);
    xm_range_goes(NULL, 0, dptr, 0);
    if (!free_ours(dptr, &result)) {
        result = XM_DRIVER(cuMemFree_v2)(dptr);
        if (result == CUDA_SUCCESS)
            xm_count_gone(dptr);
    }
    (void)xm_range_gone(result, dptr, 0);
    if (result == CUDA_SUCCESS)
        xm_synced_event();
    return result;
}

/* ---- questions ---- */

static bool ours(CUdeviceptr address, struct xm_truth_range *range)
{
    struct xm_thread *me;
    bool yes;

    if (xm_learns() && xm_sample_range(address, range))
        return true;
    if (!atomic_load_explicit(&xm_mem_any, memory_order_relaxed) || !(me = xm_enter()))
        return false;
    yes = xm_truth_range(address, range);
    xm_leave(me);
    return yes;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 dptr)
{
    return XM_DRIVER(cuMemGetAddressRange)(base, size, dptr);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    struct xm_truth_range r;

    if (!ours(dptr, &r))
        return XM_DRIVER(cuMemGetAddressRange_v2)(base, size, dptr);
    if (base)
        *base = r.at;
    if (size)
        *size = r.bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    return XM_DRIVER(cuMemGetInfo)(free, total);
}

/* The answer decides how much a program allocates, so whether memory is managed is settled before it. */
CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CUcontext context;
    struct xm_mem *m = xm_memory_here(&context);
    size_t f, t;
    CUresult result = XM_DRIVER(cuMemGetInfo_v2)(free, total); /* an error of the context comes out here as well */
    struct xm_thread *me;

    if (result != CUDA_SUCCESS || !m || !(me = xm_enter()))
        return result;
    xm_truth_info(m, &f, &t);
    xm_leave(me);
    if (free)
        *free = f;
    if (total)
        *total = t;
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    return XM_DRIVER(cuDeviceTotalMem)(bytes, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CUresult result = XM_DRIVER(cuDeviceTotalMem_v2)(bytes, dev);
    struct xm_mem *m = result == CUDA_SUCCESS ? xm_memory_on(dev) : NULL;
    size_t limit = result == CUDA_SUCCESS && !m ? xm_truth_early_limit() : 0, unused;

    if (m)
        xm_truth_info(m, &unused, bytes);
    else if (limit && limit < *bytes)
        *bytes = limit;
    return result;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct xm_truth_range r;
    bool absent;
    int touched;
    CUresult result;

    if (data && ours(ptr, &r) && xm_truth_attribute(&r, ptr, attribute, data, &absent))
        return absent ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    touched = xm_touch(ptr, 0);
    result = XM_DRIVER(cuPointerGetAttribute)(data, attribute, ptr);
    xm_untouch(touched);
    return result;
}

/* What such memory does not have is zero here, and no error. */
CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    struct xm_truth_range r;
    bool absent, known = attributes && data && n && ours(ptr, &r);
    int touched;
    CUresult result;

    for (unsigned i = 0; known && i < n; i++)
        known = data[i] && xm_truth_attribute(&r, ptr, attributes[i], data[i], &absent);
    if (known)
        return CUDA_SUCCESS;
    touched = xm_touch(ptr, 0);
    result = XM_DRIVER(cuPointerGetAttributes)(n, attributes, data, ptr);
    xm_untouch(touched);
    return result;
}

/* The one that can be set makes copies wait for their end, for those who reach the memory past the driver:
 * that cannot be had of memory that moves. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct xm_truth_range r;

    if (!ours(ptr, &r))
        return XM_DRIVER(cuPointerSetAttribute)(value, attribute, ptr);
    xm_uncovered("cuPointerSetAttribute");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Those of managed (unified) memory, which ours is not. */
CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr ptr, size_t count)
{
    struct xm_truth_range r;

    return ours(ptr, &r) ? CUDA_ERROR_INVALID_VALUE : XM_DRIVER(cuMemRangeGetAttribute)(data, size, attribute, ptr, count);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t n, CUdeviceptr ptr, size_t count)
{
    struct xm_truth_range r;

    return ours(ptr, &r) ? CUDA_ERROR_INVALID_VALUE : XM_DRIVER(cuMemRangeGetAttributes)(data, sizes, attributes, n, ptr, count);
}

/* ---- what memory that moves cannot be ---- */

/* As of what cuMemAlloc gave: it has no handle of the program's. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct xm_truth_range r;

    if (ours((CUdeviceptr)(uintptr_t)addr, &r))
        return CUDA_ERROR_INVALID_VALUE;
    return xm_count_retained(XM_DRIVER(cuMemRetainAllocationHandle)(handle, addr), handle);
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType type, unsigned long long flags)
{
    struct xm_truth_range r;

    if (!ours(dptr, &r))
        return XM_DRIVER(cuMemGetHandleForAddressRange)(handle, dptr, size, type, flags);
    xm_uncovered("cuMemGetHandleForAddressRange");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Another process would go on looking at what this memory was mapped to. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
    struct xm_truth_range r;

    if (!ours(dptr, &r))
        return XM_DRIVER(cuIpcGetMemHandle)(handle, dptr);
    if (r.pool)
        return CUDA_ERROR_INVALID_VALUE; /* as of any pool's */
    xm_uncovered("cuIpcGetMemHandle");
    xm_count_say_ipc();
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUresult result = XM_DRIVER(cuCtxEnablePeerAccess)(peer, flags);

    if (result == CUDA_SUCCESS)
        xm_count_peer(peer);
    return result;
}
