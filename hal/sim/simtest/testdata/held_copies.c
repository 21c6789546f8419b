/* Copies and memsets of every kind beside held work: which of them come behind it,
 * and what is there when they return. */
#include "host.h"

#include "../../libcuda/cu_memory.h"

#include <pthread.h>
#include <stdbool.h>

int cuMemcpy2D_v2(const CUDA_MEMCPY2D *);
int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *, void *);
int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *, void *);
int cuMemcpyBatchAsync_v2(dptr *, dptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, void *);
int cuMemcpyPeer(dptr, void *, dptr, void *, size_t);

#define N 4096u

static void *module, *context;
static uint32_t *word; /* the gate */
static dptr data, other;
static unsigned char buffer[N];
static void *stream;

/* A call on a thread of its own, and whether it has returned. */
struct call {
    pthread_t thread;
    int (*what)(void);
    int result;
    bool done;
};

static void *make_call(void *arg)
{
    struct call *c = arg;
    CHECK(cuCtxSetCurrent(context));
    c->result = c->what();
    __atomic_store_n(&c->done, true, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Holds a stream behind the gate, with a memset of data to 7 behind it. */
static void hold(void *held)
{
    CHECK(cuMemsetD8_v2(data, 1, N));
    CHECK(cuMemsetD8_v2(other, 2, N));
    memset(buffer, 3, N);
    CHECK(cuCtxSynchronize());
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    CHECK(cuStreamWaitValue32(held, (dptr)(uintptr_t)word, 1, 1));
    CHECK(cuMemsetD32Async(data, 0x07070707, N / 4, held));
}

static void open_gate(void) { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); }

/* Makes a call while the stream is held: it must wait, or must not. */
static void beside(int (*what)(void), bool waits)
{
    struct call c = {.what = what};
    struct timespec moment = {0, 30000000};
    hold(stream);
    TRUE(!pthread_create(&c.thread, NULL, make_call, &c));
    if (waits)
        nanosleep(&moment, NULL);
    else
        pthread_join(c.thread, NULL);
    TRUE(__atomic_load_n(&c.done, __ATOMIC_SEQ_CST) == !waits);
    WANT(cuStreamQuery(stream), 600);
    open_gate();
    if (waits)
        pthread_join(c.thread, NULL);
    CHECK(c.result);
}

/* The bytes are what came last. */
static void expect(dptr p, unsigned char value)
{
    unsigned char got[N];
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(got, p, N));
    for (size_t i = 0; i < N; i++)
        TRUE(got[i] == value);
}

static CUDA_MEMCPY2D rows(dptr to, unsigned to_type, dptr from, unsigned from_type)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = from_type, .srcHost = (void *)(uintptr_t)from, .srcDevice = from, .srcPitch = 64,
        .dstMemoryType = to_type, .dstHost = (void *)(uintptr_t)to, .dstDevice = to, .dstPitch = 64,
        .WidthInBytes = 64, .Height = N / 64,
    };
}

#define HERE ((dptr)(uintptr_t)buffer)

static int in_2d(void)
{
    CUDA_MEMCPY2D d = rows(data, 2, HERE, 1);
    return cuMemcpy2D_v2(&d);
}

static int out_2d(void)
{
    CUDA_MEMCPY2D d = rows(HERE, 1, data, 2);
    return cuMemcpy2D_v2(&d);
}

static int within(void) { return cuMemcpy(other, data, N); }
static int peer(void) { return cuMemcpyPeer(other, context, data, context, N); }
static int set_rows(void) { return cuMemsetD2D8_v2(data, 64, 9, 64, N / 64); }

static int out_2d_async(void)
{
    CUDA_MEMCPY2D d = rows(HERE, 1, data, 2);
    return cuMemcpy2DAsync_v2(&d, stream);
}

static int out_3d_async(void)
{
    CUDA_MEMCPY3D d = {
        .srcMemoryType = 2, .srcDevice = data, .srcPitch = 64, .srcHeight = 8, .dstMemoryType = 1, .dstHost = buffer, .dstPitch = 64,
        .dstHeight = 8, .WidthInBytes = 64, .Height = 8, .Depth = N / 512,
    };
    return cuMemcpy3DAsync_v2(&d, stream);
}

static int out_batch(void)
{
    dptr to = HERE, from = data;
    size_t size = N, first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = 1};
    return cuMemcpyBatchAsync_v2(&to, &from, &size, 1, &how, &first, 1, stream);
}

static int out_any(void) { return cuMemcpyAsync(HERE, data, N, stream); }

static void buffer_is(unsigned char value)
{
    for (size_t i = 0; i < N; i++)
        TRUE(buffer[i] == value);
}

int main(int argc, char **argv)
{
    bool pageable = argc > 1 && !strcmp(argv[1], "pageable");
    module = begin();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemHostAlloc((void **)&word, 4096, 0));
    CHECK(cuMemAlloc_v2(&data, N));
    CHECK(cuMemAlloc_v2(&other, N));
    /* Synchronous calls belong to the legacy stream, which waits for blocking ones. */
    CHECK(cuStreamCreate(&stream, pageable));
    if (pageable) {
        int (*const calls[])(void) = {out_any, out_2d_async, out_3d_async};
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            beside(calls[i], true);
            buffer_is(7);
        }
        beside(out_batch, false); /* the one that does not wait, on an H200 either */
        CHECK(cuStreamSynchronize(stream));
        buffer_is(7);
        puts("ok");
        return 0;
    }
    beside(in_2d, true);
    expect(data, 3);
    beside(out_2d, true);
    buffer_is(7);
    beside(within, false);
    expect(other, 7);
    beside(peer, false);
    expect(other, 7);
    beside(set_rows, false);
    expect(data, 9);
    puts("ok");
    return 0;
}
