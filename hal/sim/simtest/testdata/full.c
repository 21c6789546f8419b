/* A full ring blocks its own thread and nobody else's. */
#include "host.h"

#include <pthread.h>

static void *context;
static uint32_t *word;
static int blocked_done;

static void *flood(void *f)
{
    void *s;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuStreamWaitValue32(s, (dptr)(uintptr_t)word, 1, 1));
    for (int i = 0; i < 3000; i++)
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    __atomic_store_n(&blocked_done, 1, __ATOMIC_SEQ_CST);
    CHECK(cuStreamSynchronize(s));
    return NULL;
}

int main(void)
{
    pthread_t t;
    void *module = begin(), *f = kernel(module, "xm_empty"), *s;
    dptr p;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemHostAlloc((void **)&word, 4096, 0));
    *word = 0;
    CHECK(cuStreamCreate(&s, 1));
    TRUE(!pthread_create(&t, NULL, flood, f));
    for (uint64_t end = now_us() + 300000; now_us() < end;) {
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
        CHECK(cuStreamSynchronize(s));
        CHECK(cuMemAlloc_v2(&p, 4096)); /* an allocation does not wait either */
    }
    TRUE(!__atomic_load_n(&blocked_done, __ATOMIC_SEQ_CST));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    pthread_join(t, NULL);
    puts("ok");
    return 0;
}
