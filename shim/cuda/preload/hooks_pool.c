/* Allocation in the order of streams: from pools that are ours where it can move, else the driver's, counted. */
#include <stddef.h>

#include "admission.h"
#include "hooks.h"
#include "mark.h"
#include "mem_count.h"
#include "mem_pool.h"
#include "mem_pool_synced.h"
#include "memory_here.h"
#include "probes.h"
#include "record.h"
#include "state.h"
#include "thread.h"
#include "wait.h"

/* A call of the program's: which stream, in which context. */
struct call {
    CUcontext context;
    CUstream stream;
    unsigned flags;
};

static void let_go(struct xm_order *o)
{
    pthread_mutex_lock(&xm_mem_lock);
    xm_order_let_go(o);
    pthread_mutex_unlock(&xm_mem_lock);
}

/* A capture's own allocations are its graph's, and whatever another capture forbids the driver says. True: *result is
 * the answer; *passes: it is for the driver. */
static bool captured(const struct call *c, bool *passes, CUresult *result)
{
    *passes = false;
    if (!atomic_load(&xm_state.captures))
        return false;
    *passes = xm_capturing(xm_key(c->stream, c->flags));
    *result = *passes ? CUDA_SUCCESS : xm_door_forbidden();
    return *result != CUDA_SUCCESS;
}

/* ---- allocating ---- */

/* The pool, held; NULL: the driver's. */
static struct xm_pool *pool_for(const struct xm_order *o, const CUmemoryPool *named)
{
    struct xm_pool *p = NULL;

    if (named)
        p = xm_pool_of(*named);
    else if (o->m)
        p = xm_pool_current(o->m);
    if (!p || (!p->shut && !xm_mem_plain(p->m)))
        return p;
    xm_pool_let_go(p);
    return NULL;
}

static bool allocate_inside(const struct call *c, CUdeviceptr *dptr, size_t bytes, const CUmemoryPool *named, CUresult *result)
{
    uintptr_t key = xm_key(c->stream, c->flags);
    struct xm_order *o;
    struct xm_pool *p;

    *result = CUDA_SUCCESS;
    if (xm_pool_allocate_kept(key, c->context, named, bytes, dptr))
        return true;
    o = xm_order_hold(key, c->context, result);
    if (!o)
        return false;
    p = pool_for(o, named);
    if (p) {
        *result = xm_pool_allocate(p, o, key, bytes, dptr);
        xm_pool_let_go(p);
    }
    let_go(o);
    return p != NULL;
}

/* False: it is for the driver. */
static bool allocate(const struct call *c, CUdeviceptr *dptr, size_t bytes, const CUmemoryPool *named, CUresult *result)
{
    struct xm_thread *me;
    bool passes, ours;

    if (!dptr || !bytes)
        return false;
    if (captured(c, &passes, result))
        return true;
    if (passes || !(me = xm_enter()))
        return false;
    ours = allocate_inside(c, dptr, bytes, named, result);
    xm_leave(me);
    return ours;
}

/* A command of the driver's is asked for once. */
#define FROM_POOL(stream_, flags_, named, call_)                                   \
    struct call c = {.stream = stream_, .flags = flags_};                          \
    struct xm_mem *m = xm_memory_here(&c.context);                                 \
    CUresult r;                                                                    \
                                                                                   \
    if (!m || !allocate(&c, dptr, bytesize, named, &r)) {                          \
        r = xm_count_before(m, bytesize);                                          \
        if (r != CUDA_SUCCESS)                                                     \
            return r;                                                              \
        xm_admit(stream_, flags_);                                                 \
        r = xm_done(call_);                                                        \
        if (r == CUDA_SUCCESS && m)                                                \
            xm_count_made(m, c.context, XM_COUNT_POOL, *dptr, bytesize);           \
    }                                                                              \
    if (r == CUDA_SUCCESS)                                                         \
        xm_range_came(stream_, flags_, *dptr, bytesize, XM_COMMAND_POOL);          \
    return xm_site_made(r, dptr, bytesize)

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream stream)
{
    FROM_POOL(stream, 0, NULL, XM_DRIVER(cuMemAllocAsync)(dptr, bytesize, stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream stream)
{
    FROM_POOL(stream, XM_PTDS, NULL, XM_DRIVER(cuMemAllocAsync_ptsz)(dptr, bytesize, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream stream)
{
    FROM_POOL(stream, 0, &pool, XM_DRIVER(cuMemAllocFromPoolAsync)(dptr, bytesize, pool, stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream stream)
{
    FROM_POOL(stream, XM_PTDS, &pool, XM_DRIVER(cuMemAllocFromPoolAsync_ptsz)(dptr, bytesize, pool, stream));
}

/* ---- freeing ---- */

/* Where no event can be recorded (a stream of a part of the device) the stream is waited for. */
static CUresult place_behind(struct xm_order *o, const struct call *c, uint64_t *place)
{
    uintptr_t key = xm_key(c->stream, c->flags);
    CUresult r = xm_order_mark(o, key, c->context, place);

    if (r == CUDA_SUCCESS)
        return r;
    *place = 0;
    return xm_real.cuStreamSynchronize ? xm_real.cuStreamSynchronize((CUstream)key) : r;
}

/* `o`: the stream's, held, when it was known. */
static CUresult free_inside(CUdeviceptr dptr, const struct call *c, struct xm_order *o)
{
    CUresult r;
    uint64_t place;

    if (!o && !(o = xm_order_hold(xm_key(c->stream, c->flags), c->context, &r)))
        return r;
    r = place_behind(o, c, &place);
    if (r == CUDA_SUCCESS)
        return xm_pool_free_behind(dptr, o, place);
    let_go(o);
    return r;
}

/* False: it is for the driver. */
static bool free_behind(CUdeviceptr dptr, CUstream stream, unsigned flags, CUresult *result)
{
    struct call c = {.stream = stream, .flags = flags};
    struct xm_order *o;
    struct xm_thread *me;
    bool passes = false;

    if (!atomic_load_explicit(&xm_mem_any, memory_order_relaxed) || !dptr)
        return false;
    (void)xm_memory_here(&c.context);
    if (!(me = xm_enter()))
        return false;
    if (!xm_pool_holds(dptr, xm_key(stream, flags), c.context, &o)) {
        xm_leave(me);
        return false;
    }
    if (captured(&c, &passes, result) || passes) {
        if (o)
            let_go(o);
    } else {
        *result = free_inside(dptr, &c, o);
    }
    xm_leave(me);
    return !passes;
}

#define FREE(stream, flags, call)                                                  \
    CUresult r;                                                                    \
                                                                                   \
    XM_SITE(free, dptr, 0, 0);                                                     \
    xm_range_goes(stream, flags, dptr, 0);                                         \
    if (!free_behind(dptr, stream, flags, &r)) {                                   \
        xm_admit(stream, flags);                                                   \
        r = xm_done(call);                                                         \
        if (r == CUDA_SUCCESS)                                                     \
            xm_count_gone(dptr);                                                   \
    }                                                                              \
    return xm_range_gone(r, dptr, 0)

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    FREE(stream, 0, XM_DRIVER(cuMemFreeAsync)(dptr, stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
    FREE(stream, XM_PTDS, XM_DRIVER(cuMemFreeAsync_ptsz)(dptr, stream));
}

/* ---- what happens elsewhere ---- */

void xm_pools_synced_slow(void)
{
    struct xm_thread *me = xm_enter();

    if (!me)
        return;
    xm_pools_settle();
    xm_leave(me);
}

void xm_pools_stream_gone(CUstream stream)
{
    struct xm_thread *me;

    if (!atomic_load_explicit(&xm_mem_any, memory_order_relaxed) || !(me = xm_enter()))
        return;
    xm_orders_stream_gone((uintptr_t)stream);
    xm_leave(me);
}

static void tell_of_context(CUcontext context, void (*tell)(CUcontext))
{
    struct xm_thread *me;

    if (!context || !atomic_load_explicit(&xm_mem_any, memory_order_relaxed) || !(me = xm_enter()))
        return;
    tell(context);
    xm_leave(me);
}

void xm_pools_context_goes(CUcontext context)
{
    tell_of_context(context, xm_orders_context_goes);
}

void xm_pools_context_answered(CUcontext context)
{
    tell_of_context(context, xm_orders_context_answered);
}
