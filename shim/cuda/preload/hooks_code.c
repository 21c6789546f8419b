/* Code that is loaded and unloaded: what it came in is known then alone. */
#include <stddef.h>

#include "hooks.h"
#include "kernels.h"
#include "tensormap.h"

static CUresult module_loaded(CUresult result, const CUmodule *m, const void *image)
{
    if (result == CUDA_SUCCESS)
        xm_code_module(*m, xm_code_of_image(image));
    return result;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    CUresult result = XM_DRIVER(cuModuleLoad)(module, fname);

    if (result == CUDA_SUCCESS)
        xm_code_module(*module, xm_code_of_file(fname));
    return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return module_loaded(XM_DRIVER(cuModuleLoadData)(module, image), module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n, CUjit_option *options, void **values)
{
    return module_loaded(XM_DRIVER(cuModuleLoadDataEx)(module, image, n, options, values), module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return module_loaded(XM_DRIVER(cuModuleLoadFatBinary)(module, image), module, image);
}

/* Forgotten first: another thread may be given the same handle at once. */
CUresult cuModuleUnload(CUmodule hmod)
{
    struct xm_code was = xm_code_goes(hmod);
    CUresult result = XM_DRIVER(cuModuleUnload)(hmod);

    if (result != CUDA_SUCCESS && (was.hash[0] || was.hash[1]))
        xm_code_module(hmod, was);
    return result;
}

#define OPTIONS CUjit_option *jit, void **jit_values, unsigned int jits, CUlibraryOption *options, void **values, unsigned int n

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, OPTIONS)
{
    CUresult result = XM_DRIVER(cuLibraryLoadData)(library, code, jit, jit_values, jits, options, values, n);

    if (result == CUDA_SUCCESS)
        xm_code_library(*library, xm_code_of_image(code));
    return result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *file, OPTIONS)
{
    CUresult result = XM_DRIVER(cuLibraryLoadFromFile)(library, file, jit, jit_values, jits, options, values, n);

    if (result == CUDA_SUCCESS)
        xm_code_library(*library, xm_code_of_file(file));
    return result;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    struct xm_code was = xm_code_goes(library);
    CUresult result = XM_DRIVER(cuLibraryUnload)(library);

    if (result != CUDA_SUCCESS && (was.hash[0] || was.hash[1]))
        xm_code_library(library, was);
    return result;
}

/* As many as there is room for, or fewer when the library has fewer: the rest is as it was. */
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n, CUlibrary lib)
{
    unsigned count = 0;
    CUresult result = XM_DRIVER(cuLibraryEnumerateKernels)(kernels, n, lib);

    if (result != CUDA_SUCCESS || !xm_real.cuLibraryGetKernelCount || xm_real.cuLibraryGetKernelCount(&count, lib))
        return result;
    for (unsigned i = 0; i < n && i < count; i++)
        xm_code_kernel(kernels[i], lib);
    return result;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct xm_tensormap_was was = xm_tensormap_before(map);
    CUresult result = XM_DRIVER(cuTensorMapReplaceAddress)(map, address);

    if (result == CUDA_SUCCESS)
        xm_tensormap_moved(map, &was, address);
    return result;
}
