/* A libcuda.so.1 that computes nothing: it checks what the binding passes, so
 * that the binding is tested without a device. */
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char launched[64];
static uint64_t words[16];

EXPORT int cuInit(unsigned flags) { return flags ? 1 : 0; }
EXPORT int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
EXPORT int cuDeviceGetCount(int *n) { *n = 2; return 0; }

EXPORT int cuDeviceGet(int *dev, int ordinal)
{
    if (ordinal < 0 || ordinal > 1)
        return 101;
    *dev = ordinal;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int len, int dev)
{
    strncpy(name, dev ? "Fake GPU 1" : "Fake GPU 0", (size_t)len);
    return 0;
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *uuid, int dev)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(16 * dev + i);
    return 0;
}

EXPORT int cuStreamQuery(void *stream) { return stream ? 600 : 0; }

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    *stream = (void *)(uintptr_t)(1000 + (int)flags - priority);
    return 0;
}

EXPORT int cuMemsetD32_v2(uint64_t dst, unsigned value, uint64_t n)
{
    return dst == 0x123456789abcull && value == 0xdeadbeefu && n == 1ull << 40 ? 0 : 1;
}

/* Keeps its eleven arguments and the first three parameters. */
EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra)
{
    if (!f)
        return 400;
    uint64_t in[] = {(uintptr_t)f, gx, gy, gz, bx, by, bz, shared, (uintptr_t)stream, (uintptr_t)extra};
    memcpy(words, in, sizeof in);
    words[10] = words[11] = words[12] = 0;
    if (params) {
        words[10] = *(uint64_t *)params[0];
        words[11] = *(uint32_t *)params[1];
        words[12] = *(uint32_t *)params[2];
    }
    strcpy(launched, "launched");
    return 0;
}

EXPORT int fakeWords(uint64_t *out)
{
    memcpy(out, words, sizeof words);
    return launched[0] ? 0 : 1;
}

/* Mappable memory: pinned, on device 1, as the driver lays its structs out. */
static int on_device_1(const int32_t *prop)
{
    return prop[0] == 1 && prop[2] == 1 && prop[3] == 1;
}

EXPORT int cuMemGetAllocationGranularity(uint64_t *n, const int32_t *prop, int option)
{
    *n = 2u << 20;
    return on_device_1(prop) && option == 0 ? 0 : 1;
}

EXPORT int cuMemCreate(uint64_t *handle, uint64_t n, const int32_t *prop, uint64_t flags)
{
    *handle = 77;
    return on_device_1(prop) && n == 32u << 20 && !flags ? 0 : 1;
}

EXPORT int cuMemAddressReserve(uint64_t *at, uint64_t n, uint64_t align, uint64_t hint, uint64_t flags)
{
    *at = 0x7f0000000000ull;
    return n == 32u << 20 && !align && !hint && !flags ? 0 : 1;
}

EXPORT int cuMemMap(uint64_t at, uint64_t n, uint64_t offset, uint64_t handle, uint64_t flags)
{
    return at == 0x7f0000000000ull && n == 32u << 20 && !offset && handle == 77 && !flags ? 0 : 1;
}

EXPORT int cuMemSetAccess(uint64_t at, uint64_t n, const int32_t *access, uint64_t count)
{
    return at == 0x7f0000000000ull && n == 32u << 20 && access[0] == 1 && access[1] == 1 && access[2] == 3 && count == 1 ? 0 : 1;
}

EXPORT int cuMemUnmap(uint64_t at, uint64_t n) { return at == 0x7f0000000000ull && n == 32u << 20 ? 0 : 1; }
EXPORT int cuMemAddressFree(uint64_t at, uint64_t n) { return at == 0x7f0000000000ull && n == 32u << 20 ? 0 : 1; }
EXPORT int cuMemRelease(uint64_t handle) { return handle == 77 ? 0 : 1; }

/* Contexts: the primary one is 10 and the other 11; each goes its own way. */
EXPORT int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
    *ctx = (void *)10;
    return dev == 1 ? 0 : 1;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int dev) { return dev == 1 ? 0 : 1; }

EXPORT int cuCtxCreate_v2(void **ctx, unsigned flags, int dev)
{
    *ctx = (void *)11;
    return flags == 4 && dev == 1 ? 0 : 1;
}

EXPORT int cuCtxDestroy_v2(void *ctx) { return ctx == (void *)11 ? 0 : 201; }
