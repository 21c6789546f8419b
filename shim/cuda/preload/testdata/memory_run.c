/* memory_run CASE, or nothing for the list: a program whose memory is managed, with
 * keeper.c as agent, daemon and engine. Prints nothing; exits 1 with a line when
 * something is wrong. $XM_PTX names the kernels' file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gen/board.h"
#include "gen/cuda_prototypes.h"
#include "memory.h"
#include "want.h"

#define MIB ((size_t)1 << 20)
enum { MS = 1000 };

static uint32_t (*want)(uint32_t hold, uint32_t slice_us);
static void (*grant)(bool open, unsigned mode);
static void (*hang)(bool hangs);
static void (*detach)(void);
static bool (*ready)(void);
static struct xm_device *(*section)(void);
static const struct xm_memory *(*memory)(void);
static void (*bounds)(uint64_t target, uint64_t limit, uint32_t flags);
static int (*engine)(void);
static int (*move)(unsigned *seed, unsigned of, bool out, bool in, bool dies);
static int (*load_one)(void);
static CUcontext ctx;
static CUfunction increment;
static CUstream stream;
static unsigned seed = 1;

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t word(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static uint64_t figure(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void *find(void *lib, const char *name)
{
    void *f = dlsym(lib, name);

    TRUE(f != NULL);
    return f;
}

static void begin(void)
{
    char path[4096];
    void *keeper;
    CUmodule module;

    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cuCtxSetCurrent(ctx));
    snprintf(path, sizeof path, "%s/libxagent.so", getenv("XMSCHED_LIB"));
    TRUE(keeper = dlopen(path, RTLD_NOW));
    *(void **)&want = find(keeper, "governor_want");
    *(void **)&grant = find(keeper, "governor_grant");
    *(void **)&hang = find(keeper, "governor_hang");
    *(void **)&detach = find(keeper, "governor_detach");
    *(void **)&ready = find(keeper, "governor_ready");
    *(void **)&section = find(keeper, "keeper_section");
    *(void **)&memory = find(keeper, "keeper_memory");
    *(void **)&bounds = find(keeper, "keeper_bounds");
    *(void **)&engine = find(keeper, "keeper_begin");
    *(void **)&move = find(keeper, "keeper_move");
    *(void **)&load_one = find(keeper, "keeper_load_one");
    CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
    CHECK(cuModuleGetFunction(&increment, module, "xm_increment"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* With the first allocation made, so that it is known to be managed. */
static void managed(void)
{
    CUdeviceptr p;

    begin();
    CHECK(cuMemAlloc_v2(&p, 2 * MIB));
    CHECK(cuMemsetD8_v2(p, 0, 2 * MIB)); /* a command takes the board along */
    CHECK(cuMemFree_v2(p));
    TRUE(section()->client_memory.flags & XM_MEMORY_ACTIVE);
    SOON(word(&section()->client.level_max) == 3);
    WANT(engine(), 0);
}

static void wants(uint32_t hold)
{
    uint32_t number = want(hold, 0);

    SOON(word(&section()->client.did) == number);
    WANT(section()->client.held, hold);
}

static int count(uint32_t state)
{
    static struct xm_segment views[4096];
    int n = memory()->list(0, views, 4096), found = 0;

    TRUE(n >= 0 && n <= 4096);
    for (int i = 0; i < n; i++)
        found += views[i].state == state;
    return found;
}

static int flagged(uint32_t flag)
{
    static struct xm_segment views[4096];
    int n = memory()->list(0, views, 4096), found = 0;

    for (int i = 0; i < n; i++)
        found += (views[i].flags & flag) != 0;
    return found;
}

/* --- bytes -------------------------------------------------------------------------- */

struct block {
    CUdeviceptr at;
    size_t bytes;
    uint32_t value; /* word k holds value + k */
};

static uint32_t *words(const struct block *b)
{
    uint32_t *w = malloc(b->bytes / 4 * 4 + 4);

    TRUE(w);
    for (size_t k = 0; k < b->bytes / 4; k++)
        w[k] = b->value + (uint32_t)k;
    return w;
}

static void write_block(struct block *b)
{
    uint32_t *w;

    b->value = (uint32_t)rand_r(&seed);
    w = words(b);
    CHECK(cuMemcpyHtoD_v2(b->at, w, b->bytes / 4 * 4));
    free(w);
}

static void check_block(const struct block *b)
{
    uint32_t *w = words(b), *is = malloc(b->bytes + 4);

    TRUE(is);
    CHECK(cuMemcpyDtoH_v2(is, b->at, b->bytes / 4 * 4));
    for (size_t k = 0; k < b->bytes / 4; k++)
        if (is[k] != w[k]) {
            fprintf(stderr, "memory_run.c: word %zu of %zu bytes at %llx is %u, want %u\n", k, b->bytes, (unsigned long long)b->at, is[k], w[k]);
            _exit(1);
        }
    free(w);
    free(is);
}

/* Every word grows by one, by a kernel. */
static void raise_block(struct block *b)
{
    unsigned n = (unsigned)(b->bytes / 4);
    void *args[] = {&b->at, &n};

    CHECK(cuLaunchKernel(increment, 64, 1, 1, 128, 1, 1, 0, stream, args, NULL));
    b->value++;
}

static struct block make_block(size_t bytes)
{
    struct block b = {.bytes = bytes};

    CHECK(cuMemAlloc_v2(&b.at, bytes));
    write_block(&b);
    return b;
}

static size_t some_size(void)
{
    switch (rand_r(&seed) % 5) {
    case 0:
        return 4 + (size_t)rand_r(&seed) % 4096;
    case 1:
        return 4 + (size_t)rand_r(&seed) % MIB;
    case 2:
        return 2 * MIB;
    case 3:
        return 4 + (size_t)rand_r(&seed) % (5 * MIB);
    default:
        return 32 * MIB + (size_t)rand_r(&seed) % (8 * MIB);
    }
}

/* --- cases --------------------------------------------------------------------------- */

/* Of memory on the device, gone, and in the host the same is told. */
static void is_told(CUdeviceptr p, size_t bytes)
{
    CUdeviceptr base;
    size_t size;
    unsigned type = 0;
    int ordinal = -1;
    void *host = NULL;
    CUcontext of = NULL;
    CUpointer_attribute several[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *into[] = {&type, &size, &host};

    CHECK(cuMemGetAddressRange_v2(&base, &size, p + 33 * MIB));
    WANT(base, p);
    WANT(size, bytes);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 1));
    WANT(type, CU_MEMORYTYPE_DEVICE);
    CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    WANT(ordinal, 0);
    CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    TRUE(of == ctx);
    WANT(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p), CUDA_ERROR_INVALID_VALUE);
    type = 0;
    CHECK(cuPointerGetAttributes(3, several, into, p + 34 * MIB));
    WANT(type, CU_MEMORYTYPE_DEVICE);
    WANT(size, bytes);
    TRUE(!host);
}

static void told(void)
{
    CUdeviceptr p;

    managed();
    CHECK(cuMemAlloc_v2(&p, 40 * MIB + 5));
    is_told(p, 40 * MIB + 5);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    WANT(count(XM_SEGMENT_AWAY), 2);
    is_told(p, 40 * MIB + 5);
    wants(XM_HOLD_NONE);
    WANT(count(XM_SEGMENT_HOST), 2);
    is_told(p, 40 * MIB + 5);
}

/* What is free and what there is, and what cannot be had. */
static void answers(void)
{
    CUdeviceptr p, base;
    size_t size, free_bytes, total, before, pitch;

    managed();
    CHECK(cuMemGetInfo_v2(&before, &total));
    WANT(before, total);
    CHECK(cuMemAlloc_v2(&p, 40 * MIB + 5));
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    WANT(before - free_bytes, 42 * MIB);
    CHECK(cuDeviceTotalMem_v2(&size, 0));
    WANT(size, total);
    WANT(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree_v2(p));
    WANT(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    WANT(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    WANT(cuMemAlloc_v2(&p, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAllocPitch_v2(&p, &pitch, 1000, 3000, 4));
    WANT(pitch, 1024);
    CHECK(cuMemGetAddressRange_v2(&base, &size, p));
    WANT(size, 1024 * 3000);
    CHECK(cuMemFree_v2(p));
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    WANT(free_bytes, before);
}

/* Another process would keep what the address was mapped to. */
static void shared(void)
{
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle ipc;
    struct block b;
    int fd;

    managed();
    b = make_block(2 * MIB);
    WANT(cuIpcGetMemHandle(&ipc, b.at), CUDA_ERROR_NOT_SUPPORTED);
    WANT(cuMemGetHandleForAddressRange(&fd, b.at, 2 * MIB, (CUmemRangeHandleType)1, 0), CUDA_ERROR_NOT_SUPPORTED);
    WANT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)b.at), CUDA_ERROR_INVALID_VALUE);
    check_block(&b);
}

/* With XMSCHED_PIN_MEMORY: the driver's, which it can share, and counted. The pools as well. */
static void pinned(void)
{
    CUmemGenericAllocationHandle handle;
    const uint64_t *bytes;
    CUdeviceptr p, q;

    managed();
    bytes = &section()->client_memory.pinned;
    CHECK(cuMemAlloc_v2(&p, 4 * MIB));
    WANT(figure(bytes), 4 * MIB);
    CHECK(cuMemAllocAsync(&q, 2 * MIB, NULL));
    CHECK(cuCtxSynchronize());
    TRUE(figure(bytes) >= 6 * MIB);
    WANT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE); /* the driver's word */
    CHECK(cuMemFree_v2(p));
    CHECK(cuMemFreeAsync(q, NULL));
}

/* What the program maps itself: counted as often as it is there, and of the device alone. */
static void mapped(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAllocationProp host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
    CUmemGenericAllocationHandle h[4], of_host;
    const uint64_t *pinned;
    CUdeviceptr at;

    managed();
    pinned = &section()->client_memory.pinned;
    CHECK(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
    for (int i = 0; i < 4; i++) {
        CHECK(cuMemCreate(&h[i], 2 * MIB, &prop, 0));
        WANT(figure(pinned), (i + 1) * 2 * MIB);
        CHECK(cuMemMap(at + (size_t)i * 2 * MIB, 2 * MIB, 0, h[i], 0));
    }
    TRUE(word(&section()->client_memory.flags) & XM_MEMORY_MAPPED);
    for (int i = 0; i < 4; i++)
        CHECK(cuMemRelease(h[i]));
    WANT(figure(pinned), 8 * MIB); /* mapped still */
    CHECK(cuMemUnmap(at, 4 * MIB));
    WANT(figure(pinned), 4 * MIB);
    CHECK(cuMemCreate(&of_host, 4 * MIB, &host, 0));
    CHECK(cuMemMap(at, 4 * MIB, 0, of_host, 0));
    WANT(figure(pinned), 4 * MIB);
    CHECK(cuMemRelease(of_host));
    CHECK(cuMemUnmap(at, 4 * MIB));
    CHECK(cuMemUnmap(at + 4 * MIB, 4 * MIB));
    WANT(figure(pinned), 0);
    WANT(word(&section()->client_memory.flags) & XM_MEMORY_MAPPED, 0);
}

/* Random allocating, freeing, writing, checking, with kernels under way, and moves of what there is whenever it is stopped. */
static void history(void)
{
    enum { BLOCKS = 24 };
    struct block blocks[BLOCKS] = {{0}};
    int moves = 0;

    managed();
    for (int step = 0; step < 160; step++) {
        struct block *b = &blocks[rand_r(&seed) % BLOCKS];

        switch (rand_r(&seed) % 8) {
        case 0:
        case 1:
            if (!b->at)
                *b = make_block(some_size());
            break;
        case 2:
            if (b->at) {
                CHECK(cuMemFree_v2(b->at));
                b->at = 0;
            }
            break;
        case 3:
            if (b->at) {
                CHECK(cuStreamSynchronize(stream));
                write_block(b);
            }
            break;
        case 4:
            if (b->at) {
                CHECK(cuStreamSynchronize(stream));
                check_block(b);
            }
            break;
        case 5:
        case 6:
            if (b->at)
                raise_block(b);
            break;
        default:
            wants(XM_HOLD_ALL);
            for (int i = rand_r(&seed) % 3; i >= 0; i--)
                WANT(move(&seed, 1 + (unsigned)rand_r(&seed) % 3, rand_r(&seed) % 3, rand_r(&seed) % 2, false), 0);
            if (rand_r(&seed) % 3 == 0) { /* what is made and freed while it is stopped */
                CUdeviceptr p;

                CHECK(cuMemAlloc_v2(&p, some_size()));
            }
            wants(XM_HOLD_NONE);
            WANT(count(XM_SEGMENT_AWAY) + count(XM_SEGMENT_LOADING), 0);
            moves++;
        }
    }
    CHECK(cuStreamSynchronize(stream));
    TRUE(moves > 5);
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at) {
            check_block(&blocks[i]);
            CHECK(cuMemFree_v2(blocks[i].at));
        }
    TRUE(figure(&section()->client_memory.out) > 0 && figure(&section()->client_memory.in) > 0);
}

static _Atomic bool copied;
static struct block victim;

static void *copy_back(void *unused)
{
    CHECK(cuCtxSetCurrent(ctx));
    check_block(&victim);
    copied = true;
    return unused;
}

/* A copy that names memory which is gone waits, and then has the bytes. */
static void door(void)
{
    pthread_t t;

    managed();
    victim = make_block(50 * MIB);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    WANT(count(XM_SEGMENT_AWAY), 2);
    TRUE(pthread_create(&t, NULL, copy_back, NULL) == 0);
    usleep(100 * MS);
    TRUE(!copied);
    WANT(move(&seed, 1, false, true, false), 0);
    WANT(count(XM_SEGMENT_DEVICE), 2);
    wants(XM_HOLD_NONE);
    TRUE(pthread_join(t, NULL) == 0);
    TRUE(copied);
}

/* A copy that is in the driver already keeps what it names where it is. */
static void busy(void)
{
    pthread_t t;

    managed();
    victim = make_block(50 * MIB);
    struct block other = make_block(2 * MIB);
    wants(XM_HOLD_ALL);
    TRUE(pthread_create(&t, NULL, copy_back, NULL) == 0);
    SOON(flagged(XM_SEGMENT_BUSY) == 2);
    TRUE(!copied);
    WANT(move(&seed, 1, true, false, false), 0);
    WANT(count(XM_SEGMENT_AWAY), 1);
    WANT(count(XM_SEGMENT_DEVICE), 2);
    wants(XM_HOLD_NONE);
    TRUE(pthread_join(t, NULL) == 0);
    check_block(&other);
}

/* The daemon dies while memory is gone: the process gets it back and goes on. */
static void lease(void)
{
    struct block b;

    managed();
    b = make_block(70 * MIB);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 2, true, false, false), 0);
    hang(true);
    SOON(word(&section()->client.held) == XM_HOLD_NONE);
    WANT(count(XM_SEGMENT_AWAY), 0);
    raise_block(&b);
    CHECK(cuStreamSynchronize(stream));
    check_block(&b);
    WANT(move(&seed, 1, true, false, false), -EAGAIN);
}

/* The engine dies in a move, with the lock and a half loaded segment. */
static void engine_dies(void)
{
    struct block b;
    uint64_t from;

    managed();
    b = make_block(70 * MIB);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    WANT(load_one(), 0);
    WANT(count(XM_SEGMENT_LOADING), 1);
    from = now();
    wants(XM_HOLD_NONE);
    TRUE(now() - from > 900000000u);
    WANT(count(XM_SEGMENT_HOST), 3);
    WANT(memory()->loaded(0, NULL, 0), -EPERM); /* it comes back to life */
    WANT(memory()->end(0), -EPERM);
    raise_block(&b);
    CHECK(cuStreamSynchronize(stream));
    check_block(&b);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, true, false), 0);
    wants(XM_HOLD_NONE);
    check_block(&b);
}

static void session_ends(void)
{
    struct block b, c;

    managed();
    b = make_block(70 * MIB);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    detach();
    check_block(&b);
    c = make_block(4 * MIB); /* without a daemon it is the device's where that has room */
    check_block(&c);
    WANT(move(&seed, 1, true, false, false), -EAGAIN);
}

/* Stopped by its gate alone. */
static void drained(void)
{
    struct block b;

    managed();
    b = make_block(40 * MIB);
    CHECK(cuCtxSynchronize());
    WANT(move(&seed, 1, true, false, false), -EAGAIN);
    grant(false, XM_MODE_BOUNDED);
    SOON(!word(&section()->client.ready) && word(&section()->client.acked) == word(&section()->daemon.gate));
    WANT(move(&seed, 1, true, false, false), -EAGAIN); /* not allowed */
    bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED | XM_MEMORY_DRAINED);
    SOON(move(&seed, 1, true, false, false) == 0);
    WANT(count(XM_SEGMENT_AWAY), 2);
    TRUE(word(&section()->client_memory.flags) & XM_MEMORY_GONE);
    bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED);
    SOON(!(word(&section()->client_memory.flags) & XM_MEMORY_GONE));
    WANT(count(XM_SEGMENT_HOST), 2);
    grant(true, XM_MODE_FREE);
    check_block(&b);
    /* and with a daemon that dies instead */
    grant(false, XM_MODE_BOUNDED);
    bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED | XM_MEMORY_DRAINED);
    SOON(move(&seed, 1, false, true, false) == 0);
    SOON(move(&seed, 1, true, false, false) == 0);
    WANT(count(XM_SEGMENT_AWAY), 2);
    hang(true);
    check_block(&b);
    WANT(section()->client.opened_by_lease, 1);
}

static _Atomic bool enough;

static void *raise_on(void *b)
{
    CHECK(cuCtxSetCurrent(ctx));
    while (!enough) {
        raise_block(b);
        CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

/* The same of one that launches all the time, and so waits at the gate. A command that entered the stream as the gate
 * closed stands behind it, and then nothing moves in that turn. */
static void drained_busy(void)
{
    struct block b;
    pthread_t t;
    int moves = 0;

    managed();
    b = make_block(40 * MIB);
    CHECK(cuCtxSynchronize());
    bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED | XM_MEMORY_PREPARE);
    grant(true, XM_MODE_BOUNDED);
    TRUE(pthread_create(&t, NULL, raise_on, &b) == 0);
    for (int turn = 0; turn < 20; turn++) {
        int moved = -EAGAIN;

        usleep(5 * MS);
        grant(false, XM_MODE_BOUNDED);
        bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED | XM_MEMORY_PREPARE | XM_MEMORY_DRAINED);
        for (int i = 0; i < 100 && moved == -EAGAIN; i++) {
            moved = move(&seed, 1, turn % 2 == 0, turn % 2, false);
            usleep(MS);
        }
        TRUE(moved == 0 || moved == -EAGAIN);
        moves += moved == 0;
        bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED | XM_MEMORY_PREPARE);
        SOON(!(word(&section()->client_memory.flags) & XM_MEMORY_GONE));
        grant(true, XM_MODE_BOUNDED);
    }
    enough = true;
    TRUE(pthread_join(t, NULL) == 0);
    check_block(&b);
    TRUE(moves >= 10);
}

static void leaves(void)
{
    struct block b;

    managed();
    b = make_block(40 * MIB);
    wants(XM_HOLD_ALL);
    raise_block(&b);
    WANT(move(&seed, 1, true, false, false), 0);
    exit(0);
}

/* Beyond the target the host; beyond the limit nothing. The program starts with both. */
static void bounded(void)
{
    struct block a, b, c;
    CUdeviceptr p;
    size_t free_bytes, total;
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

    managed(); /* 64 MiB of target, 128 of limit */
    a = make_block(32 * MIB);
    b = make_block(64 * MIB);
    WANT(count(XM_SEGMENT_DEVICE), 2);
    WANT(count(XM_SEGMENT_HOST), 1);
    TRUE(figure(&section()->client_memory.resident) <= 64 * MIB);
    WANT(figure(&section()->client_memory.host), 32 * MIB);
    WANT(cuMemAlloc_v2(&p, 33 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    WANT(cuMemCreate(&h, 34 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    WANT(total, 128 * MIB);
    WANT(free_bytes, 32 * MIB);
    CHECK(cuDeviceTotalMem_v2(&total, 0));
    WANT(total, 128 * MIB);
    raise_block(&b);
    CHECK(cuStreamSynchronize(stream));
    check_block(&a);
    check_block(&b);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, false, true, false), -ENOSPC);
    bounds(96 * MIB, 128 * MIB, XM_MEMORY_MANAGED);
    WANT(move(&seed, 1, false, true, false), 0);
    wants(XM_HOLD_NONE);
    WANT(count(XM_SEGMENT_DEVICE), 3);
    check_block(&b);
    bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED);
    c = make_block(100 * MIB);
    check_block(&c);
}

static _Atomic bool giving;

/* What the daemon does for who asks, after a while: its part of the host grows. */
static void *gives(void *unused)
{
    while (giving) {
        if (figure(&section()->client_memory.asked)) {
            usleep(50000);
            __atomic_fetch_add(&section()->daemon_memory.host, 32 * MIB, __ATOMIC_RELAXED);
            bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
        }
        usleep(1000);
    }
    return unused;
}

/* 64 MiB for which there is room on the device, and 160 of which the host's part holds but 32. */
static void allocate_beside(void *(*gives)(void *))
{
    struct block a, b;
    pthread_t daemon;

    managed();
    __atomic_store_n(&section()->daemon_memory.host, 32 * MIB, __ATOMIC_RELAXED);
    bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
    giving = true;
    WANT(pthread_create(&daemon, NULL, gives, NULL), 0);
    a = make_block(64 * MIB);
    b = make_block(160 * MIB);
    giving = false;
    pthread_join(daemon, NULL);
    check_block(&a);
    check_block(&b);
}

/* A part of the host that does not hold an allocation is asked for before that fails, and not for ever. */
static void part(void)
{
    CUdeviceptr p;
    uint64_t from;

    allocate_beside(gives);
    WANT(count(XM_SEGMENT_HOST), 5);
    from = now();
    while (!cuMemAlloc_v2(&p, 32 * MIB)) /* what it was given more than it asked for */
        from = now();
    TRUE(now() - from < 5000000000u);
    WANT(figure(&section()->client_memory.asked), 0);
}

static void has_pool(uint64_t all, uint64_t idle)
{
    uint64_t is_all, is_idle;

    WANT(memory()->pool(0, &is_all, &is_idle), 0);
    WANT(is_all, all);
    WANT(is_idle, idle);
}

/* Slots that are passed on: they count until they are another's; whoever has them moves memory to them, and never shows
 * the program what somebody else left there. */
static void passed(void)
{
    struct block a, b;
    CUdeviceptr p;
    uint32_t *left, *is = malloc(64 * MIB);
    uint64_t bytes;
    int fds[2], none;

    TRUE(is);
    managed();
    a = make_block(64 * MIB);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    wants(XM_HOLD_NONE);
    WANT(count(XM_SEGMENT_HOST), 2);
    CHECK(cuMemFree_v2(a.at));
    has_pool(64 * MIB, 64 * MIB);
    for (int i = 0; i < 2; i++) {
        WANT(memory()->give(0, &fds[i], &bytes), 0);
        WANT(bytes, 32 * MIB);
        TRUE(fds[i] >= 0 && fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
    }
    WANT(memory()->give(0, &none, &bytes), 0);
    WANT(bytes, 0);
    WANT(none, -1);
    has_pool(64 * MIB, 0);
    WANT(memory()->given(0, 64 * MIB), 0);
    has_pool(0, 0);

    WANT(memory()->accept(0, -1, 32 * MIB), -EINVAL);
    WANT(memory()->accept(0, fds[0], 3), -EINVAL);
    none = open("/dev/null", O_RDWR | O_CLOEXEC);
    TRUE(memory()->accept(0, none, 32 * MIB) != 0);
    has_pool(0, 0);
    for (int i = 0; i < 2; i++) {
        WANT(memory()->accept(0, fds[i], 32 * MIB), 0);
        close(fds[i]);
    }
    close(none);
    has_pool(64 * MIB, 64 * MIB);

    bounds(0, 0, XM_MEMORY_MANAGED);
    CHECK(cuMemAlloc_v2(&p, 64 * MIB));
    WANT(count(XM_SEGMENT_HOST), 2);
    has_pool(128 * MIB, 64 * MIB);
    CHECK(cuMemcpyDtoH_v2(is, p, 64 * MIB));
    left = words(&a);
    for (size_t k = 0; k < 16 * MIB; k++)
        TRUE(is[k] != left[k]);
    free(left);
    free(is);

    bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED);
    b = make_block(64 * MIB);
    wants(XM_HOLD_ALL);
    WANT(move(&seed, 1, true, false, false), 0);
    wants(XM_HOLD_NONE);
    WANT(count(XM_SEGMENT_HOST), 4);
    has_pool(128 * MIB, 0);
    check_block(&b);
}

/* What the daemon does while others give up theirs: it answers again and again, and there is room only after a while. */
static void *gives_late(void *unused)
{
    uint64_t asks = 0;

    while (giving) {
        if (figure(&section()->client_memory.asked) && ++asks == 1000)
            __atomic_store_n(&section()->daemon_memory.host, 256 * MIB, __ATOMIC_RELAXED);
        bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
        usleep(100);
    }
    return unused;
}

/* Answers that bring nothing yet are no reason to refuse an allocation: it waits for as long as others may take. */
static void late(void)
{
    allocate_beside(gives_late);
}

/* What the daemon does: a part of the host holds what is there by the figures, and what is asked for. */
static void *gives_what_is_asked(void *unused)
{
    while (giving) {
        uint64_t asked = figure(&section()->client_memory.asked), need = figure(&section()->client_memory.host) + asked;

        if (asked && need > __atomic_load_n(&section()->daemon_memory.host, __ATOMIC_RELAXED))
            __atomic_store_n(&section()->daemon_memory.host, need, __ATOMIC_RELAXED);
        bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
        usleep(1000);
    }
    return unused;
}

/* A move has taken all the slots that there may be, and waits for others: an allocation has what it asks for beside that. */
static void taken(void)
{
    struct xm_segment views[8];
    struct block a, b;
    uint64_t address;
    pthread_t daemon;

    managed();
    __atomic_store_n(&section()->daemon_memory.host, 64 * MIB, __ATOMIC_RELAXED);
    bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
    a = make_block(64 * MIB);
    wants(XM_HOLD_ALL);
    WANT(memory()->begin(0), 0);
    WANT(memory()->list(0, views, 8), 2);
    for (int i = 0; i < 2; i++)
        WANT(memory()->slot(0, views[i].id, &address), 0);
    has_pool(64 * MIB, 0);
    giving = true;
    WANT(pthread_create(&daemon, NULL, gives_what_is_asked, NULL), 0);
    CHECK(cuMemAlloc_v2(&b.at, 64 * MIB));
    giving = false;
    pthread_join(daemon, NULL);
    WANT(count(XM_SEGMENT_HOST), 2);
    has_pool(128 * MIB, 0);
    WANT(memory()->end(0), 0);
    wants(XM_HOLD_NONE);
    b.bytes = 64 * MIB;
    write_block(&b);
    check_block(&a);
    check_block(&b);
}

/* A free slot of another size that is far too small is no reason to ask in vain 25 times in a few ms. */
static void likely(void)
{
    pthread_t daemon;
    struct block a, b, c;

    managed();
    __atomic_store_n(&section()->daemon_memory.host, 34 * MIB, __ATOMIC_RELAXED);
    bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
    a = make_block(64 * MIB);
    c = make_block(32 * MIB);
    WANT(count(XM_SEGMENT_HOST), 1);
    WANT(memory()->slots(0, 1, 2 * MIB), 0);
    has_pool(34 * MIB, 2 * MIB);
    giving = true;
    WANT(pthread_create(&daemon, NULL, gives_late, NULL), 0);
    b = make_block(32 * MIB);
    giving = false;
    pthread_join(daemon, NULL);
    check_block(&a);
    check_block(&b);
    check_block(&c);
}

/* Where the host has no more a free slot that another process gave makes room for an allocation. */
static void full(void)
{
    uint64_t bytes;
    CUdeviceptr p;
    void *pinned;
    int fd;

    managed();
    WANT(memory()->slots(0, 1, 32 * MIB), 0);
    WANT(memory()->give(0, &fd, &bytes), 0);
    WANT(memory()->given(0, bytes), 0);
    WANT(memory()->accept(0, fd, bytes), 0);
    close(fd);
    has_pool(32 * MIB, 32 * MIB);
    for (size_t n = 1024 * MIB; n >= 2 * MIB; n /= 2) /* all that the process may pin */
        while (!cuMemHostAlloc(&pinned, n, 0))
            ;
    bounds(0, 0, XM_MEMORY_MANAGED);
    CHECK(cuMemAlloc_v2(&p, 32 * MIB));
    WANT(count(XM_SEGMENT_HOST), 1);
}

/* What has no room anywhere is refused before any of it is made: host memory is dear to make, and others want it. */
static void never(void)
{
    uint64_t host = 512 * MIB, from, all, idle;
    CUdeviceptr p;
    struct block a;

    managed();
    __atomic_store_n(&section()->daemon_memory.host, host, __ATOMIC_RELAXED);
    bounds(64 * MIB, 0, XM_MEMORY_MANAGED);
    from = now();
    WANT(cuMemAlloc_v2(&p, 1024 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    TRUE(now() - from < 5000000000u);
    WANT(figure(&section()->client_memory.asked), 0);
    WANT(memory()->pool(0, &all, &idle), 0);
    WANT(all, 0);
    a = make_block(256 * MIB);
    check_block(&a);
}

/* The management library, by whatever number it knows the device, tells what the driver tells. */
static void management(void)
{
    struct {
        unsigned long long total, free, used;
    } info;
    struct {
        unsigned version;
        unsigned long long total, reserved, free, used;
    } info_v2 = {.version = 2};
    int (*ask)(void *, void *), (*ask_v2)(void *, void *), (*count_devices)(unsigned *);
    void (*name)(const char *);
    void *lib = dlopen(getenv("XM_NVML"), RTLD_NOW | RTLD_LOCAL);
    size_t free_bytes, total;
    char text[64], *at = text + sprintf(text, "GPU-");
    CUdeviceptr p;
    CUuuid uuid;
    unsigned n = 0;

    TRUE(lib);
    *(void **)&ask = find(lib, "nvmlDeviceGetMemoryInfo");
    *(void **)&ask_v2 = find(lib, "nvmlDeviceGetMemoryInfo_v2");
    *(void **)&count_devices = find(lib, "nvmlDeviceGetCount_v2");
    *(void **)&name = find(lib, "fake_nvml_uuid");
    TRUE(!dlsym(lib, "nvmlDeviceGetMemoryInfo_v3"));
    CHECK(count_devices(&n));
    WANT(n, 2);
    CHECK(ask(&info, &info));
    WANT(info.total, 1000 * MIB);
    managed();
    CHECK(cuDeviceGetUuid_v2(&uuid, 0));
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
    name(text);
    CHECK(cuMemAlloc_v2(&p, 50 * MIB));
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK(ask(&info, &info));
    WANT(info.total, total);
    WANT(info.free, free_bytes);
    WANT(info.used, 50 * MIB);
    CHECK(ask_v2(&info, &info_v2));
    WANT(info_v2.version, 2);
    WANT(info_v2.total, total);
    WANT(info_v2.free + info_v2.used + info_v2.reserved, total);
    CHECK(ask(NULL, &info)); /* another device */
    WANT(info.free, 10 * MIB);
}

/* What goes with its context. */
static void contexts(void)
{
    CUcontext other;
    CUdeviceptr p, q;
    size_t before, after, total;

    managed();
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuMemAlloc_v2(&p, 50 * MIB));
    CHECK(cuMemAlloc_v2(&q, 100));
    CHECK(cuMemAllocManaged(&q, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemGetInfo_v2(&after, &total));
    WANT(before - after, 52 * MIB + 2 * MIB + 2 * MIB);
    CHECK(cuCtxDestroy_v2(other));
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuMemGetInfo_v2(&after, &total));
    WANT(after, before);
    TRUE(cuMemFree_v2(p) != CUDA_SUCCESS);
}

/* Small ones share segments, and what is rounded is told. */
static void small(void)
{
    enum { N = 3000 };
    static struct block blocks[N];

    managed();
    for (int i = 0; i < N; i++) {
        blocks[i].bytes = 4 + (size_t)rand_r(&seed) % 8192;
        CHECK(cuMemAlloc_v2(&blocks[i].at, blocks[i].bytes));
        WANT(blocks[i].at % 256, 0);
    }
    TRUE(count(XM_SEGMENT_DEVICE) < 16);
    TRUE(figure(&section()->client.mem_waste) > 0);
    for (int i = 0; i < N; i += 50)
        write_block(&blocks[i]);
    for (int i = 0; i < N; i += 50)
        check_block(&blocks[i]);
    for (int i = 0; i < N; i++)
        CHECK(cuMemFree_v2(blocks[(i * 7) % N].at));
    WANT(count(XM_SEGMENT_DEVICE), 0);
}

static void *churn(void *arg)
{
    unsigned mine = (unsigned)(uintptr_t)arg;
    CUstream own;

    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 60; i++) {
        size_t bytes = 4096 + (size_t)rand_r(&mine) % (3 * MIB) / 4096 * 4096;
        uint32_t is[2] = {0}, value = (uint32_t)rand_r(&mine);
        CUdeviceptr p;

        CHECK(cuMemAlloc_v2(&p, bytes));
        CHECK(cuMemsetD32Async(p, value, bytes / 4, own));
        CHECK(cuMemcpyDtoHAsync_v2(&is[0], p, 4, own));
        CHECK(cuMemcpyDtoHAsync_v2(&is[1], p + bytes - 4, 4, own));
        CHECK(cuStreamSynchronize(own));
        WANT(is[0], value);
        WANT(is[1], value);
        CHECK(cuMemFree_v2(p));
    }
    return NULL;
}

/* Threads that allocate, copy and free while the memory moves under them. */
static void threads(void)
{
    pthread_t t[4];
    struct block b;

    managed();
    b = make_block(40 * MIB);
    for (uintptr_t i = 0; i < 4; i++)
        TRUE(pthread_create(&t[i], NULL, churn, (void *)(i + 1)) == 0);
    for (int i = 0; i < 25; i++) {
        int r;

        wants(XM_HOLD_ALL);
        r = move(&seed, 2, true, i % 2, false);
        TRUE(r == 0 || r == -ECANCELED || r == -EINVAL || r == -EBUSY); /* what it had listed may be freed before it has the lock */
        wants(XM_HOLD_NONE);
        usleep(2 * MS);
    }
    for (int i = 0; i < 4; i++)
        TRUE(pthread_join(t[i], NULL) == 0);
    check_block(&b);
}

/* The child of a process that has memory stands aside. */
static void forks(void)
{
    struct block b;
    int status;

    managed();
    b = make_block(4 * MIB);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr p;

        _exit(cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS || cuMemFree_v2(b.at) == CUDA_SUCCESS);
    }
    TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    WANT(WEXITSTATUS(status), 0);
    check_block(&b);
}

/* Memory that nobody manages is the driver's. */
static void plain(void)
{
    CUdeviceptr p;
    uint64_t from = now();

    begin();
    CHECK(cuMemAlloc_v2(&p, 2 * MIB));
    TRUE(now() - from < 5000000000u);
    SOON(ready());
    WANT(section()->client_memory.flags & XM_MEMORY_ACTIVE, 0);
    WANT(!(section()->client_memory.flags & XM_MEMORY_LATE), !getenv("KEEPER_LATE"));
    WANT(section()->client_memory.allocated, 0);
    WANT(memory()->begin(0), -ENODEV);
    CHECK(cuMemFree_v2(p));
}

/* Prints what allocating and freeing costs, in us, with nothing on the device: for a
 * device that is real, with and without XMSCHED_MEMORY=1. */
static void speed(void)
{
    static const size_t sizes[] = {4096, 2 * MIB, 20 * MIB, 256 * MIB, 1024 * MIB};
    enum { N = 16 };

    begin();
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int together = 0; together < 2; together++) { /* one after the other, or all before the first is freed */
            CUdeviceptr p[N];
            uint64_t making = 0, freeing = 0, from;
            int n = together && sizes[k] > 256 * MIB ? 4 : N;

            for (int i = 0; i < n; i++) {
                from = now();
                CHECK(cuMemAlloc_v2(&p[i], sizes[k]));
                making += now() - from;
                if (together)
                    continue;
                from = now();
                CHECK(cuMemFree_v2(p[i]));
                freeing += now() - from;
            }
            for (int i = 0; together && i < n; i++) {
                from = now();
                CHECK(cuMemFree_v2(p[i]));
                freeing += now() - from;
            }
            printf("%8zu KiB %s: %8.1f us to allocate, %8.1f to free\n", sizes[k] >> 10, together ? "together " : "in turn  ",
                   (double)making / n / 1e3, (double)freeing / n / 1e3);
        }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"answers", answers}, {"told", told}, {"shared", shared}, {"pinned", pinned}, {"mapped", mapped}, {"history", history}, {"door", door}, {"busy", busy}, {"lease", lease},
    {"engine_dies", engine_dies}, {"session_ends", session_ends}, {"drained", drained}, {"drained_busy", drained_busy}, {"leaves", leaves},
    {"bounded", bounded}, {"part", part}, {"passed", passed}, {"late", late}, {"taken", taken}, {"never", never}, {"likely", likely}, {"full", full}, {"contexts", contexts}, {"small", small}, {"threads", threads}, {"forks", forks}, {"management", management}, {"plain", plain}, {"speed", speed},
};

int main(int argc, char **argv)
{
    const char *given = getenv("XM_SEED");

    if (given)
        seed = (unsigned)strtoul(given, NULL, 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc < 2)
            puts(cases[i].name);
        else if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run(), 0;
    }
    return argc < 2 ? 0 : 2;
}
