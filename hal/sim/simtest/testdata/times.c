/* Prints the simulated and the wall time, in us, of 20 kernels of 1 ms. */
#include "host.h"

int main(void)
{
    void *module = begin(), *f = kernel(module, "xm_spin"), *a, *b;
    float ms;

    CHECK(cuEventCreate(&a, 0));
    CHECK(cuEventCreate(&b, 0));
    CHECK(spin(f, NULL, 0, 10));
    CHECK(cuCtxSynchronize());
    uint64_t from = now_us();
    CHECK(cuEventRecord(a, NULL));
    for (int i = 0; i < 20; i++)
        CHECK(spin(f, NULL, 0, 1000));
    CHECK(cuEventRecord(b, NULL));
    CHECK(cuEventSynchronize(b));
    uint64_t wall = now_us() - from;
    CHECK(cuEventElapsedTime(&ms, a, b));
    printf("%.0f %llu\n", ms * 1000, (unsigned long long)wall);
    return 0;
}
