/* Memory pools, and allocation in the order of streams: the pointer is there when
 * the call returns, the memory from that place in the stream on. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_pool *sim_pools;
/* By device. */
static struct sim_pool *default_pools[SIM_DEVICES]; /* each is made when first asked for, and stays */
static struct sim_pool *current_pools[SIM_DEVICES]; /* NULL: the default one */

/* Memory of cuMemAlloc that was freed behind a place in a stream. */
struct deferred {
    struct deferred *next;
    struct sim_range range;
    struct sim_mark mark;
};
static struct deferred *deferred;

void sim_pools_lock(void) { pthread_mutex_lock(&pool_lock); }
void sim_pools_unlock(void) { pthread_mutex_unlock(&pool_lock); }

bool sim_pool_ok(const struct sim_pool *p) { return sim_is_pool(p) && !p->destroyed; }

static struct sim_pool *pool_new(CUdevice device, uint64_t most)
{
    struct sim_pool *p = sim_pool_new();

    if (!p)
        return NULL;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    p->device = device;
    p->most = most;
    p->next = sim_pools;
    sim_pools = p;
    __atomic_store_n(&p->live, 1, __ATOMIC_RELEASE);
    return p;
}

int sim_pool_default(CUdevice device, struct sim_pool **out)
{
    struct sim_pool **p = &default_pools[device];

    if (!*p && (*p = pool_new(device, 0)))
        (*p)->is_default = true;
    *out = *p;
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int sim_pool_current(CUdevice device, struct sim_pool **out)
{
    *out = current_pools[device];
    return *out ? CUDA_SUCCESS : sim_pool_default(device, out);
}

/* A destroyed pool goes with the last of its memory. */
static void bury(void)
{
    for (struct sim_pool **at = &sim_pools; *at;) {
        struct sim_pool *p = *at;
        if (!p->destroyed || p->chunks) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        sim_object_free(p);
    }
}

static void free_deferred(void)
{
    for (struct deferred **at = &deferred; *at;) {
        struct deferred *d = *at;
        if (!sim_done(&d->mark)) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        sim_range_release(&d->range);
        free(d);
    }
}

void sim_pools_settle(void)
{
    if (!__atomic_load_n(&sim_pools, __ATOMIC_RELAXED) && !__atomic_load_n(&deferred, __ATOMIC_RELAXED))
        return;
    if (pthread_mutex_trylock(&pool_lock))
        return; /* whoever has it may wait for the stream that our caller is to let go */
    for (struct sim_pool *p = sim_pools; p; p = p->next)
        if (p->reserved > p->used)
            sim_pool_trim(p, p->destroyed ? 0 : p->threshold);
    bury();
    free_deferred();
    pthread_mutex_unlock(&pool_lock);
}

/* ---- allocation ---- */

static int allocate(CUdeviceptr *out, size_t n, bool any_pool, struct sim_pool *p, CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    uint64_t at = 0;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!out || (!any_pool && !sim_pool_ok(p)))
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    if (!n)
        return CUDA_SUCCESS;
    if (sim_capturing(s))
        return sim_unsupported("cuMemAllocAsync in a capture");
    rc = sim_capture_unsafe();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool_lock);
    if (any_pool)
        rc = sim_pool_current(c->device, &p);
    if (!rc)
        rc = sim_pool_take(p, s, n, &at);
    pthread_mutex_unlock(&pool_lock);
    if (rc)
        return rc;
    struct sim_range r = {.base = at, .size = n, .kind = SIM_RANGE_POOL, .pool = p};
    if (!sim_range_add(&r)) {
        sim_pool_free(&r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = at;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t n, CUstream h) { return allocate(out, n, true, NULL, h, false); }
EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t n, CUstream h) { return allocate(out, n, true, NULL, h, true); }

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t n, CUmemoryPool p, CUstream h)
{
    return allocate(out, n, false, p, h, false);
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t n, CUmemoryPool p, CUstream h)
{
    return allocate(out, n, false, p, h, true);
}

int sim_pool_free(const struct sim_range *r)
{
    pthread_mutex_lock(&pool_lock);
    sim_pool_give(r->pool, r->base, NULL, NULL);
    pthread_mutex_unlock(&pool_lock);
    return CUDA_SUCCESS;
}

static int free_later(CUdeviceptr p, CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_range r;
    struct sim_mark mark;
    struct sim_entry e = {.command = SIM_NOP};

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!p)
        return CUDA_SUCCESS;
    if (!sim_range_find(p, 1, &r) || r.base != p)
        return CUDA_ERROR_INVALID_VALUE;
    if (r.kind != SIM_RANGE_DEVICE && r.kind != SIM_RANGE_POOL)
        return r.kind == SIM_RANGE_MANAGED ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (sim_capturing(s))
        return CUDA_ERROR_INVALID_VALUE; /* a graph frees what a graph allocated */
    rc = sim_capture_unsafe();
    if (rc)
        return rc;
    struct deferred *d = r.kind == SIM_RANGE_DEVICE ? malloc(sizeof *d) : NULL;
    if (!d && r.kind == SIM_RANGE_DEVICE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = sim_submit(s, &e, &mark);
    if (!rc && !sim_range_take(p, &r))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc) {
        free(d);
        return rc;
    }
    pthread_mutex_lock(&pool_lock);
    if (d) {
        *d = (struct deferred){deferred, r, mark};
        deferred = d;
    } else {
        sim_pool_give(r.pool, p, s, &mark);
    }
    pthread_mutex_unlock(&pool_lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr p, CUstream h) { return free_later(p, h, false); }
EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream h) { return free_later(p, h, true); }

/* ---- pools ---- */

#define HANDLE_TYPES 15 /* that there are */

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !props || (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && props->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) ||
        props->location.type < CU_MEM_LOCATION_TYPE_DEVICE || props->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
        props->handleTypes & ~HANDLE_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return sim_unsupported("cuMemPoolCreate of other memory than the device's");
    if (!sim_device_is(props->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes || props->usage)
        return sim_unsupported("cuMemPoolCreate with handle types or a usage");
    if (props->maxSize > sim_devices[props->location.id].memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = sim_capture_unsafe();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = pool_new(props->location.id, props->maxSize);
    pthread_mutex_unlock(&pool_lock);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = p;
    return CUDA_SUCCESS;
}

/* What was allocated stays until it is freed. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool p)
{
    int rc = sim_ready();
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool_lock);
    rc = sim_pool_ok(p) && !p->is_default ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!rc) {
        p->destroyed = true;
        if (current_pools[p->device] == p)
            current_pools[p->device] = NULL;
        sim_pool_trim(p, 0);
        bury();
    }
    pthread_mutex_unlock(&pool_lock);
    return rc;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep)
{
    int rc = sim_ready();
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool_lock);
    rc = sim_pool_ok(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        sim_pool_trim(p, keep);
    pthread_mutex_unlock(&pool_lock);
    return rc;
}

/* ---- the devices' pools ---- */

static int device_pool(CUmemoryPool *out, CUdevice device, int (*which)(CUdevice, struct sim_pool **))
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_is(device))
        return which == sim_pool_default ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    rc = which(device, out);
    pthread_mutex_unlock(&pool_lock);
    return rc;
}

static int set_pool(CUdevice device, CUmemoryPool p)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    rc = sim_pool_ok(p) && p->device == device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        current_pools[device] = p;
    pthread_mutex_unlock(&pool_lock);
    return rc;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) { return device_pool(out, device, sim_pool_default); }
EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) { return device_pool(out, device, sim_pool_current); }
EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool p) { return set_pool(device, p); }

/* CUDA 13 asks by a place and a kind of memory. */
static int place_of(const CUmemLocation *l, int type, CUdevice *device)
{
    if (!l || (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    if (l->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return sim_unsupported("pools of other memory than the device's");
    *device = l->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *l, int type)
{
    CUdevice device = CU_DEVICE_INVALID;
    int rc = place_of(l, type, &device);
    return rc ? rc : device_pool(out, device, sim_pool_default);
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *l, int type)
{
    CUdevice device = CU_DEVICE_INVALID;
    int rc = place_of(l, type, &device);
    return rc ? rc : device_pool(out, device, sim_pool_current);
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *l, int type, CUmemoryPool p)
{
    CUdevice device = CU_DEVICE_INVALID;
    int rc = place_of(l, type, &device);
    return rc ? rc : set_pool(device, p);
}
