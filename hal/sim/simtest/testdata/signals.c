/* Case 20: a program whose profiler interrupts every wait sees nothing of it. */
#include "host.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int sig)
{
    (void)sig;
    ticks = ticks + 1;
}

int main(void)
{
    struct sigaction a = {.sa_handler = tick}; /* no SA_RESTART: every call is cut short */
    struct itimerval every = {{0, 200}, {0, 200}};
    char page[8192];
    dptr p;

    sigemptyset(&a.sa_mask);
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    void *module = begin(), *f = kernel(module, "xm_spin");
    for (int i = 0; i < 100; i++) {
        CHECK(cuMemAlloc_v2(&p, sizeof page));
        CHECK(spin(f, NULL, 0, 1000));
        CHECK(cuMemsetD8_v2(p, (unsigned char)i, sizeof page));
        CHECK(cuMemcpyDtoH_v2(page, p, sizeof page));
        TRUE(page[0] == (char)i && page[sizeof page - 1] == (char)i);
        CHECK(spin(f, NULL, 0, 500));
        CHECK(cuMemFree_v2(p));
    }
    TRUE(ticks > 50);
    puts("ok");
    return 0;
}
