#include "uncovered.c"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int news;

void xm_agent_news(void)
{
    __atomic_fetch_add(&news, 1, __ATOMIC_RELAXED);
}

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "uncovered_test: %s\n", what);
    exit(1);
}

static void *many(void *arg)
{
    char name[32];

    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "cuThing%dAsync", i % 40);
        xm_passed(name);
    }
    return arg;
}

int main(void)
{
    char buf[4096];
    pthread_t t[4];
    int need, lines = 0;

    check(xm_uncovered_names(NULL, 0) == 0, "nothing is uncovered to begin with");
    xm_passed("cuDriverGetVersion");
    xm_passed("cuStreamGetPriority");
    xm_passed("cuDeviceRegisterAsyncNotification");
    xm_passed("cudnnCreate");
    xm_passed(NULL);
    check(xm_uncovered_total == 0 && xm_passed_total() == 5, "harmless names are counted, not named");

    xm_passed("cuLaunchKernelOfTheFuture");
    xm_passed("cuMemSwizzleAsync_v2_ptsz");
    xm_passed("cuLaunchKernelOfTheFuture");
    xm_uncovered("cuLaunchCooperativeKernelMultiDevice");
    check(xm_uncovered_total == 3 && news == 3, "each name is told once");
    need = xm_uncovered_names(buf, sizeof buf);
    buf[need] = 0;
    check(strcmp(buf, "cuLaunchKernelOfTheFuture\ncuMemSwizzleAsync_v2_ptsz\ncuLaunchCooperativeKernelMultiDevice\n") == 0,
          "the list is in order of first use");
    memset(buf, '?', sizeof buf);
    check(xm_uncovered_names(buf, 30) == need, "a short buffer is told the whole length");
    check(memcmp(buf, "cuLaunchKernelOfTheFuture\n?", 27) == 0, "a name that does not fit is left out whole");

    for (int i = 0; i < 4; i++)
        check(pthread_create(&t[i], NULL, many, NULL) == 0, "a thread");
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    need = xm_uncovered_names(buf, sizeof buf);
    for (int i = 0; i < need; i++)
        lines += buf[i] == '\n';
    check(lines >= 43 && lines <= 43 + 3 * 40, "names seen by several threads are kept");
    check((uint32_t)lines == xm_uncovered_total, "the total is the number of names");

    for (int i = 0; i < 1000; i++) {
        char name[128];
        snprintf(name, sizeof name, "cuMemcpy%0100d", i);
        xm_uncovered(name);
    }
    check(xm_uncovered_total <= NAMES, "the list has an end");
    return 0;
}
