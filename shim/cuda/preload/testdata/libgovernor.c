/* An agent and a daemon in one, inside the program: it attaches a board of its
 * own, keeps its heart beating, and gives what grants the program asks for. The
 * program finds it as libxagent.so in $XMSCHED_LIB. With $GOVERNOR_ROVES set it
 * opens and closes the gate at random, whatever the program asks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../agent.h"
#include "../gen/board.h"

static const struct xm_host *host;
static struct xm_board *board;
static _Atomic bool attached, hung;

static void *beat(void *unused)
{
    for (;; usleep(100000))
        if (!atomic_load(&hung))
            __atomic_fetch_add(&board->daemon.heartbeat, 1, __ATOMIC_RELAXED);
    return unused;
}

static int attach(void)
{
    struct xm_board *b;
    int fd = memfd_create("board", MFD_CLOEXEC | MFD_ALLOW_SEALING), event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0 || event_fd < 0 || ftruncate(fd, XM_BOARD_SIZE) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return -1;
    b = mmap(NULL, XM_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (b == MAP_FAILED)
        return -1;
    b->daemon = (struct xm_daemon_header){.magic = XM_BOARD_MAGIC,
                                          .version = XM_BOARD_VERSION,
                                          .size = XM_BOARD_SIZE,
                                          .slots = XM_BOARD_SLOTS,
                                          .devices = XM_BOARD_DEVICES};
    board = b;
    if (host->attach(fd, event_fd))
        return -1;
    atomic_store(&attached, true);
    return 0;
}

/* A grant for the first device: level 2, threshold 16, batch 8. */
void governor_grant(bool open, unsigned mode)
{
    struct xm_daemon_line *d = &board->devices[0].daemon;
    uint32_t epoch = (__atomic_load_n(&d->gate, __ATOMIC_RELAXED) >> 1) + 1;

    __atomic_store_n(&d->mode, mode, __ATOMIC_RELAXED);
    __atomic_store_n(&d->threshold, 16, __ATOMIC_RELAXED);
    __atomic_store_n(&d->batch, 8, __ATOMIC_RELAXED);
    __atomic_store_n(&d->level, 2, __ATOMIC_RELAXED);
    __atomic_store_n(&d->gate, epoch << 1 | open, __ATOMIC_RELEASE);
    syscall(SYS_futex, &d->gate, FUTEX_WAKE, 1000, NULL, NULL, 0);
}

/* What is wanted of the first device's channels; returns the want's number. */
uint32_t governor_want(uint32_t hold, uint32_t slice_us)
{
    struct xm_daemon_line *d = &board->devices[0].daemon;

    __atomic_store_n(&d->hold, hold, __ATOMIC_RELAXED);
    __atomic_store_n(&d->slice_us, slice_us, __ATOMIC_RELAXED);
    __atomic_fetch_add(&d->want, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &d->want, FUTEX_WAKE, 1000, NULL, NULL, 0);
    return d->want;
}

static void *rove(void *unused)
{
    for (unsigned seed = 1;; usleep((useconds_t)(rand_r(&seed) % 5000)))
        governor_grant(rand_r(&seed) % 2, XM_MODE_BOUNDED);
    return unused;
}

static bool begin(void *(*body)(void *))
{
    pthread_t thread;

    return pthread_create(&thread, NULL, body, NULL) == 0 && pthread_detach(thread) == 0;
}

int xm_agent_start(const struct xm_host *h)
{
    host = h;
    return attach() == 0 && begin(beat) && (!getenv("GOVERNOR_ROVES") || begin(rove)) ? 0 : -1;
}

bool governor_ready(void)
{
    return atomic_load(&attached);
}

struct xm_client_line *governor_client(void)
{
    return &board->devices[0].client;
}

/* The daemon hangs, or goes on. */
void governor_hang(bool hangs)
{
    atomic_store(&hung, hangs);
}

/* The session ends; the daemon keeps its view of the board. */
void governor_detach(void)
{
    host->detach();
}
