/* libgovernor.c with memory: an agent, a daemon and an engine in one. The daemon
 * manages memory (unless $KEEPER_LATE: then it answers too late, $KEEPER_PLAIN: it does not manage it),
 * the engine moves it in a context of its own when the program says so. */
#define xm_agent_start governor_start
#include "libgovernor.c"
#undef xm_agent_start

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../abi.h"

enum { VIEWS = 4096, BATCH = 64 };

static const struct xm_memory *memory;
static CUcontext mover;
static CUstream copies;
static struct xm_segment views[VIEWS];

static CUresult (*push)(CUcontext), (*pop)(CUcontext *), (*create)(CUcontext *, unsigned, CUdevice);
static CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream), (*finish)(CUstream), (*stream_create)(CUstream *, unsigned);

static struct xm_device *section(void)
{
    return &board->devices[0];
}

void keeper_bounds(uint64_t target, uint64_t limit, uint32_t flags)
{
    struct xm_daemon_memory *m = &section()->daemon_memory;

    __atomic_store_n(&m->target, target, __ATOMIC_RELAXED);
    __atomic_store_n(&m->limit, limit, __ATOMIC_RELAXED);
    __atomic_store_n(&m->flags, flags, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->want, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &m->want, FUTEX_WAKE, 1000, NULL, NULL, 0);
}

static void *answer_late(void *unused)
{
    usleep(1600000);
    keeper_bounds(UINT64_MAX, 0, XM_MEMORY_MANAGED);
    return unused;
}

int xm_agent_start(const struct xm_host *h)
{
    const char *target = getenv("KEEPER_TARGET"), *limit = getenv("KEEPER_LIMIT");

    if (governor_start(h))
        return -1;
    memory = h->memory;
    if (getenv("KEEPER_LATE"))
        return begin(answer_late) ? 0 : -1;
    keeper_bounds(target ? strtoull(target, NULL, 10) : UINT64_MAX, limit ? strtoull(limit, NULL, 10) : 0,
                  getenv("KEEPER_PLAIN") ? 0 : XM_MEMORY_MANAGED);
    return 0;
}

struct xm_device *keeper_section(void)
{
    return section();
}

const struct xm_memory *keeper_memory(void)
{
    return memory;
}

#define LEND(f, name) (*(void **)&f = memory->driver(name))

/* The engine's context. */
int keeper_begin(void)
{
    LEND(push, "cuCtxPushCurrent_v2");
    LEND(pop, "cuCtxPopCurrent_v2");
    LEND(create, "cuCtxCreate_v2");
    LEND(copy, "cuMemcpyDtoDAsync_v2");
    LEND(finish, "cuStreamSynchronize");
    LEND(stream_create, "cuStreamCreate");
    memory->unheld(0, 1);
    int r = (int)create(&mover, 0, memory->device(0));
    if (!r)
        r = (int)stream_create(&copies, CU_STREAM_NON_BLOCKING);
    memory->unheld(0, 0);
    CUcontext was;
    pop(&was);
    return r;
}

/* Those to be moved in the next batch: one in `of` of them, by chance. */
static int choose(unsigned *seed, unsigned of, uint32_t states, uint64_t *ids, uint64_t *at, int n, int *from)
{
    int chosen = 0;

    for (; *from < n && chosen < BATCH; ++*from) {
        const struct xm_segment *v = &views[*from];

        if (!(states >> v->state & 1) || v->flags & (XM_SEGMENT_PINNED | XM_SEGMENT_BUSY) || (unsigned)rand_r(seed) % of)
            continue;
        ids[chosen] = v->id;
        at[chosen++] = (uint64_t)*from;
    }
    return chosen;
}

static int out_batch(const uint64_t *ids, const uint64_t *at, int n)
{
    uint64_t slot;
    int r = memory->flight(0, 1);

    if (r)
        return r;

    for (int i = 0; i < n && !r; i++) {
        r = memory->slot(0, ids[i], &slot);
        if (!r)
            r = (int)copy(slot, views[at[i]].address, views[at[i]].bytes, copies);
    }
    if (!r)
        r = (int)finish(copies);
    memory->flight(0, 0);
    return r ? r : memory->away(0, ids, n);
}

static int in_batch(const uint64_t *ids, const uint64_t *at, int n)
{
    uint64_t slot;
    int r = memory->load(0, ids, n);

    if (!r)
        r = memory->flight(0, 1);
    if (r)
        return r;
    for (int i = 0; i < n && !r; i++) {
        r = memory->slot(0, ids[i], &slot);
        if (!r)
            r = (int)copy(views[at[i]].address, slot, views[at[i]].bytes, copies);
    }
    if (!r)
        r = (int)finish(copies);
    memory->flight(0, 0);
    return r ? r : memory->loaded(0, ids, n);
}

static int sweep(unsigned *seed, unsigned of, uint32_t states, int (*batch)(const uint64_t *, const uint64_t *, int))
{
    uint64_t ids[BATCH], at[BATCH];
    int n = memory->list(0, views, VIEWS), from = 0, r = n < 0 ? n : 0;

    while (!r && from < n) {
        int chosen = choose(seed, of, states, ids, at, n, &from);

        if (chosen)
            r = batch(ids, at, chosen);
        if (memory->wanted(0))
            break;
    }
    return r;
}

/* Moves: out when `out`, in when `in`; one segment in `of`. Leaves the lock to a dead engine when `dies`. */
int keeper_move(unsigned *seed, unsigned of, bool out, bool in, bool dies)
{
    CUcontext was;
    int r = memory->begin(0);

    if (r)
        return r;
    push(mover);
    if (out)
        r = sweep(seed, of, 1u << XM_SEGMENT_DEVICE, out_batch);
    if (in && !r)
        r = sweep(seed, of, 1u << XM_SEGMENT_AWAY | 1u << XM_SEGMENT_HOST, in_batch);
    pop(&was);
    if (!dies)
        memory->end(0);
    return r;
}

/* One segment is being loaded when this returns. */
int keeper_load_one(void)
{
    int n = memory->list(0, views, VIEWS), r;

    r = memory->begin(0);
    for (int i = 0; i < n && !r; i++)
        if (views[i].state == XM_SEGMENT_AWAY)
            return memory->load(0, &views[i].id, 1);
    return r ? r : -1;
}
