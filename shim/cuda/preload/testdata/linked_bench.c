/* linked_bench THREADS CALLS ROUNDS: nanoseconds a launch, one line a round:
 * the mean over the threads of a round in which each makes CALLS launches. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gen/cuda_prototypes.h"

static CUcontext ctx;
static pthread_barrier_t barrier;
static long calls;
static int rounds;

struct worker {
    pthread_t id;
    double *ns; /* one a round */
};

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *run(void *arg)
{
    struct worker *w = arg;
    CUstream stream;

    if (cuCtxSetCurrent(ctx) != CUDA_SUCCESS || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        exit(1);
    for (int r = 0; r < rounds; r++) {
        double start;

        pthread_barrier_wait(&barrier);
        start = now_ns();
        for (long i = 0; i < calls; i++) {
            if (cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) != CUDA_SUCCESS)
                exit(1);
        }
        w->ns[r] = (now_ns() - start) / (double)calls;
        cuStreamSynchronize(stream);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc == 4 ? atoi(argv[1]) : 0;
    struct worker w[64];

    calls = argc == 4 ? atol(argv[2]) : 0;
    rounds = argc == 4 ? atoi(argv[3]) : 0;
    if (threads < 1 || threads > 64 || calls < 1 || rounds < 1)
        return 2;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0))
        return 1;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        w[i].ns = calloc((size_t)rounds, sizeof *w[i].ns);
        if (!w[i].ns || pthread_create(&w[i].id, NULL, run, &w[i]))
            return 1;
    }
    for (int i = 0; i < threads; i++)
        pthread_join(w[i].id, NULL);
    for (int r = 0; r < rounds; r++) {
        double sum = 0;

        for (int i = 0; i < threads; i++)
            sum += w[i].ns[r];
        printf("%.2f\n", sum / threads);
    }
    return 0;
}
