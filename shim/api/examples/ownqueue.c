/*
 * A queue of the program's own: an "accelerator" that is a thread, in place of whatever a vendor's runtime gives. Three
 * functions are all that an XQueue needs of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "xmsched.h"

#define XSCHED(call)                                                                                                   \
    do {                                                                                                               \
        if ((call) != kXSchedSuccess) {                                                                                \
            fprintf(stderr, "%s: %s\n", #call, XLastError());                                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Works jobs off in their order; a job is so many microseconds. */
struct accelerator {
    pthread_mutex_t mu;
    pthread_cond_t moved;
    long jobs[256];
    long queued, done;
};

static void *engine(void *data)
{
    struct accelerator *a = data;
    for (;;) {
        pthread_mutex_lock(&a->mu);
        while (a->done == a->queued)
            pthread_cond_wait(&a->moved, &a->mu);
        struct timespec length = {0, 1000 * a->jobs[a->done % 256]};
        pthread_mutex_unlock(&a->mu);
        nanosleep(&length, NULL);
        pthread_mutex_lock(&a->mu);
        a->done++;
        pthread_cond_broadcast(&a->moved);
        pthread_mutex_unlock(&a->mu);
    }
    return NULL;
}

static void queue_job(struct accelerator *a, long us)
{
    pthread_mutex_lock(&a->mu);
    a->jobs[a->queued++ % 256] = us;
    pthread_cond_broadcast(&a->moved);
    pthread_mutex_unlock(&a->mu);
}

/* A marker is a count of jobs. */
static XResult mark(void *data, void **marker)
{
    struct accelerator *a = data;
    pthread_mutex_lock(&a->mu);
    *marker = (void *)a->queued;
    pthread_mutex_unlock(&a->mu);
    return kXSchedSuccess;
}

static XResult wait_marker(void *data, void *marker)
{
    struct accelerator *a = data;
    pthread_mutex_lock(&a->mu);
    while (a->done < (long)marker)
        pthread_cond_wait(&a->moved, &a->mu);
    pthread_mutex_unlock(&a->mu);
    return kXSchedSuccess;
}

static XResult synchronize(void *data)
{
    void *marker = NULL;
    mark(data, &marker);
    return wait_marker(data, marker);
}

static XResult long_job(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    queue_job(data, 20000);
    return kXSchedSuccess;
}

static XResult short_job(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    queue_job(data, 1000);
    return kXSchedSuccess;
}

static XQueueHandle schedule(struct accelerator *a, Priority priority)
{
    pthread_t thread;
    pthread_mutex_init(&a->mu, NULL);
    pthread_cond_init(&a->moved, NULL);
    if (pthread_create(&thread, NULL, engine, a))
        exit(1);
    pthread_detach(thread); /* it ends with the program */
    XHwQueueOps ops = {sizeof ops, "accelerator 0", mark, wait_marker, synchronize};
    HwQueueHandle hwq = 0;
    XQueueHandle xq = 0;
    XSCHED(HwQueueCreate(&hwq, &ops, a));
    XSCHED(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    XSCHED(XQueueSetLaunchConfig(xq, 2, 1));
    XSCHED(XHintPriority(xq, priority));
    return xq;
}

int main(void)
{
    static struct accelerator urgent, batch;
    XSCHED(XHintSetPolicy("HPF"));
    XQueueHandle urgent_xq = schedule(&urgent, 1), batch_xq = schedule(&batch, 0);
    for (int i = 0; i < 50; i++)
        XSCHED(XQueueSubmitCallback(batch_xq, short_job, &batch));
    XSCHED(XQueueSubmitCallback(urgent_xq, long_job, &urgent));
    XQueueInfo before = {.size = sizeof before}, after = {.size = sizeof after};
    XSCHED(XQueueGetInfo(batch_xq, &before)); /* no more of these while the urgent one has work */
    XSCHED(XQueueWaitAll(urgent_xq));
    XSCHED(XQueueGetInfo(batch_xq, &after));
    printf("launched beside the urgent command: %llu\n", (unsigned long long)(after.launched - before.launched));
    XSCHED(XQueueWaitAll(batch_xq));
    XSCHED(XQueueGetInfo(batch_xq, &after));
    printf("batch: %llu commands done\n", (unsigned long long)after.completed);
    XSCHED(XQueueDestroy(urgent_xq));
    XSCHED(XQueueDestroy(batch_xq));
    return 0;
}
