/* The engine's calls on batches at once, from several threads, over the failing driver of mem_faults.c: some go,
 * some come, some are mapped to their slots, some slots are taken and given up. Under the thread sanitizer, where it
 * runs. */
#define main mem_faults
#include "mem_faults.c"
#undef main

#include <sched.h>

enum { WORKERS = 8 };

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

/* The driver's calls are one after the other, and others run in between. */
#define LOCKED(call)                                  \
    CUresult r;                                       \
                                                      \
    sched_yield();                                    \
    pthread_mutex_lock(&driver_lock);                 \
    r = call;                                         \
    pthread_mutex_unlock(&driver_lock);               \
    sched_yield();                                    \
    return r

static CUresult create(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long flags)
{
    LOCKED(fake_create(h, n, p, flags));
}

static CUresult let(CUmemGenericAllocationHandle h)
{
    LOCKED(fake_release(h));
}

static CUresult reserve_at(CUdeviceptr *at, size_t n, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    LOCKED(fake_reserve(at, n, alignment, hint, flags));
}

static CUresult unreserve_at(CUdeviceptr at, size_t n)
{
    LOCKED(fake_unreserve(at, n));
}

static CUresult map_at(CUdeviceptr at, size_t n, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
    LOCKED(fake_map(at, n, offset, h, flags));
}

static CUresult unmap_at(CUdeviceptr at, size_t n)
{
    LOCKED(fake_unmap(at, n));
}

static CUresult access_at(CUdeviceptr at, size_t n, const CUmemAccessDesc *who, size_t count)
{
    LOCKED(fake_access(at, n, who, count));
}

/* A batch of one thread. */
static struct work {
    pthread_t thread;
    uint64_t ids[XM_MEMORY_BATCH];
    int n, status;
    bool out;
} works[WORKERS];

static void *work(void *arg)
{
    struct work *w = arg;

    w->status = (w->out ? xm_memory.away : xm_memory.load)(0, w->ids, w->n);
    return NULL;
}

static void copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    pthread_mutex_lock(&driver_lock);
    copy_granules(to, from, bytes);
    pthread_mutex_unlock(&driver_lock);
}

static void add(const struct xm_segment *v)
{
    struct work *w = &works[chance(WORKERS)];
    uint64_t slot;

    if (w->out != (v->state == XM_SEGMENT_DEVICE))
        return;
    if (w->out) {
        if (xm_memory.slot(0, v->id, &slot))
            return;
        copy(slot, v->address, v->bytes);
    }
    w->ids[w->n++] = v->id;
}

static void all_at_once(void)
{
    static bool taken[HANDLES];
    int n = xm_memory.list(0, views, HANDLES), idle = 0, status;
    uint64_t slot, kept, ids[XM_MEMORY_BATCH];
    static struct xm_segment again[HANDLES];

    for (int i = 0; i < WORKERS; i++) {
        works[i].n = 0;
        works[i].out = chance(2);
    }
    for (int i = 0; i < n; i++) {
        taken[i] = chance(3) != 0;
        if (taken[i])
            add(&views[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        TRUE(!pthread_create(&works[i].thread, NULL, work, &works[i]));
    for (int i = 0; i < n; i++) {
        if (!taken[i] && views[i].state == XM_SEGMENT_DEVICE && chance(2))
            (void)xm_memory.slot(0, views[i].id, &slot);
        if (!taken[i] && views[i].state == XM_SEGMENT_AWAY)
            ids[idle++] = views[i].id;
        if (chance(10) == 0)
            (void)xm_memory.forgo(0, chance(20) * GRANULE, &kept);
        if (chance(10) == 0)
            TRUE(xm_memory.list(0, again, HANDLES) == n);
    }
    status = xm_memory.home(0, ids, idle);
    TRUE(status >= 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(works[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++) {
        struct work *w = &works[i];

        if (w->out) {
            TRUE(w->status >= 0);
            continue;
        }
        if (w->status)
            continue;
        for (int k = 0; k < w->n; k++) {
            const struct xm_seg *s = xm_seg_find(m, w->ids[k]);

            WANT(s->state, XM_SEGMENT_LOADING);
            WANT(xm_memory.slot(0, w->ids[k], &slot), 0);
            copy(s->at, slot, s->bytes);
        }
        if (chance(8))
            WANT(xm_memory.loaded(0, w->ids, w->n), 0);
        else
            TRUE(xm_memory.away(0, w->ids, w->n) >= 0);
    }
    sums();
}

static void moved_by_many(unsigned from, int rounds)
{
    anew(from);
    seed = from;
    section.daemon_memory.target = (uint64_t)4 << 30;
    for (int i = 0; i < BLOCKS; i++)
        if (!blocks[i].at)
            allocate(&blocks[i]);
    for (; rounds; rounds--) {
        struct block *b = &blocks[chance(BLOCKS)];

        if (b->at)
            stamp(b);
        section.daemon_memory.target = m->resident + (uint64_t)chance(20) * (GRANULE * 16);
        section.daemon_memory.host = chance(2) ? 0 : m->slots_all + chance(20) * GRANULE;
        xm_memory_stopped(0);
        WANT(xm_memory.begin(0), 0);
        for (unsigned turns = chance(4); turns; turns--)
            all_at_once();
        WANT(xm_memory.end(0), 0);
        for (int tries = 0;; tries++) {
            int status = xm_memory_ready(0);

            xm_memory_opened(0);
            if (!status)
                break;
            TRUE(tries < 1000);
        }
        all_is_well();
    }
    nothing_is_left();
}

int main(void)
{
    fake_memory_begin();
    xm_real.cuMemCreate = create;
    xm_real.cuMemRelease = let;
    xm_real.cuMemAddressReserve = reserve_at;
    xm_real.cuMemAddressFree = unreserve_at;
    xm_real.cuMemMap = map_at;
    xm_real.cuMemUnmap = unmap_at;
    xm_real.cuMemSetAccess = access_at;
    for (unsigned i = 1; i <= 4; i++)
        moved_by_many(i, 20);
    for (unsigned i = 1; i <= 12; i++) {
        fail_one_in = 4 + i;
        moved_by_many(i, 20);
    }
    return 0;
}
