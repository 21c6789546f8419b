/* Pools, and what they are told and tell. */
#include <stddef.h>
#include <string.h>

#include "hooks.h"
#include "mem_count.h"
#include "mem_pool.h"
#include "memory_here.h"
#include "thread.h"

/* Of a device's memory, for this process alone. */
static bool plain(const CUmemPoolProps *p)
{
    return p->allocType == CU_MEM_ALLOCATION_TYPE_PINNED && p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !p->handleTypes && !p->usage;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    CUresult r = XM_DRIVER(cuMemPoolCreate)(pool, props);
    struct xm_thread *me;
    struct xm_mem *m;
    CUcontext context;

    if (r != CUDA_SUCCESS || !plain(props))
        return r;
    (void)xm_memory_here(&context); /* it may be the first to allocate */
    m = xm_memory_on(props->location.id);
    if (!m || !(me = xm_enter()))
        return r;
    xm_pool_made(m, *pool, props->maxSize);
    xm_leave(me);
    return r;
}

/* Something is to be done with the pool, when the driver has taken the call and the pool may be ours. */
#define THEN(result, work)                                                         \
    do {                                                                           \
        struct xm_thread *me_;                                                     \
        if ((result) == CUDA_SUCCESS && atomic_load_explicit(&xm_mem_any, memory_order_relaxed) && (me_ = xm_enter())) { \
            work;                                                                  \
            xm_leave(me_);                                                         \
        }                                                                          \
    } while (0)

static void ended(struct xm_pool *p)
{
    xm_pool_ended(p);
    xm_pool_let_go(p);
}

/* The pool is looked up before: when the driver has destroyed it another thread may make one of the same number. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct xm_pool *p = NULL;
    CUresult r = CUDA_SUCCESS;

    THEN(r, p = xm_pool_known(pool));
    r = XM_DRIVER(cuMemPoolDestroy)(pool);
    if (!p)
        return r;
    if (r == CUDA_SUCCESS)
        THEN(r, ended(p));
    else
        THEN(CUDA_SUCCESS, xm_pool_let_go(p));
    return r;
}

static void trim(CUmemoryPool pool, size_t keep)
{
    struct xm_pool *p = xm_pool_of(pool);

    if (!p)
        return;
    (void)xm_pool_trim(p, keep, false);
    xm_pool_let_go(p);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult r = XM_DRIVER(cuMemPoolTrimTo)(pool, keep);

    THEN(r, trim(pool, keep));
    return r;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    CUresult r = XM_DRIVER(cuDeviceSetMemPool)(dev, pool);

    THEN(r, xm_pool_current_changed());
    return r;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUresult r = XM_DRIVER(cuMemSetMemPool)(location, type, pool);

    THEN(r, xm_pool_current_changed());
    return r;
}

/* ---- what is told of them: the driver keeps what is set, and its figures are of what it allocated itself ---- */

/* xm_mem_lock held. */
static void set(struct xm_pool *p, CUmemPool_attribute what, uint64_t value)
{
    switch (what) {
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        p->opportunistic = (uint32_t)value != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->internal = (uint32_t)value != 0;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        p->threshold = value;
        xm_pool_due_again(p);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        p->reserved_high = p->reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        p->used_high = p->used;
        break;
    default:
        break;
    }
}

static void was_set(CUmemoryPool pool, CUmemPool_attribute what, const void *value)
{
    struct xm_pool *p = xm_pool_of(pool);
    bool flag = what < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    uint64_t v = 0;

    if (!p)
        return;
    memcpy(&v, value, flag ? sizeof(int) : sizeof v);
    pthread_mutex_lock(&xm_mem_lock);
    set(p, what, v);
    pthread_mutex_unlock(&xm_mem_lock);
    xm_pool_let_go(p);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult r = XM_DRIVER(cuMemPoolSetAttribute)(pool, attr, value);

    THEN(r, was_set(pool, attr, value));
    return r;
}

static uint64_t figure(const struct xm_pool *p, CUmemPool_attribute what)
{
    switch (what) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return p->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return p->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return p->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return p->used_high;
    default:
        return 0;
    }
}

static void add(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
    struct xm_pool *p = xm_pool_of(pool);
    uint64_t v;

    if (!p)
        return;
    memcpy(&v, value, sizeof v);
    pthread_mutex_lock(&xm_mem_lock);
    v += figure(p, what);
    pthread_mutex_unlock(&xm_mem_lock);
    memcpy(value, &v, sizeof v);
    xm_pool_let_go(p);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult r = XM_DRIVER(cuMemPoolGetAttribute)(pool, attr, value);

    if (attr > CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attr <= CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        THEN(r, add(pool, attr, value));
    return r;
}

/* ---- peers ---- */

/* What there is becomes reachable and stays where it is; from now on the pool is the driver's. */
static void reached(CUmemoryPool pool, const CUmemAccessDesc *map, size_t n)
{
    struct xm_pool *p = xm_pool_of(pool);
    bool has;

    if (!p)
        return;
    for (size_t i = 0; i < n; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || map[i].location.id == p->m->device || !map[i].flags)
            continue;
        pthread_mutex_lock(&xm_mem_lock);
        p->shut = true;
        pthread_mutex_unlock(&xm_mem_lock);
        (void)xm_pool_trim(p, 0, true);
        pthread_mutex_lock(&xm_mem_lock);
        has = p->reserved != 0;
        pthread_mutex_unlock(&xm_mem_lock);
        if (has)
            xm_count_reached(p->m, map[i].location.id);
    }
    xm_pool_let_go(p);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult r = XM_DRIVER(cuMemPoolSetAccess)(pool, map, count);

    THEN(r, reached(pool, map, count));
    return r;
}
