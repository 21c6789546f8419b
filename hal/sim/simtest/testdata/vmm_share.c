/* Physical memory that goes to another process by its descriptor. Without arguments it
 * makes some and starts itself again with the descriptor; then it sees what that wrote. */
#include "host.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define N ((size_t)4 << 20)

static unsigned char bytes[N];
static const struct mem_access both_ways = {{1, 0}, 3};

static dptr mapped(uint64_t h)
{
    dptr p;
    CHECK(cuMemAddressReserve(&p, N, 0, 0, 0));
    CHECK(cuMemMap(p, N, 0, h, 0));
    CHECK(cuMemSetAccess(p, N, &both_ways, 1));
    return p;
}

static int importer(int fd)
{
    struct mem_prop props;
    uint64_t h, twice;

    CHECK(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, 1));
    CHECK(cuMemImportFromShareableHandle(&twice, (void *)(intptr_t)fd, 1));
    CHECK(cuMemGetAllocationPropertiesFromHandle(&props, h));
    TRUE(props.handle_types == 1);
    CHECK(cuMemRelease(twice));
    dptr p = mapped(h);
    CHECK(cuMemcpyDtoH_v2(bytes, p, N));
    for (size_t i = 0; i < N; i++)
        TRUE(bytes[i] == 7);
    CHECK(cuMemsetD8_v2(p, 8, N));
    CHECK(cuCtxSynchronize());
    WANT(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)0, 1), 1);
    return 0; /* with all that it has */
}

int main(int argc, char **argv)
{
    struct mem_prop prop = {.type = 1, .location = {argc > 2 ? 3 : 1, 0}, .handle_types = 1};
    size_t before, after, total;
    char text[16];
    uint64_t h;
    int fd, status;

    begin();
    if (argc > 1 && strcmp(argv[1], "make"))
        return importer(atoi(argv[1]));
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuMemCreate(&h, N, &prop, 0));
    dptr p = mapped(h);
    CHECK(cuMemsetD8_v2(p, 7, N));
    CHECK(cuCtxSynchronize());
    WANT(cuMemExportToShareableHandle(&fd, h, 8, 0), 1);
    WANT(cuMemExportToShareableHandle(&fd, h, 1, 1), 1);
    CHECK(cuMemExportToShareableHandle(&fd, h, 1, 0));
    fcntl(fd, F_SETFD, 0);
    snprintf(text, sizeof text, "%d", fd);
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "vmm_share", text, (char *)NULL);
        _exit(9);
    }
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cuMemcpyDtoH_v2(bytes, p, N));
    for (size_t i = 0; i < N; i++)
        TRUE(bytes[i] == 8);
    close(fd);
    CHECK(cuMemUnmap(p, N));
    CHECK(cuMemRelease(h));
    for (int i = 0; i < 1000; i++) { /* the other's end is seen a moment later */
        CHECK(cuMemGetInfo_v2(&after, &total));
        if (after == before)
            break;
        usleep(1000);
    }
    TRUE(after == before);
    prop.handle_types = 0;
    CHECK(cuMemCreate(&h, N, &prop, 0));
    WANT(cuMemExportToShareableHandle(&fd, h, 1, 0), 1); /* it was not asked for */
    CHECK(cuMemRelease(h));
    puts("ok");
    return 0;
}
