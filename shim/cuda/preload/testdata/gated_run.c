/* gated_run CASE, or nothing for the list: what a program sees while its gate is closed, on a device that
 * runs kernels (the simulated one, or a real one), with libgovernor.c as its
 * agent. Prints nothing; exits 1 with a line when something is wrong.
 *
 * $XM_PTX names the file of the kernels. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gen/board.h"
#include "gen/cuda_prototypes.h"
#include "want.h"

enum { N = 4096, MS = 1000 };

static void (*grant)(bool open, unsigned mode);
static void (*hang)(bool hangs);
static void (*detach)(void);
static struct xm_client_line *(*client)(void);
static CUcontext ctx;
static CUfunction increment, fill, spin;
static CUmodule module;
static CUdeviceptr data;
static CUstream stream;

static void gate(bool open)
{
    grant(open, XM_MODE_BOUNDED);
}

static void begin(void)
{
    char path[4096];
    void *governor;
    bool (*ready)(void);

    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    snprintf(path, sizeof path, "%s/libxagent.so", getenv("XMSCHED_LIB"));
    TRUE(governor = dlopen(path, RTLD_NOW));
    *(void **)&ready = dlsym(governor, "governor_ready");
    *(void **)&grant = dlsym(governor, "governor_grant");
    *(void **)&hang = dlsym(governor, "governor_hang");
    *(void **)&detach = dlsym(governor, "governor_detach");
    *(void **)&client = dlsym(governor, "governor_client");
    while (!ready())
        usleep(MS);
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
    CHECK(cuModuleGetFunction(&increment, module, "xm_increment"));
    CHECK(cuModuleGetFunction(&fill, module, "xm_fill"));
    CHECK(cuModuleGetFunction(&spin, module, "xm_spin"));
    CHECK(cuMemAlloc_v2(&data, 4 * N));
    CHECK(cuMemsetD32_v2(data, 0, N));
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CHECK(cuCtxSynchronize());
    TRUE(client()->level_max >= 2);
    gate(true);
}

static CUresult launch_increment(CUstream s, bool per_thread)
{
    unsigned n = N;
    void *args[] = {&data, &n};

    return (per_thread ? cuLaunchKernel_ptsz : cuLaunchKernel)(increment, N / 128, 1, 1, 128, 1, 1, 0, s, args, NULL);
}

static CUresult launch_fill(CUdeviceptr at, unsigned value, CUstream s)
{
    unsigned n = N;
    void *args[] = {&at, &value, &n};

    return cuLaunchKernel(fill, N / 128, 1, 1, 128, 1, 1, 0, s, args, NULL);
}

/* Some milliseconds. */
static CUresult launch_spin(CUstream s)
{
    unsigned long long out = 0, iterations = 330 * 5000;
    void *args[] = {&out, &iterations};

    return cuLaunchKernel(spin, 132, 1, 1, 128, 1, 1, 0, s, args, NULL);
}

static void holds(CUdeviceptr at, unsigned value)
{
    unsigned host[N];

    CHECK(cuMemcpyDtoH_v2(host, at, sizeof host));
    for (int i = 0; i < N; i++)
        WANT(host[i], value);
}

/* A call that the gate may hold, on a thread of its own. */
struct call {
    CUresult (*function)(struct call *);
    CUdeviceptr at;
    void *host;
    CUresult result;
    _Atomic bool returned;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct call *c = arg;

    CHECK(cuCtxSetCurrent(ctx));
    c->result = c->function(c);
    c->returned = true;
    return NULL;
}

static void start(struct call *c)
{
    TRUE(pthread_create(&c->thread, NULL, run, c) == 0);
}

static void is_held(struct call *c)
{
    usleep(50 * MS);
    TRUE(!c->returned);
}

static void ends(struct call *c)
{
    TRUE(pthread_join(c->thread, NULL) == 0);
    CHECK(c->result);
}

/* --- order, also while suspended ----------------------------------------- */

/* Case 9: plain kernels on the default streams. */
static void legacy(void)
{
    for (int per_thread = 0; per_thread < 2; per_thread++) {
        CUstream s = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;

        CHECK(cuMemsetD32_v2(data, 0, N));
        CHECK(cuCtxSynchronize());
        gate(false);
        for (int i = 0; i < 6; i++)
            CHECK(launch_increment(NULL, per_thread));
        WANT(client()->waiting, 0); /* held on the device, not here */
        WANT(client()->ready, 1);
        usleep(50 * MS);
        WANT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
        gate(true);
        CHECK(cuStreamSynchronize(s));
        holds(data, 6);
    }
}

static CUresult copy_out(struct call *c)
{
    return cuMemcpyDtoH_v2(c->host, c->at, 4 * N);
}

/* Case 11: synchronous calls behind kernels of a blocking stream. */
static void synchronous(void)
{
    static unsigned host[N];
    struct call c = {.function = copy_out, .at = data, .host = host};

    CHECK(launch_increment(stream, false));
    gate(false);
    CHECK(launch_increment(stream, false));
    CHECK(launch_increment(stream, false));
    start(&c);
    is_held(&c);
    gate(true);
    ends(&c);
    for (int i = 0; i < N; i++)
        WANT(host[i], 3);
    gate(false);
    CHECK(launch_increment(stream, false));
    CHECK(cuMemsetD32_v2(data, 40, N)); /* on the legacy stream: after the kernel */
    CHECK(launch_increment(stream, false));
    gate(true);
    holds(data, 41);
}

/* Case 12: calls of every kind in one stream happen in their order, none before the gate opens. */
static void host_function(void *at)
{
    ++*(volatile int *)at;
}

static void asynchronous(void)
{
    static unsigned from[N], to[N];
    int called = 0;
    CUdeviceptr other;

    CHECK(cuMemAlloc_v2(&other, 4 * N));
    for (int i = 0; i < N; i++)
        from[i] = 7;
    gate(false);
    CHECK(cuMemcpyHtoDAsync_v2(data, from, sizeof from, stream));
    CHECK(launch_increment(stream, false));
    CHECK(cuMemcpyDtoDAsync_v2(other, data, 4 * N, stream));
    CHECK(cuMemsetD32Async(data, 100, N, stream));
    CHECK(launch_increment(stream, false));
    CHECK(cuLaunchHostFunc(stream, host_function, &called));
    CHECK(cuStreamWriteValue32_v2(stream, other, 5, 0));
    CHECK(cuMemcpyAsync(data + 4, other, 4, stream));
    WANT(client()->waiting, 0);
    usleep(50 * MS);
    WANT(called, 0);
    WANT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate(true);
    CHECK(cuStreamSynchronize(stream));
    WANT(called, 1);
    CHECK(cuMemcpyDtoH_v2(to, data, sizeof to));
    WANT(to[0], 101);
    WANT(to[1], 5);
    WANT(to[2], 101);
    CHECK(cuMemcpyDtoH_v2(to, other, sizeof to));
    WANT(to[0], 5);
    WANT(to[1], 8);
}

static CUresult copy_out_async(struct call *c)
{
    return cuMemcpyDtoHAsync_v2(c->host, c->at, 4 * N, stream);
}

/* Case 13: from the device into pageable memory: the bytes are there when it returns. */
static void pageable(void)
{
    static unsigned host[N];
    struct call c = {.function = copy_out_async, .at = data, .host = host};

    gate(false);
    CHECK(launch_fill(data, 9, stream));
    start(&c);
    is_held(&c);
    WANT(host[17], 0);
    gate(true);
    ends(&c);
    for (int i = 0; i < N; i++)
        WANT(host[i], 9);
}

/* Case 14: memory of pools. */
static void pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdeviceptr a = 0, b = 0;
    CUmemoryPool pool;

    CHECK(cuMemPoolCreate(&pool, &props));
    gate(false);
    CHECK(cuMemAllocAsync(&a, 4 * N, stream));
    TRUE(a);
    CHECK(cuMemAllocFromPoolAsync(&b, 4 * N, pool, stream));
    TRUE(b && b != a);
    CHECK(launch_fill(a, 3, stream));
    CHECK(launch_fill(b, 4, stream));
    CHECK(cuMemcpyDtoDAsync_v2(data, b, 2 * N, stream));
    CHECK(cuMemFreeAsync(a, stream));
    gate(true);
    CHECK(cuStreamSynchronize(stream));
    holds(b, 4);
    CHECK(cuMemFree_v2(b));
    WANT(cuMemFree_v2(b), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemPoolDestroy(pool));
}

/* Case 15: queries say "complete" when it is, and times can be asked for. */
static void queries(void)
{
    CUevent first, second;
    float ms = -1;

    CHECK(cuEventCreate(&first, 0));
    CHECK(cuEventCreate(&second, 0));
    gate(false);
    CHECK(cuEventRecord(first, stream));
    CHECK(launch_increment(stream, false));
    CHECK(cuEventRecord(second, stream));
    usleep(20 * MS);
    WANT(cuEventQuery(second), CUDA_ERROR_NOT_READY);
    WANT(cuEventElapsedTime(&ms, first, second), CUDA_ERROR_NOT_READY);
    gate(true);
    for (int i = 0; cuEventQuery(second) || cuStreamQuery(stream); i++) {
        TRUE(i < 2000);
        usleep(MS);
    }
    CHECK(cuEventElapsedTime(&ms, first, second));
    TRUE(ms >= 0);
}

/* Case 16: a bad launch has its code, open or closed, and is only that. */
static void bad_launches(void)
{
    unsigned n = N;
    void *args[] = {&data, &n};

    for (int open = 0; open < 2; open++) {
        gate(open);
        for (int i = 0; i < 10; i++)
            WANT(cuLaunchKernel(increment, 1, 1, 1, 4096, 1, 1, 0, stream, args, NULL), CUDA_ERROR_INVALID_VALUE);
        CHECK(launch_increment(stream, false));
    }
    CHECK(cuStreamSynchronize(stream));
    holds(data, 2);
    for (int i = 0; client()->ready; i++) {
        TRUE(i < 2000);
        usleep(MS);
    }
    TRUE(client()->level_max >= 2);
}

/* Case 17: a capture at a closed gate. */
static void capture(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstream other;
    size_t nodes = 0;

    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(launch_increment(other, false));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gate(false);
    for (int i = 0; i < 40; i++) /* more than the bound */
        CHECK(launch_increment(stream, false));
    CHECK(launch_increment(other, false)); /* and beside it others are gated */
    WANT(client()->waiting, 0);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    WANT(nodes, 40); /* nothing of ours in it */
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    usleep(50 * MS);
    WANT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    WANT(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    gate(true);
    CHECK(cuCtxSynchronize());
    holds(data, 42);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* Case 18: two streams that wait for each other in turn, under a gate that never rests. */
static _Atomic bool over;

static void *restless(void *unused)
{
    for (unsigned seed = 1; !over; usleep((useconds_t)(rand_r(&seed) % 2000)))
        gate(rand_r(&seed) % 2);
    gate(true);
    return unused;
}

static void crossing(void)
{
    CUstream s[2];
    CUevent done[2];
    pthread_t t;

    for (int i = 0; i < 2; i++) {
        CHECK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
        CHECK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
    }
    TRUE(pthread_create(&t, NULL, restless, NULL) == 0);
    for (int i = 0; i < 200; i++) {
        int me = i % 2;

        CHECK(launch_increment(s[me], false));
        CHECK(cuEventRecord(done[me], s[me]));
        CHECK(cuStreamWaitEvent(s[!me], done[me], 0));
    }
    over = true;
    TRUE(pthread_join(t, NULL) == 0);
    CHECK(cuCtxSynchronize());
    holds(data, 200);
}

/* --- calls that wait inside the driver ------------------------------------ */

static CUresult free_it(struct call *c)
{
    return cuMemFree_v2(c->at);
}

static CUresult load_and_unload(struct call *c)
{
    CUmodule m;
    CUresult r = cuModuleLoad(&m, getenv("XM_PTX"));

    (void)c;
    return r ? r : cuModuleUnload(m);
}

static CUresult make_context(struct call *c)
{
    CUcontext made;
    CUresult r = cuCtxCreate_v2(&made, 0, 0);

    (void)c;
    return r ? r : cuCtxDestroy_v2(made);
}

static CUresult wait_for_all(struct call *c)
{
    (void)c;
    return cuCtxSynchronize();
}

/* Case 19: they wait for the gate, and it opens: by the daemon, or because the
 * daemon hangs, or because it is gone. */
static void blocked_calls(void (*opens)(void))
{
    static unsigned host[N];
    CUdeviceptr other;

    CHECK(cuMemAlloc_v2(&other, 4 * N));
    gate(false);
    for (int i = 0; i < 8; i++) { /* so that not all of it slips through at once */
        CHECK(launch_spin(stream));
        CHECK(launch_increment(stream, false));
    }
    struct call calls[] = {{.function = free_it, .at = other},
                           {.function = load_and_unload},
                           {.function = make_context},
                           {.function = wait_for_all},
                           {.function = copy_out, .at = data, .host = host}};
    for (int i = 0; i < 5; i++)
        start(&calls[i]);
    is_held(&calls[0]);
    is_held(&calls[3]);
    is_held(&calls[4]);
    opens();
    for (int i = 0; i < 5; i++)
        ends(&calls[i]);
    holds(data, 8);
}

static void daemon_opens(void)
{
    gate(true);
}

static void daemon_hangs(void)
{
    hang(true);
}

static void *close_again(void *unused)
{
    for (;; usleep(5 * MS))
        gate(false);
    return unused;
}

/* And it does not know it yet: it goes on closing the gate. */
static void daemon_goes(void)
{
    pthread_t t;

    TRUE(pthread_create(&t, NULL, close_again, NULL) == 0);
    usleep(20 * MS);
    detach();
}

static void blocked(void)
{
    blocked_calls(daemon_opens);
}

static void blocked_hung(void)
{
    blocked_calls(daemon_hangs);
}

static void blocked_gone(void)
{
    blocked_calls(daemon_goes);
}

/* A program that ends with work behind a closed gate, which the daemon keeps closing. */
static void leaves(void)
{
    pthread_t t;

    gate(false);
    for (int i = 0; i < 5; i++)
        CHECK(launch_increment(stream, false));
    TRUE(pthread_create(&t, NULL, close_again, NULL) == 0);
    exit(0);
}

/* The same, but it waits for its work in a handler that runs late, if the driver still answers. */
static void last_words(void)
{
    CUresult r = cuCtxSynchronize();

    TRUE(r == CUDA_SUCCESS || r == 4); /* CUDA_ERROR_DEINITIALIZED: NVIDIA's driver has ended by now */
}

static void leaves_late(void)
{
    gate(false);
    CHECK(launch_increment(stream, false));
    exit(0);
}

/* Says so and stays, until somebody kills it. */
static void killed(void)
{
    gate(false);
    for (int i = 0; i < 5; i++)
        CHECK(launch_increment(stream, false));
    CHECK(launch_increment(NULL, false));
    puts("held");
    fflush(stdout);
    pause();
}

/* The context goes with work behind a closed gate: the device is told busy until it went, and somebody to wait, as
 * its queues are empty from the beginning and a daemon believes them rather. */
static CUresult destroy(struct call *c)
{
    return cuCtxDestroy_v2(c->host);
}

static void context_goes(void)
{
    CUcontext made;
    CUdeviceptr p;
    struct call c = {.function = destroy};

    CHECK(cuCtxCreate_v2(&made, 0, 0));
    CHECK(cuMemAlloc_v2(&p, 4 * N));
    gate(false);
    CHECK(cuMemsetD32Async(p, 1, N, NULL));
    CHECK(cuCtxSetCurrent(ctx));
    c.host = made;
    start(&c);
    usleep(50 * MS);
    if (!c.returned) {
        WANT(client()->ready, 1);
        WANT(client()->waiting, 1);
    }
    gate(true);
    ends(&c);
    for (int i = 0; client()->ready; i++) {
        TRUE(i < 2000);
        usleep(MS);
    }
    WANT(client()->waiting, 0);
}

/* Where the library had something of its own registered for contexts that are long gone, the program can. */
static void addresses_come_again(void)
{
    enum { CONTEXTS = 8, PAGES = 64, BYTES = XM_BOARD_SIZE };
    CUcontext made;
    void *at;

    for (int i = 0; i <= CONTEXTS; i++) {
        if (i == CONTEXTS)
            usleep(10500 * MS); /* for so long it keeps what a context that is gone may still write to */
        CHECK(cuCtxCreate_v2(&made, 0, 0));
        CHECK(cuMemsetD32Async(data, 0, N, NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxDestroy_v2(made));
    }
    CHECK(cuCtxSetCurrent(ctx));
    for (int i = 0; i < PAGES; i++) {
        TRUE((at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
        CHECK(cuMemHostRegister_v2(at, BYTES, 0));
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"legacy", legacy},         {"synchronous", synchronous},   {"asynchronous", asynchronous}, {"pageable", pageable},
    {"pools", pools},           {"queries", queries},           {"bad_launches", bad_launches}, {"capture", capture},
    {"crossing", crossing},     {"blocked", blocked},           {"blocked_hung", blocked_hung}, {"blocked_gone", blocked_gone},
    {"leaves", leaves},         {"leaves_late", leaves_late},   {"context_goes", context_goes},
    {"addresses_come_again", addresses_come_again},
    {"killed", killed},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 1 && i < sizeof cases / sizeof *cases; i++)
        puts(cases[i].name);
    if (argc == 1)
        return 0;
    alarm(60);
    if (argc == 2 && strcmp(argv[1], "leaves_late") == 0)
        atexit(last_words);
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            begin();
            cases[i].run();
            return 0;
        }
    return 2;
}
