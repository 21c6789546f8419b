/* A libcuda.so.1 with a few functions, some of which fault or never return. */
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInit(unsigned flags) { return flags ? 1 : 0; }
EXPORT int cuDriverGetVersion(int *v)
{
    if (!v)
        return 1;
    *v = 13000;
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
    (void)dev;
    *ctx = (void *)16;
    return 0;
}
EXPORT int cuCtxSetCurrent(void *ctx) { return ctx == (void *)16 ? 0 : 201; }
EXPORT int cuGetErrorName(int e, const char **s)
{
    (void)e;
    *s = "NAME"; /* faults for NULL */
    return 0;
}
EXPORT int cuGetErrorString(int e, const char **s)
{
    (void)e;
    if (!s)
        abort();
    *s = "text";
    return 0;
}
EXPORT int cuDeviceGetCount(int *n) { return n ? 0 : 1; }
EXPORT int cuCtxSynchronize(void) { return (int)pause(); }
