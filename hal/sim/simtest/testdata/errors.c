/* Errors that a program sees: before initialisation, without a context, with
 * wrong handles and values; and that a bad kernel poisons its context alone. */
#include "host.h"

static void before_init(void)
{
    int n;
    void *ctx;
    dptr p;
    WANT(cuInit(1), 1);
    WANT(cuDeviceGetCount(&n), 3);
    WANT(cuCtxGetCurrent(&ctx), 3);
    WANT(cuMemAlloc_v2(&p, 16), 3);
}

static void without_context(void)
{
    void *ctx, *s;
    dptr p;
    int dev;
    char name[8];
    WANT(cuMemAlloc_v2(&p, 16), 201);
    WANT(cuStreamCreate(&s, 0), 201);
    WANT(cuCtxSynchronize(), 201);
    WANT(cuDeviceGet(&dev, 1), 101);
    WANT(cuDeviceGet(&dev, -1), 101);
    WANT(cuDeviceGet(NULL, 0), 1);
    CHECK(cuDeviceGetName(name, sizeof name, 0));
    TRUE(!strcmp(name, "xmsched"));
    CHECK(cuCtxGetCurrent(&ctx));
    TRUE(!ctx);
    WANT(cuCtxPopCurrent_v2(&ctx), 201);
    WANT(cuCtxSetCurrent((void *)0x1234), 201);
    WANT(cuDevicePrimaryCtxRelease_v2(0), 201);
}

static void values(void *module)
{
    void *s, *e, *f, *junk = malloc(4096), *none = NULL;
    dptr p;
    size_t offset, size;
    uint64_t iterations = 1;
    void *args[] = {&none, &iterations};

    WANT(cuMemAlloc_v2(&p, 0), 1);
    WANT(cuMemAlloc_v2(NULL, 16), 1);
    WANT(cuMemAlloc_v2(&p, (size_t)1 << 45), 2);
    CHECK(cuMemFree_v2(0));
    WANT(cuMemFree_v2(0x123456), 1);
    WANT(cuMemFreeHost(junk), 1);
    WANT(cuMemHostUnregister(junk), 713);
    CHECK(cuMemHostRegister_v2(junk, 4096, 0));
    WANT(cuMemHostRegister_v2(junk, 4096, 0), 712);
    CHECK(cuMemHostUnregister(junk));
    WANT(cuMemHostGetDevicePointer_v2(&p, junk, 0), 1);
    WANT(cuStreamCreate(&s, 2), 1);
    WANT(cuStreamSynchronize(junk), 400);
    WANT(cuStreamDestroy_v2(junk), 400);
    WANT(cuEventCreate(&e, 4), 1);
    WANT(cuEventQuery(junk), 400);
    WANT(cuModuleLoadData(&f, "no module at all"), 200);
    WANT(cuModuleLoadData(&f, ".version 6.0\n.target sm_70\n.entry broken("), 218);
    WANT(cuModuleLoadData(&f, "\177ELF\2\1\1"), 209);
    WANT(cuModuleLoad(&f, "/nowhere"), 301);
    WANT(cuModuleGetFunction(&f, module, "xm_none"), 500);
    WANT(cuModuleGetFunction(&f, junk, "xm_spin"), 400);
    f = kernel(module, "xm_spin");
    CHECK(cuFuncGetParamInfo(f, 1, &offset, &size));
    TRUE(offset == 8 && size == 8);
    WANT(cuFuncGetParamInfo(f, 2, &offset, &size), 1);
    WANT(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), 400);
    WANT(cuLaunchKernel(junk, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), 400);
    WANT(cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, args, NULL), 1);
    WANT(cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, args, NULL), 1);
    WANT(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    WANT(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, junk, args, NULL), 400);
    WANT(cuStreamWaitValue32(NULL, 0x123454, 1, 0), 1);
    WANT(cuArrayDestroy(NULL), 801);
    WANT(cuArrayDestroy(NULL), 801);

    /* Stale handles. */
    CHECK(cuStreamCreate(&s, 0));
    CHECK(cuStreamDestroy_v2(s));
    WANT(cuStreamSynchronize(s), 400);
    CHECK(cuEventCreate(&e, 0));
    CHECK(cuEventQuery(e));
    CHECK(cuEventDestroy_v2(e));
    WANT(cuEventQuery(e), 400);
    CHECK(cuMemAlloc_v2(&p, 4096));
    CHECK(cuMemFree_v2(p));
    WANT(cuMemFree_v2(p), 1);
    WANT(cuMemcpyHtoD_v2(p, junk, 16), 1);
    free(junk);
}

static void elapsed(void)
{
    void *a, *b, *s;
    float ms;
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, 4096, 0));
    *word = 0;
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuEventCreate(&a, 0));
    CHECK(cuEventCreate(&b, 2));
    WANT(cuEventElapsedTime(&ms, a, a), 400); /* never recorded */
    CHECK(cuStreamWaitValue32(s, (dptr)(uintptr_t)word, 1, 1));
    CHECK(cuEventRecord(a, s));
    CHECK(cuEventRecord(b, s));
    WANT(cuEventElapsedTime(&ms, a, b), 400); /* without timing */
    WANT(cuEventElapsedTime(&ms, a, a), 600);
    WANT(cuEventQuery(a), 600);
    WANT(cuStreamQuery(s), 600);
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    CHECK(cuEventSynchronize(a));
    CHECK(cuEventElapsedTime(&ms, a, a));
    TRUE(ms == 0);
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemFreeHost(word));
}

/* An access outside of memory: the context stays broken, another is not. */
static void poison(void)
{
    void *other, *module, *f, *s;
    uint64_t out = 0xdead0000, iterations = 1;
    void *args[] = {&out, &iterations};
    dptr p;

    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
    f = kernel(module, "xm_spin");
    CHECK(cuStreamCreate(&s, 0));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
    WANT(cuStreamSynchronize(s), 700);
    WANT(cuMemAlloc_v2(&p, 16), 700);
    WANT(cuCtxSynchronize(), 700);
    CHECK(cuCtxDestroy_v2(other));
    CHECK(cuMemAlloc_v2(&p, 16)); /* the primary context is back, and well */
    CHECK(cuMemFree_v2(p));
}

int main(void)
{
    const char *text;
    void *module;

    before_init();
    CHECK(cuInit(0));
    CHECK(cuGetErrorName(700, &text));
    TRUE(!strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    WANT(cuGetErrorName(123456, &text), 1);
    TRUE(!text);
    without_context();
    module = begin();
    values(module);
    elapsed();
    poison();
    puts("ok");
    return 0;
}
