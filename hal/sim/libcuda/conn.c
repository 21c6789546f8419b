/* The control connection: one request and its reply at a time. */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static pthread_mutex_t conn_lock = PTHREAD_MUTEX_INITIALIZER;
static int conn_fd = -1;
static int bell_fd = -1;
static bool conn_broken;

static int open_socket(void)
{
    const char *path = getenv("XMSCHED_SIM_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    if (!path || !*path || strlen(path) >= sizeof to.sun_path)
        return -1;
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int rc;
    do
        rc = connect(fd, (struct sockaddr *)&to, sizeof to);
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The device reaches registered memory through the kernel; where Yama guards
 * that, it has to be let in. Elsewhere the call fails and nothing is lost. */
static void let_device_in(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n))
        (void)prctl(PR_SET_PTRACER, (unsigned long)peer.pid, 0, 0, 0);
}

static int ask_devices(uint32_t n)
{
    struct sim_device all[SIM_DEVICES];
    struct sim_reply r;

    for (uint32_t i = 0; i < n; i++) {
        struct sim_request q = {.op = SIM_DEVICE, .device = i};
        int rc = sim_call(&q, -1, &r, NULL);
        if (rc)
            return rc;
        all[i] = (struct sim_device){.number = i, .memory = r.a};
        memcpy(all[i].uuid, r.uuid, sizeof r.uuid);
        memcpy(all[i].name, r.text, sizeof r.text - 1);
        all[i].name[SIM_NAME - 1] = 0;
    }
    sim_devices_choose(all, n);
    return sim_device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

int sim_connect(void)
{
    struct sim_request q = {.op = SIM_HELLO, .a = SIM_VERSION};
    struct sim_reply r;
    int bell = -1;

    int fd = open_socket();
    if (fd < 0)
        return CUDA_ERROR_NO_DEVICE;
    let_device_in(fd);
    conn_fd = fd;
    int rc = sim_call(&q, -1, &r, &bell);
    if (rc || bell < 0) {
        close(fd);
        if (bell >= 0)
            close(bell);
        conn_fd = -1;
        conn_broken = false;
        return rc == CUDA_SUCCESS || rc == CUDA_ERROR_UNKNOWN ? CUDA_ERROR_NO_DEVICE : rc;
    }
    bell_fd = bell;
    rc = ask_devices(r.a < SIM_DEVICES ? (uint32_t)r.a : SIM_DEVICES);
    if (rc) {
        close(fd);
        close(bell);
        conn_fd = bell_fd = -1;
    }
    return rc;
}

static int send_request(const struct sim_request *q, int send_fd)
{
    struct iovec io = {(void *)q, sizeof *q};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};

    if (send_fd >= 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = sizeof control.room;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &send_fd, sizeof send_fd);
    }
    ssize_t n;
    do
        n = sendmsg(conn_fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *q ? 0 : -1;
}

static int receive_reply(struct sim_reply *r, int *got_fd)
{
    struct iovec io = {r, sizeof *r};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    ssize_t n;

    do
        n = recvmsg(conn_fd, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *h = n < 0 ? NULL : CMSG_FIRSTHDR(&m);
    if (h && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int))) {
        int fd;
        memcpy(&fd, CMSG_DATA(h), sizeof fd);
        if (got_fd)
            *got_fd = fd;
        else
            close(fd);
    }
    return n == (ssize_t)sizeof *r ? 0 : -1;
}

int sim_call(struct sim_request *q, int send_fd, struct sim_reply *r, int *got_fd)
{
    int rc = CUDA_ERROR_UNKNOWN;

    if (got_fd)
        *got_fd = -1;
    pthread_mutex_lock(&conn_lock);
    if (!conn_broken && conn_fd >= 0) {
        if (send_request(q, send_fd) || receive_reply(r, got_fd))
            __atomic_store_n(&conn_broken, true, __ATOMIC_RELAXED);
        else
            rc = r->result;
    }
    pthread_mutex_unlock(&conn_lock);
    return rc;
}

void sim_ring_bell(void)
{
    uint64_t one = 1;
    ssize_t n = write(bell_fd, &one, sizeof one);
    (void)n; /* the counter is never near its end; a dead device is noticed by waiters */
}

bool sim_connection_lost(void) { return __atomic_load_n(&conn_broken, __ATOMIC_RELAXED); }

bool sim_device_gone(void)
{
    struct pollfd p = {.fd = conn_fd, .events = POLLRDHUP};

    if (__atomic_load_n(&conn_broken, __ATOMIC_RELAXED))
        return true;
    if (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLRDHUP | POLLERR))
        __atomic_store_n(&conn_broken, true, __ATOMIC_RELAXED);
    return __atomic_load_n(&conn_broken, __ATOMIC_RELAXED);
}

/* The parent's end must be the only one, or its death would go unnoticed. */
void sim_forget_connection(void)
{
    if (conn_fd >= 0)
        close(conn_fd);
    if (bell_fd >= 0)
        close(bell_fd);
    conn_fd = bell_fd = -1;
    __atomic_store_n(&conn_broken, true, __ATOMIC_RELAXED);
}
