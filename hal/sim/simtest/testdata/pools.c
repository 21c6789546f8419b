/* Memory in the order of streams: who may use it again and when, what it takes of
 * the device, many threads at once. */
#include "host.h"

#include <pthread.h>

#define MIB ((size_t)1 << 20)

static void *module, *context;
static uint32_t *word;

static size_t free_memory(void)
{
    size_t free_bytes, total;
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static uint64_t number(void *pool, int attribute)
{
    uint64_t v;
    CHECK(cuMemPoolGetAttribute(pool, attribute, &v));
    return v;
}

static void hold(void *s)
{
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    CHECK(cuStreamWaitValue32(s, (dptr)(uintptr_t)word, 1, 1));
}

static void open_gate(void) { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); }

/* The pointer is there at once; the memory keeps to the stream. */
static void order(void)
{
    void *a, *b;
    dptr p, q, r;
    unsigned char *out;
    CHECK(cuStreamCreate(&a, 1));
    CHECK(cuStreamCreate(&b, 1));
    CHECK(cuMemAllocHost_v2((void **)&out, 2 * MIB));
    for (int round = 0; round < 50; round++) {
        p = q = r = 0;
        hold(a);
        CHECK(cuMemAllocAsync(&p, MIB, a));
        TRUE(p);
        CHECK(cuMemsetD32Async(p, 0x05050505, MIB / 4, a));
        CHECK(cuMemcpyDtoHAsync_v2(out, p, MIB, a));
        CHECK(cuMemFreeAsync(p, a));
        CHECK(cuMemAllocAsync(&q, MIB, b)); /* must not be what a still writes */
        CHECK(cuMemsetD32Async(q, 0x06060606, MIB / 4, b));
        CHECK(cuMemAllocAsync(&r, MIB, a)); /* may be */
        CHECK(cuMemsetD32Async(r, 0x07070707, MIB / 4, a));
        CHECK(cuStreamSynchronize(b));
        open_gate();
        CHECK(cuMemcpyDtoHAsync_v2(out + MIB, q, MIB, b));
        CHECK(cuMemFreeAsync(q, b));
        CHECK(cuMemFreeAsync(r, a));
        CHECK(cuStreamSynchronize(a));
        CHECK(cuStreamSynchronize(b));
        for (size_t i = 0; i < MIB; i++)
            TRUE(out[i] == 5 && out[MIB + i] == 6);
    }
    CHECK(cuMemFreeHost(out));
    CHECK(cuStreamDestroy_v2(a));
    CHECK(cuStreamDestroy_v2(b));
}

/* What pools keep, and give back. */
static void accounts(void)
{
    void *pool, *s;
    size_t before = free_memory();
    uint64_t all = UINT64_MAX;
    dptr p, q;
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cuMemAllocAsync(&p, 40 * MIB, s));
    TRUE(before - free_memory() >= 40 * MIB);
    CHECK(cuMemFreeAsync(p, s));
    CHECK(cuStreamSynchronize(s));
    TRUE(free_memory() == before && number(pool, 5) == 0 && number(pool, 7) == 0);
    CHECK(cuMemPoolSetAttribute(pool, 4, &all));
    CHECK(cuMemAllocAsync(&p, 40 * MIB, s));
    CHECK(cuMemAllocAsync(&q, MIB, s));
    CHECK(cuMemFreeAsync(p, s));
    CHECK(cuStreamSynchronize(s));
    TRUE(before - free_memory() >= 41 * MIB && number(pool, 7) == MIB);
    CHECK(cuMemPoolTrimTo(pool, 0));
    TRUE(before - free_memory() >= MIB);
    CHECK(cuMemFree_v2(q)); /* the other way to free it */
    TRUE(number(pool, 7) == 0);
    all = 0;
    CHECK(cuMemPoolSetAttribute(pool, 4, &all));
    CHECK(cuCtxSynchronize());
    TRUE(free_memory() == before);

    /* cuMemAlloc's memory, freed in a stream. */
    CHECK(cuMemAlloc_v2(&p, 10 * MIB));
    hold(s);
    CHECK(cuMemsetD32Async(p, 1, MIB, s));
    CHECK(cuMemFreeAsync(p, s));
    WANT(cuMemFreeAsync(p, s), 1);
    open_gate();
    CHECK(cuStreamSynchronize(s));
    TRUE(free_memory() == before);
    CHECK(cuStreamDestroy_v2(s));
}

/* With nothing left, memory that another stream is still to let go is handed out,
 * and waited for. */
static void scarce(void)
{
    void *a, *b;
    dptr p, q;
    size_t most = free_memory() / (32 * MIB) * (32 * MIB);
    uint32_t v[4];
    CHECK(cuStreamCreate(&a, 1));
    CHECK(cuStreamCreate(&b, 1));
    CHECK(cuMemAllocAsync(&p, most, a));
    WANT(cuMemAllocAsync(&q, most, b), 2);
    hold(a);
    CHECK(cuMemsetD32Async(p, 1, 4, a));
    CHECK(cuMemFreeAsync(p, a));
    CHECK(cuMemAllocAsync(&q, most, b));
    TRUE(q == p);
    CHECK(cuMemsetD32Async(q, 2, 4, b));
    WANT(cuStreamQuery(b), 600);
    open_gate();
    CHECK(cuStreamSynchronize(b));
    CHECK(cuMemcpyDtoH_v2(v, q, sizeof v));
    TRUE(v[0] == 2 && v[3] == 2);
    CHECK(cuMemFreeAsync(q, b));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamDestroy_v2(a));
    CHECK(cuStreamDestroy_v2(b));
}

/* Memory of a pool outlives the context that asked for it; a destroyed pool goes with
 * the last of its memory. */
static void ends(void)
{
    struct {
        int kind, handles, place, id;
        void *security;
        size_t most;
        unsigned char rest[56];
    } props = {.kind = 1, .place = 1};
    void *ctx, *pool;
    size_t before = free_memory();
    dptr p, q;
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    CHECK(cuMemAllocAsync(&p, 20 * MIB, NULL));
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(context));
    TRUE(before - free_memory() >= 20 * MIB);
    CHECK(cuMemsetD8_v2(p, 1, 16));
    CHECK(cuCtxSynchronize()); /* cuMemFree does not wait for users of a pool's memory */
    CHECK(cuMemFree_v2(p));
    TRUE(free_memory() == before);
    CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
    CHECK(cuMemAllocFromPoolAsync(&q, MIB, pool, NULL));
    void *owner;
    CHECK(cuPointerGetAttribute(&owner, 17, p));
    TRUE(owner == pool);
    CHECK(cuMemPoolDestroy(pool));
    WANT(cuMemPoolTrimTo(pool, 0), 1);
    WANT(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL), 1);
    CHECK(cuMemsetD32Async(q, 1, MIB / 4, NULL));
    CHECK(cuMemFreeAsync(p, NULL));
    CHECK(cuMemFreeAsync(q, NULL));
    CHECK(cuCtxSynchronize());
    TRUE(free_memory() == before);
}

static void *worker(void *arg)
{
    uint32_t me = (uint32_t)(uintptr_t)arg, n = 1 << 14, *out;
    void *s, *inc;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAllocHost_v2((void **)&out, 4 * n));
    inc = kernel(module, "xm_increment");
    for (uint32_t round = 0; round < 200; round++) {
        dptr p, q;
        void *args[] = {&p, &n};
        CHECK(cuMemAllocAsync(&p, 4 * n, s));
        CHECK(cuMemsetD32Async(p, me * 1000 + round, n, s));
        CHECK(cuMemAllocAsync(&q, 512 * (1 + round % 9), s));
        CHECK(cuLaunchKernel(inc, 8, 1, 1, 128, 1, 1, 0, s, args, NULL));
        CHECK(cuMemFreeAsync(q, s));
        CHECK(cuMemcpyDtoHAsync_v2(out, p, 4 * n, s));
        CHECK(cuMemFreeAsync(p, s));
        if (round % 8)
            continue;
        CHECK(cuStreamSynchronize(s));
        for (uint32_t i = 0; i < n; i++)
            TRUE(out[i] == me * 1000 + round + 1);
    }
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuMemFreeHost(out));
    return NULL;
}

int main(void)
{
    pthread_t t[6];
    module = begin();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemAllocHost_v2((void **)&word, 4096));
    order();
    accounts();
    scarce();
    ends();
    size_t before = free_memory();
    for (int i = 0; i < 6; i++)
        TRUE(!pthread_create(&t[i], NULL, worker, (void *)(uintptr_t)i));
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    CHECK(cuCtxSynchronize());
    TRUE(free_memory() >= before - 32 * MIB);
    puts("ok");
    return 0;
}
