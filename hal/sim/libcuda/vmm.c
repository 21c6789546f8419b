/* Memory that is mapped by hand: addresses are reserved, and physical memory is mapped
 * there. Calls do not wait for the device; what uses memory that goes, fails. */
#define _GNU_SOURCE
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool whole(uint64_t n) { return n && n % SIM_GRANULE == 0; }

/* ---- addresses ---- */

struct room {
    uint64_t base, size;
    struct room *next;
};

static pthread_rwlock_t room_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct room *rooms;

bool sim_reserved(uint64_t address, uint64_t n)
{
    bool yes = false;

    pthread_rwlock_rdlock(&room_lock);
    for (const struct room *r = rooms; r && !yes; r = r->next)
        yes = r->base < address + n && address < r->base + r->size;
    pthread_rwlock_unlock(&room_lock);
    return yes;
}

/* Reserves addresses of this process, aligned; at a certain place if there is room. */
static void *addresses(size_t n, size_t alignment, uint64_t hint)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    if (hint && hint % alignment == 0) {
        void *p = mmap((void *)(uintptr_t)hint, n, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (p != MAP_FAILED && (uintptr_t)p == hint)
            return p;
        if (p != MAP_FAILED)
            munmap(p, n);
    }
    if (n + alignment < n)
        return NULL;
    char *p = mmap(NULL, n + alignment, PROT_NONE, flags, -1, 0);
    if ((void *)p == MAP_FAILED)
        return NULL;
    size_t before = (alignment - (uintptr_t)p % alignment) % alignment, behind = alignment - before;
    if (before)
        munmap(p, before);
    if (behind)
        munmap(p + before + n, behind);
    return p + before;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t n, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    struct sim_reply reply;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !n || n % 4096 || flags || (alignment & (alignment - 1)) || (alignment && alignment % 4096))
        return CUDA_ERROR_INVALID_VALUE;
    struct room *r = malloc(sizeof *r);
    void *p = r ? addresses(n, alignment > SIM_GRANULE ? alignment : SIM_GRANULE, hint) : NULL;
    struct sim_request q = {.op = SIM_RESERVE, .a = (uintptr_t)p, .b = n};
    rc = p ? sim_call(&q, -1, &reply, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc) {
        if (p)
            munmap(p, n);
        free(r);
        return rc;
    }
    pthread_rwlock_wrlock(&room_lock);
    *r = (struct room){(uintptr_t)p, n, rooms};
    rooms = r;
    pthread_rwlock_unlock(&room_lock);
    *out = (uintptr_t)p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr p, size_t n)
{
    struct sim_request q = {.op = SIM_UNRESERVE, .a = p};
    struct sim_reply reply;

    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_rwlock_wrlock(&room_lock);
    struct room **at = &rooms;
    while (*at && ((*at)->base != p || (*at)->size != n))
        at = &(*at)->next;
    struct room *r = *at;
    rc = r ? sim_call(&q, -1, &reply, NULL) : CUDA_ERROR_INVALID_VALUE; /* so it does when something is mapped there */
    if (!rc)
        *at = r->next;
    pthread_rwlock_unlock(&room_lock);
    if (rc)
        return rc;
    munmap((void *)(uintptr_t)p, n);
    free(r);
    return CUDA_SUCCESS;
}

/* ---- mapping ---- */

EXPORT CUresult cuMemMap(CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
    struct sim_physical m;
    struct sim_reply reply;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!whole(n) || !p || p % SIM_GRANULE || offset || flags || !sim_physical_find(h, &m) || n > m.size)
        return CUDA_ERROR_INVALID_VALUE;
    /* A part of a handle: the H200 says so of 2 MiB of 64 of the host's (driver 580),
     * and a GB200 is reported to of a device's. The documentation would allow it. */
    if (n < m.size)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_request q = {.op = SIM_MAP, .a = p, .b = n, .c = offset, .d = m.id};
    rc = sim_call(&q, -1, &reply, NULL);
    if (rc)
        return rc;
    struct sim_range r = {.base = p, .size = n, .kind = SIM_RANGE_MAPPED, .phys = m.id, .offset = offset, .handle_types = m.handle_types};
    r.home = m.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? m.location.id : CU_DEVICE_CPU;
    if (sim_range_add(&r))
        return CUDA_SUCCESS;
    q = (struct sim_request){.op = SIM_UNMAP, .a = p, .b = n};
    sim_call(&q, -1, &reply, NULL);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr p, size_t n)
{
    struct sim_request q = {.op = SIM_UNMAP, .a = p, .b = n};
    struct sim_reply reply;
    struct sim_range r;

    int rc = sim_ready();
    if (!rc)
        rc = p && n ? sim_call(&q, -1, &reply, NULL) : CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = p; !rc && at < p + n && sim_range_take(at, &r); at += r.size)
        if (r.host_access)
            mmap((void *)(uintptr_t)r.base, r.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return rc;
}

/* ---- access ---- */

struct change {
    uint64_t whose, read, write; /* devices by ordinal */
    int host;                    /* -1: stays as it is */
    bool refused;
};

static int change_of(struct change *c, const CUmemAccessDesc *d)
{
    if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READ && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    switch (d->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        if (!sim_device_is(d->location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        const uint64_t bit = 1u << d->location.id;
        c->whose |= bit;
        c->read = d->flags ? c->read | bit : c->read & ~bit;
        c->write = d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? c->write | bit : c->write & ~bit;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        if (d->location.id)
            return CUDA_ERROR_INVALID_VALUE;
        /* fall through */
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        c->host = d->flags;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* Memory of a device is for devices alone. */
static void look(struct sim_range *r, void *with)
{
    struct change *c = with;
    c->refused = c->refused || (c->host > 0 && r->home >= 0);
}

/* Lets the host have a piece, or not. */
static bool host_piece(struct sim_range *r, int access)
{
    struct sim_request q = {.op = SIM_PHYS_EXPORT, .a = r->phys};
    struct sim_reply reply;
    int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, prot = PROT_NONE;

    if (access) {
        if (sim_call(&q, -1, &reply, &fd) || fd < 0)
            return false;
        flags = MAP_SHARED;
        prot = access == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    }
    void *at = mmap((void *)(uintptr_t)r->base, r->size, prot, flags | MAP_FIXED, fd, (off_t)r->offset);
    if (fd >= 0)
        close(fd);
    return at != MAP_FAILED;
}

static void apply(struct sim_range *r, void *with)
{
    struct change *c = with;

    r->readable = (uint32_t)((r->readable & ~c->whose) | c->read);
    r->writable = (uint32_t)((r->writable & ~c->whose) | c->write);
    if (c->host < 0 || c->host == r->host_access)
        return;
    if (host_piece(r, c->host))
        r->host_access = c->host;
    else
        c->refused = true;
}

static uint64_t numbers(uint64_t ordinals)
{
    uint64_t n = 0;
    for (int i = 0; i < sim_device_count; i++)
        if (ordinals >> i & 1)
            n |= 1u << sim_devices[i].number;
    return n;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *list, size_t count)
{
    struct change c = {.host = -1};
    struct sim_reply reply;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!p || !n || !list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !rc; i++)
        rc = change_of(&c, &list[i]);
    if (rc)
        return rc;
    if (!sim_range_pieces(p, n, look, &c) || c.refused)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_request q = {.op = SIM_MAP_ACCESS, .a = p, .b = n, .c = numbers(c.read), .d = numbers(c.write)};
    const uint64_t whose = numbers(c.whose);
    memcpy(q.text, &whose, sizeof whose);
    rc = sim_call(&q, -1, &reply, NULL);
    if (!rc && !sim_range_pieces(p, n, apply, &c))
        rc = CUDA_ERROR_INVALID_VALUE; /* another thread has unmapped it */
    return rc ? rc : c.refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *l, CUdeviceptr p)
{
    struct sim_range r;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!flags || !l || !sim_range_find(p, 1, &r) || r.kind != SIM_RANGE_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!sim_device_is(l->id))
            return CUDA_ERROR_INVALID_DEVICE;
        *flags = r.writable >> l->id & 1   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : r.readable >> l->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
        return CUDA_SUCCESS;
    }
    if (l->type < CU_MEM_LOCATION_TYPE_HOST || l->type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = (unsigned)r.host_access;
    return CUDA_SUCCESS;
}
