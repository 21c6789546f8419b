/* Finding the driver, and answering those who look for it.
 *
 * The driver is found by our own dlopen when the program first asks for it or
 * calls into it; nothing is done before. No lock is held meanwhile: finding is
 * idempotent, and every thread that comes while another one is at it does the
 * same work once more. A lock here could be waited for under the loader's own
 * (a constructor of a library that is being opened calls dlsym), in the opposite
 * order. */
#ifndef XM_RESOLVE_H
#define XM_RESOLVE_H

#include <stdbool.h>

#include "abi.h"

/* The driver's functions that we call ourselves. A member is NULL when this
 * driver has no function of that name. */
#define XM_REAL_LIST(X)                                \
    X(cuCtxGetCurrent)                             \
    X(cuCtxGetDevice)                              \
    X(cuCtxSynchronize)                            \
    X(cuCtxPushCurrent_v2)                         \
    X(cuCtxPopCurrent_v2)                          \
    X(cuDevicePrimaryCtxGetState)                  \
    X(cuDeviceGetAttribute)                        \
    X(cuDeviceGetCount)                            \
    X(cuDeviceGetDefaultMemPool)                   \
    X(cuDeviceGetMemPool)                          \
    X(cuDeviceGetName)                             \
    X(cuDeviceGetUuid)                             \
    X(cuDeviceGetUuid_v2)                          \
    X(cuDriverGetVersion)                          \
    X(cuEventCreate)                               \
    X(cuEventDestroy_v2)                           \
    X(cuEventQuery)                                \
    X(cuEventRecord)                               \
    X(cuEventRecord_ptsz)                          \
    X(cuFuncGetModule)                             \
    X(cuFuncGetName)                               \
    X(cuFuncGetParamInfo)                          \
    X(cuGraphChildGraphNodeGetGraph)               \
    X(cuGraphGetNodes)                             \
    X(cuGraphKernelNodeGetParams_v2)               \
    X(cuGraphMemcpyNodeGetParams)                  \
    X(cuGraphMemsetNodeGetParams)                  \
    X(cuGraphNodeGetType)                          \
    X(cuKernelGetLibrary)                          \
    X(cuKernelGetName)                             \
    X(cuKernelGetParamInfo)                        \
    X(cuLibraryGetKernelCount)                     \
    X(cuDeviceTotalMem_v2)                         \
    X(cuMemAddressFree)                            \
    X(cuMemAddressReserve)                         \
    X(cuMemAlloc_v2)                               \
    X(cuMemCreate)                                 \
    X(cuMemExportToShareableHandle)                \
    X(cuMemFree_v2)                                \
    X(cuMemGetAllocationGranularity)               \
    X(cuMemHostGetDevicePointer_v2)                \
    X(cuMemHostRegister_v2)                        \
    X(cuMemHostUnregister)                         \
    X(cuMemImportFromShareableHandle)              \
    X(cuMemMap)                                    \
    X(cuMemPoolGetAccess)                          \
    X(cuMemPoolGetAttribute)                       \
    X(cuMemRelease)                                \
    X(cuMemSetAccess)                              \
    X(cuMemUnmap)                                  \
    X(cuStreamGetCtx)                              \
    X(cuStreamGetCtx_ptsz)                         \
    X(cuStreamIsCapturing)                         \
    X(cuStreamIsCapturing_ptsz)                    \
    X(cuStreamQuery)                               \
    X(cuStreamSynchronize)                         \
    X(cuStreamWaitEvent)                           \
    X(cuStreamQuery_ptsz)                          \
    X(cuStreamWaitValue32)                         \
    X(cuStreamWaitValue32_v2)                      \
    X(cuStreamWriteValue32)                        \
    X(cuStreamWriteValue32_ptsz)                   \
    X(cuStreamWriteValue32_v2)                     \
    X(cuStreamWriteValue32_v2_ptsz)                \
    X(cuThreadExchangeStreamCaptureMode)

struct xm_real {
#define XM_REAL_MEMBER(name) xm_pfn_##name name;
    XM_REAL_LIST(XM_REAL_MEMBER)
#undef XM_REAL_MEMBER
};

/* Filled by xm_resolve, constant afterwards; all NULL before, and when there is
 * no driver. */
extern XM_INTERNAL struct xm_real xm_real;

/* The simulated driver's own answer to requests of the resource manager, which it
 * exports; NULL: a real driver, which the kernel answers for. */
extern XM_INTERNAL int (*xm_sim_ioctl)(int fd, unsigned long request, void *arg);

/* The driver's own function of that exported name, never a hook; NULL: there is none. */
XM_INTERNAL void *xm_driver_symbol(const char *name);

/* The function of that name that comes after ours, as for dlsym(RTLD_NEXT, …) from here. */
XM_INTERNAL void *xm_next(const char *name);

/* Finds the driver if it has not been found yet. False: there is none (now). */
XM_INTERNAL bool xm_resolve(void);

/* One hooked name: a function that the driver exports and that the library
 * exports too. */
struct xm_hook {
    const char *name;
    void *function; /* ours */
};

/* All hooks, in strcmp order of their names; xm_driver[i] is the driver's own
 * function of xm_hooks[i], NULL before xm_resolve or when this driver lacks it. */
extern XM_INTERNAL const struct xm_hook xm_hooks[];
extern XM_INTERNAL const int xm_hook_count;
extern XM_INTERNAL void *xm_driver[];

/* The number of the hook of that exact name, or -1. */
XM_INTERNAL int xm_hook_find(const char *name);

/* What a caller gets who was given `found` by the driver for `name` (any name
 * of the function: with or without its version): our hook of the same exported
 * function, else `found` itself. */
XM_INTERNAL void *xm_hooked(void *found, const char *name);

/* Whether an address lies in the driver's library. */
XM_INTERNAL bool xm_in_driver(const void *address);

/* xm_driver[hook] when that is NULL: finds the driver, and answers with a
 * function that returns an error when the driver has no such function. */
XM_INTERNAL __attribute__((cold)) void *xm_driver_missing(int hook);

static inline void *xm_driver_function(int hook)
{
    void *f = __atomic_load_n(&xm_driver[hook], __ATOMIC_RELAXED);

    return __builtin_expect(f != NULL, 1) ? f : xm_driver_missing(hook);
}

/* The driver's function behind the hook of that name, with its type. */
#define XM_DRIVER(name) ((xm_pfn_##name)xm_driver_function(XM_HOOK_##name))

#endif
