/* models: two models in one process by the C interface, as models.go and models.py.
 *
 * A model is a chain of kernels that fill the device: layers of kernels, and a wait at the end of a token. The first makes
 * a token every gap, the other makes them without pause. Phases take turns: "alone", "other" (alone), "native" (both, as
 * the driver has it), "xmsched" (both behind XQueues under HPF; a command is one layer).
 *
 * The driver and the interface's library are found by dlopen. One JSON object a line on stdout; exit code 0 done, 1 a call
 * was refused, 2 usage.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xmsched.h"

/* The few shapes of the driver interface that are used here. */
typedef int cu_result;
typedef struct cu_context_st *cu_context;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
enum { STREAM_NON_BLOCKING = 1, MULTIPROCESSORS = 16, FULL_BLOCKS = 2, FULL_THREADS = 1024, WARM_TOKENS = 3 };

static struct {
    cu_result (*cuInit)(unsigned);
    cu_result (*cuDeviceGet)(int *, int);
    cu_result (*cuDeviceGetAttribute)(int *, int, int);
    cu_result (*cuDevicePrimaryCtxRetain)(cu_context *, int);
    cu_result (*cuCtxSetCurrent)(cu_context);
    cu_result (*cuModuleLoadData)(cu_module *, const void *);
    cu_result (*cuModuleGetFunction)(cu_function *, cu_module, const char *);
    cu_result (*cuStreamCreate)(CUstream *, unsigned);
    cu_result (*cuStreamSynchronize)(CUstream);
    cu_result (*cuMemAlloc_v2)(uint64_t *, size_t);
    cu_result (*cuMemcpyDtoH_v2)(void *, uint64_t, size_t);
    cu_result (*cuLaunchKernel)(cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                void **, void **);
} cu;

static struct {
    XResult (*CudaQueueCreate)(HwQueueHandle *, CUstream);
    XResult (*HwQueueDestroy)(HwQueueHandle);
    XResult (*HwCommandCreateCallback)(HwCommandHandle *, LaunchCallback, void *);
    XResult (*XQueueCreate)(XQueueHandle *, HwQueueHandle, int64_t, int64_t);
    XResult (*XQueueDestroy)(XQueueHandle);
    XResult (*XQueueSetLaunchConfig)(XQueueHandle, int64_t, int64_t);
    XResult (*XQueueSubmit)(XQueueHandle, HwCommandHandle);
    XResult (*XQueueSubmitCallback)(XQueueHandle, LaunchCallback, void *);
    XResult (*XQueueWait)(XQueueHandle, HwCommandHandle);
    XResult (*XHintPriority)(XQueueHandle, Priority);
    XResult (*XHintSetScheduler)(XSchedulerType, XPolicyType);
    const char *(*XLastError)(void);
} api;

static struct options {
    const char *ptx, *library;
    int layers, kernels, threshold, rounds;
    double kernel_us, gap_us, seconds;
} opt = {.layers = 32, .kernels = 8, .threshold = 2, .rounds = 2, .kernel_us = 16, .gap_us = 5000, .seconds = 4};

enum mode { ALONE, OTHER, NATIVE, XMSCHED, MODES };
static const char *const mode_names[MODES] = {"alone", "other", "native", "xmsched"};
static struct phase {
    double *latency_us;
    size_t count, room;
    uint64_t tokens;
    double span_s;
} phases[MODES];

static cu_context context;
static cu_function spin;
static unsigned blocks;
static uint64_t iterations;
static atomic_bool stop;

struct model {
    CUstream stream;
    uint64_t out; /* a word for each thread */
    HwQueueHandle hwq;
    XQueueHandle xq;
    HwCommandHandle last; /* the command of a token's last layer; 0: layers are launched by this thread */
};

static _Noreturn void fail(const char *what, const char *why, int code)
{
    printf("{\"event\":\"error\",\"message\":\"%s: %s\"}\n", what, why);
    exit(code);
}

static void cu_ok(cu_result r, const char *what)
{
    if (r) {
        char text[32];
        snprintf(text, sizeof text, "the driver's error %d", r);
        fail(what, text, 1);
    }
}
#define CU(name, ...) cu_ok(cu.name(__VA_ARGS__), #name)
#define API(name, ...)                                                                                                 \
    do {                                                                                                               \
        if (api.name(__VA_ARGS__) != kXSchedSuccess)                                                                   \
            fail(#name, api.XLastError(), 1);                                                                          \
    } while (0)

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(double us)
{
    struct timespec t = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000L};
    nanosleep(&t, NULL);
}

static cu_result launch(CUstream stream, uint64_t out, uint64_t n)
{
    void *args[] = {&out, &n};
    return cu.cuLaunchKernel(spin, blocks, 1, 1, FULL_THREADS, 1, 1, 0, stream, args, NULL);
}

static XResult layer(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    struct model *m = data;
    for (int k = 0; k < opt.kernels; k++)
        if (launch(m->stream, m->out, iterations))
            return kXSchedErrorHardware;
    return kXSchedSuccess;
}

static void token(struct model *m)
{
    for (int i = 0; i < opt.layers; i++) {
        if (!m->xq) {
            if (layer(0, m) != kXSchedSuccess)
                fail("cuLaunchKernel", "refused", 1);
        } else if (m->last && i == opt.layers - 1) {
            API(XQueueSubmit, m->xq, m->last);
            API(XQueueWait, m->xq, m->last);
        } else {
            API(XQueueSubmitCallback, m->xq, layer, m);
        }
    }
    if (!m->last)
        CU(cuStreamSynchronize, m->stream);
}

struct worker {
    struct model *model;
    struct phase *phase;
};

static void *work(void *data)
{
    struct worker *w = data;
    CU(cuCtxSetCurrent, context);
    while (!atomic_load(&stop)) {
        token(w->model);
        w->phase->tokens++;
    }
    return NULL;
}

static void note(struct phase *p, double us)
{
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 1024;
        p->latency_us = realloc(p->latency_us, p->room * sizeof *p->latency_us);
        if (!p->latency_us)
            fail("latencies", "no memory", 1);
    }
    p->latency_us[p->count++] = us;
}

static void enqueue(struct model *m, bool first)
{
    API(CudaQueueCreate, &m->hwq, m->stream);
    API(XQueueCreate, &m->xq, m->hwq, kPreemptLevelBlock, first ? kQueueCreateFlagBlockingSubmit : kQueueCreateFlagNone);
    if (first) {
        /* Nothing preempts it: no bound has it wait in the midst of a token. */
        API(XQueueSetLaunchConfig, m->xq, opt.layers, opt.layers);
        API(XHintPriority, m->xq, 10);
        return;
    }
    API(XQueueSetLaunchConfig, m->xq, opt.threshold, 1);
    API(HwCommandCreateCallback, &m->last, layer, m);
}

static void dequeue(struct model *m)
{
    API(XQueueDestroy, m->xq);
    API(HwQueueDestroy, m->hwq);
    m->xq = m->hwq = m->last = 0;
}

static void run(enum mode mode, struct model *first, struct model *other, double seconds)
{
    struct phase *p = &phases[mode];
    if (mode == XMSCHED) {
        enqueue(first, true);
        enqueue(other, false);
    }
    atomic_store(&stop, false);
    struct worker w = {other, p};
    pthread_t thread;
    if (mode != ALONE && pthread_create(&thread, NULL, work, &w))
        fail("pthread_create", "refused", 1);
    double began = now_s();
    if (mode == OTHER) {
        rest(seconds * 1e6);
    } else {
        for (int i = 0; now_s() < began + seconds; i++) {
            rest(opt.gap_us);
            double start = now_s();
            token(first);
            if (i >= WARM_TOKENS)
                note(p, (now_s() - start) * 1e6);
        }
    }
    p->span_s += now_s() - began;
    atomic_store(&stop, true);
    if (mode != ALONE)
        pthread_join(thread, NULL);
    if (mode == XMSCHED) {
        dequeue(first);
        dequeue(other);
    }
}

/* Iterations of a microsecond: of several tries of two lengths the shortest, so that what a launch costs drops out. */
static void calibrate(void)
{
    enum { SHORT = 20000 };
    double best[2] = {1e9, 1e9};
    for (double end = now_s() + 0.3; now_s() < end;) {
        for (int k = 0; k < 2; k++) {
            double start = now_s();
            cu_ok(launch(NULL, 0, (uint64_t)SHORT * (uint64_t)(k + 1)), "cuLaunchKernel");
            CU(cuStreamSynchronize, NULL);
            double took = now_s() - start;
            if (took < best[k])
                best[k] = took;
        }
    }
    if (best[1] <= best[0])
        fail("calibrate", "twice the iterations did not take longer", 1);
    iterations = (uint64_t)(opt.kernel_us * SHORT / ((best[1] - best[0]) * 1e6));
    if (!iterations)
        iterations = 1;
}

static void *symbol(void *library, const char *name)
{
    void *p = dlsym(library, name);
    if (!p)
        fail(name, "not exported", 1);
    return p;
}

static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen(opt.library, RTLD_NOW);
    if (!driver)
        fail("libcuda.so.1", "cannot be opened", 1);
    if (!library)
        fail("libxmsched_api.so", "cannot be opened", 1);
#define GET(name) *(void **)&cu.name = symbol(driver, #name)
    GET(cuInit);
    GET(cuDeviceGet);
    GET(cuDeviceGetAttribute);
    GET(cuDevicePrimaryCtxRetain);
    GET(cuCtxSetCurrent);
    GET(cuModuleLoadData);
    GET(cuModuleGetFunction);
    GET(cuStreamCreate);
    GET(cuStreamSynchronize);
    GET(cuMemAlloc_v2);
    GET(cuMemcpyDtoH_v2);
    GET(cuLaunchKernel);
#undef GET
#define GET(name) *(void **)&api.name = symbol(library, #name)
    GET(CudaQueueCreate);
    GET(HwQueueDestroy);
    GET(HwCommandCreateCallback);
    GET(XQueueCreate);
    GET(XQueueDestroy);
    GET(XQueueSetLaunchConfig);
    GET(XQueueSubmit);
    GET(XQueueSubmitCallback);
    GET(XQueueWait);
    GET(XHintPriority);
    GET(XHintSetScheduler);
    GET(XLastError);
#undef GET
}

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        fail(path, "cannot be read", 2);
    static char text[1 << 20];
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

static void open_gpu(void)
{
    int device = 0, processors = 0;
    cu_module module;
    CU(cuInit, 0);
    CU(cuDeviceGet, &device, 0);
    CU(cuDeviceGetAttribute, &processors, MULTIPROCESSORS, device);
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxSetCurrent, context);
    CU(cuModuleLoadData, &module, text_of(opt.ptx));
    CU(cuModuleGetFunction, &spin, module, "xm_spin");
    blocks = (unsigned)processors * FULL_BLOCKS;
}

static size_t words(void) { return (size_t)blocks * FULL_THREADS; }

static void prepare(struct model *m)
{
    CU(cuStreamCreate, &m->stream, STREAM_NON_BLOCKING);
    CU(cuMemAlloc_v2, &m->out, 4 * words());
}

/* Words of the last layer that differ from the closed form of xm_spin: so many steps of x -> a*x + c from the thread's
 * number, composed by squaring (hal/kernels). */
static uint64_t wrong(const struct model *m)
{
    uint32_t mul = 1, add = 0, step_mul = 1664525, step_add = 1013904223;
    for (uint64_t n = iterations; n; n >>= 1) {
        if (n & 1) {
            mul *= step_mul;
            add = add * step_mul + step_add;
        }
        step_add = step_add * step_mul + step_add;
        step_mul *= step_mul;
    }
    uint32_t *got = calloc(words(), sizeof *got);
    if (!got)
        fail("results", "no memory", 1);
    CU(cuMemcpyDtoH_v2, got, m->out, 4 * words());
    uint64_t count = 0;
    for (size_t i = 0; i < words(); i++)
        count += got[i] != mul * (uint32_t)i + add;
    free(got);
    return count;
}

static void tell(const struct model *first, const struct model *other)
{
    printf("{\"event\":\"result\",\"models\":{\"phases\":[");
    for (int m = 0; m < MODES; m++) {
        printf("%s{\"mode\":\"%s\",\"tokens\":%llu,\"span_s\":%.6f,\"latency_us\":[", m ? "," : "", mode_names[m],
               (unsigned long long)phases[m].tokens, phases[m].span_s);
        for (size_t i = 0; i < phases[m].count; i++)
            printf("%s%.1f", i ? "," : "", phases[m].latency_us[i]);
        printf("]}");
    }
    printf("]},\"verified\":%zu,\"wrong\":%llu}\n", 2 * words(), (unsigned long long)(wrong(first) + wrong(other)));
}

static double number(const char *text, double least, double most)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        fail(text, "is no number in range", 2);
    return v;
}

static void arguments(int argc, char **argv)
{
    static const struct option known[] = {
        {"ptx", 1, 0, 'x'},       {"library", 1, 0, 'l'}, {"layers", 1, 0, 'n'},  {"kernels", 1, 0, 'k'},
        {"threshold", 1, 0, 't'}, {"rounds", 1, 0, 'r'},  {"kernel-us", 1, 0, 'u'}, {"gap-us", 1, 0, 'g'},
        {"seconds", 1, 0, 's'},   {0, 0, 0, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'x': opt.ptx = optarg; break;
        case 'l': opt.library = optarg; break;
        case 'n': opt.layers = (int)number(optarg, 1, 1000); break;
        case 'k': opt.kernels = (int)number(optarg, 1, 1000); break;
        case 't': opt.threshold = (int)number(optarg, 1, 65536); break;
        case 'r': opt.rounds = (int)number(optarg, 1, 1000); break;
        case 'u': opt.kernel_us = number(optarg, 1, 1e5); break;
        case 'g': opt.gap_us = number(optarg, 0, 6e7); break;
        case 's': opt.seconds = number(optarg, 0.001, 600); break;
        default: exit(2);
        }
    }
    if (!opt.ptx || !opt.library || optind != argc)
        fail("usage", "models --ptx FILE --library libxmsched_api.so [options]", 2);
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    load();
    open_gpu();
    calibrate();
    struct model first = {0}, other = {0};
    prepare(&first);
    prepare(&other);
    API(XHintSetScheduler, kSchedulerLocal, kPolicyHighestPriorityFirst);
    printf("{\"event\":\"ready\"}\n");
    fflush(stdout);
    for (int r = 0; r < opt.rounds; r++)
        for (int m = 0; m < MODES; m++)
            run((enum mode)m, &first, &other, opt.seconds / opt.rounds);
    tell(&first, &other);
    return 0;
}
