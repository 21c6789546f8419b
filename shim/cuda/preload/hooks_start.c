/* The two ways in: initialisation, and the driver's own resolver. */
#include <stddef.h>

#include "agent_start.h"
#include "fork.h"
#include "hooks.h"

CUresult cuInit(unsigned int flags)
{
    if (xm_resolve()) {
        xm_cuda_used();
        if (!xm_stands_aside())
            xm_agent_spawn();
    }
    return XM_DRIVER(cuInit)(flags);
}

/* The driver answers: it alone knows what a version and its flags mean. What it
 * gave is then exchanged for our hook of that same function, unless it is the
 * driver that asks. */
static CUresult answered(CUresult result, const char *symbol, void **pfn, const void *caller)
{
    if (result == CUDA_SUCCESS && pfn && *pfn && !xm_in_driver(caller))
        *pfn = xm_hooked(*pfn, symbol);
    return result;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUresult result = XM_DRIVER(cuGetProcAddress)(symbol, pfn, version, flags);

    return answered(result, symbol, pfn, __builtin_return_address(0));
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    CUresult result = XM_DRIVER(cuGetProcAddress_v2)(symbol, pfn, version, flags, status);

    return answered(result, symbol, pfn, __builtin_return_address(0));
}
