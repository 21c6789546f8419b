/* Launch, streams, memory, events: every byte is looked at. With an argument it
 * is not alone on the device. */
#include "host.h"

#define N 100000u

static void kernels(void *module)
{
    void *stream, *before, *after;
    dptr a, b, c;
    uint32_t n = N, *host = malloc(4 * N);
    float ms;

    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuEventCreate(&before, 0));
    CHECK(cuEventCreate(&after, 0));
    CHECK(cuMemAlloc_v2(&a, 4 * N));
    CHECK(cuMemAlloc_v2(&b, 4 * N));
    CHECK(cuMemAlloc_v2(&c, 4 * N));
    for (uint32_t i = 0; i < N; i++)
        host[i] = i * 7;
    CHECK(cuMemcpyHtoD_v2(a, host, 4 * N));
    CHECK(cuMemsetD32Async(b, 5, N, stream));
    void *args[] = {&c, &a, &b, &n};
    CHECK(cuEventRecord(before, stream));
    CHECK(cuLaunchKernel(kernel(module, "xm_vector_add"), 100, 1, 1, 256, 1, 1, 0, stream, args, NULL));
    CHECK(cuEventRecord(after, stream));
    CHECK(cuStreamSynchronize(stream));
    memset(host, 0, 4 * N);
    CHECK(cuMemcpyDtoH_v2(host, c, 4 * N));
    for (uint32_t i = 0; i < N; i++)
        TRUE(host[i] == i * 7 + 5);
    CHECK(cuEventElapsedTime(&ms, before, after));
    TRUE(ms > 0 && ms < 1000); /* microseconds, where the body keeps up */

    CHECK(spin(kernel(module, "xm_spin"), stream, a, 100));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(host, a, 4 * 132 * 128));
    for (uint32_t i = 0; i < 132 * 128; i++)
        TRUE(host[i] == spin_result(i, 100 * ITERATIONS_PER_US));

    CHECK(cuMemFree_v2(a));
    CHECK(cuMemFree_v2(b));
    CHECK(cuMemFree_v2(c));
    CHECK(cuEventDestroy_v2(before));
    CHECK(cuEventDestroy_v2(after));
    CHECK(cuStreamDestroy_v2(stream));
    free(host);
}

/* Large pageable and pinned copies, both ways and within the device. */
static void copies(void)
{
    const size_t n = (5u << 20) + 12345;
    unsigned char *page = malloc(n), *back = malloc(n), *pinned;
    dptr a, b;

    for (size_t i = 0; i < n; i++)
        page[i] = (unsigned char)(i * 31 + (i >> 11));
    CHECK(cuMemAlloc_v2(&a, n));
    CHECK(cuMemAlloc_v2(&b, n));
    CHECK(cuMemHostAlloc((void **)&pinned, n, 0));
    CHECK(cuMemcpyHtoD_v2(a, page, n));
    CHECK(cuMemcpyDtoD_v2(b, a, n));
    CHECK(cuMemcpyDtoH_v2(pinned, b, n));
    TRUE(!memcmp(page, pinned, n));
    CHECK(cuMemsetD8_v2(a, 0x5a, n));
    CHECK(cuMemcpyDtoH_v2(back, a, n));
    for (size_t i = 0; i < n; i++)
        TRUE(back[i] == 0x5a);
    CHECK(cuMemcpyHtoDAsync_v2(a, pinned, n, NULL));
    CHECK(cuMemcpyDtoHAsync_v2(back, a, n, NULL)); /* pageable: there when it returns */
    TRUE(!memcmp(back, page, n));
    CHECK(cuMemHostRegister_v2(back, n, 1 | 2));
    CHECK(cuMemsetD8_v2((dptr)(uintptr_t)back, 0x11, n));
    CHECK(cuCtxSynchronize());
    TRUE(back[0] == 0x11 && back[n - 1] == 0x11 && back[n / 2] == 0x11);
    CHECK(cuMemcpyDtoH_v2(back, a, n));
    TRUE(!memcmp(back, page, n));
    CHECK(cuMemHostUnregister(back));
    CHECK(cuMemFree_v2(a));
    CHECK(cuMemFree_v2(b));
    CHECK(cuMemFreeHost(pinned));
    free(page);
    free(back);
}

int main(int argc, char **argv)
{
    (void)argv;
    size_t free_before, free_after, total;
    void *module = begin();

    CHECK(cuMemGetInfo_v2(&free_before, &total));
    kernels(module);
    copies();
    CHECK(cuMemGetInfo_v2(&free_after, &total));
    TRUE(argc > 1 || free_before == free_after);
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    puts("ok");
    return 0;
}
