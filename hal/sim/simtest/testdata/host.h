/* The part of the driver's ABI that the test programs use, and how they fail. */
#ifndef HOST_H
#define HOST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long dptr;

int cuInit(unsigned);
int cuDeviceGet(int *, int);
int cuDeviceGetCount(int *);
int cuDeviceGetName(char *, int, int);
int cuDeviceGetUuid(void *, int);
int cuDeviceGetAttribute(int *, int, int);
int cuDeviceTotalMem_v2(size_t *, int);
int cuDeviceCanAccessPeer(int *, int, int);
int cuCtxEnablePeerAccess(void *, unsigned);
int cuCtxDisablePeerAccess(void *);
int cuCtxGetDevice(int *);
int cuMemcpyPeer(dptr, void *, dptr, void *, size_t);
int cuMemcpyPeerAsync(dptr, void *, dptr, void *, size_t, void *);
int cuMemPoolSetAccess(void *, const void *, size_t);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxCreate_v2(void **, unsigned, int);
int cuCtxDestroy_v2(void *);
int cuCtxSetCurrent(void *);
int cuCtxGetCurrent(void **);
int cuCtxPopCurrent_v2(void **);
int cuCtxSynchronize(void);
int cuModuleLoad(void **, const char *);
int cuModuleLoadData(void **, const void *);
int cuModuleUnload(void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuFuncGetParamInfo(void *, size_t, size_t *, size_t *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuStreamCreate(void **, unsigned);
int cuStreamDestroy_v2(void *);
int cuStreamSynchronize(void *);
int cuStreamSynchronize_ptsz(void *);
int cuStreamQuery(void *);
int cuStreamWaitEvent(void *, void *, unsigned);
/* As in the vendor's header, the plain names are those of the second version. */
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
int cuStreamWaitValue32(void *, dptr, uint32_t, unsigned);
int cuStreamWriteValue32(void *, dptr, uint32_t, unsigned);
int cuStreamIsCapturing(void *, int *);
int cuEventCreate(void **, unsigned);
int cuEventDestroy_v2(void *);
int cuEventRecord(void *, void *);
int cuEventQuery(void *);
int cuEventSynchronize(void *);
int cuEventElapsedTime(float *, void *, void *);
int cuMemAlloc_v2(dptr *, size_t);
int cuMemFree_v2(dptr);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *);
int cuMemHostGetDevicePointer_v2(dptr *, void *, unsigned);
int cuMemcpyHtoD_v2(dptr, const void *, size_t);
int cuMemcpyDtoH_v2(void *, dptr, size_t);
int cuMemcpyDtoD_v2(dptr, dptr, size_t);
int cuMemcpyHtoDAsync_v2(dptr, const void *, size_t, void *);
int cuMemcpyDtoHAsync_v2(void *, dptr, size_t, void *);
int cuMemsetD8_v2(dptr, unsigned char, size_t);
int cuMemsetD32Async(dptr, unsigned, size_t, void *);
int cuGetErrorName(int, const char **);
int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
int cuMemAllocManaged(dptr *, size_t, unsigned);
int cuArrayDestroy(void *);
int cuMemAllocHost_v2(void **, size_t);
int cuMemAllocPitch_v2(dptr *, size_t *, size_t, size_t, unsigned);
int cuMemcpy(dptr, dptr, size_t);
int cuMemcpyAsync(dptr, dptr, size_t, void *);
int cuMemsetD2D8_v2(dptr, size_t, unsigned char, size_t, size_t);
int cuMemsetD2D32Async(dptr, size_t, unsigned, size_t, size_t, void *);
int cuMemAllocAsync(dptr *, size_t, void *);
int cuMemAllocFromPoolAsync(dptr *, size_t, void *, void *);
int cuMemFreeAsync(dptr, void *);
int cuMemPoolCreate(void **, const void *);
int cuMemPoolDestroy(void *);
int cuMemPoolSetAttribute(void *, int, void *);
int cuMemPoolGetAttribute(void *, int, void *);
int cuMemPoolTrimTo(void *, size_t);
int cuDeviceGetDefaultMemPool(void **, int);
int cuMemPrefetchAsync(dptr, size_t, int, void *);
int cuMemAdvise(dptr, size_t, int, int);
int cuMemRangeGetAttribute(void *, size_t, int, dptr, size_t);
int cuPointerGetAttribute(void *, int, dptr);

/* Memory that is mapped by hand. */
struct location {
    int type, id; /* 1 a device, 2 the host, 3 a node of the host's */
};
struct mem_prop {
    int type, handle_types;
    struct location location;
    void *win32;
    uint64_t flags;
};
struct mem_access {
    struct location location;
    int flags; /* 0 none, 1 read, 3 read and write */
};
int cuMemGetAllocationGranularity(size_t *, const struct mem_prop *, int);
int cuMemAddressReserve(dptr *, size_t, size_t, dptr, unsigned long long);
int cuMemAddressFree(dptr, size_t);
int cuMemCreate(uint64_t *, size_t, const struct mem_prop *, unsigned long long);
int cuMemRelease(uint64_t);
int cuMemMap(dptr, size_t, size_t, uint64_t, unsigned long long);
int cuMemUnmap(dptr, size_t);
int cuMemSetAccess(dptr, size_t, const struct mem_access *, size_t);
int cuMemGetAccess(unsigned long long *, const struct location *, dptr);
int cuMemRetainAllocationHandle(uint64_t *, void *);
int cuMemGetAllocationPropertiesFromHandle(struct mem_prop *, uint64_t);
int cuMemExportToShareableHandle(void *, uint64_t, int, unsigned long long);
int cuMemImportFromShareableHandle(uint64_t *, void *, int);
int cuMemGetAddressRange_v2(dptr *, size_t *, dptr);

#define CHECK(call)                                                              \
    do {                                                                         \
        int rc_ = (call);                                                        \
        if (rc_) {                                                               \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, rc_); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

#define WANT(call, code)                                                                          \
    do {                                                                                          \
        int rc_ = (call);                                                                         \
        if (rc_ != (code)) {                                                                      \
            fprintf(stderr, "%s:%d: %s = %d, want %d\n", __FILE__, __LINE__, #call, rc_, (code)); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define TRUE(x)                                                       \
    do {                                                              \
        if (!(x)) {                                                   \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #x); \
            exit(1);                                                  \
        }                                                             \
    } while (0)

static inline uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* A context, the module (XM_PTX names its file) and one of its kernels. */
static inline void *begin(void)
{
    void *ctx, *module;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
    return module;
}

static inline void *kernel(void *module, const char *name)
{
    void *f;
    CHECK(cuModuleGetFunction(&f, module, name));
    return f;
}

/* Iterations of xm_spin with 132 blocks of 128 threads that take about one
 * simulated microsecond. */
#define ITERATIONS_PER_US 330u

static inline int spin(void *f, void *stream, dptr out, uint64_t us)
{
    uint64_t iterations = us * ITERATIONS_PER_US;
    void *args[] = {&out, &iterations};
    return cuLaunchKernel(f, 132, 1, 1, 128, 1, 1, 0, stream, args, NULL);
}

static inline uint32_t spin_result(uint32_t x, uint64_t n)
{
    uint32_t mul = 1, add = 0, sm = 1664525, sa = 1013904223;
    for (; n; n >>= 1) {
        if (n & 1) {
            add = add * sm + sa;
            mul *= sm;
        }
        sa = sa * sm + sa;
        sm *= sm;
    }
    return mul * x + add;
}

#endif
