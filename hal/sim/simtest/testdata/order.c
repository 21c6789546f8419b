/* What the program sees of order: the legacy stream against blocking and
 * non-blocking ones, event dependencies, per-thread streams, threads. */
#include "host.h"

#include <pthread.h>

static void *module, *context;

/* A kernel of a blocking stream is over before a synchronous copy reads. */
static void legacy(void)
{
    void *a, *b, *inc = kernel(module, "xm_increment"), *f = kernel(module, "xm_spin");
    dptr p;
    uint32_t n = 1000, v[1000];
    CHECK(cuStreamCreate(&a, 0));
    CHECK(cuStreamCreate(&b, 0));
    CHECK(cuMemAlloc_v2(&p, 4 * n));
    void *args[] = {&p, &n};
    for (int round = 0; round < 20; round++) {
        CHECK(cuMemsetD8_v2(p, 0, 4 * n)); /* legacy */
        CHECK(spin(f, a, 0, 300));
        CHECK(cuLaunchKernel(inc, 1, 1, 1, 128, 1, 1, 0, a, args, NULL));
        CHECK(cuLaunchKernel(inc, 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
        CHECK(cuLaunchKernel(inc, 1, 1, 1, 128, 1, 1, 0, b, args, NULL));
        CHECK(cuMemcpyDtoH_v2(v, p, 4 * n));
        for (uint32_t i = 0; i < n; i++)
            TRUE(v[i] == 3);
    }
    CHECK(cuMemFree_v2(p));
}

/* A non-blocking stream does not wait for the legacy one; an event makes it. */
static void independent(void)
{
    void *free_stream, *e;
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, 4096, 0));
    memset(word, 0, 4096);
    dptr gate = (dptr)(uintptr_t)word;
    CHECK(cuStreamCreate(&free_stream, 1));
    CHECK(cuEventCreate(&e, 2));
    CHECK(cuStreamWaitValue32(NULL, gate, 1, 2)); /* AND: the legacy stream stands */
    CHECK(cuStreamWriteValue32(NULL, gate + 64, 7, 0));
    CHECK(cuStreamWriteValue32(free_stream, gate + 128, 1, 0));
    CHECK(cuStreamSynchronize(free_stream));
    TRUE(word[32] == 1 && word[16] == 0);
    CHECK(cuEventRecord(e, NULL));
    CHECK(cuStreamWaitEvent(free_stream, e, 0));
    CHECK(cuStreamWriteValue32(free_stream, gate + 128, 2, 0));
    WANT(cuStreamQuery(free_stream), 600);
    __atomic_store_n(word, 3, __ATOMIC_SEQ_CST);
    CHECK(cuStreamSynchronize(free_stream));
    TRUE(word[32] == 2 && word[16] == 7);
    CHECK(cuMemFreeHost(word));
}

/* One held stream holds none of many others; but channels are few, and when each
 * of them holds somebody, a newcomer is held with him. */
static void folding(void)
{
    void *s[40];
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, 4096, 0));
    memset(word, 0, 4096);
    dptr gate = (dptr)(uintptr_t)word;
    for (int i = 0; i < 40; i++)
        CHECK(cuStreamCreate(&s[i], 1));
    CHECK(cuStreamWaitValue32(s[3], gate, 1, 1));
    for (int i = 0; i < 40; i++)
        if (i != 3) {
            CHECK(cuStreamWriteValue32(s[i], gate + 64, 1, 0));
            CHECK(cuStreamSynchronize(s[i]));
        }
    WANT(cuStreamQuery(s[3]), 600);
    for (int i = 0; i < 7; i++)
        CHECK(cuStreamWaitValue32(s[10 + i], gate, 1, 1));
    CHECK(cuStreamWriteValue32(s[30], gate + 128, 1, 0));
    struct timespec moment = {0, 20000000};
    nanosleep(&moment, NULL);
    WANT(cuStreamQuery(s[30]), 600);
    TRUE(word[32] == 0);
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    CHECK(cuStreamSynchronize(s[30]));
    TRUE(word[32] == 1);
    for (int i = 0; i < 40; i++)
        CHECK(cuStreamDestroy_v2(s[i]));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFreeHost(word));
}

/* All comparisons of a wait. */
static void comparisons(void)
{
    static const struct { uint32_t word, value; unsigned flag; } pass[] = {
        {5, 5, 0}, {6, 5, 0}, {0, 0xffffffff, 0}, {9, 9, 1}, {6, 2, 2}, {0xfffffffe, 0, 3}, {0, 0xf, 3},
    };
    uint32_t *word;
    void *s;
    CHECK(cuMemHostAlloc((void **)&word, 4096, 0));
    CHECK(cuStreamCreate(&s, 1));
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        *word = pass[i].word;
        CHECK(cuStreamWaitValue32(s, (dptr)(uintptr_t)word, pass[i].value, pass[i].flag));
        CHECK(cuStreamSynchronize(s));
    }
    CHECK(cuMemFreeHost(word));
}

static void *worker(void *arg)
{
    void *streams[3], *inc;
    dptr p;
    uint32_t n = 64, v[64];
    (void)arg;
    CHECK(cuCtxSetCurrent(context));
    inc = kernel(module, "xm_increment");
    CHECK(cuMemAlloc_v2(&p, 4 * n));
    CHECK(cuMemsetD8_v2(p, 0, 4 * n));
    CHECK(cuStreamSynchronize(NULL));
    void *args[] = {&p, &n};
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamCreate(&streams[i], i & 1));
    for (int i = 0; i < 3000; i++)
        CHECK(cuLaunchKernel(inc, 1, 1, 1, 64, 1, 1, 0, i % 4 == 3 ? (void *)2 : streams[i % 4], args, NULL));
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamSynchronize(streams[i]));
    CHECK(cuStreamSynchronize((void *)2));
    CHECK(cuMemcpyDtoH_v2(v, p, 4 * n));
    for (uint32_t i = 0; i < n; i++)
        TRUE(v[i] == 3000);
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamDestroy_v2(streams[i]));
    CHECK(cuMemFree_v2(p));
    return NULL;
}

int main(void)
{
    pthread_t t[6];
    module = begin();
    CHECK(cuCtxGetCurrent(&context));
    legacy();
    independent();
    folding();
    comparisons();
    for (int i = 0; i < 6; i++)
        TRUE(!pthread_create(&t[i], NULL, worker, NULL));
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    puts("ok");
    return 0;
}
