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
