/* Finding the driver, and answering those who look for it.
 *
 * The driver is found by our own dlopen, once, when the program first asks for
 * it or calls into it; nothing is done before. */
#ifndef XM_RESOLVE_H
#define XM_RESOLVE_H

#include <stdbool.h>

#include "abi.h"

#define XM_INTERNAL __attribute__((visibility("hidden")))
#define XM_EXPORT __attribute__((visibility("default")))

/* The driver's functions that we call ourselves: X(name, parameters). A member
 * is NULL when this driver has no function of that name. */
#define XM_REAL_LIST(X)                                                        \
    X(cuCtxGetCurrent, (CUcontext *))                                          \
    X(cuCtxGetDevice, (CUdevice *))                                            \
    X(cuCtxPushCurrent_v2, (CUcontext))                                        \
    X(cuCtxPopCurrent_v2, (CUcontext *))                                       \
    X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *))               \
    X(cuDeviceGetName, (char *, int, CUdevice))                                \
    X(cuDeviceGetUuid, (CUuuid *, CUdevice))                                   \
    X(cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                                \
    X(cuDriverGetVersion, (int *))                                             \
    X(cuEventCreate, (CUevent *, unsigned))                                    \
    X(cuEventDestroy_v2, (CUevent))                                            \
    X(cuEventQuery, (CUevent))                                                 \
    X(cuEventRecord, (CUevent, CUstream))                                      \
    X(cuEventRecord_ptsz, (CUevent, CUstream))                                 \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned))         \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                        \
    X(cuMemHostUnregister, (void *))                                           \
    X(cuStreamGetCtx, (CUstream, CUcontext *))                                 \
    X(cuStreamGetCtx_ptsz, (CUstream, CUcontext *))                            \
    X(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))                \
    X(cuStreamIsCapturing_ptsz, (CUstream, CUstreamCaptureStatus *))           \
    X(cuStreamQuery, (CUstream))                                               \
    X(cuStreamQuery_ptsz, (CUstream))                                          \
    X(cuStreamWriteValue32, (CUstream, CUdeviceptr, cuuint32_t, unsigned))     \
    X(cuStreamWriteValue32_ptsz, (CUstream, CUdeviceptr, cuuint32_t, unsigned)) \
    X(cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, cuuint32_t, unsigned))  \
    X(cuStreamWriteValue32_v2_ptsz, (CUstream, CUdeviceptr, cuuint32_t, unsigned)) \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))

struct xm_real {
#define XM_REAL_MEMBER(name, params) CUresult(*name) params;
    XM_REAL_LIST(XM_REAL_MEMBER)
#undef XM_REAL_MEMBER
};

/* Filled by xm_resolve, constant afterwards; all NULL before and when there is
 * no driver. */
extern XM_INTERNAL struct xm_real xm_real;

/* Finds the driver if that has not been tried yet. False: there is none. Any
 * thread, any number of times; the first waits for the loader. */
XM_INTERNAL bool xm_resolve(void);

/* The driver's function behind a hook, by the number of the hook, when the table
 * is still empty for it: resolves, and answers with a function that returns an
 * error when the driver lacks this one. Never NULL. */
XM_INTERNAL void *xm_driver_missing(int hook);

#endif
