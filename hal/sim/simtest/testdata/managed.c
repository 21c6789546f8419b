/* Managed memory: the host and the device write the same bytes; where it is at home,
 * and what of the device it takes. */
#include "host.h"

#include <sys/wait.h>
#include <unistd.h>

#define N (16u << 20)

static size_t free_memory(void)
{
    size_t free_bytes, total;
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static int attribute(int which, dptr p, size_t n)
{
    int v;
    CHECK(cuMemRangeGetAttribute(&v, sizeof v, which, p, n));
    return v;
}

int main(void)
{
    void *module = begin(), *inc = kernel(module, "xm_increment"), *s, *ctx, *before_ctx;
    dptr p;
    uint32_t n = N / 4;
    size_t before = free_memory();

    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAllocManaged(&p, N, 1));
    volatile uint32_t *v = (uint32_t *)(uintptr_t)p;
    for (uint32_t i = 0; i < n; i++)
        v[i] = i;
    TRUE(free_memory() == before);
    void *args[] = {&p, &n};
    CHECK(cuLaunchKernel(inc, 64, 1, 1, 256, 1, 1, 0, s, args, NULL));
    CHECK(cuMemPrefetchAsync(p, N, 0, s));
    CHECK(cuLaunchKernel(inc, 64, 1, 1, 256, 1, 1, 0, s, args, NULL));
    CHECK(cuStreamSynchronize(s));
    for (uint32_t i = 0; i < n; i++)
        TRUE(v[i] == i + 2);
    TRUE(before - free_memory() == N && attribute(4, p, N) == 0);
    CHECK(cuMemPrefetchAsync(p + N / 2, N / 2, -1, s));
    CHECK(cuStreamSynchronize(s));
    TRUE(before - free_memory() == N / 2);
    TRUE(attribute(4, p, N / 2) == 0 && attribute(4, p + N / 2, N / 2) == -1 && attribute(4, p, N) == -2);

    /* Advice by pages: cut, joined, and gone with the memory. */
    for (uint32_t i = 0; i < 200; i += 2)
        CHECK(cuMemAdvise(p + i * 4096, 4096, 1, 0));
    TRUE(attribute(1, p, 4096) == 1 && attribute(1, p + 4096, 4096) == 0 && attribute(1, p, 8192) == 0);
    CHECK(cuMemAdvise(p, N, 1, 0));
    TRUE(attribute(1, p, N) == 1);
    CHECK(cuMemFree_v2(p));
    WANT(cuMemAdvise(p, 4096, 1, 0), 1);
    TRUE(free_memory() == before);

    /* A context's managed memory goes with it, wherever it is at home. */
    CHECK(cuCtxGetCurrent(&before_ctx));
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    CHECK(cuMemAllocManaged(&p, N, 1));
    CHECK(cuMemPrefetchAsync(p, N, 0, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(before_ctx));
    TRUE(free_memory() == before);

    /* A forked child reads it, as it does shared memory. */
    CHECK(cuMemAllocManaged(&p, 4096, 1));
    *(uint32_t *)(uintptr_t)p = 77;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(*(uint32_t *)(uintptr_t)p == 77 && cuMemFree_v2(p) == 3 ? 0 : 1);
    int status;
    TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(cuMemFree_v2(p));
    puts("ok");
    return 0;
}
