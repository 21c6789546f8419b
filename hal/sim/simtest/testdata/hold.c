/* Takes memory, starts a kernel of several seconds and a large copy behind it,
 * says so, and does nothing more. */
#include "host.h"

#include <unistd.h>

int main(void)
{
    void *module = begin(), *f = kernel(module, "xm_spin"), *host;
    dptr p;
    CHECK(cuMemAlloc_v2(&p, 256u << 20));
    CHECK(cuMemHostAlloc(&host, 8u << 20, 0));
    CHECK(spin(f, NULL, 0, 20000000));
    CHECK(cuMemcpyHtoDAsync_v2(p, host, 8u << 20, NULL));
    puts("running");
    fflush(stdout);
    for (;;)
        pause();
}
