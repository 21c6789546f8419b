/* The fake driver's resolver. It answers by looking itself up, through whatever
 * dlsym the process has: some drivers do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XM_EXPORT __attribute__((visibility("default")))
#include "../gen/cuda_prototypes.h"

/* From this version on the plain name means a second version. */
static const struct { const char *name, *symbol; int since; } newer[] = {
    {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
    {"cuMemAlloc", "cuMemAlloc_v2", 3020},
    {"cuMemFree", "cuMemFree_v2", 3020},
    {"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020},
    {"cuMemcpyDtoH", "cuMemcpyDtoH_v2", 3020},
    {"cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 3020},
    {"cuCtxCreate", "cuCtxCreate_v2", 3020},
    {"cuStreamDestroy", "cuStreamDestroy_v2", 4000},
    {"cuEventDestroy", "cuEventDestroy_v2", 4000},
    {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000},
};

static void *self(void)
{
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

static const char *symbol_for(const char *name, int version)
{
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++) {
        if (strcmp(name, newer[i].name) == 0 && version >= newer[i].since)
            return newer[i].symbol;
    }
    return name;
}

static void *answer(const char *name, int version, cuuint64_t flags)
{
    char variant[128];
    void *found = NULL;
    const char *symbol = symbol_for(name, version);

    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
        snprintf(variant, sizeof variant, "%s_ptsz", symbol);
        found = dlsym(self(), variant);
    }
    return found ? found : dlsym(self(), symbol);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    void *found;

    if (!symbol || !pfn)
        return CUDA_ERROR_INVALID_VALUE;
    found = answer(symbol, cudaVersion, flags);
#ifdef FAKE_OLD
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
#endif
    *pfn = found;
    return CUDA_SUCCESS;
}

#ifndef FAKE_OLD
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    /* Through its own exported name. */
    CUresult result = cuGetProcAddress(symbol, pfn, cudaVersion, flags);

    if (status)
        *status = result == CUDA_SUCCESS && *pfn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return result;
}
#endif

__attribute__((constructor)) static void trap(void)
{
    void *found;

    if (!getenv("FAKE_TRAP"))
        return;
    found = dlsym(self(), "cuInit");
    if (found && ((xm_pfn_cuInit)found)(1) != CUDA_ERROR_INVALID_VALUE)
        fprintf(stderr, "fake driver: cuInit is not its own\n");
}
