/* cuGetProcAddress: version and flags decide which function is meant. */
#include "host.h"

#include <dlfcn.h>

static void same(const char *name, int version, uint64_t flags, const char *symbol)
{
    void *f = NULL;
    int status = -1;
    CHECK(cuGetProcAddress_v2(name, &f, version, flags, &status));
    TRUE(status == 0 && f && f == dlsym(RTLD_DEFAULT, symbol));
}

int main(void)
{
    void *f = (void *)1;
    int status;
    same("cuInit", 2000, 0, "cuInit");
    same("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
    same("cuLaunchKernel", 12000, 0, "cuLaunchKernel");
    same("cuLaunchKernel", 12000, 2, "cuLaunchKernel_ptsz");
    same("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds");
    same("cuCtxCreate", 13000, 0, "cuCtxCreate_v4");
    same("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
    CHECK(cuGetProcAddress_v2("cuNothing", &f, 12000, 0, &status));
    TRUE(!f && status == 1);
    WANT(cuGetProcAddress_v2("cuInit", &f, 99000, 0, &status), 1);
    puts("ok");
    return 0;
}
