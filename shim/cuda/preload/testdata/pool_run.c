/* pool_run CASE, or nothing for the list: as memory_run, of memory that is allocated in the order of streams. */
#define main memory_run
#include "memory_run.c"
#undef main

static CUstream other;
static uint32_t *gate_word; /* of the host; while it is 0 a stream with a wait stands still */

static void pools(void)
{
    managed();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost_v2((void **)&gate_word, 4096));
}

static void stop(CUstream s)
{
    *gate_word = 0;
    CHECK(cuStreamWaitValue32_v2(s, (CUdeviceptr)(uintptr_t)gate_word, 1, 0));
}

static void go(void)
{
    __atomic_store_n(gate_word, 1, __ATOMIC_SEQ_CST);
}

static CUdeviceptr take(size_t bytes, CUstream s)
{
    CUdeviceptr p = 0;

    CHECK(cuMemAllocAsync(&p, bytes, s));
    TRUE(p);
    return p;
}

static CUmemoryPool make_pool(uint64_t most)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .maxSize = most};
    CUmemoryPool p;

    CHECK(cuMemPoolCreate(&p, &props));
    return p;
}

static uint64_t ask(CUmemoryPool p, CUmemPool_attribute what)
{
    uint64_t v = 99;

    CHECK(cuMemPoolGetAttribute(p, what, &v));
    return v;
}

static void keeps(CUmemoryPool p, uint64_t bytes)
{
    CHECK(cuMemPoolSetAttribute(p, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

#define FIGURES(p, reserved, reserved_high, used, used_high)                    \
    do {                                                                        \
        WANT(ask(p, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), (reserved));         \
        WANT(ask(p, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), (reserved_high));       \
        WANT(ask(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), (used));                 \
        WANT(ask(p, CU_MEMPOOL_ATTR_USED_MEM_HIGH), (used_high));               \
    } while (0)

static CUmemoryPool standard(void)
{
    CUmemoryPool p;

    CHECK(cuDeviceGetDefaultMemPool(&p, 0));
    return p;
}

/* --- cases --------------------------------------------------------------------------------- */

/* What a pool has goes away and comes back, and a kernel finds it. */
static void moves(void)
{
    enum { N = 6 };
    struct block b[N];
    CUmemoryPool own;

    pools();
    own = make_pool(0);
    for (int i = 0; i < N; i++) {
        b[i].bytes = (size_t)(i * i) * 7 * MIB + 100;
        if (i % 2)
            CHECK(cuMemAllocFromPoolAsync(&b[i].at, b[i].bytes, own, stream));
        else
            b[i].at = take(b[i].bytes, stream);
        CHECK(cuStreamSynchronize(stream));
        write_block(&b[i]);
    }
    WANT(figure(&section()->client_memory.pinned), 0);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    TRUE(count(XM_SEGMENT_AWAY) > 10);
    WANT(count(XM_SEGMENT_DEVICE), 0);
    wants(XM_HOLD_NONE);
    for (int i = 0; i < N; i++)
        raise_block(&b[i]);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, false, true, false), 0);
    WANT(count(XM_SEGMENT_HOST) + count(XM_SEGMENT_AWAY), 0);
    wants(XM_HOLD_NONE);
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < N; i++) {
        check_block(&b[i]);
        CHECK(cuMemFreeAsync(b[i].at, stream));
    }
    CHECK(cuStreamSynchronize(stream));
    WANT(count(XM_SEGMENT_DEVICE), 0);
}

/* The figures that an H200's pool was asked for (hal/cuda/conformance, pool-memory). */
static void figures(void)
{
    CUdeviceptr p[4], base;
    CUmemoryPool own, owner = NULL;
    CUcontext of = ctx;
    size_t before, left, total, size;
    uint64_t zero = 0;

    pools();
    own = make_pool(0);
    CHECK(cuMemGetInfo_v2(&before, &total));
    FIGURES(own, 0, 0, 0, 0);
    CHECK(cuMemAllocFromPoolAsync(&p[0], 1, own, stream));
    FIGURES(own, 32 * MIB, 32 * MIB, 1, 1);
    CHECK(cuMemAllocFromPoolAsync(&p[1], 513, own, stream));
    CHECK(cuMemAllocFromPoolAsync(&p[2], MIB + 1, own, stream));
    FIGURES(own, 32 * MIB, 32 * MIB, 1049091, 1049091);
    CHECK(cuMemAllocFromPoolAsync(&p[3], 64 * MIB, own, stream));
    FIGURES(own, 96 * MIB, 96 * MIB, 68157955, 68157955);
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(before - left, 96 * MIB);
    for (int i = 0; i < 4; i++)
        WANT(p[i] % 512, 0);
    CHECK(cuMemGetAddressRange_v2(&base, &size, p[2] + 5));
    WANT(base, p[2]);
    WANT(size, MIB + 1);
    CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p[2]));
    TRUE(owner == own);
    CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p[2]));
    TRUE(!of);
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFreeAsync(p[i], stream));
    FIGURES(own, 96 * MIB, 96 * MIB, 0, 68157955);
    CHECK(cuStreamSynchronize(stream));
    FIGURES(own, 0, 96 * MIB, 0, 68157955);
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(left, before);
    /* kept for a next time */
    keeps(own, (uint64_t)1 << 40);
    CHECK(cuMemAllocFromPoolAsync(&p[0], 100 * MIB, own, stream));
    FIGURES(own, 128 * MIB, 128 * MIB, 100 * MIB, 100 * MIB);
    CHECK(cuMemFreeAsync(p[0], stream));
    CHECK(cuStreamSynchronize(stream));
    FIGURES(own, 128 * MIB, 128 * MIB, 0, 100 * MIB);
    CHECK(cuMemPoolTrimTo(own, 64 * MIB)); /* at least so much stays */
    TRUE(ask(own, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 64 * MIB);
    CHECK(cuMemPoolTrimTo(own, 0));
    FIGURES(own, 0, 128 * MIB, 0, 100 * MIB);
    CHECK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    CHECK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    FIGURES(own, 0, 0, 0, 0);
    /* at most 64 MiB */
    own = make_pool(64 * MIB);
    WANT(cuMemAllocFromPoolAsync(&p[0], 128 * MIB, own, stream), CUDA_ERROR_OUT_OF_MEMORY);
    WANT(p[0], 0);
    CHECK(cuMemAllocFromPoolAsync(&p[0], 40 * MIB, own, stream));
    FIGURES(own, 64 * MIB, 64 * MIB, 40 * MIB, 40 * MIB);
    WANT(cuMemAllocFromPoolAsync(&p[1], 40 * MIB, own, stream), CUDA_ERROR_OUT_OF_MEMORY);
    FIGURES(own, 64 * MIB, 64 * MIB, 40 * MIB, 40 * MIB);
}

/* Freed memory is its stream's at once, and others' when the stream has come there. */
static void order(void)
{
    enum { N = 8 << 20 };
    CUdeviceptr p, q, r;
    unsigned char *host;

    pools();
    keeps(standard(), UINT64_MAX);
    CHECK(cuMemAllocHost_v2((void **)&host, N));
    stop(stream);
    p = take(N, stream);
    CHECK(cuMemsetD8Async(p, 0x5a, N, stream));
    CHECK(cuMemcpyDtoHAsync_v2(host, p, N, stream));
    CHECK(cuMemFreeAsync(p, stream));
    q = take(N, stream);
    WANT(q, p);
    CHECK(cuMemFreeAsync(q, stream));
    for (int i = 0; i < 20; i++) { /* none of these is it */
        r = take(N, other);
        TRUE(r + N <= p || r >= p + N);
        CHECK(cuMemsetD8Async(r, 1, N, other));
    }
    CHECK(cuStreamSynchronize(other));
    go();
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < N; i++)
        WANT(host[i], 0x5a);
    q = 0;
    for (int i = 0; i < 20 && q != p; i++) /* what is passed is everybody's before more is taken */
        q = take(N, other);
    WANT(q, p);
}

/* What a stream freed that is gone now, and whose handle may be another's. */
static void stream_ends(void)
{
    enum { N = 20 << 20 };
    CUdeviceptr p, q;
    CUstream s;

    pools();
    keeps(standard(), UINT64_MAX);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    stop(s);
    p = take(N, s);
    CHECK(cuMemsetD8Async(p, 1, N, s));
    CHECK(cuMemFreeAsync(p, s));
    go();
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); /* it may have the old one's handle */
    CHECK(cuCtxSynchronize());
    q = take(N, s);
    WANT(q, p);
    CHECK(cuMemFreeAsync(q, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuMemPoolTrimTo(standard(), 0));
    WANT(ask(standard(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

/* The program starts with a limit of 128 MiB, and a target of 64. */
static void limited(void)
{
    CUdeviceptr p, q, r;

    pools();
    keeps(standard(), UINT64_MAX);
    p = take(60 * MIB, stream);
    q = take(60 * MIB, stream);
    TRUE(count(XM_SEGMENT_HOST) > 0); /* beyond the target the host's */
    WANT(cuMemAllocAsync(&r, 20 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    WANT(r, 0);
    /* Another stream's memory, by waiting for it. */
    stop(stream);
    CHECK(cuMemsetD8Async(q, 1, 60 * MIB, stream));
    CHECK(cuMemFreeAsync(q, stream));
    r = take(60 * MIB, other);
    WANT(r, q);
    CHECK(cuMemsetD8Async(r, 2, 60 * MIB, other));
    usleep(20 * MS);
    WANT(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    go();
    CHECK(cuStreamSynchronize(other));
    CHECK(cuStreamSynchronize(stream));
    /* What pools keep is given up for others. */
    CHECK(cuMemFreeAsync(r, other));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuCtxSynchronize());
    TRUE(ask(standard(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 120 * MIB);
    CHECK(cuMemAlloc_v2(&p, 120 * MIB));
    WANT(ask(standard(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    CHECK(cuMemFree_v2(p));
}

/* Memory of cuMemAlloc, freed in the order of a stream, and a pool's by cuMemFree. */
static void crosswise(void)
{
    size_t before, left, total;
    CUdeviceptr p, q;
    unsigned char *byte;

    pools();
    CHECK(cuMemAllocHost_v2((void **)&byte, 1));
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuMemAlloc_v2(&p, 64 * MIB));
    CHECK(cuMemAlloc_v2(&q, 100));
    stop(stream);
    CHECK(cuMemsetD8Async(p, 7, 64 * MIB, stream));
    CHECK(cuMemcpyDtoHAsync_v2(byte, p, 1, stream));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuMemFreeAsync(q, stream));
    WANT(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
    WANT(cuMemFree_v2(q), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(before - left, 66 * MIB);
    go();
    CHECK(cuStreamSynchronize(stream));
    WANT(*byte, 7);
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(left, before);

    p = take(100, stream);
    WANT(cuMemFreeAsync(p + 1, stream), CUDA_ERROR_INVALID_VALUE);
    WANT(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree_v2(p));
    WANT(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    WANT(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(left, before);
    CHECK(cuMemFreeAsync(0, stream));
    CHECK(cuMemAllocAsync(&p, 0, stream));
    WANT(p, 0);
    WANT(cuMemAllocAsync(&p, (size_t)1 << 50, stream), CUDA_ERROR_OUT_OF_MEMORY);
    WANT(cuMemAllocAsync(&p, SIZE_MAX, stream), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Pools that end with memory in use, and pools that are a device's own for a while. */
static void pools_end(void)
{
    CUmemoryPool own, now, first;
    struct block b = {.bytes = 5 * MIB};
    size_t before, left, total;
    CUipcMemHandle ipc;

    pools();
    CHECK(cuMemGetInfo_v2(&before, &total));
    own = make_pool(0);
    first = standard();
    CHECK(cuDeviceSetMemPool(0, own));
    b.at = take(b.bytes, stream);
    CHECK(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, b.at));
    TRUE(now == own);
    WANT(cuIpcGetMemHandle(&ipc, b.at), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamSynchronize(stream));
    write_block(&b);
    CHECK(cuMemPoolDestroy(own));
    WANT(cuMemAllocFromPoolAsync(&b.at, 4096, own, stream), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr p = take(100, stream);
    CHECK(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    TRUE(now == first);
    CHECK(cuMemFreeAsync(p, stream));
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    wants(XM_HOLD_NONE);
    check_block(&b);
    CHECK(cuMemFreeAsync(b.at, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(left, before);
    for (int i = 0; i < 50; i++) { /* handles come again */
        own = make_pool(0);
        CHECK(cuMemAllocFromPoolAsync(&p, 1000, own, stream));
        CHECK(cuMemFreeAsync(p, stream));
        CHECK(cuMemPoolDestroy(own));
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(left, before);
}

/* Memory of pools is no context's; that of cuMemAlloc goes with its own, freed behind a stream or not. */
static void contexts_end(void)
{
    CUcontext second;
    CUdeviceptr p, q;
    CUstream s;
    size_t before, left, total;

    pools();
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuCtxCreate_v2(&second, 0, 0));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    p = take(40 * MIB, s);
    CHECK(cuMemFreeAsync(take(10 * MIB, s), s));
    CHECK(cuMemAlloc_v2(&q, 10 * MIB));
    CHECK(cuMemFreeAsync(q, s));
    CHECK(cuMemAlloc_v2(&q, 1000));
    CHECK(cuMemFreeAsync(q, s));
    CHECK(cuCtxDestroy_v2(second));
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuMemsetD8_v2(p, 1, 40 * MIB));
    CHECK(cuCtxSynchronize());
    stop(stream);
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuDevicePrimaryCtxRetain(&second, 0));
    CHECK(cuDevicePrimaryCtxRelease_v2(0)); /* not the last */
    go();
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo_v2(&left, &total));
    WANT(left, before);
}

/* The default streams: each thread's is its own. */
static void *in_thread(void *arg)
{
    CUdeviceptr *p = arg;

    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuMemAllocAsync_ptsz(p, 3 * MIB, NULL));
    CHECK(cuMemsetD8Async(*p, 1, 3 * MIB, CU_STREAM_PER_THREAD));
    return NULL;
}

static void default_streams(void)
{
    CUdeviceptr p, q, r;
    pthread_t t;

    pools();
    keeps(standard(), UINT64_MAX);
    stop(CU_STREAM_PER_THREAD);
    CHECK(cuMemAllocAsync_ptsz(&p, 3 * MIB, NULL));
    CHECK(cuMemFreeAsync_ptsz(p, NULL));
    CHECK(cuMemAllocAsync(&q, 3 * MIB, CU_STREAM_PER_THREAD));
    WANT(q, p);
    CHECK(cuMemFreeAsync(q, CU_STREAM_PER_THREAD));
    for (int i = 0; i < 100; i++) { /* more threads than records are kept for */
        TRUE(pthread_create(&t, NULL, in_thread, &r) == 0);
        TRUE(pthread_join(t, NULL) == 0);
        TRUE(r != p);
        CHECK(cuMemFreeAsync(r, other));
    }
    q = take(3 * MIB, NULL);
    TRUE(q != p);
    go();
    CHECK(cuMemFreeAsync(q, NULL));
    CHECK(cuStreamSynchronize_ptsz(NULL));
    CHECK(cuCtxSynchronize());
}

/* Allocations that live at once, filled by their stream, read before they are freed; memory moves meanwhile. */
static void *pool_churn(void *arg)
{
    unsigned mine = (unsigned)(uintptr_t)arg;
    CUstream own[2];
    enum { LIVE = 12 };
    struct { CUdeviceptr at; size_t words; uint32_t value; int s; } live[LIVE] = {{0}};
    uint32_t *seen;

    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuStreamCreate(&own[0], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&own[1], CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocHost_v2((void **)&seen, LIVE * 2 * sizeof *seen));
    for (int step = 0; step < 300; step++) {
        int i = rand_r(&mine) % LIVE;

        if (!live[i].at) {
            live[i].s = i % 2; /* so that what is read of it comes in order */
            live[i].words = 1 + (size_t)rand_r(&mine) % (rand_r(&mine) % 4 ? 5000 : MIB);
            live[i].value = (uint32_t)rand_r(&mine);
            live[i].at = take(4 * live[i].words, own[live[i].s]);
            CHECK(cuMemsetD32Async(live[i].at, live[i].value, live[i].words, own[live[i].s]));
            continue;
        }
        CHECK(cuMemcpyDtoHAsync_v2(&seen[2 * i], live[i].at, 4, own[live[i].s]));
        CHECK(cuMemcpyDtoHAsync_v2(&seen[2 * i + 1], live[i].at + 4 * live[i].words - 4, 4, own[live[i].s]));
        CHECK(cuMemFreeAsync(live[i].at, own[live[i].s]));
        live[i].at = 0;
        if (rand_r(&mine) % 3 == 0) {
            CHECK(cuStreamSynchronize(own[live[i].s]));
            WANT(seen[2 * i], live[i].value);
            WANT(seen[2 * i + 1], live[i].value);
        }
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].at)
            CHECK(cuMemFreeAsync(live[i].at, own[live[i].s]));
    CHECK(cuStreamDestroy_v2(own[0]));
    CHECK(cuStreamSynchronize(own[1]));
    CHECK(cuStreamDestroy_v2(own[1]));
    return NULL;
}

static void pool_threads(void)
{
    pthread_t t[4];
    uint64_t asked;

    pools();
    asked = figure(&section()->client_memory.allocated);
    if (seed % 2)
        keeps(standard(), 64 * MIB);
    for (uintptr_t i = 0; i < 4; i++)
        TRUE(pthread_create(&t[i], NULL, pool_churn, (void *)(i + 1)) == 0);
    for (int i = 0; i < 25; i++) {
        int r;

        wants(XM_HOLD_ALL);
        r = move(&seed, 2, true, i % 2, false);
        TRUE(r == 0 || r == -ECANCELED || r == -EINVAL || r == -EBUSY); /* as in threads */
        wants(XM_HOLD_NONE);
        usleep(2 * MS);
    }
    for (int i = 0; i < 4; i++)
        TRUE(pthread_join(t[i], NULL) == 0);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemPoolTrimTo(standard(), 0));
    FIGURES(standard(), 0, ask(standard(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0, ask(standard(), CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    WANT(count(XM_SEGMENT_DEVICE) + count(XM_SEGMENT_HOST), 0);
    WANT(figure(&section()->client_memory.pinned), 0);
    TRUE(figure(&section()->client_memory.allocated) <= asked + 128 * MIB);
}

/* What the driver forbids in a capture, and what is a graph's, is the driver's. */
static void captures(void)
{
    CUdeviceptr p, q;
    CUgraph graph;

    pools();
    p = take(MIB, stream);
    CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TRUE(cuMemAllocAsync(&q, MIB, stream) != CUDA_SUCCESS);
    TRUE(cuStreamEndCapture(other, &graph) != CUDA_SUCCESS);
    CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    q = take(MIB, stream);
    CHECK(cuMemFreeAsync(p, stream));
    WANT(cuMemFreeAsync(q, other), CUDA_ERROR_INVALID_VALUE); /* a graph frees what a graph allocated */
    (void)cuStreamEndCapture(other, &graph);
    CHECK(cuMemFreeAsync(q, stream));
    CHECK(cuStreamSynchronize(stream));
    WANT(ask(standard(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

/* A pool that another device may reach is the driver's, and what of it is here stays where it is. */
static void reachable(void)
{
    CUmemAccessDesc peer = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool own, empty;
    CUdeviceptr p, q;
    int devices;

    pools();
    CHECK(cuDeviceGetCount(&devices));
    WANT(devices, 2);
    empty = make_pool(0);
    own = make_pool(0);
    CHECK(cuMemPoolSetAccess(empty, &peer, 1));
    CHECK(cuMemAllocFromPoolAsync(&p, MIB, empty, stream));
    WANT(figure(&section()->client_memory.pinned), MIB);
    TRUE(word(&section()->client_memory.flags) & XM_MEMORY_POOLS);
    CHECK(cuMemAllocFromPoolAsync(&q, MIB, own, stream));
    WANT(figure(&section()->client_memory.pinned), MIB);
    WANT(flagged(XM_SEGMENT_PINNED), 0);
    CHECK(cuMemPoolSetAccess(own, &peer, 1));
    WANT(flagged(XM_SEGMENT_PINNED), 1);
    TRUE(word(&section()->client_memory.flags) & XM_MEMORY_PEERS);
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuMemFreeAsync(q, stream));
    CHECK(cuStreamSynchronize(stream));
    WANT(figure(&section()->client_memory.pinned), 0);
    WANT(flagged(XM_SEGMENT_PINNED), 0);
}

/* Prints what an allocation and its free cost, in ns: with XMSCHED_MEMORY=1 ours, without it the driver's. */
static void pool_speed(void)
{
    static const size_t sizes[] = {512, 100000, 2 * MIB, 64 * MIB};
    enum { N = 20000 };
    CUstream s;
    CUevent e;
    uint64_t from, taking, reading = 0;

    begin();
    for (int i = 0; i < N; i++) {
        from = now();
        reading += now() - from;
    }
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    keeps(standard(), UINT64_MAX);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        CHECK(cuMemFreeAsync(take(sizes[k], s), s));
        CHECK(cuStreamSynchronize(s));
        from = now();
        for (int i = 0; i < N; i++)
            CHECK(cuMemFreeAsync(take(sizes[k], s), s));
        printf("%8zu bytes: %6.0f ns an allocation and its free", sizes[k], (double)(now() - from) / N);
        taking = 0;
        for (int i = 0; i < N; i++) {
            CUdeviceptr p;

            from = now();
            CHECK(cuMemAllocAsync(&p, sizes[k], s));
            taking += now() - from;
            CHECK(cuMemFreeAsync(p, s));
        }
        printf(", %.0f the allocation\n", ((double)taking - (double)reading) / N);
        CHECK(cuStreamSynchronize(s));
    }
    from = now();
    for (int i = 0; i < N; i++)
        CHECK(cuEventRecord(e, s));
    printf("an event's record: %.0f ns\n", (double)(now() - from) / N);
}

static const struct {
    const char *name;
    void (*run)(void);
} pool_cases[] = {
    {"moves", moves}, {"figures", figures}, {"order", order}, {"stream_ends", stream_ends}, {"limited", limited}, {"crosswise", crosswise},
    {"pools_end", pools_end}, {"contexts_end", contexts_end}, {"default_streams", default_streams}, {"pool_threads", pool_threads},
    {"captures", captures}, {"reachable", reachable}, {"pool_speed", pool_speed},
};

int main(int argc, char **argv)
{
    const char *given = getenv("XM_SEED");

    alarm(100);
    if (given)
        seed = (unsigned)strtoul(given, NULL, 10);
    for (size_t i = 0; i < sizeof pool_cases / sizeof *pool_cases; i++) {
        if (argc < 2)
            puts(pool_cases[i].name);
        else if (strcmp(argv[1], pool_cases[i].name) == 0)
            return pool_cases[i].run(), 0;
    }
    return argc < 2 ? 0 : 2;
}
