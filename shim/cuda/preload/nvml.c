#define _GNU_SOURCE
#include "nvml.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mem.h"
#include "mem_truth.h"
#include "state.h"
#include "thread.h"

/* nvml.h's structures, with its field names. */
struct nvmlMemory_t {
    unsigned long long total, free, used;
};

struct nvmlMemory_v2_t {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

typedef int info_fn(void *device, struct nvmlMemory_t *memory);
typedef int info_v2_fn(void *device, struct nvmlMemory_v2_t *memory);
typedef int uuid_fn(void *device, char *uuid, unsigned length);

static info_fn *real_info;
static info_v2_fn *real_info_v2;
static uuid_fn *real_uuid;

static void text_of(const uint8_t uuid[16], char text[48])
{
    char *at = text + sprintf(text, "GPU-");

    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

/* NVML numbers devices otherwise than the driver: they are told apart by UUID. */
static struct xm_mem *memory_of(void *device)
{
    uuid_fn *ask = __atomic_load_n(&real_uuid, __ATOMIC_ACQUIRE);
    char is[96], text[48];
    struct xm_mem *found = NULL;

    if (!ask || ask(device, is, sizeof is))
        return NULL;
    for (uint32_t i = 0; i < XM_BOARD_DEVICES && !found; i++) {
        struct xm_mem *m = xm_mem_of(i);

        if (!m)
            continue;
        text_of(xm_state.devs[i].uuid, text); /* never changes once memory is managed there */
        if (strcasecmp(text, is) == 0)
            found = m;
    }
    return found;
}

/* What is to be told instead; false: what NVML said. */
static bool truth(void *device, size_t *free, size_t *total)
{
    struct xm_thread *me;
    struct xm_mem *m = memory_of(device);

    if (m && (me = xm_enter())) {
        xm_truth_info(m, free, total);
        xm_leave(me);
        return true;
    }
    *free = xm_truth_early_limit();
    if (!*free || *free >= *total)
        return false;
    *total = *free;
    return true;
}

static int info(void *device, struct nvmlMemory_t *memory)
{
    info_fn *real = __atomic_load_n(&real_info, __ATOMIC_ACQUIRE);
    int r = real(device, memory);
    size_t free, total;

    if (r || !memory)
        return r;
    total = memory->total;
    if (truth(device, &free, &total))
        *memory = (struct nvmlMemory_t){.total = total, .free = free, .used = total - free};
    return r;
}

static int info_v2(void *device, struct nvmlMemory_v2_t *memory)
{
    info_v2_fn *real = __atomic_load_n(&real_info_v2, __ATOMIC_ACQUIRE);
    int r = real(device, memory);
    size_t free, total;

    if (r || !memory)
        return r;
    total = memory->total;
    if (truth(device, &free, &total)) {
        memory->total = total;
        memory->free = free;
        memory->used = total - free;
        memory->reserved = 0;
    }
    return r;
}

static void learn(void *found)
{
    Dl_info where;
    void *lib, *uuid;

    if (__atomic_load_n(&real_uuid, __ATOMIC_ACQUIRE) || !dladdr(found, &where) || !where.dli_fname)
        return;
    lib = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    uuid = lib ? dlsym(lib, "nvmlDeviceGetUUID") : NULL;
    __atomic_store_n((void **)&real_uuid, uuid, __ATOMIC_RELEASE);
    (void)dlerror();
}

void *xm_nvml_hooked(void *found, const char *name)
{
    if (!found || atomic_load(&xm_aside))
        return found;
    if (strcmp(name, "nvmlDeviceGetMemoryInfo") == 0) {
        learn(found);
        __atomic_store_n((void **)&real_info, found, __ATOMIC_RELEASE);
        return (void *)info;
    }
    if (strcmp(name, "nvmlDeviceGetMemoryInfo_v2") == 0) {
        learn(found);
        __atomic_store_n((void **)&real_info_v2, found, __ATOMIC_RELEASE);
        return (void *)info_v2;
    }
    return found;
}
