/* linked_records ROUNDS: nanoseconds of the thread's own time a launch without and with
 * recording, one line a round. Launches are made by as many as a ring holds, and their records taken
 * in between, which does not count. The agent is reader.c. */
#define _GNU_SOURCE
#include <time.h>

#include "records.h"

enum { LAUNCHES = 1000, TIMES = 200 };

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double launches(void)
{
    uint64_t a = 1, b = 2, n = 3;
    void *args[] = {&a, &b, &n};
    double ns = 0, start;

    for (int i = 0; i < TIMES; i++) {
        start = now_ns();
        for (int k = 0; k < LAUNCHES; k++)
            if (cuLaunchKernel((CUfunction)&launches, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL) != CUDA_SUCCESS)
                exit(1);
        ns += now_ns() - start;
        forget();
    }
    return ns / TIMES / LAUNCHES;
}

int main(int argc, char **argv)
{
    int rounds = argc == 2 ? atoi(argv[1]) : 0;
    double off, on;

    if (rounds < 1)
        return 2;
    begin();
    while (rounds--) {
        commands->record(0);
        off = launches();
        commands->record(1);
        on = launches();
        printf("%.2f %.2f\n", off, on);
    }
    WANT(commands->dropped(), 0);
    return 0;
}
