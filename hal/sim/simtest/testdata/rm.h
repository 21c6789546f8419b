/* Learns a process's objects of the resource manager as a preloaded library does:
 * by being the program's ioctl, which the driver calls. */
#ifndef TEST_RM_H
#define TEST_RM_H

#include "host.h"
#include "../../../../shim/cuda/preload/gen/rm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>

int xm_sim_ioctl(int fd, unsigned long request, void *arg);

struct object {
    uint32_t parent, handle, class, engine;
};

static struct object objects[4096];
static unsigned object_count;
static uint32_t client; /* the root */
static int rm_fd = -1;
static unsigned calls; /* ioctls of any kind */

static void learn(const struct NVOS64_PARAMETERS *p)
{
    struct object o = {p->hObjectParent, p->hObjectNew, p->hClass, 0};

    if (p->hClass == NV01_ROOT_CLIENT)
        client = p->hObjectNew;
    if (p->hClass == KEPLER_CHANNEL_GROUP_A)
        o.engine = ((const struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *)(uintptr_t)p->pAllocParms)->engineType;
    objects[object_count++] = o;
}

static void forget(uint32_t handle)
{
    for (unsigned i = 0; i < object_count; i++)
        if (objects[i].handle == handle)
            objects[i--] = objects[--object_count];
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *arg = va_arg(list, void *);
    va_end(list);
    calls++;
    int rc = xm_sim_ioctl(fd, request, arg);
    rm_fd = fd;
    if (request == XM_RM_ALLOC64 && !rc && !((struct NVOS64_PARAMETERS *)arg)->status)
        learn(arg);
    if (request == XM_RM_FREE && !rc && !((struct NVOS00_PARAMETERS *)arg)->status)
        forget(((struct NVOS00_PARAMETERS *)arg)->hObjectOld);
    return rc;
}

static inline unsigned count(uint32_t class)
{
    unsigned n = 0;
    for (unsigned i = 0; i < object_count; i++)
        n += objects[i].class == class;
    return n;
}

/* The first object of a class below a parent (0: any), or of an engine. */
static inline const struct object *find(uint32_t class, uint32_t parent, uint32_t engine)
{
    for (unsigned i = 0; i < object_count; i++)
        if (objects[i].class == class && (!parent || objects[i].parent == parent) && (!engine || objects[i].engine == engine))
            return &objects[i];
    return NULL;
}

static inline uint32_t control(uint32_t of, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
    struct NVOS54_PARAMETERS p = {.hClient = of, .hObject = object, .cmd = cmd, .params = (uintptr_t)params, .paramsSize = size};
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_CONTROL, &p));
    return p.status;
}

static inline uint32_t slice(uint32_t group, uint32_t cmd, uint64_t *us)
{
    struct NVA06C_CTRL_TIMESLICE_PARAMS p = {*us};
    uint32_t status = control(client, group, cmd, &p, sizeof p);
    *us = p.timesliceUs;
    return status;
}

/* Takes the channels of the compute groups, or of all, off or puts them back. */
static inline uint32_t hold(bool off, bool all)
{
    struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS p = {.bDisable = off};

    for (unsigned g = 0; g < object_count; g++) {
        if (objects[g].class != KEPLER_CHANNEL_GROUP_A || (!all && objects[g].engine != NV2080_ENGINE_TYPE_GRAPHICS))
            continue;
        for (unsigned i = 0; i < object_count; i++)
            if (XM_RM_IS_CHANNEL(objects[i].class) && objects[i].parent == objects[g].handle) {
                TRUE(p.numChannels < 64);
                p.hClientList[p.numChannels] = client;
                p.hChannelList[p.numChannels++] = objects[i].handle;
            }
    }
    return control(client, find(NV20_SUBDEVICE_0, 0, 0)->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &p, sizeof p);
}

#endif
