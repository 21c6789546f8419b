/* channels_run [CASE [N]]: level 3 on a device that runs kernels, a real one or the
 * simulated, under the preload library alone: no daemon, no board. Each case stops
 * this process's own kernel and looks, from its host memory, whether it stands
 * still and goes on; times are printed, one line a figure, in us. Without a case
 * they are listed. Exit 1 with a line when something is wrong.
 *
 * $XM_PTX is the file of the kernels, $XM_PROBE that of the heartbeat. With
 * $XM_VERBOSE it prints what the driver asked of the resource manager. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <string.h>

#include "channels.h"
#include "gen/cuda_prototypes.h"
#include "testdata/watched_ioctl.h"

enum { MS = 1000, N = 1 << 20, WORDS = 4 };

#define TRUE(x)                                                            \
    do {                                                                   \
        if (!(x)) {                                                        \
            fprintf(stderr, "channels_run.c:%d: not %s\n", __LINE__, #x); \
            give_up();                                                     \
        }                                                                  \
    } while (0)
#define WANT(call, want)                                                                                              \
    do {                                                                                                              \
        long long got_ = (long long)(call), want_ = (long long)(want);                                               \
        if (got_ != want_) {                                                                                          \
            fprintf(stderr, "channels_run.c:%d: %s = %#llx, want %#llx\n", __LINE__, #call, got_, want_);           \
            give_up();                                                                                                \
        }                                                                                                             \
    } while (0)
#define CHECK(call) WANT(call, 0)

/* Without handlers: the device may be in any state. */
static void give_up(void)
{
    if (getenv("XM_VERBOSE")) {
        print_watched();
        fflush(stdout);
    }
    _exit(1);
}

#define API(X)                                                                                                        \
    X(cuInit) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetUuid_v2) X(cuDeviceGetName) X(cuDeviceGetAttribute)     \
    X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxCreate_v2) X(cuCtxDestroy_v2)            \
    X(cuCtxSynchronize) X(cuModuleLoad) X(cuModuleGetFunction) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemHostAlloc)     \
    X(cuMemFreeHost) X(cuMemHostGetDevicePointer_v2) X(cuMemsetD32_v2) X(cuMemsetD32Async) X(cuMemcpyDtoH_v2)         \
    X(cuMemcpyHtoDAsync_v2) X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamQuery) X(cuStreamSynchronize)           \
    X(cuLaunchKernel) X(cuLaunchCooperativeKernel) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture)                   \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphGetNodes) X(cuGraphExecDestroy) X(cuGraphDestroy)

static struct {
#define MEMBER(name) __typeof__(&name) name;
    API(MEMBER)
#undef MEMBER
} d;

static __typeof__(&xm_channels_hold) hold_channels;
static __typeof__(&xm_channels_slice) slice_channels;
static __typeof__(&xm_channels_count) count_channels;

static CUcontext ctx;
static CUstream stream;
static CUfunction heartbeat, increment;
static CUuuid uuid;
static volatile unsigned *beats, *stop; /* in host memory */
static CUdeviceptr beats_at, stop_at;
static unsigned cycles;

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int hold(uint32_t what, uint64_t *ns)
{
    return hold_channels((const uint8_t *)uuid.bytes, what, ns);
}

static int slice(uint32_t us, uint64_t *ns)
{
    return slice_channels((const uint8_t *)uuid.bytes, us, ns);
}

/* --- figures --------------------------------------------------------------- */

enum { FIGURES = 100000 };
struct figures {
    const char *name;
    double *us;
    unsigned n;
};

static struct figures figures(const char *name)
{
    struct figures f = {.name = name, .us = malloc(FIGURES * sizeof(double))};

    TRUE(f.us);
    return f;
}

static void add(struct figures *f, uint64_t ns)
{
    if (f->n < FIGURES)
        f->us[f->n++] = (double)ns / 1000;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void print(struct figures *f)
{
    qsort(f->us, f->n, sizeof *f->us, by_size);
    if (f->n)
        printf("%s: n %u p50 %.0f p99 %.0f max %.0f us\n", f->name, f->n, f->us[f->n / 2], f->us[f->n * 99 / 100], f->us[f->n - 1]);
    fflush(stdout);
    free(f->us);
}

/* --- the kernel that shows whether it runs ------------------------------------ */

static void begin(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *host;
    CUmodule module, probe;
    CUdevice dev;

    TRUE(driver);
#define FIND(name) TRUE((*(void **)&d.name = dlsym(driver, #name)));
    API(FIND)
#undef FIND
    TRUE((*(void **)&hold_channels = dlsym(RTLD_DEFAULT, "xm_channels_hold")));
    TRUE((*(void **)&slice_channels = dlsym(RTLD_DEFAULT, "xm_channels_slice")));
    TRUE((*(void **)&count_channels = dlsym(RTLD_DEFAULT, "xm_channels_count")));
    CHECK(d.cuInit(0));
    CHECK(d.cuDeviceGet(&dev, 0));
    CHECK(d.cuDeviceGetUuid_v2(&uuid, dev));
    WANT(hold(XM_HOLD_COMPUTE, NULL), -ENODEV); /* no context yet */
    CHECK(d.cuDevicePrimaryCtxRetain(&ctx, dev));
    CHECK(d.cuCtxSetCurrent(ctx));
    CHECK(d.cuModuleLoad(&module, getenv("XM_PTX")));
    CHECK(d.cuModuleGetFunction(&increment, module, "xm_increment"));
    CHECK(d.cuModuleLoad(&probe, getenv("XM_PROBE")));
    CHECK(d.cuModuleGetFunction(&heartbeat, probe, "xm_heartbeat"));
    CHECK(d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(d.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    beats = host;
    stop = beats + 512;
    CHECK(d.cuMemHostGetDevicePointer_v2(&beats_at, host, 0));
    stop_at = beats_at + 512 * sizeof *beats;
    CHECK(d.cuCtxSynchronize());
}

static void *heart_args[3];

static void begin_heart(void)
{
    static unsigned long long limit = 600000000; /* ten minutes: a test that went wrong ends */

    *beats = *stop = 0;
    heart_args[0] = &beats_at;
    heart_args[1] = &stop_at;
    heart_args[2] = &limit;
}

static bool beats_on(unsigned seen, uint64_t within_ns)
{
    for (uint64_t until = now() + within_ns; now() < until;)
        if (*beats != seen)
            return true;
    return *beats != seen;
}

static void wait_for_heart(void)
{
    TRUE(beats_on(*beats, 10000000000u));
}

static void start_heart(CUstream s)
{
    begin_heart();
    CHECK(d.cuLaunchKernel(heartbeat, 132, 1, 1, 128, 1, 1, 0, s, heart_args, NULL));
    wait_for_heart();
}

static void end_heart(CUstream s)
{
    *stop = 1;
    CHECK(d.cuStreamSynchronize(s));
}

/* Nothing beats for that long. What was on its way when the call returned has a
 * millisecond to arrive. */
static void stands_still(uint64_t ns)
{
    unsigned seen;

    usleep(MS);
    seen = *beats;
    TRUE(!beats_on(seen, ns));
}

/* One suspension and resumption at some moment, with what they took. */
static void once(uint32_t what, struct figures *suspend, struct figures *last, struct figures *resume, struct figures *first)
{
    uint64_t t0, ns, lived;
    unsigned seen;

    usleep((useconds_t)(rand() % 4000 + 500));
    t0 = now();
    CHECK(hold(what, &ns));
    add(suspend, ns);
    lived = now();
    for (uint64_t end = lived + 2000000, t; (t = now()) < end;) {
        static unsigned before;

        if (*beats != before) {
            before = *beats;
            lived = t;
        }
    }
    add(last, lived - t0);
    stands_still(3000000);
    seen = *beats;
    t0 = now();
    CHECK(hold(XM_HOLD_NONE, &ns));
    add(resume, ns);
    TRUE(beats_on(seen, 5000000000u));
    add(first, now() - t0);
}

static void cycle(uint32_t what)
{
    struct figures suspend = figures("  suspend"), last = figures("  last beat after the request");
    struct figures resume = figures("  resume"), first = figures("  first beat after the request");

    printf("%s, %u times\n", what == XM_HOLD_ALL ? "all groups" : "compute groups", cycles);
    for (unsigned i = 0; i < cycles; i++)
        once(what, &suspend, &last, &resume, &first);
    print(&suspend);
    print(&last);
    print(&resume);
    print(&first);
}

/* --- cases ------------------------------------------------------------------------ */

static void objects(void)
{
    uint32_t compute, groups, channels;
    char name[64] = "";

    CHECK(count_channels((const uint8_t *)uuid.bytes, &compute, &groups, &channels));
    CHECK(d.cuDeviceGetName(name, sizeof name, 0));
    printf("%s: %u compute groups, %u groups, %u channels\n", name, compute, groups, channels);
    TRUE(compute >= 1 && groups >= compute && channels >= groups);
}

static void compute(void)
{
    start_heart(stream);
    cycle(XM_HOLD_COMPUTE);
    end_heart(stream);
}

static void all(void)
{
    start_heart(stream);
    cycle(XM_HOLD_ALL);
    end_heart(stream);
}

/* Twice, not held, one kind after the other. */
static void twice(void)
{
    uint64_t ns;
    unsigned seen;

    start_heart(stream);
    CHECK(hold(XM_HOLD_NONE, NULL));
    wait_for_heart();
    CHECK(hold(XM_HOLD_COMPUTE, NULL));
    CHECK(hold(XM_HOLD_COMPUTE, &ns));
    printf("second suspension: %.0f us\n", (double)ns / 1000);
    stands_still(5000000);
    CHECK(hold(XM_HOLD_ALL, NULL));
    CHECK(hold(XM_HOLD_COMPUTE, NULL));
    stands_still(5000000);
    seen = *beats;
    CHECK(hold(XM_HOLD_NONE, NULL));
    TRUE(beats_on(seen, 5000000000u));
    CHECK(hold(XM_HOLD_NONE, NULL));
    WANT(hold(3, NULL), -EINVAL);
    end_heart(stream);
}

/* Kernels that were launched in other ways. */
static void legacy(void)
{
    start_heart(CU_STREAM_LEGACY);
    cycle(XM_HOLD_COMPUTE);
    end_heart(CU_STREAM_LEGACY);
}

static void cooperative(void)
{
    begin_heart();
    CHECK(d.cuLaunchCooperativeKernel(heartbeat, 132, 1, 1, 128, 1, 1, 0, stream, heart_args));
    wait_for_heart();
    cycle(XM_HOLD_COMPUTE);
    end_heart(stream);
}

static void graph(void)
{
    CUgraph g;
    CUgraphExec exec;
    size_t nodes = 0;

    begin_heart();
    CHECK(d.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(d.cuLaunchKernel(heartbeat, 132, 1, 1, 128, 1, 1, 0, stream, heart_args, NULL));
    CHECK(hold(XM_HOLD_ALL, NULL)); /* in the middle of a capture */
    CHECK(hold(XM_HOLD_NONE, NULL));
    CHECK(d.cuStreamEndCapture(stream, &g));
    CHECK(d.cuGraphGetNodes(g, NULL, &nodes));
    WANT(nodes, 1);
    CHECK(d.cuGraphInstantiateWithFlags(&exec, g, 0));
    CHECK(d.cuGraphLaunch(exec, stream));
    wait_for_heart();
    cycle(XM_HOLD_COMPUTE);
    end_heart(stream);
    CHECK(d.cuGraphExecDestroy(exec));
    CHECK(d.cuGraphDestroy(g));
}

static void slices(void)
{
    static const uint32_t us[] = {1, 50, 300, 1000, 0};
    struct figures set = figures("set a slice, busy");
    uint64_t ns;

    start_heart(stream);
    for (unsigned i = 0; i < cycles; i++) {
        CHECK(slice(us[i % 5], &ns));
        add(&set, ns);
        wait_for_heart();
    }
    CHECK(slice(0, NULL));
    print(&set);
    end_heart(stream);
}

/* All groups in the middle of a copy: it stands still, goes on, and the bytes are right. */
static void copies(void)
{
    const size_t bytes = 256u << 20;
    struct figures suspend = figures("all groups in mid copy");
    unsigned *from, *to;
    CUdeviceptr at;
    uint64_t ns;

    CHECK(d.cuMemHostAlloc((void **)&from, bytes, 0));
    CHECK(d.cuMemHostAlloc((void **)&to, bytes, 0));
    CHECK(d.cuMemAlloc_v2(&at, bytes));
    for (unsigned i = 0; i < cycles; i++) {
        for (size_t k = 0; k < bytes / 4; k += 1024)
            from[k] = (unsigned)(k * 2654435761u + i);
        CHECK(d.cuMemcpyHtoDAsync_v2(at, from, bytes, stream));
        usleep((useconds_t)(rand() % 3000));
        CHECK(hold(XM_HOLD_ALL, &ns));
        add(&suspend, ns);
        if (d.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
            usleep(20 * MS);
            WANT(d.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        }
        CHECK(hold(XM_HOLD_NONE, NULL));
        CHECK(d.cuStreamSynchronize(stream));
        CHECK(d.cuMemcpyDtoH_v2(to, at, bytes));
        for (size_t k = 0; k < bytes / 4; k += 1024)
            WANT(to[k], from[k]);
    }
    print(&suspend);
}

/* Compute held: the copy engines work on. */
static void copies_beside(void)
{
    static unsigned host[N];
    CUdeviceptr at;
    CUstream other;

    CHECK(d.cuMemAlloc_v2(&at, sizeof host));
    CHECK(d.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    start_heart(stream);
    CHECK(hold(XM_HOLD_COMPUTE, NULL));
    CHECK(d.cuMemcpyHtoDAsync_v2(at, host, sizeof host, other));
    for (int i = 0; d.cuStreamQuery(other) == CUDA_ERROR_NOT_READY; i++) {
        if (i == 2000) {
            printf("a copy from pageable memory waits for the compute group\n");
            break;
        }
        usleep(MS);
    }
    stands_still(5000000);
    CHECK(hold(XM_HOLD_NONE, NULL));
    end_heart(stream);
    CHECK(d.cuStreamSynchronize(other));
}

static void *make_context(void *unused)
{
    CUcontext made;

    CHECK(d.cuCtxCreate_v2(&made, 0, 0));
    CHECK(d.cuCtxDestroy_v2(made));
    return unused;
}

/* A context is made, used and destroyed on another thread while everything is held. */
static void made(void)
{
    uint32_t channels, then;
    uint64_t t0 = now();
    unsigned seen;
    pthread_t t;

    CHECK(count_channels((const uint8_t *)uuid.bytes, NULL, NULL, &channels));
    start_heart(stream);
    CHECK(hold(XM_HOLD_COMPUTE, NULL));
    TRUE(pthread_create(&t, NULL, make_context, NULL) == 0);
    usleep(1000 * MS);
    CHECK(count_channels((const uint8_t *)uuid.bytes, NULL, NULL, &then));
    stands_still(5000000);
    printf("a second of suspension: the new context has %d channels\n", (int)(then - channels));
    seen = *beats;
    CHECK(hold(XM_HOLD_NONE, NULL));
    TRUE(beats_on(seen, 5000000000u));
    TRUE(pthread_join(t, NULL) == 0);
    CHECK(count_channels((const uint8_t *)uuid.bytes, NULL, NULL, &then));
    WANT(then, channels);
    printf("context made and destroyed, %.0f ms in all\n", (double)(now() - t0) / 1e6);
    end_heart(stream);
}

static void *destroy(void *context)
{
    CHECK(d.cuCtxDestroy_v2(context));
    return NULL;
}

/* Of two contexts one is destroyed while both are held. */
static void goes(void)
{
    CUcontext other;
    pthread_t t;
    unsigned seen;

    CHECK(d.cuCtxCreate_v2(&other, 0, 0));
    CHECK(d.cuCtxSetCurrent(ctx));
    start_heart(stream);
    CHECK(hold(XM_HOLD_ALL, NULL));
    TRUE(pthread_create(&t, NULL, destroy, other) == 0);
    usleep(500 * MS);
    stands_still(5000000);
    seen = *beats;
    CHECK(hold(XM_HOLD_NONE, NULL));
    TRUE(beats_on(seen, 5000000000u));
    end_heart(stream); /* the end of a context waits for the kernels of the others */
    TRUE(pthread_join(t, NULL) == 0);
    cycles = 5;
    start_heart(stream);
    cycle(XM_HOLD_ALL);
    end_heart(stream);
}

/* Memory that is written in place stays right, however often. */
static void in_place(void)
{
    static unsigned host[N];
    unsigned n = N, passes = 0;
    CUdeviceptr data;
    void *args[] = {&data, &n};

    CHECK(d.cuMemAlloc_v2(&data, sizeof host));
    CHECK(d.cuMemsetD32_v2(data, 0, N));
    CHECK(d.cuCtxSynchronize());
    for (unsigned i = 0; i < cycles; i++) {
        for (int k = 0; k < 20; k++, passes++)
            CHECK(d.cuLaunchKernel(increment, 64, 1, 1, 256, 1, 1, 0, stream, args, NULL));
        usleep((useconds_t)(rand() % 300));
        CHECK(hold(i % 2 ? XM_HOLD_ALL : XM_HOLD_COMPUTE, NULL));
        usleep((useconds_t)(rand() % 300));
        CHECK(hold(XM_HOLD_NONE, NULL));
    }
    CHECK(d.cuStreamSynchronize(stream));
    CHECK(d.cuMemcpyDtoH_v2(host, data, sizeof host));
    for (int i = 0; i < N; i++)
        WANT(host[i], passes);
    printf("%u suspensions over %u kernels, no word wrong\n", cycles, passes);
}

/* $XM_PIN_MIB of host memory, 32 MiB at a time, kept to the end: giving it back
 * would wait for the kernel. */
enum { PIECE = 32u << 20, PIECES = 1024 };

static void *pin(void *kept)
{
    const char *mib = getenv("XM_PIN_MIB");
    unsigned n = (unsigned)((mib ? strtoul(mib, NULL, 10) : 128) << 20 >> 25);
    void **pieces = kept;

    CHECK(d.cuCtxSetCurrent(ctx));
    for (unsigned i = 0; i < n && i < PIECES; i++)
        CHECK(d.cuMemHostAlloc(&pieces[i], PIECE, 0));
    return kept;
}

/* While another thread pins host memory, for which the driver holds its lock. */
static void pinning(void)
{
    static void *pieces[PIECES];
    struct figures suspend = figures("  suspend"), last = figures("  last beat after the request");
    struct figures resume = figures("  resume"), first = figures("  first beat after the request");
    pthread_t t;

    start_heart(stream);
    TRUE(pthread_create(&t, NULL, pin, pieces) == 0);
    for (bool pinning_on = true; pinning_on; pinning_on = pthread_tryjoin_np(t, NULL) != 0)
        once(XM_HOLD_COMPUTE, &suspend, &last, &resume, &first);
    end_heart(stream);
    print(&suspend);
    print(&last);
    print(&resume);
    print(&first);
    for (unsigned i = 0; i < PIECES; i++)
        if (pieces[i])
            CHECK(d.cuMemFreeHost(pieces[i]));
}

static void forked(void)
{
    int status;
    pid_t child;

    start_heart(stream);
    CHECK(hold(XM_HOLD_COMPUTE, NULL));
    child = fork();
    if (child == 0) {
        WANT(hold(XM_HOLD_NONE, NULL), -ECHILD);
        WANT(slice(1, NULL), -ECHILD);
        _exit(0);
    }
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    stands_still(5000000);
    CHECK(hold(XM_HOLD_NONE, NULL));
    end_heart(stream);
}

/* The program ends while it is held, with a kernel that ends when it is asked to. */
static void leaves(void)
{
    start_heart(stream);
    CHECK(hold(XM_HOLD_ALL, NULL));
    *stop = 1;
    exit(0);
}

/* Says so and stays held, until somebody kills it: then the device is as before. */
static void killed(void)
{
    start_heart(stream);
    CHECK(slice(1, NULL));
    CHECK(hold(XM_HOLD_ALL, NULL));
    puts("held");
    fflush(stdout);
    alarm(0);
    pause();
}

static const struct {
    const char *name;
    unsigned cycles;
    void (*run)(void);
} cases[] = {
    {"objects", 0, objects},     {"compute", 100, compute},   {"all", 100, all},        {"twice", 0, twice},
    {"legacy", 10, legacy},      {"cooperative", 10, cooperative}, {"graph", 10, graph}, {"slices", 50, slices},
    {"copies", 20, copies},      {"copies_beside", 0, copies_beside}, {"made", 0, made}, {"goes", 0, goes},
    {"in_place", 300, in_place}, {"pinning", 0, pinning},     {"forked", 0, forked},    {"leaves", 0, leaves},
    {"killed", 0, killed},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 1 && i < sizeof cases / sizeof *cases; i++)
        puts(cases[i].name);
    if (argc == 1)
        return 0;
    if (getenv("XM_VERBOSE"))
        atexit(print_watched);
    alarm(300);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cycles = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : cases[i].cycles;
            begin();
            cases[i].run();
            puts("ok");
            return 0;
        }
    return 2;
}
