/* Physical memory: its handles, and how it goes to other processes. */
#define _GNU_SOURCE
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 1024u
#define HANDLE_TYPES 15 /* that there are; all but one are for other systems and machines */

static pthread_mutex_t physical_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_physical *physicals[BUCKETS];

/* Precondition: physical_lock is held. */
static struct sim_physical **place(uint64_t id)
{
    struct sim_physical **at = &physicals[id % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

bool sim_physical_find(CUmemGenericAllocationHandle h, struct sim_physical *out)
{
    pthread_mutex_lock(&physical_lock);
    struct sim_physical *p = *place(h);
    if (p)
        *out = *p;
    pthread_mutex_unlock(&physical_lock);
    return p != NULL;
}

static int give_back(uint64_t id)
{
    struct sim_request q = {.op = SIM_PHYS_RELEASE, .a = id};
    struct sim_reply reply;
    return sim_call(&q, -1, &reply, NULL);
}

int sim_physical_add(const struct sim_physical *p)
{
    pthread_mutex_lock(&physical_lock);
    struct sim_physical **at = place(p->id);
    if (!*at && (*at = calloc(1, sizeof **at))) {
        **at = *p;
        (*at)->handles = 0;
        (*at)->next = NULL;
    }
    bool ok = *at != NULL;
    if (ok)
        (*at)->handles++;
    pthread_mutex_unlock(&physical_lock);
    if (!ok)
        give_back(p->id);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* An importer may not see the device that it is on. */
int sim_physical_of(const struct sim_reply *r, struct sim_physical *out)
{
    struct sim_phys k;

    memcpy(&k, r->text, sizeof k);
    *out = (struct sim_physical){.id = r->a, .size = r->b, .location = {k.place, k.id}, .handle_types = k.handle_types};
    if (k.place != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_SUCCESS;
    for (int i = 0; i < sim_device_count; i++)
        if (sim_devices[i].number == (uint32_t)k.id) {
            out->location.id = i;
            return CUDA_SUCCESS;
        }
    give_back(r->a);
    return CUDA_ERROR_INVALID_DEVICE;
}

/* ---- what can be made ---- */

static int check(const CUmemAllocationProp *p)
{
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->requestedHandleTypes & ~HANDLE_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->requestedHandleTypes & ~SIM_POSIX_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    switch (p->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_is(p->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: /* there is one node */
        return p->location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *p, int option)
{
    int rc = sim_ready();
    if (!rc)
        rc = out && option >= 0 && option <= 1 ? check(p) : CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        *out = SIM_GRANULE;
    return rc;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t n, const CUmemAllocationProp *p, unsigned long long flags)
{
    struct sim_reply reply;

    int rc = sim_ready();
    if (!rc)
        rc = out && !flags ? check(p) : CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    if (!n || n % SIM_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    bool device = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct sim_phys k = {.place = p->location.type, .handle_types = (uint32_t)p->requestedHandleTypes};
    struct sim_request q = {.op = SIM_PHYS_CREATE, .a = n, .c = !device};
    if (device) {
        q.device = sim_devices[p->location.id].number;
        k.id = (int32_t)q.device;
    }
    memcpy(q.text, &k, sizeof k);
    rc = sim_call(&q, -1, &reply, NULL);
    if (rc)
        return rc;
    const struct sim_physical made = {
        .id = reply.a, .size = n, .location = {p->location.type, device ? p->location.id : 0}, .handle_types = k.handle_types};
    rc = sim_physical_add(&made);
    if (!rc)
        *out = made.id;
    return rc;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_mutex_lock(&physical_lock);
    struct sim_physical **at = place(h), *gone = *at;
    rc = gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (gone && --gone->handles == 0) {
        *at = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&physical_lock);
    return rc ? rc : give_back(h);
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out, CUmemGenericAllocationHandle h)
{
    struct sim_physical p;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !sim_physical_find(h, &p))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = (int)p.handle_types, .location = p.location};
    return CUDA_SUCCESS;
}

/* ---- more handles ---- */

static int another(struct sim_request *q, int fd, CUmemGenericAllocationHandle *out)
{
    struct sim_reply reply;
    struct sim_physical p;

    int rc = sim_call(q, fd, &reply, NULL);
    if (!rc)
        rc = sim_physical_of(&reply, &p);
    if (!rc)
        rc = sim_physical_add(&p);
    if (!rc)
        *out = p.id;
    return rc;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    struct sim_range r;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !sim_range_find((uintptr_t)address, 1, &r) || r.kind != SIM_RANGE_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_request q = {.op = SIM_PHYS_IMPORT, .a = r.phys};
    return another(&q, -1, out);
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle h, int type, unsigned long long flags)
{
    struct sim_physical p;
    struct sim_reply reply;
    int fd = -1;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || flags || type != SIM_POSIX_FD || !sim_physical_find(h, &p) || !(p.handle_types & SIM_POSIX_FD))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_request q = {.op = SIM_PHYS_EXPORT, .a = p.id};
    rc = sim_call(&q, -1, &reply, &fd);
    if (!rc && fd < 0)
        rc = CUDA_ERROR_OPERATING_SYSTEM;
    if (!rc)
        memcpy(out, &fd, sizeof fd);
    return rc;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared, int type)
{
    struct sim_request q = {.op = SIM_PHYS_IMPORT};
    int fd = (int)(intptr_t)shared;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || type != SIM_POSIX_FD || fd < 0 || lseek(fd, 0, SEEK_CUR) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    return another(&q, fd, out);
}
