/* What the test programs share: expectations, and a hardware queue of their own. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xmsched.h"

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, XLastError());     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define GIVES(code, call)                                                                                              \
    do {                                                                                                               \
        XResult got_ = (call);                                                                                         \
        if (got_ != (code)) {                                                                                          \
            fprintf(stderr, "%s:%d: %s gives %s, want %s: %s\n", __FILE__, __LINE__, #call, XResultName(got_),         \
                    XResultName(code), XLastError());                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) GIVES(kXSchedSuccess, call)

/* Commands are done in their order, once allowed. */
struct hardware {
    pthread_mutex_t mu;
    pthread_cond_t moved;
    long launched, allowed;
    bool fails;
};

static struct hardware *hardware_new(long allowed)
{
    struct hardware *h = calloc(1, sizeof *h);
    pthread_mutex_init(&h->mu, NULL);
    pthread_cond_init(&h->moved, NULL);
    h->allowed = allowed;
    return h;
}

static XResult hardware_mark(void *data, void **marker)
{
    struct hardware *h = data;
    pthread_mutex_lock(&h->mu);
    *marker = (void *)(intptr_t)h->launched;
    bool fails = h->fails;
    pthread_mutex_unlock(&h->mu);
    return fails ? kXSchedErrorHardware : kXSchedSuccess;
}

static XResult hardware_wait(void *data, void *marker)
{
    struct hardware *h = data;
    pthread_mutex_lock(&h->mu);
    while (h->allowed < (intptr_t)marker && !h->fails)
        pthread_cond_wait(&h->moved, &h->mu);
    bool fails = h->fails;
    pthread_mutex_unlock(&h->mu);
    return fails ? kXSchedErrorHardware : kXSchedSuccess;
}

static long hardware_launched(struct hardware *h)
{
    pthread_mutex_lock(&h->mu);
    long n = h->launched;
    pthread_mutex_unlock(&h->mu);
    return n;
}

static XResult hardware_synchronize(void *data)
{
    return hardware_wait(data, (void *)(intptr_t)hardware_launched(data));
}

static inline void hardware_allow(struct hardware *h, long n, bool fails)
{
    pthread_mutex_lock(&h->mu);
    h->allowed += n;
    h->fails = fails;
    pthread_cond_broadcast(&h->moved);
    pthread_mutex_unlock(&h->mu);
}

static HwQueueHandle hardware_handle(struct hardware *h)
{
    XHwQueueOps ops = {sizeof ops, "test device", hardware_mark, hardware_wait, hardware_synchronize};
    HwQueueHandle handle = 0;
    OK(HwQueueCreate(&handle, &ops, h));
    return handle;
}

/* The launch callback: one more command is in the hardware. */
static inline XResult hardware_launch(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    struct hardware *h = data;
    pthread_mutex_lock(&h->mu);
    h->launched++;
    pthread_mutex_unlock(&h->mu);
    return kXSchedSuccess;
}

static void rest(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until n commands have been launched, 10 s at most. */
static inline void await_launched(struct hardware *h, long n)
{
    for (double end = now_s() + 10; hardware_launched(h) < n; rest(100))
        EXPECT(now_s() < end);
}

#define FOREVER 1000000000L

#endif
