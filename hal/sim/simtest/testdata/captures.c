/* Captures beside other work: other threads go on, forbidden calls say so and lose
 * the capture, forks and joins keep their order. */
#include "graph.h"

#include <pthread.h>

static void *module, *context;

static int status_of(void *s)
{
    int status;
    CHECK(cuStreamIsCapturing(s, &status));
    return status;
}

/* Another thread works in its own streams while this one captures. */
static int stop;

static void *work(void *unused)
{
    void *s, *inc = unused;
    dptr p;
    uint32_t n = 64, v[64], rounds = 0;
    int mode = THREAD_LOCAL;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAlloc_v2(&p, 4 * n));
    CHECK(cuMemsetD32Async(p, 0, n, s));
    void *args[] = {&p, &n};
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        CHECK(cuLaunchKernel(inc, 1, 1, 1, 64, 1, 1, 0, s, args, NULL));
        CHECK(cuMemcpyDtoHAsync_v2(v, p, 4 * n, s));
        CHECK(cuStreamSynchronize(s));
        rounds++;
        TRUE(v[0] == rounds && v[63] == rounds);
    }
    return NULL;
}

static void beside_work(void)
{
    pthread_t t;
    void *s, *inc = kernel(module, "xm_increment");
    dptr p;
    uint32_t n = 8, v[8];
    void *args[] = {&p, &n};
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAlloc_v2(&p, 4 * n));
    CHECK(cuMemsetD8_v2(p, 0, 4 * n));
    TRUE(!pthread_create(&t, NULL, work, inc));
    for (int round = 1; round <= 100; round++) {
        void *g, *x;
        CHECK(cuStreamBeginCapture_v2(s, THREAD_LOCAL));
        for (int i = 0; i < 10; i++)
            CHECK(cuLaunchKernel(inc, 1, 1, 1, 8, 1, 1, 0, s, args, NULL));
        TRUE(status_of(s) == ACTIVE);
        CHECK(cuStreamEndCapture(s, &g));
        CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
        CHECK(cuGraphLaunch(x, s));
        CHECK(cuStreamSynchronize(s));
        CHECK(cuGraphExecDestroy(x));
        CHECK(cuGraphDestroy(g));
        CHECK(cuMemcpyDtoH_v2(v, p, 4 * n));
        TRUE(v[0] == 10u * (unsigned)round && v[7] == v[0]);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(t, NULL);
}

/* What cannot be captured is refused and loses the capture; the stream is usable. */
static void lost(void)
{
    void *s, *blocking, *e, *g;
    uint32_t *w = words(4096);
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuStreamCreate(&blocking, 0));
    CHECK(cuEventCreate(&e, 2));
    for (int how = 0; how < 4; how++) {
        CHECK(cuStreamBeginCapture_v2(s, RELAXED));
        CHECK(cuStreamWriteValue32(s, address_of(w), 5, 0));
        if (how == 0)
            WANT(cuStreamSynchronize(s), 900);
        else if (how == 1)
            WANT(cuStreamQuery(s), 900);
        else if (how == 2)
            WANT(cuCtxSynchronize(), 900);
        else {
            CHECK(cuEventRecord(e, s));
            WANT(cuEventSynchronize(e), 907);
        }
        TRUE(status_of(s) == INVALIDATED);
        WANT(cuStreamWriteValue32(s, address_of(w), 6, 0), 901);
        WANT(cuStreamEndCapture(s, &g), 901);
        TRUE(!g && status_of(s) == 0);
        CHECK(cuStreamWriteValue32(s, address_of(w), 7 + how, 0));
        CHECK(cuStreamSynchronize(s));
        TRUE(w[0] == 7u + (unsigned)how);
    }
    CHECK(cuStreamBeginCapture_v2(blocking, RELAXED));
    WANT(cuMemsetD32Async(address_of(w), 1, 1, NULL), 906);
    TRUE(status_of(blocking) == INVALIDATED);
    WANT(cuStreamEndCapture(blocking, &g), 901);
    CHECK(cuMemsetD32Async(address_of(w), 1, 1, NULL));
    CHECK(cuCtxSynchronize());
    WANT(cuStreamBeginCapture_v2(NULL, RELAXED), 900);
}

/* A fork over many streams and a join, launched behind a closed gate. */
static void fork_and_join(void)
{
    enum { N = 12 };
    void *s[N], *e[N + 1], *g, *x, *runner;
    uint32_t *w = words(4096), *gate = w + 512;
    CHECK(cuStreamCreate(&runner, 1));
    for (int i = 0; i < N; i++)
        CHECK(cuStreamCreate(&s[i], 1));
    for (int i = 0; i <= N; i++)
        CHECK(cuEventCreate(&e[i], 2));
    CHECK(cuStreamBeginCapture_v2(s[0], GLOBAL));
    CHECK(cuStreamWriteValue32(s[0], address_of(w), 1, 0));
    CHECK(cuEventRecord(e[0], s[0]));
    for (int i = 1; i < N; i++) {
        CHECK(cuStreamWaitEvent(s[i], e[0], 0));
        TRUE(status_of(s[i]) == ACTIVE);
        CHECK(cuStreamWaitValue32(s[i], address_of(w), 1, 1));
        CHECK(cuStreamWriteValue32(s[i], address_of(w + i), (unsigned)i, 0));
        CHECK(cuEventRecord(e[i], s[i]));
        CHECK(cuStreamWaitEvent(s[0], e[i], 0));
    }
    CHECK(cuStreamWriteValue32(s[0], address_of(w), 100, 0));
    CHECK(cuStreamEndCapture(s[0], &g));
    for (int i = 0; i < N; i++)
        TRUE(status_of(s[i]) == 0);
    CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
    CHECK(cuStreamWaitValue32(runner, address_of(gate), 1, 1));
    CHECK(cuGraphLaunch(x, runner));
    CHECK(cuStreamWriteValue32(runner, address_of(w + N), 77, 0));
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    TRUE(w[0] == 0 && w[N] == 0);
    __atomic_store_n(gate, 1, __ATOMIC_SEQ_CST);
    CHECK(cuStreamSynchronize(runner));
    TRUE(w[0] == 100 && w[N] == 77);
    for (unsigned i = 1; i < N; i++)
        TRUE(w[i] == i);
}

/* What is destroyed in the middle of a capture. */
static void destroyed(void)
{
    void *s, *t, *e, *g, *ctx;
    uint32_t *w = words(4096);
    CHECK(cuEventCreate(&e, 2));
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuStreamCreate(&t, 1));
    CHECK(cuStreamBeginCapture_v2(s, RELAXED));
    CHECK(cuStreamWriteValue32(s, address_of(w), 5, 0));
    CHECK(cuEventRecord(e, s));
    CHECK(cuEventDestroy_v2(e));
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuGraphDestroy(g));
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    CHECK(cuStreamCreate(&t, 1));
    CHECK(cuStreamBeginCapture_v2(t, RELAXED));
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamBeginCapture_v2(s, RELAXED)); /* for the end of the process to find */
}

int main(void)
{
    module = begin();
    CHECK(cuCtxGetCurrent(&context));
    beside_work();
    lost();
    fork_and_join();
    destroyed();
    puts("ok");
    return 0;
}
