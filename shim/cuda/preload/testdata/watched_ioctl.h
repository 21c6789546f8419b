/* What a program's driver asks of the resource manager, for channels_run.c: its
 * own ioctl stands before that of the preload library, looks, and passes on. With
 * XM_VERBOSE set a summary is printed at the end of what was allocated, freed,
 * duplicated and controlled, known or not. */
#ifndef WATCHED_IOCTL_H
#define WATCHED_IOCTL_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gen/rm.h"

struct seen {
    uint32_t number, size, what, more; /* request; class or command; parent's class or status */
    uint32_t times, failed;
    char detail[96];
};

static struct {
    pthread_mutex_t lock;
    struct seen seen[1024];
    unsigned n, lost;
    struct {
        uint32_t client, handle, class;
    } objects[8192];
    unsigned object_count;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t class_of(uint32_t client, uint32_t handle)
{
    for (unsigned i = watched.object_count; i-- > 0;)
        if (watched.objects[i].client == client && watched.objects[i].handle == handle)
            return watched.objects[i].class;
    return UINT32_MAX;
}

static struct seen *see(uint32_t number, uint32_t size, uint32_t what, uint32_t more, bool failed)
{
    struct seen *s;

    for (unsigned i = 0; i < watched.n; i++) {
        s = &watched.seen[i];
        if (s->number == number && s->size == size && s->what == what && s->more == more) {
            s->times++;
            s->failed += failed;
            return s;
        }
    }
    if (watched.n == sizeof watched.seen / sizeof *watched.seen) {
        watched.lost++;
        return NULL;
    }
    s = &watched.seen[watched.n++];
    *s = (struct seen){.number = number, .size = size, .what = what, .more = more, .times = 1, .failed = failed};
    return s;
}

static void see_alloc(int fd, const struct NVOS64_PARAMETERS *p, uint32_t size)
{
    const struct NVOS21_PARAMETERS *old = (const void *)p;
    uint32_t status = size == sizeof *old ? old->status : p->status, length = size == sizeof *old ? old->paramsSize : p->paramsSize;
    bool client = p->hClass == NV01_ROOT || p->hClass == NV01_ROOT_NON_PRIV || p->hClass == NV01_ROOT_CLIENT;
    uint32_t root = client ? p->hObjectNew : p->hRoot;
    struct seen *s = see(NV_ESC_RM_ALLOC, size, p->hClass, client ? 0 : class_of(p->hRoot, p->hObjectParent), status != NV_OK);
    const uint32_t *words = (const uint32_t *)(uintptr_t)p->pAllocParms;

    if (s && s->times == 1) {
        int n = snprintf(s->detail, sizeof s->detail, " fd %d params %u bytes%s status %#x", fd, length,
                         size != sizeof *old && p->flags ? " with flags" : "", status);
        if (p->hClass == KEPLER_CHANNEL_GROUP_A && words && n > 0)
            snprintf(s->detail + n, sizeof s->detail - (size_t)n, " engine %u", words[3]);
        if (p->hClass == GT200_DEBUGGER && words && n > 0)
            snprintf(s->detail + n, sizeof s->detail - (size_t)n, " application %#x of client %#x", words[1], p->hRoot);
    }
    if (status == NV_OK && watched.object_count < sizeof watched.objects / sizeof *watched.objects) {
        watched.objects[watched.object_count].client = root;
        watched.objects[watched.object_count].handle = p->hObjectNew;
        watched.objects[watched.object_count++].class = p->hClass;
    }
}

static void see_request(int fd, unsigned long request, void *arg, int result)
{
    uint32_t number = request & 0xFF, size = (uint32_t)request >> 16 & 0x3FFF;
    const struct nv_ioctl_xfer_t *wrapper = arg;
    const struct NVOS54_PARAMETERS *control = arg;
    const struct NVOS00_PARAMETERS *freed = arg;
    const struct NVOS55_PARAMETERS *dup = arg;

    if (number == NV_ESC_IOCTL_XFER_CMD && size == sizeof *wrapper) {
        see(number, wrapper->size, wrapper->cmd, 0, result < 0);
        number = wrapper->cmd;
        size = wrapper->size;
        arg = (void *)(uintptr_t)wrapper->ptr;
        control = arg, freed = arg, dup = arg;
    }
    if (result < 0)
        see(number, size, 0, 0, true);
    else if (number == NV_ESC_RM_ALLOC && (size == sizeof(struct NVOS64_PARAMETERS) || size == sizeof(struct NVOS21_PARAMETERS)))
        see_alloc(fd, arg, size);
    else if (number == NV_ESC_RM_CONTROL && size == sizeof *control)
        see(number, size, control->cmd, class_of(control->hClient, control->hObject), control->status != NV_OK);
    else if (number == NV_ESC_RM_FREE && size == sizeof *freed)
        see(number, size, class_of(freed->hRoot, freed->hObjectOld), 0, freed->status != NV_OK);
    else if (number == NV_ESC_RM_DUP_OBJECT && size == sizeof *dup)
        see(number, size, class_of(dup->hClientSrc, dup->hObjectSrc), class_of(dup->hClient, dup->hParent), dup->status != NV_OK);
    else
        see(number, size, 0, 0, false);
}

/* Without the dots: see ioctl.c. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, void *arg)
{
    static int (*next)(int, unsigned long, void *);
    static int verbose = -1;
    int result;

    if (!next) {
        verbose = getenv("XM_VERBOSE") != NULL;
        *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
    }
    result = next(fd, request, arg);
    if (verbose && ((uint32_t)request >> 8 & 0xFF) == NV_IOCTL_MAGIC) {
        pthread_mutex_lock(&watched.lock);
        see_request(fd, request, arg, result);
        pthread_mutex_unlock(&watched.lock);
    }
    return result;
}

static const char *name_of(uint32_t number)
{
    switch (number) {
    case NV_ESC_RM_ALLOC: return "alloc";
    case NV_ESC_RM_FREE: return "free";
    case NV_ESC_RM_CONTROL: return "control";
    case NV_ESC_RM_DUP_OBJECT: return "dup";
    case NV_ESC_IOCTL_XFER_CMD: return "wrapped";
    }
    return "other";
}

static void print_watched(void)
{
    pthread_mutex_lock(&watched.lock);
    for (unsigned i = 0; i < watched.n; i++) {
        const struct seen *s = &watched.seen[i];

        printf("rm %s %#x size %u: %#x", name_of(s->number), s->number, s->size, s->what);
        if (s->more)
            printf(s->more == UINT32_MAX ? " of something unseen" : " of %#x", s->more);
        printf(", %u times, %u failed%s\n", s->times, s->failed, s->detail);
    }
    if (watched.lost)
        printf("rm: %u more kinds\n", watched.lost);
    pthread_mutex_unlock(&watched.lock);
}

#endif
