/* A program linked to the driver. Commands as arguments, in order:
 *
 *   init            cuInit and a context
 *   work            a bit of everything; the bytes are checked
 *   launch N        N launches: the results that differ, and how many entered
 *   threads T N     T threads with N launches each; each must enter on its own
 *   timer N         launches and synchronisations under a 1 ms interval timer
 *   address NAME    which library the program's own reference leads to
 *   fork            the rest runs in a child; the parent waits and passes its code
 *   exec PATH ARGS  becomes another program
 *   sleep MS
 *
 * Prints one line a command; exits 1 when something is wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gen/cuda_prototypes.h"

unsigned long fake_commands(void);

static CUcontext ctx;
static CUstream stream;
static int bad;

static void check(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("%s: %d\n", what, (int)r);
    bad = 1;
}

static CUresult launch(void)
{
    return cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static void end(void)
{
    if (stream)
        check(cuStreamDestroy_v2(stream), "cuStreamDestroy");
    stream = NULL;
}

static void init(void)
{
    end();
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&ctx, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    printf("init\n");
}

static void work(void)
{
    enum { N = 4096 };
    static unsigned char to[N], from[N];
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                             .blockDimZ = 1, .hStream = stream};
    CUdeviceptr p;
    CUevent event;

    for (int i = 0; i < N; i++)
        to[i] = (unsigned char)(i * 7);
    check(cuMemAlloc_v2(&p, 2 * N), "cuMemAlloc");
    check(cuMemcpyHtoD_v2(p, to, N), "cuMemcpyHtoD");
    check(cuMemsetD8Async(p + N, 3, N, stream), "cuMemsetD8Async");
    check(launch(), "cuLaunchKernel");
    check(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel on the default stream");
    check(cuLaunchKernelEx(&config, NULL, NULL, NULL), "cuLaunchKernelEx");
    check(cuGraphLaunch(NULL, stream), "cuGraphLaunch");
    check(cuEventCreate(&event, 0), "cuEventCreate");
    check(cuEventRecord(event, stream), "cuEventRecord");
    check(cuEventQuery(event), "cuEventQuery");
    check(cuStreamQuery(stream), "cuStreamQuery");
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    check(cuMemcpyDtoH_v2(from, p, N), "cuMemcpyDtoH");
    if (memcmp(to, from, N)) {
        printf("the bytes differ\n");
        bad = 1;
    }
    check(cuEventDestroy_v2(event), "cuEventDestroy");
    check(cuMemFree_v2(p), "cuMemFree");
    printf("work\n");
}

static void launches(long n)
{
    unsigned long before = fake_commands();
    int last = -1;

    for (long i = 0; i < n; i++) {
        CUresult r = launch();
        if ((int)r != last)
            printf("result %d\n", (int)r);
        last = (int)r;
    }
    printf("entered %lu\n", fake_commands() - before);
}

static void *thread(void *arg)
{
    long n = *(long *)arg;
    unsigned long before = fake_commands();

    check(cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
    for (long i = 0; i < n; i++)
        check(launch(), "cuLaunchKernel");
    if (fake_commands() - before != (unsigned long)n) {
        printf("%lu of %ld launches entered the driver on their own thread\n", fake_commands() - before, n);
        bad = 1;
    }
    return NULL;
}

static void threads(int t, long n)
{
    pthread_t id[64];
    int made = 0;

    for (; made < t && made < 64; made++) {
        if (pthread_create(&id[made], NULL, thread, &n))
            break;
    }
    for (int i = 0; i < made; i++)
        pthread_join(id[i], NULL);
    printf("threads %d\n", made);
}

static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void timer(long n)
{
    struct sigaction action = {.sa_handler = tick};
    struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (long i = 0; i < n; i++) {
        check(launch(), "cuLaunchKernel");
        check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    }
    setitimer(ITIMER_REAL, &off, NULL);
    printf("timer %s\n", ticks > 0 ? "ticked" : "never ticked");
}

static void address(const char *name)
{
    Dl_info info;
    void *p = strcmp(name, "cuInit") == 0 ? (void *)cuInit : (void *)cuDriverGetVersion;
    const char *slash;

    if (!dladdr(p, &info))
        return;
    slash = strrchr(info.dli_fname, '/');
    printf("%s %s\n", name, slash ? slash + 1 : info.dli_fname);
}

static void pause_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left)) {
    }
}

/* In the parent: waits and ends as the child did. */
static void split(void)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(20); /* a child that hangs must not outlive the test */
        return;
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        _exit(99);
    printf("child %s %d\n", WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    exit(bad || !WIFEXITED(status) || WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *verb = argv[i];

        if (strcmp(verb, "init") == 0)
            init();
        else if (strcmp(verb, "work") == 0)
            work();
        else if (strcmp(verb, "launch") == 0 && i + 1 < argc)
            launches(atol(argv[++i]));
        else if (strcmp(verb, "threads") == 0 && i + 2 < argc) {
            threads(atoi(argv[i + 1]), atol(argv[i + 2]));
            i += 2;
        } else if (strcmp(verb, "timer") == 0 && i + 1 < argc)
            timer(atol(argv[++i]));
        else if (strcmp(verb, "address") == 0 && i + 1 < argc)
            address(argv[++i]);
        else if (strcmp(verb, "fork") == 0)
            split();
        else if (strcmp(verb, "sleep") == 0 && i + 1 < argc)
            pause_ms(atol(argv[++i]));
        else if (strcmp(verb, "exec") == 0 && i + 1 < argc) {
            end();
            fflush(stdout);
            execv(argv[i + 1], argv + i + 1);
            perror(argv[i + 1]);
            return 127;
        } else {
            fprintf(stderr, "what is %s?\n", verb);
            return 2;
        }
    }
    end();
    return bad;
}
