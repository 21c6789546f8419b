/* Channels that are taken off in mid-flight, and put back. Arguments:
 *   (none)     kernels, copies, what is behind them; bytes in the end
 *   stay       holds a kernel of seconds and says so, and does nothing more
 *   time N     N suspensions and resumptions, and what the quickest took, in us
 *   free       holds a kernel and frees its objects */
#include "rm.h"

#include <unistd.h>

#define BYTES (160u << 20) /* 3 ms: longer than it takes to suspend */

static uint64_t timed(uint32_t (*f)(bool, bool), bool off)
{
    uint64_t t = now_us();
    TRUE(!f(off, false));
    return now_us() - t;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void times(void *f, unsigned n)
{
    uint64_t off[1000], on[1000];
    CHECK(spin(f, NULL, 0, 60000000));
    usleep(5000);
    for (unsigned i = 0; i < n; i++) {
        off[i] = timed(hold, true);
        on[i] = timed(hold, false);
    }
    qsort(off, n, sizeof *off, by_value);
    qsort(on, n, sizeof *on, by_value);
    printf("%llu %llu\n", (unsigned long long)off[0], (unsigned long long)on[0]);
}

static void kernel_stands_still(void *f)
{
    void *a, *b, *s;
    float ms;

    CHECK(cuEventCreate(&a, 0));
    CHECK(cuEventCreate(&b, 0));
    CHECK(cuStreamCreate(&s, 1));
    for (int tries = 0;; tries++) { /* on a busy machine it may be over before it is held */
        CHECK(cuEventRecord(a, s));
        CHECK(spin(f, s, 0, 4000));
        CHECK(cuEventRecord(b, s));
        while (cuEventQuery(a))
            usleep(100);
        TRUE(!hold(true, false));
        if (cuEventQuery(b) == 600)
            break;
        TRUE(tries < 50);
        TRUE(!hold(false, false));
    }
    usleep(200000);
    WANT(cuEventQuery(b), 600);
    TRUE(!hold(true, false)); /* twice is as once */
    TRUE(!hold(false, false));
    CHECK(cuEventSynchronize(b));
    CHECK(cuEventElapsedTime(&ms, a, b));
    TRUE(ms > 10); /* 200 ms at a scale of 10 are 20 */
    TRUE(!hold(false, false)); /* nor does that matter */
}

static void copy_stands_still(void)
{
    unsigned char *host;
    void *s;
    dptr p;

    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAlloc_v2(&p, BYTES));
    CHECK(cuMemHostAlloc((void **)&host, BYTES, 0));
    memset(host, 7, BYTES);
    CHECK(cuMemsetD8_v2(p, 0, BYTES));
    CHECK(cuCtxSynchronize());
    TRUE(!hold(true, false)); /* copies go on beside a suspended compute group */
    CHECK(cuMemcpyHtoDAsync_v2(p, host, BYTES, s));
    CHECK(cuStreamSynchronize(s));
    TRUE(!hold(false, false));

    memset(host, 9, BYTES);
    for (int tries = 0;; tries++) { /* on a busy machine it may be over before it is held */
        CHECK(cuMemcpyHtoDAsync_v2(p, host, BYTES, s));
        TRUE(!hold(true, true));
        if (cuStreamQuery(s) == 600)
            break;
        TRUE(tries < 50);
        TRUE(!hold(false, true));
        CHECK(cuStreamSynchronize(s));
    }
    usleep(100000);
    WANT(cuStreamQuery(s), 600);
    TRUE(!hold(false, true));
    CHECK(cuStreamSynchronize(s));
    memset(host, 0, BYTES);
    CHECK(cuMemcpyDtoH_v2(host, p, BYTES));
    for (size_t i = 0; i < BYTES; i++)
        TRUE(host[i] == 9);
}

/* A stream's write behind a kernel comes when the kernel has gone on. */
static void front_end_stands_still(void)
{
    uint32_t *word;
    void *s;

    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemHostAlloc((void **)&word, 64, 0));
    word[0] = word[1] = 0;
    CHECK(cuStreamWaitValue32(s, (uintptr_t)&word[0], 1, 0));
    CHECK(cuStreamWriteValue32(s, (uintptr_t)&word[1], 5, 0));
    TRUE(!hold(true, false));
    __atomic_store_n(&word[0], 1, __ATOMIC_SEQ_CST);
    usleep(50000);
    TRUE(__atomic_load_n(&word[1], __ATOMIC_SEQ_CST) == 0);
    TRUE(!hold(false, false));
    CHECK(cuStreamSynchronize(s));
    TRUE(word[1] == 5);
}

int main(int argc, char **argv)
{
    void *module = begin(), *f = kernel(module, "xm_spin");

    if (argc > 2 && !strcmp(argv[1], "time")) {
        times(f, (unsigned)atoi(argv[2]));
        return 0;
    }
    if (argc > 1) {
        CHECK(spin(f, NULL, 0, 20000000));
        usleep(5000);
        TRUE(!hold(true, false));
        if (!strcmp(argv[1], "free")) {
            struct NVOS00_PARAMETERS p = {.hRoot = client, .hObjectOld = client};
            TRUE(!xm_sim_ioctl(rm_fd, XM_RM_FREE, &p) && !p.status);
            TRUE(hold(false, false) == NV_ERR_INVALID_CLIENT);
        }
        printf("running\n%#x\n", client);
        fflush(stdout);
        for (;;)
            pause();
    }
    kernel_stands_still(f);
    copy_stands_still();
    front_end_stands_still();
    puts("ok");
    return 0;
}
