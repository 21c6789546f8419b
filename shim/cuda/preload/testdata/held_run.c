/* held_run CASE, or nothing for the list: level 3 as the daemon asks for it, with
 * libgovernor.c as agent and daemon: what it wants of the channels is carried out,
 * told, and undone when it is no more. Prints nothing; exits 1 with a line when
 * something is wrong.
 *
 * $XM_PTX and $XM_PROBE name the files of the kernels and of the heartbeat. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen/board.h"
#include "gen/cuda_prototypes.h"
#include "gen/rm.h"
#include "want.h"

enum { MS = 1000 };

static uint32_t (*want)(uint32_t hold, uint32_t slice_us);
static void (*grant)(bool open, unsigned mode);
static void (*hang)(bool hangs);
static void (*detach)(void);
static struct xm_client_line *(*client)(void);
static CUcontext ctx;
static CUstream stream;
static CUfunction heartbeat, increment;
static volatile unsigned *beats, *stop;
static CUdeviceptr beats_at, stop_at;

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

static void load(void)
{
    CUmodule module;
    void *host;

    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuModuleLoad(&module, getenv("XM_PTX")));
    CHECK(cuModuleGetFunction(&increment, module, "xm_increment"));
    CHECK(cuModuleLoad(&module, getenv("XM_PROBE")));
    CHECK(cuModuleGetFunction(&heartbeat, module, "xm_heartbeat"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    beats = host;
    stop = beats + 512;
    CHECK(cuMemHostGetDevicePointer_v2(&beats_at, host, 0));
    stop_at = beats_at + 512 * sizeof *beats;
    CHECK(cuCtxSynchronize());
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
    *(void **)&want = dlsym(governor, "governor_want");
    *(void **)&grant = dlsym(governor, "governor_grant");
    *(void **)&hang = dlsym(governor, "governor_hang");
    *(void **)&detach = dlsym(governor, "governor_detach");
    *(void **)&client = dlsym(governor, "governor_client");
    while (!ready())
        usleep(MS);
    load();
}

static bool beats_on(unsigned seen, uint64_t within_ns)
{
    for (uint64_t until = now() + within_ns; now() < until;)
        if (*beats != seen)
            return true;
    return *beats != seen;
}

static void start_heart(void)
{
    static unsigned long long limit = 600000000;
    static void *args[3];

    args[0] = &beats_at, args[1] = &stop_at, args[2] = &limit;
    *beats = *stop = 0;
    CHECK(cuLaunchKernel(heartbeat, 132, 1, 1, 128, 1, 1, 0, stream, args, NULL));
    TRUE(beats_on(0, 10000000000u));
}

static void end_heart(void)
{
    *stop = 1;
    CHECK(cuStreamSynchronize(stream));
}

static void lives(void)
{
    TRUE(beats_on(*beats, 10000000000u));
}

static void stands_still(void)
{
    unsigned seen;

    usleep(MS);
    seen = *beats;
    TRUE(!beats_on(seen, 20000000));
}

/* The want is carried out when this returns. */
static void wants(uint32_t hold, uint32_t slice_us)
{
    uint32_t number = want(hold, slice_us);

    SOON(word(&client()->did) == number);
}

static void is(uint32_t hold, uint32_t slice_us, uint32_t error)
{
    WANT(client()->held, hold);
    WANT(client()->slice_now, slice_us);
    WANT(client()->hold_error, error);
}

static void level3(void)
{
    SOON(word(&client()->level_max) == 3);
    WANT(client()->level_why, XM_LEVEL_WHY_NONE);
}

/* --- cases -------------------------------------------------------------------- */

static void obeys(void)
{
    level3();
    start_heart();
    wants(XM_HOLD_COMPUTE, 0);
    is(XM_HOLD_COMPUTE, 0, 0);
    WANT(client()->holds, 1);
    TRUE(client()->hold_ns > 0 && client()->release_ns == 0);
    stands_still();
    wants(XM_HOLD_COMPUTE, 0); /* said again */
    WANT(client()->holds, 1);
    wants(XM_HOLD_ALL, 1);
    is(XM_HOLD_ALL, 1, 0);
    WANT(client()->holds, 2);
    stands_still();
    wants(XM_HOLD_NONE, 1);
    is(XM_HOLD_NONE, 1, 0);
    TRUE(client()->release_ns > 0);
    lives();
    wants(XM_HOLD_NONE, 0);
    is(XM_HOLD_NONE, 0, 0);
    wants(7, 0); /* there is no such hold */
    is(XM_HOLD_NONE, 0, NV_ERR_INVALID_ARGUMENT);
    lives();
    wants(XM_HOLD_NONE, 0);
    is(XM_HOLD_NONE, 0, 0);
    WANT(client()->level_max, 3);
    end_heart();
}

/* A want that changes while one is carried out: the last one is what holds. */
static void changes_its_mind(void)
{
    unsigned seed = 1;
    uint32_t last = 0, hold = 0;

    level3();
    start_heart();
    for (int i = 0; i < 300; i++) {
        hold = (uint32_t)rand_r(&seed) % 3;
        last = want(hold, (uint32_t)rand_r(&seed) % 2 * 300);
        if (rand_r(&seed) % 4 == 0)
            usleep((useconds_t)(rand_r(&seed) % 3000));
    }
    SOON(word(&client()->did) == last);
    WANT(client()->held, hold);
    if (hold)
        stands_still();
    wants(XM_HOLD_COMPUTE, 0);
    stands_still();
    wants(XM_HOLD_NONE, 0);
    is(XM_HOLD_NONE, 0, 0);
    lives();
    end_heart();
}

/* The daemon is stopped with the task held: within a second or so it goes on. When the daemon lives again it may want again. */
static void lease(void)
{
    uint64_t from;

    level3();
    start_heart();
    wants(XM_HOLD_ALL, 300);
    stands_still();
    hang(true);
    from = now();
    SOON(word(&client()->held) == XM_HOLD_NONE);
    lives();
    TRUE(now() - from > 600000000u && now() - from < 5000000000u); /* the last beat was a little before */
    is(XM_HOLD_NONE, 0, 0);
    want(XM_HOLD_COMPUTE, 0); /* a word of the dead */
    usleep(300 * MS);
    WANT(client()->held, XM_HOLD_NONE);
    lives();
    hang(false);
    SOON(word(&client()->held) == XM_HOLD_COMPUTE);
    stands_still();
    wants(XM_HOLD_NONE, 0);
    lives();
    end_heart();
}

static void session_ends(void)
{
    level3();
    start_heart();
    wants(XM_HOLD_ALL, 1);
    stands_still();
    detach();
    lives();
    end_heart();
    start_heart();
    want(XM_HOLD_ALL, 0); /* nobody listens */
    usleep(100 * MS);
    lives();
    end_heart();
}

/* A gate and a suspension at once: each does its part. */
static void gated_too(void)
{
    level3();
    start_heart();
    grant(false, XM_MODE_BOUNDED);
    lives();
    wants(XM_HOLD_COMPUTE, 0);
    stands_still();
    grant(true, XM_MODE_BOUNDED);
    stands_still();
    wants(XM_HOLD_NONE, 0);
    lives();
    end_heart();
}

static void *make_and_use(void *unused)
{
    CUcontext made;
    CUdeviceptr p;
    unsigned seen = 0;

    CHECK(cuCtxCreate_v2(&made, 0, 0));
    CHECK(cuMemAlloc_v2(&p, 4));
    CHECK(cuMemsetD32_v2(p, 17, 1));
    CHECK(cuMemcpyDtoH_v2(&seen, p, 4));
    WANT(seen, 17);
    CHECK(cuCtxDestroy_v2(made));
    return unused;
}

/* A context that is made while the task is held is held too; its work is done afterwards. */
static void another_context(void)
{
    pthread_t t;

    level3();
    start_heart();
    wants(XM_HOLD_ALL, 1);
    TRUE(pthread_create(&t, NULL, make_and_use, NULL) == 0);
    usleep(100 * MS);
    stands_still();
    wants(XM_HOLD_NONE, 0);
    TRUE(pthread_join(t, NULL) == 0);
    lives();
    end_heart();
    is(XM_HOLD_NONE, 0, 0);
}

/* A program of two contexts is not armed, since they would stop each other; of one it is. */
static void several(void)
{
    CUcontext made;

    level3();
    wants(XM_HOLD_NONE, 1);
    is(XM_HOLD_NONE, 1, 0);
    CHECK(cuCtxCreate_v2(&made, 0, 0));
    SOON(word(&client()->slice_now) == 1000);
    wants(XM_HOLD_NONE, 300);
    is(XM_HOLD_NONE, 1000, 0);
    CHECK(cuCtxDestroy_v2(made));
    SOON(word(&client()->slice_now) == 300);
    wants(XM_HOLD_NONE, 0);
    is(XM_HOLD_NONE, 0, 0);
}

/* The only context goes, nothing is left to be held; the next one finds the want in force. */
static void no_context(void)
{
    CUcontext made;

    level3();
    CHECK(cuCtxCreate_v2(&made, 0, 0));
    CHECK(cuCtxDestroy_v2(made));
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    wants(XM_HOLD_COMPUTE, 0);
    is(XM_HOLD_COMPUTE, 0, 0);
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    wants(XM_HOLD_NONE, 0);
    load();
    start_heart();
    wants(XM_HOLD_COMPUTE, 0);
    stands_still();
    wants(XM_HOLD_NONE, 0);
    end_heart();
}

/* It ends while it is held, and while the daemon goes on wanting it. */
static void *want_again(void *unused)
{
    for (;; usleep(3 * MS))
        want(XM_HOLD_ALL, 0);
    return unused;
}

static void leaves(void)
{
    pthread_t t;

    level3();
    start_heart();
    wants(XM_HOLD_ALL, 1);
    TRUE(pthread_create(&t, NULL, want_again, NULL) == 0);
    *stop = 1;
    exit(0);
}

/* $XM_WHY: the reason that level 3 is off for. A want is answered, and nothing is held. */
static void off(void)
{
    SOON(client()->level_max && client()->level_why == (uint32_t)atoi(getenv("XM_WHY")));
    WANT(client()->level_max, 2);
    start_heart();
    wants(XM_HOLD_NONE, 0);
    WANT(client()->hold_error, 0);
    lives();
    end_heart();
}

/* The driver lets channels be switched on, but not off. */
static void refused(void)
{
    level3();
    start_heart();
    wants(XM_HOLD_COMPUTE, 0);
    WANT(client()->held, XM_HOLD_NONE);
    TRUE(client()->hold_error != 0);
    WANT(client()->holds, 0);
    SOON(client()->level_max == 2);
    WANT(client()->level_why, XM_LEVEL_WHY_RM_REFUSED);
    lives();
    end_heart();
}

/* When it waits for its work, the idle edge says since when. */
static void waits(void)
{
    unsigned n = 1 << 20;
    CUdeviceptr data;
    void *args[] = {&data, &n};
    struct xm_client_line *line;
    uint64_t from, before;

    CHECK(cuMemAlloc_v2(&data, 4ull * n));
    CHECK(cuCtxSynchronize());
    line = client();
    SOON(!word(&line->ready));
    grant(true, XM_MODE_TOP);
    for (int i = 0; i < 3; i++) {
        before = now();
        for (int k = 0; k < 20; k++)
            CHECK(cuLaunchKernel(increment, 64, 1, 1, 256, 1, 1, 0, stream, args, NULL));
        usleep(20 * MS);
        from = now();
        if (i == 0)
            CHECK(cuStreamSynchronize(stream));
        else if (i == 1)
            CHECK(cuCtxSynchronize());
        else
            while (cuStreamQuery(stream))
                ;
        SOON(!word(&line->ready));
        TRUE(line->ready_at >= before);
        TRUE(line->waited_from >= line->ready_at && line->waited_from <= now());
        TRUE(line->idle_us - (uint32_t)(line->waited_from / 1000) <= (uint32_t)((now() - line->waited_from) / 1000) + 1);
        if (line->waited_from < from) /* the tail saw the end while the program slept */
            WANT(line->waited_from, line->ready_at);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"obeys", obeys},           {"changes_its_mind", changes_its_mind}, {"lease", lease},
    {"session_ends", session_ends}, {"gated_too", gated_too},           {"another_context", another_context},
    {"several", several},       {"no_context", no_context},             {"leaves", leaves},                     {"off", off},
    {"refused", refused},       {"waits", waits},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 1 && i < sizeof cases / sizeof *cases; i++)
        puts(cases[i].name);
    if (argc == 1)
        return 0;
    alarm(120);
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            begin();
            cases[i].run();
            return 0;
        }
    return 2;
}
