/* Two models in one process: requests of one, and one that works without pause, under HPF and under WRR. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "gpu.h"

enum { REQUESTS = 20, LAYERS = 8, ITERATIONS = 30000 };

struct served {
    struct model model;
    HwQueueHandle hwq;
    XQueueHandle xq;
    HwCommandHandle last;
};

static atomic_int stop;
static atomic_long runs;

static struct served serve(Priority priority, int32_t weight)
{
    struct served s = {.model = model_new(LAYERS, ITERATIONS)};
    XSCHED(CudaQueueCreate(&s.hwq, s.model.stream));
    XSCHED(XQueueCreate(&s.xq, s.hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    XSCHED(XQueueSetLaunchConfig(s.xq, 2, 1)); /* two layers outstanding, no more */
    XSCHED(XHintPriority(s.xq, priority));
    XSCHED(XHintWeight(s.xq, weight));
    return s;
}

/* Submits all layers but the last without handles, and waits for the last. */
static void run(struct served *s)
{
    for (int i = 1; i < s->model.layers; i++)
        XSCHED(XQueueSubmitCallback(s->xq, model_layer, &s->model));
    XSCHED(XQueueSubmit(s->xq, s->last));
    XSCHED(XQueueWait(s->xq, s->last));
}

static void *work(void *data)
{
    while (!atomic_load(&stop)) {
        run(data);
        atomic_fetch_add(&runs, 1);
    }
    return NULL;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    gpu_open();
    struct served first = serve(10, 3), other = serve(0, 1);
    XSCHED(HwCommandCreateCallback(&first.last, model_layer, &first.model));
    XSCHED(HwCommandCreateCallback(&other.last, model_layer, &other.model));
    static const XPolicyType policies[] = {kPolicyHighestPriorityFirst, kPolicyWeightedRoundRobin};
    static const char *const names[] = {"HPF", "WRR"};
    for (int p = 0; p < 2; p++) {
        XSCHED(XHintSetScheduler(kSchedulerLocal, policies[p])); /* the hints stay */
        atomic_store(&stop, 0);
        atomic_store(&runs, 0);
        pthread_t worker;
        if (pthread_create(&worker, NULL, work, &other))
            return 1;
        double took[REQUESTS];
        for (int i = 0; i < REQUESTS; i++) {
            struct timespec gap = {0, 3000000};
            nanosleep(&gap, NULL);
            double start = now_ms();
            run(&first);
            took[i] = now_ms() - start;
        }
        atomic_store(&stop, 1);
        pthread_join(worker, NULL);
        qsort(took, REQUESTS, sizeof took[0], compare);
        printf("policy %s  requests: median %.1f ms, worst %.1f ms; the other model: %ld runs\n", names[p],
               took[REQUESTS / 2], took[REQUESTS - 1], atomic_load(&runs));
    }
    XSCHED(XQueueDestroy(first.xq));
    XSCHED(XQueueDestroy(other.xq));
    model_verify(&first.model);
    model_verify(&other.model);
    XSCHED(HwQueueDestroy(first.hwq));
    XSCHED(HwQueueDestroy(other.hwq));
    return 0;
}
