/* Who watches page faults: the ioctls of the unified memory driver's file for tools,
 * and of the process's own file. The device writes the queue where it lies, in this
 * process's memory, until the descriptor is closed. */
#define _GNU_SOURCE
#include "rm.h"
#include "sim.h"
#include "uvm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 8

/* A descriptor of ours is a pipe's end. A number that was closed and given anew is no
 * longer the same file. */
static struct file {
    int fd;
    ino_t inode; /* 0: the place is free */
    int far;     /* the other end, until the device has it */
    uint64_t number, events;
} files[FILES];
static ino_t space; /* of the process's own file */
static int space_fd;
static pthread_mutex_t tools_lock = PTHREAD_MUTEX_INITIALIZER;

static ino_t inode_of(int fd)
{
    struct stat s;
    return fd >= 0 && !fstat(fd, &s) ? s.st_ino : 0;
}

/* Precondition of these: tools_lock is held. */
static bool open_here(const struct file *f) { return f->inode && inode_of(f->fd) == f->inode; }

static struct file *file_of(int fd)
{
    for (int i = 0; i < FILES; i++)
        if (files[i].inode && files[i].fd == fd && open_here(&files[i]))
            return &files[i];
    return NULL;
}

static struct file *free_place(void)
{
    for (int i = 0; i < FILES; i++)
        if (!open_here(&files[i])) {
            if (files[i].inode && files[i].far >= 0)
                close(files[i].far);
            return &files[i];
        }
    return NULL;
}

static int open_tools(void)
{
    struct file *f = free_place();
    int ends[2];

    if (!f) {
        errno = EMFILE;
        return -1;
    }
    *f = (struct file){.far = -1};
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    *f = (struct file){.fd = ends[1], .inode = inode_of(ends[1]), .far = ends[0]};
    return f->fd;
}

/* The driver library's own, which the program finds among its descriptors and must not
 * close: made when it is first looked for. */
static int open_space(void)
{
    int ends[2];

    if (space && inode_of(space_fd) == space)
        return space_fd;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    close(ends[0]);
    space_fd = ends[1];
    space = inode_of(space_fd);
    return space_fd;
}

EXPORT int xm_sim_open(const char *path)
{
    bool tools = !strcmp(path, "/dev/nvidia-uvm-tools");
    int fd = -1;

    if (!tools && strcmp(path, "/dev/nvidia-uvm")) {
        errno = ENOENT;
        return -1;
    }
    if (sim_ready() || sim_connection_lost()) {
        errno = ENODEV;
        return -1;
    }
    pthread_mutex_lock(&tools_lock);
    fd = tools ? open_tools() : open_space();
    pthread_mutex_unlock(&tools_lock);
    return fd;
}

bool sim_tools_file(int fd)
{
    pthread_mutex_lock(&tools_lock);
    bool is = file_of(fd) || (space && fd == space_fd);
    pthread_mutex_unlock(&tools_lock);
    return is;
}

static uint32_t begin(struct file *f, const struct UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS *p)
{
    struct sim_request q = {.op = SIM_TOOLS_BEGIN, .a = p->queueBuffer, .b = p->queueBufferSize, .c = p->controlBuffer};
    struct sim_reply r;

    if (!space || p->uvmFd != (uint32_t)space_fd || f->number || !p->allProcessors)
        return NV_ERR_INVALID_ARGUMENT;
    if (sim_call(&q, f->far, &r, NULL))
        return NV_ERR_INVALID_ARGUMENT;
    close(f->far); /* the device has its own: it sees when ours is closed */
    f->far = -1;
    f->number = r.a;
    return NV_OK;
}

static uint32_t events(struct file *f, uint64_t flags, bool on)
{
    struct sim_reply r;

    if (!f->number)
        return NV_ERR_INVALID_ARGUMENT;
    f->events = on ? f->events | flags : f->events & ~flags;
    struct sim_request q = {.op = SIM_TOOLS_EVENTS, .a = f->number, .c = f->events};
    return sim_call(&q, -1, &r, NULL) ? NV_ERR_INVALID_ARGUMENT : NV_OK;
}

static bool answer(struct file *f, unsigned long request, void *arg)
{
    struct UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS *made = arg;
    struct UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS *wanted = arg;
    struct sim_request q = {.op = SIM_TOOLS_FLUSH};
    struct sim_reply r;

    switch (f ? request : request == UVM_TOOLS_FLUSH_EVENTS ? request : 0) {
    case UVM_TOOLS_INIT_EVENT_TRACKER_V2:
        made->rmStatus = begin(f, made);
        return true;
    case UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS:
    case UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS:
        wanted->rmStatus = events(f, wanted->eventTypeFlags, request == UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS);
        return true;
    case UVM_TOOLS_FLUSH_EVENTS: /* of the process's own file */
        if (f)
            return false;
        ((struct UVM_TOOLS_FLUSH_EVENTS_PARAMS *)arg)->rmStatus = sim_call(&q, -1, &r, NULL) ? NV_ERR_INVALID_STATE : NV_OK;
        return true;
    }
    return false;
}

/* Precondition: sim_tools_file. */
int sim_tools_ioctl(int fd, unsigned long request, void *arg)
{
    int error = !arg ? EFAULT : sim_connection_lost() ? ENODEV : 0;

    if (!error) {
        pthread_mutex_lock(&tools_lock);
        if (!answer(file_of(fd), request, arg))
            error = EINVAL;
        pthread_mutex_unlock(&tools_lock);
    }
    if (error)
        errno = error;
    return error ? -1 : 0;
}
