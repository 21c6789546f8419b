/* A driver for tests of the doors: it has no device, does every command at once,
 * and does on demand what a real driver does badly. Environment:
 *
 *   FAKE_LAUNCH_ERROR=N  launches return N
 *   FAKE_SLOW_US=N       synchronisations take N microseconds, and launches too
 *   FAKE_TRAP=1          the constructor looks itself up through dlsym, and the
 *                        resolver answers by dlsym(handle, name)
 *
 * Built with -DFAKE_OLD it is a driver before CUDA 12: no name with a second
 * version of the resolver, no cuLaunchKernelEx.
 *
 * Hosts read what it saw through the fake_ functions. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XM_EXPORT __attribute__((visibility("default")))
#include "../gen/cuda_prototypes.h"

#define FAKE_VERSION 13000

static __thread unsigned long commands; /* launches, copies and memsets of this thread */
static unsigned inits;                  /* successful cuInit */
static __thread CUcontext current;
static char contexts[2]; /* their addresses are the handles: primary, created */
static int retained;

static long setting(const char *name)
{
    const char *text = getenv(name);

    return text ? atol(text) : 0;
}

static void dawdle(void)
{
    long us = setting("FAKE_SLOW_US");
    struct timespec left = {us / 1000000, us % 1000000 * 1000};

    if (us <= 0)
        return;
    while (nanosleep(&left, &left)) {
    }
}

static CUresult command(void)
{
    commands++;
    return CUDA_SUCCESS;
}

/* The launch that overhead is measured on must do as little as can be, so its
 * settings are read once. */
static int launch_error = -1;
static long launch_slow;

static CUresult launch(void)
{
    if (__builtin_expect(launch_error != 0, 0)) {
        if (launch_error < 0) {
            launch_slow = setting("FAKE_SLOW_US");
            launch_error = (int)setting("FAKE_LAUNCH_ERROR");
        }
        if (launch_error > 0)
            return (CUresult)launch_error;
    }
    if (__builtin_expect(launch_slow != 0, 0))
        dawdle();
    return CUDA_SUCCESS;
}

/* Every function is a kernel of three parameters. */
CUresult cuFuncGetName(const char **name, CUfunction f)
{
    (void)f;
    *name = "kernel";
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size)
{
    (void)f;
    if (i >= 3)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * i;
    if (size)
        *size = 8;
    return CUDA_SUCCESS;
}

/* Commands that entered on the calling thread, and on no other. */
XM_EXPORT unsigned long fake_commands(void)
{
    return commands;
}

XM_EXPORT unsigned fake_inits(void)
{
    return inits;
}

/* --- start, devices ------------------------------------------------------ */

CUresult cuInit(unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    inits++;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    (void)dev;
    strncpy(name, "Fake", (size_t)len);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    (void)dev;
    memset(uuid, 0xfa, sizeof *uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid(uuid, dev);
}

/* --- contexts ------------------------------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    (void)dev;
    retained++;
    *pctx = (CUcontext)&contexts[0];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    (void)dev;
    if (retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    retained--;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    (void)dev;
    *flags = 0;
    *active = retained > 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    (void)flags, (void)dev;
    *pctx = current = (CUcontext)&contexts[1];
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    if (current == ctx)
        current = NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    current = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    current = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    if (pctx)
        *pctx = current;
    current = NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    *pctx = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void)
{
    dawdle();
    return CUDA_SUCCESS;
}

/* --- streams and events -------------------------------------------------- */

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    (void)Flags;
    *phStream = malloc(16);
    return *phStream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    free(hStream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    (void)hStream;
    dawdle();
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream hStream)
{
    (void)hStream;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    (void)hStream;
    *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    (void)hStream;
    return cuCtxGetCurrent(pctx);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static __thread CUstreamCaptureMode kept = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode old = kept;

    kept = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* Memory is the host's, so a write by the device is a store. */
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    (void)stream, (void)flags;
    __atomic_store_n((cuuint32_t *)(uintptr_t)addr, value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    (void)Flags;
    *phEvent = malloc(16);
    return *phEvent ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    free(hEvent);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    (void)hEvent, (void)hStream;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent hEvent)
{
    (void)hEvent;
    return CUDA_SUCCESS;
}

/* --- memory -------------------------------------------------------------- */

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    void *p = malloc(bytesize);

    *dptr = (CUdeviceptr)(uintptr_t)p;
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    free((void *)(uintptr_t)dptr);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    (void)p, (void)bytesize, (void)Flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p)
{
    (void)p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    (void)Flags;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
    memcpy((void *)(uintptr_t)dst, src, n);
    return command();
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
    memcpy(dst, (void *)(uintptr_t)src, n);
    return command();
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream hStream)
{
    (void)hStream;
    return cuMemcpyHtoD_v2(dst, src, n);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char uc, size_t n, CUstream hStream)
{
    (void)hStream;
    memset((void *)(uintptr_t)dst, uc, n);
    return command();
}

/* --- launches ------------------------------------------------------------ */

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream hStream, void **params,
                        void **extra)
{
    CUresult result = launch();

    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)hStream, (void)params,
        (void)extra;
    return result != CUDA_SUCCESS || extra ? result : command();
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream hStream, void **params,
                             void **extra)
{
    /* Through its own exported name, as a driver might. */
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, hStream, params, extra);
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    CUresult result = launch();

    (void)hGraphExec, (void)hStream;
    return result != CUDA_SUCCESS ? result : command();
}

#ifndef FAKE_OLD
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    CUresult result = launch();

    (void)f, (void)params, (void)extra;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return result != CUDA_SUCCESS ? result : command();
}
#endif
