/* Two devices in one process: each has its own memory, engines and contexts; what
 * goes from one to the other, and what may. */
#include "host.h"

#include <unistd.h>

#define BYTES (8u << 20)

static void *ctx[2];

static void use(int d) { CHECK(cuCtxSetCurrent(ctx[d])); }

static void identities(void)
{
    int n, bus[2], d;
    char uuid[2][16];

    CHECK(cuDeviceGetCount(&n));
    TRUE(n == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(cuDeviceGet(&d, i));
        TRUE(d == i);
        CHECK(cuDeviceGetUuid(uuid[i], i));
        CHECK(cuDeviceGetAttribute(&bus[i], 33, i));
    }
    TRUE(memcmp(uuid[0], uuid[1], 16) && bus[0] != bus[1]);
    WANT(cuDeviceGet(&d, 2), 101);
    WANT(cuDeviceGetUuid(uuid[0], 2), 101);
    WANT(cuDevicePrimaryCtxRetain(&ctx[0], 2), 101);
    for (int i = 0; i < 2; i++)
        CHECK(cuDevicePrimaryCtxRetain(&ctx[i], i));
    TRUE(ctx[0] != ctx[1]);
    use(1);
    CHECK(cuCtxGetDevice(&d));
    TRUE(d == 1);
}

static size_t free_on(int d)
{
    size_t free_bytes, total;
    use(d);
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static void memories(void)
{
    size_t before[2] = {free_on(0), free_on(1)};
    dptr p, q;

    use(1);
    CHECK(cuMemAlloc_v2(&p, before[1] / 2));
    TRUE(free_on(0) == before[0] && free_on(1) < before[1]);
    use(1);
    WANT(cuMemAlloc_v2(&q, before[1] * 3 / 4), 2);
    use(0);
    CHECK(cuMemAlloc_v2(&q, before[0] * 3 / 4)); /* there is room on the other */
    CHECK(cuMemFree_v2(p)); /* whichever is current */
    CHECK(cuMemFree_v2(q));
    TRUE(free_on(0) == before[0] && free_on(1) == before[1]);
    int ordinal = 7;
    use(1);
    CHECK(cuMemAlloc_v2(&p, 4096));
    use(0);
    CHECK(cuPointerGetAttribute(&ordinal, 9, p));
    TRUE(ordinal == 1);
    CHECK(cuMemFree_v2(p));
}

static void fill(dptr p, unsigned char v)
{
    CHECK(cuMemsetD8_v2(p, v, BYTES));
    CHECK(cuCtxSynchronize());
}

static void all_are(dptr p, unsigned char v)
{
    static unsigned char host[BYTES];
    CHECK(cuMemcpyDtoH_v2(host, p, BYTES));
    for (size_t i = 0; i < BYTES; i++)
        TRUE(host[i] == v);
}

static void copies(dptr p[2])
{
    void *s;

    use(0);
    fill(p[0], 3);
    CHECK(cuMemcpyPeer(p[1], ctx[1], p[0], ctx[0], BYTES));
    use(1);
    all_are(p[1], 3);
    fill(p[1], 4);
    CHECK(cuMemcpyDtoD_v2(p[0], p[1], BYTES)); /* one address space */
    CHECK(cuCtxSynchronize());
    use(0);
    all_are(p[0], 4);
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemsetD8_v2(p[0], 5, BYTES));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyPeerAsync(p[1], ctx[1], p[0], ctx[0], BYTES, s));
    CHECK(cuStreamSynchronize(s));
    use(1);
    all_are(p[1], 5);
}

/* An event of one device orders the other's work. */
static void order(void *spin_on_0, dptr p[2])
{
    void *s[2], *done;

    use(0);
    CHECK(cuStreamCreate(&s[0], 1));
    CHECK(cuEventCreate(&done, 0));
    fill(p[0], 1);
    CHECK(spin(spin_on_0, s[0], 0, 20000));
    CHECK(cuMemsetD32Async(p[0], 0x08080808, BYTES / 4, s[0]));
    CHECK(cuEventRecord(done, s[0]));
    use(1);
    CHECK(cuStreamCreate(&s[1], 1));
    CHECK(cuStreamWaitEvent(s[1], done, 0));
    CHECK(cuMemcpyPeerAsync(p[1], ctx[1], p[0], ctx[0], BYTES, s[1]));
    CHECK(cuStreamSynchronize(s[1]));
    WANT(cuEventQuery(done), 0);
    all_are(p[1], 8);
}

/* A long kernel on one device delays nothing on the other. */
static void apart(void *f[2])
{
    void *a, *b, *busy;
    float ms;

    use(0);
    CHECK(cuStreamCreate(&busy, 1));
    CHECK(spin(f[0], busy, 0, 1000000));
    use(1);
    CHECK(cuEventCreate(&a, 0));
    CHECK(cuEventCreate(&b, 0));
    CHECK(cuEventRecord(a, NULL));
    CHECK(spin(f[1], NULL, 0, 2000));
    CHECK(cuEventRecord(b, NULL));
    CHECK(cuEventSynchronize(b));
    CHECK(cuEventElapsedTime(&ms, a, b));
    TRUE(ms >= 2 && ms < 500); /* the launch itself may be late on a busy machine */
    use(0);
    WANT(cuStreamQuery(busy), 600);
    CHECK(cuStreamSynchronize(busy));
}

static int add(void *f, dptr to, dptr from)
{
    uint32_t n = 1024;
    void *args[] = {&to, &from, &from, &n};
    CHECK(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    return cuCtxSynchronize();
}

static void peers(dptr p[2])
{
    int can;
    void *other, *m;

    CHECK(cuDeviceCanAccessPeer(&can, 0, 1));
    TRUE(can == 1);
    CHECK(cuDeviceCanAccessPeer(&can, 1, 1));
    TRUE(can == 0);
    use(0);
    fill(p[0], 2);
    WANT(cuCtxDisablePeerAccess(ctx[1]), 705);
    WANT(cuCtxEnablePeerAccess(ctx[0], 0), 217);
    WANT(cuCtxEnablePeerAccess(ctx[1], 1), 1);
    use(1);
    CHECK(cuCtxEnablePeerAccess(ctx[0], 0));
    WANT(cuCtxEnablePeerAccess(ctx[0], 0), 704);
    CHECK(cuModuleLoad(&m, getenv("XM_PTX")));
    CHECK(add(kernel(m, "xm_vector_add"), p[1], p[0]));
    unsigned char four;
    CHECK(cuMemcpyDtoH_v2(&four, p[1], 1));
    TRUE(four == 4);
    CHECK(cuCtxDisablePeerAccess(ctx[0]));
    /* In a context of its own, which it ends: the other device sees nothing of it. */
    CHECK(cuCtxCreate_v2(&other, 0, 1));
    CHECK(cuModuleLoad(&m, getenv("XM_PTX")));
    WANT(add(kernel(m, "xm_vector_add"), p[1], p[0]), 700);
    WANT(cuCtxSynchronize(), 700);
    CHECK(cuCtxDestroy_v2(other));
    use(0);
    CHECK(cuCtxSynchronize());
    use(1);
    CHECK(cuCtxSynchronize());
}

static void pools(void)
{
    size_t before[2] = {free_on(0), free_on(1)};
    void *pool, *m, *f;
    int ordinal;
    dptr p, q;
    struct {
        int type, id, flags;
    } access = {1, 0, 3};

    use(1);
    CHECK(cuMemAllocAsync(&p, BYTES, NULL));
    TRUE(free_on(0) == before[0] && free_on(1) < before[1]);
    CHECK(cuPointerGetAttribute(&ordinal, 9, p));
    TRUE(ordinal == 1);
    fill(p, 1);
    use(0);
    CHECK(cuMemAlloc_v2(&q, BYTES));
    CHECK(cuModuleLoad(&m, getenv("XM_PTX")));
    f = kernel(m, "xm_vector_add");
    CHECK(cuDeviceGetDefaultMemPool(&pool, 1));
    CHECK(cuMemPoolSetAccess(pool, &access, 1));
    CHECK(add(f, q, p));
    CHECK(cuMemFree_v2(q));
    use(1);
    CHECK(cuMemFreeAsync(p, NULL));
    CHECK(cuCtxSynchronize());
    TRUE(free_on(1) == before[1]);
}

static void managed(void)
{
    size_t before[2] = {free_on(0), free_on(1)};
    dptr p;

    use(0);
    CHECK(cuMemAllocManaged(&p, BYTES, 1));
    CHECK(cuMemPrefetchAsync(p, BYTES, 1, NULL)); /* by a stream of another device */
    CHECK(cuCtxSynchronize());
    TRUE(free_on(0) == before[0] && free_on(1) == before[1] - BYTES);
    CHECK(cuMemPrefetchAsync(p, BYTES, 0, NULL));
    CHECK(cuCtxSynchronize());
    TRUE(free_on(0) == before[0] - BYTES && free_on(1) == before[1]);
    WANT(cuMemPrefetchAsync(p, BYTES, 2, NULL), 101);
    CHECK(cuMemFree_v2(p));
    TRUE(free_on(0) == before[0] && free_on(1) == before[1]);
}

int main(void)
{
    void *module, *f[2];
    dptr p[2];

    CHECK(cuInit(0));
    identities();
    memories();
    for (int d = 0; d < 2; d++) {
        use(d);
        CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
        f[d] = kernel(module, "xm_spin");
        CHECK(cuMemAlloc_v2(&p[d], BYTES));
    }
    copies(p);
    order(f[0], p);
    apart(f);
    peers(p);
    pools();
    managed();
    puts("ok");
    return 0;
}
