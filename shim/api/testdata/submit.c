/*
 * What a submission costs its caller, in ns of its thread's CPU time, which other work on the machine leaves alone: the
 * median of some runs over a hardware queue that is always done.
 */
#include "check.h"

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static XResult nothing(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    (void)data;
    return kXSchedSuccess;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { RUNS = 9, COUNT = 20000, BACKLOG = 250 };

static void measure(const char *what, XQueueHandle xq, int kind)
{
    double ns[RUNS];
    static HwCommandHandle cmd[COUNT];
    for (int r = 0; r < RUNS; r++) {
        if (kind == 0)
            for (int i = 0; i < COUNT; i++)
                OK(HwCommandCreateCallback(&cmd[i], nothing, NULL));
        double begun = cpu_s();
        for (int i = 0; i < COUNT; i++) {
            if (kind == 0)
                OK(XQueueSubmit(xq, cmd[i]));
            else if (kind == 1)
                OK(XQueueSubmitCallback(xq, nothing, NULL));
            else {
                OK(XQueueLaunchBegin(xq, &cmd[0]));
                OK(XQueueLaunchEnd(xq, cmd[0], kXSchedSuccess));
            }
            if (i % BACKLOG == BACKLOG - 1)
                OK(XQueueWaitAll(xq)); /* as programs do; a growing backlog is for the memory to bear */
        }
        ns[r] = (cpu_s() - begun) * 1e9 / COUNT;
        OK(XQueueWaitAll(xq));
    }
    qsort(ns, RUNS, sizeof ns[0], compare);
    printf("%s %.0f\n", what, ns[RUNS / 2]);
}

int main(void)
{
    HwQueueHandle hwq = hardware_handle(hardware_new(FOREVER));
    XQueueHandle xq = 0;
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    measure("XQueueSubmit", xq, 0);
    measure("XQueueSubmitCallback", xq, 1);
    measure("XQueueLaunchBegin+End", xq, 2);
    return 0;
}
