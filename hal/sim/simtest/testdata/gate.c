/* gate keep|close: registers the shared page that is descriptor 3, and counts in
 * its word 16 what its stream has done behind a gate in word 0: 2,000 steps. */
#include "host.h"

#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    void *module = begin(), *s;
    (void)module;
    dptr page;
    void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TRUE(p != MAP_FAILED);
    if (argc > 1 && !strcmp(argv[1], "close"))
        close(3);
    CHECK(cuMemHostRegister_v2(p, 8192, 1 | 2));
    CHECK(cuMemHostGetDevicePointer_v2(&page, p, 0));
    CHECK(cuStreamCreate(&s, 1));
    puts("running");
    fflush(stdout);
    for (uint32_t i = 1; i <= 2000; i++) {
        CHECK(cuStreamWaitValue32(s, page, 1, 2));
        CHECK(cuStreamWriteValue32(s, page + 64, i, 0));
    }
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemHostUnregister(p));
    puts("ok");
    return 0;
}
