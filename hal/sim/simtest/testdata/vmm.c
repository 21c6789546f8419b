/* Memory that is mapped by hand: what may be mapped where, who may use it, what it
 * keeps, and when it goes. */
#include "rm.h"

#include <unistd.h>

#define MB ((size_t)1 << 20)
#define N (8 * MB)

static const struct mem_prop on_device = {.type = 1, .location = {1, 0}}, on_host = {.type = 1, .location = {3, 0}};
static const struct mem_access both_ways = {{1, 0}, 3};
static unsigned char *host;

static size_t free_bytes(void)
{
    size_t f, t;
    CHECK(cuMemGetInfo_v2(&f, &t));
    return f;
}

static uint64_t make(const struct mem_prop *p, size_t n)
{
    uint64_t h;
    CHECK(cuMemCreate(&h, n, p, 0));
    return h;
}

static dptr reserve(size_t n)
{
    dptr p;
    CHECK(cuMemAddressReserve(&p, n, 0, 0, 0));
    TRUE(p % (2 * MB) == 0);
    return p;
}

static void all_are(dptr p, unsigned char v, size_t n)
{
    CHECK(cuMemcpyDtoH_v2(host, p, n));
    for (size_t i = 0; i < n; i++)
        TRUE(host[i] == v);
}

static void refusals(void)
{
    struct mem_prop bad;
    size_t g;
    uint64_t h, k, of_host;
    dptr p, q;
    struct mem_access a = both_ways;

    CHECK(cuMemGetAllocationGranularity(&g, &on_device, 0));
    TRUE(g == 2 * MB);
    CHECK(cuMemGetAllocationGranularity(&g, &on_host, 1));
    TRUE(g == 2 * MB);
    WANT(cuMemGetAllocationGranularity(&g, &on_device, 2), 1);
    WANT(cuMemCreate(&h, 3 * MB, &on_device, 0), 1);
    WANT(cuMemCreate(&h, 0, &on_device, 0), 1);
    WANT(cuMemCreate(&h, 2 * MB, &on_device, 1), 1);
    WANT(cuMemCreate(NULL, 2 * MB, &on_device, 0), 1);
    WANT(cuMemCreate(&h, 2 * MB, NULL, 0), 1);
    bad = on_device;
    bad.location.id = 1;
    WANT(cuMemCreate(&h, 2 * MB, &bad, 0), 101);
    bad.location.type = 0;
    WANT(cuMemCreate(&h, 2 * MB, &bad, 0), 1);
    bad = on_device;
    bad.type = 0;
    WANT(cuMemCreate(&h, 2 * MB, &bad, 0), 1);
    WANT(cuMemRelease(0x1234), 1);
    WANT(cuMemAddressReserve(&p, 0, 0, 0, 0), 1);
    WANT(cuMemAddressReserve(&p, 100, 0, 0, 0), 1);
    WANT(cuMemAddressReserve(&p, 2 * MB, 3 * MB, 0, 0), 1);
    WANT(cuMemAddressReserve(&p, 2 * MB, 0, 0, 1), 1);

    p = reserve(N);
    h = make(&on_device, 2 * MB);
    WANT(cuMemMap(p + MB, 2 * MB, 0, h, 0), 1);
    WANT(cuMemMap(p, MB, 0, h, 0), 1);
    WANT(cuMemMap(p, 4 * MB, 0, h, 0), 1);
    WANT(cuMemMap(p, 2 * MB, 2 * MB, h, 0), 1);
    WANT(cuMemMap(p, 2 * MB, 0, h, 1), 1);
    WANT(cuMemMap(p, 2 * MB, 0, h + 77, 0), 1);
    WANT(cuMemMap(p + N, 2 * MB, 0, h, 0), 1); /* not reserved */
    CHECK(cuMemMap(p, 2 * MB, 0, h, 0));
    k = make(&on_device, 4 * MB);
    WANT(cuMemMap(p, 4 * MB, 0, k, 0), 1); /* something is there */
    WANT(cuMemMap(p + 2 * MB, 2 * MB, 0, k, 0), 801); /* handles go whole */
    of_host = make(&on_host, 4 * MB);
    WANT(cuMemMap(p + 2 * MB, 2 * MB, 0, of_host, 0), 801);
    CHECK(cuMemRelease(of_host));
    CHECK(cuMemMap(p + 2 * MB, 4 * MB, 0, k, 0));
    WANT(cuMemUnmap(p + 2 * MB, 2 * MB), 1); /* half of one */
    WANT(cuMemUnmap(p, N), 1);               /* and of nothing */
    WANT(cuMemSetAccess(p, N, &a, 1), 1);
    WANT(cuMemSetAccess(p, 6 * MB, &a, 0), 1);
    a.flags = 2;
    WANT(cuMemSetAccess(p, 6 * MB, &a, 1), 1);
    a = (struct mem_access){{1, 5}, 3};
    WANT(cuMemSetAccess(p, 6 * MB, &a, 1), 101);
    a = (struct mem_access){{2, 0}, 3};
    WANT(cuMemSetAccess(p, 6 * MB, &a, 1), 1); /* the host has no way to the device's memory */
    WANT(cuMemAddressFree(p, N), 1);
    WANT(cuMemFree_v2(p), 1);
    WANT(cuMemFreeAsync(p, NULL), 1);
    CHECK(cuMemUnmap(p, 6 * MB));
    WANT(cuMemUnmap(p, 6 * MB), 1);
    WANT(cuMemAddressFree(p, N / 2), 1);
    WANT(cuMemAddressFree(p + 2 * MB, 2 * MB), 1);
    CHECK(cuMemRelease(h));
    WANT(cuMemRelease(h), 1);
    CHECK(cuMemRelease(k));
    CHECK(cuMemAddressFree(p, N));
    WANT(cuMemAddressFree(p, N), 1);
    /* Where one was, one can be again. */
    CHECK(cuMemAddressReserve(&q, N, 0, p, 0));
    TRUE(q == p);
    CHECK(cuMemAddressFree(q, N));
    CHECK(cuMemAddressReserve(&q, N, 64 * MB, 0, 0));
    TRUE(q % (64 * MB) == 0);
    CHECK(cuMemAddressFree(q, N));
}

/* One piece of the device's, one of the host's, side by side: as one to every call. */
static void side_by_side(void *increment)
{
    const size_t half = N / 2;
    size_t before = free_bytes(), size;
    uint64_t d = make(&on_device, half), h = make(&on_host, half);
    dptr p = reserve(N), base, real;
    unsigned type;
    uint32_t n = N / 4;
    unsigned long long flags = 9;
    void *s, *args[] = {&p, &n};

    TRUE(free_bytes() == before - half);
    CHECK(cuMemMap(p, half, 0, d, 0));
    CHECK(cuMemMap(p + half, half, 0, h, 0));
    WANT(cuMemcpyDtoH_v2(host, p, 64), 1); /* nobody was given access */
    CHECK(cuMemGetAccess(&flags, &both_ways.location, p));
    TRUE(flags == 0);
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    CHECK(cuMemGetAccess(&flags, &both_ways.location, p + half));
    TRUE(flags == 3);
    CHECK(cuMemsetD8_v2(p, 5, N));
    all_are(p, 5, N);
    memset(host, 6, N);
    CHECK(cuMemcpyHtoD_v2(p, host, N)); /* pageable, over the border */
    CHECK(cuMemAlloc_v2(&real, N));
    CHECK(cuMemcpyDtoD_v2(real, p, N));
    CHECK(cuCtxSynchronize());
    all_are(real, 6, N);
    CHECK(cuMemFree_v2(real));
    CHECK(cuMemsetD8_v2(p, 1, N));
    CHECK(cuLaunchKernel(increment, n / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
    CHECK(cuCtxSynchronize());
    uint32_t words[4];
    CHECK(cuMemcpyDtoH_v2(words, p + half - 8, sizeof words));
    for (int i = 0; i < 4; i++)
        TRUE(words[i] == 0x01010102);
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuStreamWriteValue32(s, p + half, 77, 0));
    CHECK(cuStreamWaitValue32(s, p + half, 77, 1));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuPointerGetAttribute(&type, 2, p));
    TRUE(type == 2);
    CHECK(cuPointerGetAttribute(&type, 2, p + half));
    TRUE(type == 1);
    CHECK(cuMemGetAddressRange_v2(&base, &size, p + half + 5));
    TRUE(base == p + half && size == half);
    CHECK(cuMemUnmap(p, N)); /* several at once */
    CHECK(cuMemRelease(d));
    CHECK(cuMemRelease(h));
    WANT(cuMemcpyDtoH_v2(host, p, 64), 1);
    CHECK(cuMemAddressFree(p, N));
    TRUE(free_bytes() == before);
}

/* Memory lives as long as a handle or a mapping of it does. */
static void lives(void)
{
    size_t before = free_bytes();
    uint64_t h = make(&on_device, N), again;
    struct mem_prop props;
    dptr p = reserve(N), q = reserve(N);

    CHECK(cuMemMap(p, N, 0, h, 0));
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    CHECK(cuMemRelease(h));
    TRUE(free_bytes() == before - N);
    CHECK(cuMemsetD8_v2(p, 9, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 100)));
    CHECK(cuMemGetAllocationPropertiesFromHandle(&props, again));
    TRUE(props.type == 1 && props.location.type == 1 && props.location.id == 0);
    CHECK(cuMemUnmap(p, N));
    TRUE(free_bytes() == before - N);
    CHECK(cuMemMap(q, N, 0, again, 0)); /* at two places */
    CHECK(cuMemMap(p, N, 0, again, 0));
    CHECK(cuMemSetAccess(q, N, &both_ways, 1));
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    all_are(q, 9, N);
    CHECK(cuMemsetD8_v2(q, 8, N));
    CHECK(cuCtxSynchronize());
    all_are(p, 8, N);
    CHECK(cuMemUnmap(p, N));
    CHECK(cuMemUnmap(q, N));
    CHECK(cuMemRelease(again));
    TRUE(free_bytes() == before);
    /* What comes next holds nothing of it. */
    h = make(&on_device, N);
    CHECK(cuMemMap(p, N, 0, h, 0));
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    all_are(p, 0, N);
    CHECK(cuMemUnmap(p, N));
    CHECK(cuMemRelease(h));
    CHECK(cuMemAddressFree(p, N));
    CHECK(cuMemAddressFree(q, N));
}

static void capacity(void)
{
    size_t room = free_bytes() / (2 * MB) * (2 * MB);
    uint64_t h = make(&on_device, room), k;

    WANT(cuMemCreate(&k, 2 * MB, &on_device, 0), 2);
    k = make(&on_host, 2 * MB);
    CHECK(cuMemRelease(k));
    CHECK(cuMemRelease(h));
    h = make(&on_device, 2 * MB);
    CHECK(cuMemRelease(h));
}

/* The host reads and writes its own memory where it is mapped. */
static void host_access(void)
{
    struct mem_access a[2] = {both_ways, {{3, 0}, 3}};
    uint64_t h = make(&on_host, N);
    dptr p = reserve(N);
    volatile unsigned char *here = (unsigned char *)(uintptr_t)p;

    CHECK(cuMemMap(p, N, 0, h, 0));
    CHECK(cuMemSetAccess(p, N, a, 2));
    CHECK(cuMemsetD8_v2(p, 3, N));
    CHECK(cuCtxSynchronize());
    TRUE(here[0] == 3 && here[N - 1] == 3);
    here[5] = 4;
    CHECK(cuMemcpyDtoH_v2(host, p, 16));
    TRUE(host[5] == 4 && host[6] == 3);
    CHECK(cuMemUnmap(p, N));
    CHECK(cuMemRelease(h));
    CHECK(cuMemAddressFree(p, N));
}

/* Accesses that a device faults on end a context, and only that. */
static void faults(void)
{
    for (int how = 0; how < 3; how++) {
        void *ctx, *module, *f;
        dptr p = reserve(N);
        uint32_t n = N / 4;
        void *args[] = {&p, &n};
        uint64_t h = make(&on_device, N);
        struct mem_access read_only = {{1, 0}, 1};

        CHECK(cuCtxCreate_v2(&ctx, 0, 0));
        CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
        f = kernel(module, "xm_increment");
        if (how > 0)
            CHECK(cuMemMap(p, N, 0, h, 0));
        if (how > 1)
            CHECK(cuMemSetAccess(p, N, &read_only, 1));
        CHECK(cuLaunchKernel(f, n / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
        WANT(cuCtxSynchronize(), 700);
        CHECK(cuCtxDestroy_v2(ctx));
        if (how > 0)
            CHECK(cuMemUnmap(p, N));
        CHECK(cuMemRelease(h));
        CHECK(cuMemAddressFree(p, N));
    }
    CHECK(cuCtxSynchronize());
}

/* As a switch of tasks does: a kernel is stopped in mid-flight, its memory goes to
 * the host by way of another context, comes back elsewhere, and the kernel goes on. */
static void moved_in_mid_flight(void *increment, void *spinning)
{
    uint64_t h = make(&on_device, N), k;
    dptr p = reserve(N);
    uint32_t n = N / 4, *words = (uint32_t *)(void *)host;
    unsigned char *out;
    void *first, *second, *s, *done, *args[] = {&p, &n};

    CHECK(cuCtxGetCurrent(&first));
    CHECK(cuMemMap(p, N, 0, h, 0));
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    for (uint32_t i = 0; i < n; i++)
        words[i] = i;
    CHECK(cuMemcpyHtoD_v2(p, host, N));
    CHECK(cuMemHostAlloc((void **)&out, N, 0));
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuEventCreate(&done, 0));
    CHECK(cuLaunchKernel(increment, n / 256, 1, 1, 256, 1, 1, 0, s, args, NULL));
    CHECK(spin(spinning, s, 0, 30000));
    for (int i = 0; i < 3; i++)
        CHECK(cuLaunchKernel(increment, n / 256, 1, 1, 256, 1, 1, 0, s, args, NULL));
    CHECK(cuEventRecord(done, s));
    usleep(2000);
    TRUE(!hold(true, true));
    CHECK(cuCtxCreate_v2(&second, 0, 0)); /* its channels are not held */
    CHECK(cuMemcpyDtoH_v2(out, p, N));
    CHECK(cuMemUnmap(p, N));
    CHECK(cuMemRelease(h));
    usleep(50000);
    h = make(&on_host, N / 2);
    k = make(&on_device, N / 2);
    CHECK(cuMemMap(p, N / 2, 0, h, 0));
    CHECK(cuMemMap(p + N / 2, N / 2, 0, k, 0));
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    CHECK(cuMemcpyHtoD_v2(p, out, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy_v2(second));
    WANT(cuEventQuery(done), 600);
    TRUE(!hold(false, true));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuEventSynchronize(done));
    CHECK(cuMemcpyDtoH_v2(host, p, N));
    for (uint32_t i = 0; i < n; i++)
        TRUE(words[i] == i + 4);
    CHECK(cuMemUnmap(p, N));
    CHECK(cuMemRelease(h));
    CHECK(cuMemRelease(k));
    CHECK(cuMemAddressFree(p, N));
    CHECK(cuMemFreeHost(out));
}

int main(void)
{
    void *module = begin();
    size_t before = free_bytes();

    host = malloc(N);
    refusals();
    side_by_side(kernel(module, "xm_increment"));
    lives();
    capacity();
    host_access();
    faults();
    moved_in_mid_flight(kernel(module, "xm_increment"), kernel(module, "xm_spin"));
    TRUE(free_bytes() == before);
    puts("ok");
    return 0;
}
