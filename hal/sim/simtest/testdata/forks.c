/* A child of a process that has used the driver is told so; a child of one that
 * has not may use it itself. */
#include "host.h"

#include <sys/wait.h>
#include <unistd.h>

static void wait_for(pid_t child)
{
    int status;
    TRUE(waitpid(child, &status, 0) == child);
    TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    dptr p;
    pid_t child = fork();
    if (!child) {
        begin();
        CHECK(cuMemAlloc_v2(&p, 4096));
        CHECK(cuMemFree_v2(p));
        _exit(0);
    }
    wait_for(child);
    begin();
    CHECK(cuMemAlloc_v2(&p, 4096));
    child = fork();
    if (!child) {
        WANT(cuInit(0), 3);
        WANT(cuMemFree_v2(p), 3);
        WANT(cuCtxSynchronize(), 3);
        _exit(0);
    }
    wait_for(child);
    CHECK(cuMemFree_v2(p));
    puts("ok");
    return 0;
}
