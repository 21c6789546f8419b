/* Memory over a driver that fails: at every call of a history in turn, and at random calls of random
 * histories. After each step the sums are what is there; whenever the process may run every word is where it is
 * looked for; at the end nothing is left. */
#include <errno.h>

#include "testdata/fake_memory.h"

#include "device.h"
#include "edge.h"
#include "hold.h"
#include "mark.h"
#include "memory_ready.h"
#include "mem_touch.h"
#include "state.h"
#include "sys.h"
#include "thread.h"

#define TRUE(x)                \
    do {                       \
        if (!(x))              \
            DIE("not %s", #x); \
    } while (0)
#define WANT(call, want)                                                  \
    do {                                                                  \
        long long got_ = (long long)(call), want_ = (long long)(want);   \
        if (got_ != want_)                                                \
            DIE("%s = %lld, want %lld", #call, got_, want_);              \
    } while (0)

/* --- what else there is of the library --------------------------------------- */

struct xm_real xm_real;
struct xm_state xm_state;
pthread_mutex_t xm_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic bool xm_aside;
static struct xm_device section;
static struct xm_board board; /* of which only `more` is looked at */
static uint64_t clock_ns = 1;
static bool dead;
static void (*meanwhile)(void); /* runs while somebody waits */
static void (*at_lock)(void);   /* runs before somebody takes a lock */

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (at_lock)
        at_lock();
    return __real_pthread_mutex_lock(lock);
}

uint64_t xm_now(void)
{
    return clock_ns;
}

void xm_wait_word(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    (void)word, (void)seen;
    clock_ns += ns;
    if (meanwhile)
        meanwhile();
}

void xm_wake_word(const _Atomic uint32_t *word)
{
    (void)word;
}

static unsigned rings;

void xm_signal_fd(int fd)
{
    (void)fd;
    rings++;
}

void *xm_keep(size_t bytes)
{
    static char *at, *end;
    char *got;

    bytes = (bytes + 63) / 64 * 64;
    if ((size_t)(end - at) < bytes) {
        at = calloc(1, 1 << 20); /* never given back */
        end = at + (1 << 20);
    }
    got = at;
    at += bytes;
    return got;
}

bool xm_daemon_dead(void)
{
    return dead;
}

bool xm_gate_closed(const struct xm_dev *dev)
{
    uint32_t gate = dev->section->daemon.gate;

    return gate && !(gate & 1);
}

static bool rests = true;

bool xm_dev_rests(struct xm_dev *dev)
{
    (void)dev;
    return rests;
}

struct xm_quiet xm_quiet_begin(void)
{
    return (struct xm_quiet){0};
}

void xm_quiet_end(struct xm_quiet q)
{
    (void)q;
}

struct xm_thread *xm_enter(void)
{
    static struct xm_thread me;

    return &me;
}

void xm_leave(struct xm_thread *me)
{
    (void)me;
}

void xm_context_pop(void)
{
}

struct xm_context *xm_context_known(CUcontext handle)
{
    (void)handle;
    return NULL;
}

void xm_hold_spare(bool on)
{
    (void)on;
}

void *xm_driver_symbol(const char *name)
{
    (void)name;
    return NULL;
}

bool xm_resolve(void)
{
    return true;
}

/* --- the program ---------------------------------------------------------------- */

enum { BLOCKS = 40 };
static struct block {
    CUdeviceptr at;
    uint64_t bytes;
    uint64_t stamp; /* of granule k: stamp + k; only whole granules are written */
} blocks[BLOCKS];
static struct xm_mem *const m = &xm_mems[0];
static CUcontext const contexts[2] = {(CUcontext)(uintptr_t)0x1000, (CUcontext)(uintptr_t)0x2000};
static unsigned seed;
static uint64_t stamps;

static unsigned chance(unsigned n)
{
    return (unsigned)rand_r(&seed) % n;
}

/* Blocks of a granule or more are written; smaller ones share theirs. */
static void stamp(struct block *b)
{
    b->stamp = ++stamps << 20;
    for (uint64_t i = 0; i + GRANULE <= b->bytes; i += GRANULE)
        *word_at(b->at + i) = b->stamp + i / GRANULE;
}

static void look(const struct block *b)
{
    for (uint64_t i = 0; i + GRANULE <= b->bytes; i += GRANULE)
        WANT(*word_at(b->at + i), b->stamp + i / GRANULE);
    (void)*word_at(b->at);
    (void)*word_at(b->at + b->bytes - 1);
}

/* What a slot held at a version: it holds that at the same version ever after. */
static struct note {
    uint64_t id, version, sum;
} noted[HANDLES];

static void same_at_the_same_version(const struct xm_seg *s)
{
    struct note *n = &noted[s->id % HANDLES];
    uint64_t sum = 1;

    if (!s->slot || s->state == XM_SEGMENT_HOST || (s->state == XM_SEGMENT_DEVICE && !s->kept))
        return; /* the program, or the engine, is writing to it */
    for (uint64_t i = 0; i < s->bytes; i += GRANULE)
        sum = sum * 31 + *word_at(s->slot->at + i);
    if (n->id == s->id && n->version == s->version)
        WANT(sum, n->sum);
    *n = (struct note){s->id, s->version, sum};
}

/* Every sum is what is there. */
static void sums(void)
{
    uint64_t on_device = 0, in_host = 0, asked = 0, gone = 0, loading = 0, kept = 0, all, idle;

    for (struct xm_range *r = m->first; r; r = r->next)
        for (struct xm_seg *s = r->segs; s; s = s->next) {
            bool device = s->state == XM_SEGMENT_DEVICE || s->state == XM_SEGMENT_LOADING;

            *(device ? &on_device : &in_host) += s->bytes;
            gone += s->state == XM_SEGMENT_AWAY || s->state == XM_SEGMENT_LOADING;
            loading += s->state == XM_SEGMENT_LOADING ? s->bytes : 0;
            kept += s->kept ? s->bytes : 0;
            TRUE((s->device != 0) == device);
            TRUE(s->slot || s->state == XM_SEGMENT_DEVICE);
            TRUE(!s->kept || (s->slot && s->state == XM_SEGMENT_DEVICE));
            same_at_the_same_version(s);
        }
    for (struct xm_range *r = m->cache; r; r = r->next)
        on_device += r->bytes;
    for (int i = 0; i < BLOCKS; i++)
        asked += blocks[i].at ? blocks[i].bytes : 0;
    WANT(m->resident, on_device);
    WANT(m->host, in_host);
    WANT(m->asked, asked);
    WANT(m->gone, gone);
    TRUE(m->resident <= section.daemon_memory.target || section.daemon_memory.target == 0);
    if (!unmaps_failed)
        WANT(device_bytes(), on_device);
    WANT(xm_memory.pool(0, &all, &idle), 0);
    if (!unmaps_failed)
        WANT(all, host_bytes());
    TRUE(idle <= all && all - idle >= in_host + kept);
    WANT(m->slots_kept, kept);
    WANT(board.more[0].library_memory.kept, kept);
    WANT(board.more[0].library_memory.slots, all);
    WANT(m->promised, 0);
    WANT(section.client.mem_loading, loading);
    WANT(section.client_memory.allocated, on_device + in_host);
    WANT(section.client_memory.resident, m->resident);
    WANT(section.client_memory.host, m->host);
}

static uint64_t some_size(void)
{
    switch (chance(5)) {
    case 0:
        return 1 + chance(5000);
    case 1:
        return 1 + chance(1 << 20);
    case 2:
        return GRANULE;
    case 3:
        return 1 + chance(20u << 20);
    default:
        return 1 + chance(100u << 20);
    }
}

static void allocate(struct block *b)
{
    uint64_t bytes = some_size();
    CUresult r = xm_mem_allocate(m, contexts[chance(2)], bytes, &b->at);

    if (r) {
        b->at = 0;
        return;
    }
    b->bytes = bytes;
    stamp(b);
}

static void release(struct block *b)
{
    struct xm_mem *of;
    CUcontext context;

    TRUE(xm_mem_owner(b->at, &of, &context) && of == m);
    if (xm_mem_wait(context))
        return; /* it is as it was */
    (void)xm_mem_free(m, b->at); /* what an unmapping says, the program hears; the memory is gone all the same */
    TRUE(!xm_mem_owner(b->at, &of, &context));
    b->at = 0;
}

/* --- the engine --------------------------------------------------------------------- */

static struct xm_segment views[HANDLES];

/* Those that did not change since they came in go without being copied. */
static void go_clean(const struct xm_segment *v, int n)
{
    uint64_t ids[XM_MEMORY_BATCH] = {0}, out = m->out;
    int chosen = 0, status;

    for (int i = 0; i < n; i++) {
        const struct xm_seg *s = v[i].flags & XM_SEGMENT_KEPT ? xm_seg_find(m, v[i].id) : NULL;
        bool same = s && chance(2);

        for (uint64_t at = 0; same && at < v[i].bytes; at += GRANULE)
            same = *word_at(v[i].address + at) == *word_at(s->slot->at + at);
        if (same)
            ids[chosen++] = v[i].id;
    }
    if (chosen && !chance(8))
        (void)xm_slot_forgo(m, chance(20) * GRANULE); /* somebody needs slots meanwhile */
    status = xm_memory.spare(0, ids, chosen);
    TRUE(!status || status == -ESTALE || status > 0);
    WANT(m->out, out);
}

static void go_out(const struct xm_segment *v, int n)
{
    uint64_t ids[XM_MEMORY_BATCH] = {0}, slot;
    int chosen = 0;

    for (int i = 0; i < n; i++) {
        if (v[i].state != XM_SEGMENT_DEVICE || chance(2))
            continue;
        if (xm_memory.slot(0, v[i].id, &slot))
            return;
        copy_granules(slot, v[i].address, v[i].bytes);
        ids[chosen++] = v[i].id;
    }
    if (chance(8)) /* or it thinks better of it */
        (void)xm_memory.away(0, ids, chosen);
}

static void come_in(const struct xm_segment *v, int n)
{
    uint64_t ids[XM_MEMORY_BATCH] = {0}, slot;
    int chosen = 0;

    for (int i = 0; i < n; i++)
        if ((v[i].state == XM_SEGMENT_AWAY || v[i].state == XM_SEGMENT_HOST) && chance(2))
            ids[chosen++] = v[i].id;
    if (xm_memory.load(0, ids, chosen))
        return;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < chosen; k++)
            if (v[i].id == ids[k]) {
                WANT(xm_memory.slot(0, ids[k], &slot), 0);
                copy_granules(v[i].address, slot, v[i].bytes);
            }
    if (!chance(4)) /* or it was in vain */
        (void)xm_memory.away(0, ids, chosen);
    else if (chance(8)) /* or it dies here */
        WANT(xm_memory.loaded(0, ids, chosen), 0);
}

/* What went is mapped to its slots ahead of the process's run. */
static void go_home(const struct xm_segment *v, int n)
{
    uint64_t ids[XM_MEMORY_BATCH] = {0};
    int chosen = 0, status;

    for (int i = 0; i < n; i++)
        if (v[i].state == XM_SEGMENT_AWAY && chance(3))
            ids[chosen++] = v[i].id;
    status = xm_memory.home(0, ids, chosen);
    TRUE(status >= 0);
    for (int i = 0; i < chosen && !status; i++)
        WANT(xm_seg_find(m, ids[i])->state, XM_SEGMENT_HOST);
}

static void move(void)
{
    int tries = 0, n;

    xm_memory_stopped(0);
    WANT(xm_memory.begin(0), 0);
    for (unsigned rounds = chance(4); rounds; rounds--) {
        n = xm_memory.list(0, views, HANDLES);
        TRUE(n >= 0 && n < XM_MEMORY_BATCH);
        switch (chance(4)) {
        case 0:
            go_clean(views, n);
            break;
        case 1:
            go_out(views, n);
            break;
        case 2:
            go_home(views, n);
            break;
        default:
            come_in(views, n);
        }
        sums();
    }
    if (chance(10))
        WANT(xm_memory.end(0), 0); /* or its lock is taken away */
    for (;;) {
        int status = xm_memory_ready(0);

        WANT(xm_memory.begin(0), -EAGAIN);
        xm_memory_opened(0);
        if (!status)
            break;
        TRUE(++tries < 1000);
    }
    WANT(xm_memory.begin(0), -EAGAIN);
    WANT(m->gone, 0);
    sums();
}

static void step(void)
{
    struct block *b = &blocks[chance(BLOCKS)];

    switch (chance(8)) {
    case 0:
    case 1:
    case 2:
        if (!b->at)
            allocate(b);
        break;
    case 3:
    case 4:
        if (b->at)
            release(b);
        break;
    case 5:
        if (b->at)
            stamp(b);
        break;
    case 6:
        section.daemon_memory.target = m->resident + (uint64_t)chance(20) * (GRANULE * 16);
        section.daemon_memory.host = chance(2) ? 0 : m->slots_all + chance(20) * GRANULE;
        break;
    default:
        move();
    }
}

static void all_is_well(void)
{
    sums();
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at)
            look(&blocks[i]);
}

/* Nothing is left, but what could not be unmapped. */
static void nothing_is_left(void)
{
    fail_at = -1;
    fail_one_in = 0;
    for (int i = 0; i < BLOCKS / 2; i++)
        if (blocks[i].at)
            release(&blocks[i]);
    for (int i = 0; i < 2; i++) /* the rest goes with its context */
        xm_mem_context_ended(contexts[i]);
    memset(blocks, 0, sizeof blocks);
    sums();
    (void)xm_cache_flush(m);
    WANT(xm_memory.trim(0, 0), 0);
    WANT(m->resident, 0);
    WANT(m->host, 0);
    WANT(m->slots_free, 0);
    WANT(m->slots_all, 0);
    WANT(m->loading, 0);
    WANT(m->first != NULL || m->arenas != NULL, 0);
    WANT(tokens, 0);
    for (int i = 0; !unmaps_failed && i < HANDLES; i++)
        TRUE(!handles[i].bytes && !mappings[i].bytes && !rooms[i].bytes);
    for (int i = 0; i < HANDLES; i++) /* what an unmapping that failed has left */
        free(handles[i].words);
    memset(handles, 0, sizeof handles);
    memset(mappings, 0, sizeof mappings);
    memset(rooms, 0, sizeof rooms);
    unmaps_failed = 0;
}

static void anew(unsigned with)
{
    seed = with;
    fail_seed = with + 1000;
    calls = 0;
    dead = false;
    section = (struct xm_device){.daemon_memory = {.want = 1, .flags = XM_MEMORY_MANAGED, .target = (uint64_t)4 << 30}};
    xm_state.devs[0].section = &section;
    xm_state.board = &board;
    m->verdict = XM_MEM_ON;
    m->card = card;
    m->opening = 0;
    m->stopped = false;
    xm_mem_any = true;
}

static void history(unsigned with, int steps)
{
    anew(with);
    for (int i = 0; i < steps; i++) {
        step();
        all_is_well();
    }
    nothing_is_left();
}

/* --- single cases ----------------------------------------------------------------------- */

/* A failed load leaves AWAY as it was, at whichever call. */
static void load_fails_at_every_call(void)
{
    uint64_t ids[8], slot;
    CUdeviceptr at;
    int n;

    for (long k = 0; k < 40; k++) {
        anew(1);
        WANT(xm_mem_allocate(m, contexts[0], 200u << 20, &at), 0);
        blocks[0] = (struct block){at, 200u << 20, 0};
        stamp(&blocks[0]);
        xm_memory_stopped(0);
        WANT(xm_memory.begin(0), 0);
        n = xm_memory.list(0, views, HANDLES);
        WANT(n, 7);
        for (int i = 0; i < n; i++) {
            ids[i] = views[i].id;
            WANT(xm_memory.slot(0, ids[i], &slot), 0);
            copy_granules(slot, views[i].address, views[i].bytes);
        }
        WANT(xm_memory.away(0, ids, n), 0);
        fail_at = calls + k;
        if (xm_memory.load(0, ids, n)) {
            fail_at = -1;
            for (int i = 0; i < n && !unmaps_failed; i++)
                WANT(xm_seg_find(m, ids[i])->state, XM_SEGMENT_AWAY);
        } else {
            fail_at = -1;
            TRUE(k >= 15); /* seven made, seven mapped, access set */
        }
        sums();
        WANT(xm_memory.end(0), 0);
        WANT(xm_memory_ready(0), 0);
        xm_memory_opened(0);
        all_is_well();
        nothing_is_left();
    }
}

/* Whoever wants the process to run gets the lock from an engine that is dead, after a second. */
static void dead_engine(void)
{
    uint64_t from;

    anew(1);
    xm_memory_stopped(0);
    WANT(xm_memory.begin(0), 0);
    WANT(xm_memory.wanted(0), 0);
    from = clock_ns;
    WANT(xm_memory_ready(0), 0);
    TRUE(clock_ns - from >= 1000000000u && clock_ns - from < 1100000000u);
    WANT(xm_memory.wanted(0), 1);
    WANT(xm_memory.end(0), -EPERM);
    WANT(xm_memory.begin(0), -EAGAIN); /* it is being let run */
    xm_memory_opened(0);
    WANT(xm_memory.begin(0), -EAGAIN);
    xm_memory_stopped(0);
    dead = true;
    WANT(xm_memory.begin(0), -EAGAIN);
    dead = false;
    WANT(xm_memory.begin(0), 0);
    WANT(xm_memory.begin(0), -ECANCELED);
    WANT(xm_memory.end(0), 0);
    WANT(xm_memory.begin(3), -ENODEV);
    nothing_is_left();
}

static uint64_t lands_at;

static void lands(void)
{
    if (clock_ns < lands_at)
        return;
    meanwhile = NULL;
    WANT(xm_memory.flight(0, 0), 0);
}

/* The process allocates so much and is stopped, and the engine has the move: the pieces are in views. */
static void moves_block(uint64_t bytes, int pieces)
{
    WANT(xm_mem_allocate(m, contexts[0], bytes, &blocks[0].at), 0);
    blocks[0].bytes = bytes;
    stamp(&blocks[0]);
    xm_memory_stopped(0);
    WANT(xm_memory.begin(0), 0);
    WANT(xm_memory.list(0, views, HANDLES), pieces);
}

/* What an engine has in flight is waited for, however long; and after that the engine as ever. */
static void flights_land(void)
{
    uint64_t ids[1], slot;

    anew(1);
    WANT(xm_memory.flight(0, 1), -EPERM);
    WANT(xm_memory.flight(3, 1), -ENODEV);
    moves_block(32u << 20, 1);
    ids[0] = views[0].id;
    WANT(xm_memory.slot(0, ids[0], &slot), 0);
    WANT(xm_memory.flight(0, 1), 0);
    WANT(xm_memory.end(0), -EBUSY);
    lands_at = clock_ns + 5000000000u;
    meanwhile = lands;
    WANT(xm_memory_ready(0), 0);
    TRUE(clock_ns >= lands_at + 500000000u && clock_ns < lands_at + 600000000u);
    TRUE(!meanwhile);
    WANT(xm_memory.flight(0, 1), -EPERM);
    WANT(xm_memory.end(0), -EPERM);
    xm_memory_opened(0);
    xm_memory_stopped(0);
    WANT(xm_memory.begin(0), 0);
    WANT(xm_memory.flight(0, 1), 0);
    WANT(xm_memory.flight(0, 0), 0);
    WANT(xm_memory.end(0), 0);
    WANT(xm_memory_ready(0), 0);
    xm_memory_opened(0);
    all_is_well();
    nothing_is_left();
}

/* A drained process is stopped by its closed gate with nothing outstanding, whoever waits there. */
static void drained(void)
{
    struct xm_dev *dev = &xm_state.devs[0];

    anew(1);
    section.daemon_memory.flags |= XM_MEMORY_DRAINED;
    section.daemon.gate = section.client.acked = 3;
    dev->ready = true;
    dev->pending = dev->waiting = 2;
    WANT(xm_memory.begin(0), -EAGAIN);
    section.daemon.gate = 4;
    WANT(xm_memory.begin(0), -EAGAIN);
    section.client.acked = 4;
    rests = false;
    WANT(xm_memory.begin(0), -EAGAIN);
    rests = true;
    WANT(xm_memory.begin(0), 0);
    WANT(xm_memory.end(0), 0);
    section.daemon_memory.flags &= ~XM_MEMORY_DRAINED;
    WANT(xm_memory.begin(0), -EAGAIN);
    *dev = (struct xm_dev){.section = &section};
    nothing_is_left();
}

static void ask_answered(void)
{
    section.daemon_memory.target = (uint64_t)1 << 30;
    section.daemon_memory.want++;
}

/* Room that the daemon gives within 20 ms is taken; else it is the host's, and the daemon is asked but once. */
static void room_is_asked_for(void)
{
    CUdeviceptr a, b;
    uint64_t from;

    anew(1);
    section.daemon_memory.target = 64u << 20;
    from = clock_ns;
    WANT(xm_mem_allocate(m, contexts[0], 192u << 20, &a), 0);
    WANT(clock_ns - from, 20000000);
    WANT(m->resident, 64u << 20);
    WANT(m->host, 128u << 20);
    WANT(section.client_memory.asked, 0);
    meanwhile = ask_answered;
    WANT(xm_mem_allocate(m, contexts[0], 128u << 20, &b), 0);
    meanwhile = NULL;
    WANT(m->resident, 192u << 20);
    section.daemon_memory.limit = 320u << 20;
    WANT(xm_mem_allocate(m, contexts[0], 1, &b), CUDA_ERROR_OUT_OF_MEMORY);
    nothing_is_left();
}

/* What was loaded in vain is given back as it was, and none of it has moved. */
static void loading_is_given_back(void)
{
    enum { n = 4 };
    uint64_t ids[n], slot, out;

    anew(1);
    moves_block(100u << 20, n);
    for (int i = 0; i < n; i++) {
        ids[i] = views[i].id;
        WANT(xm_memory.slot(0, ids[i], &slot), 0);
        copy_granules(slot, views[i].address, views[i].bytes);
    }
    WANT(xm_memory.away(0, ids, n), 0);
    out = section.client_memory.out;
    WANT(xm_memory.load(0, ids, 3), 0);
    WANT(section.client.mem_loading, 96u << 20);
    sums();
    WANT(xm_memory.away(0, ids, n), -EINVAL); /* the fourth is AWAY */
    WANT(xm_memory.away(0, ids, 2), 0);
    WANT(xm_seg_find(m, ids[0])->state, XM_SEGMENT_AWAY);
    WANT(xm_seg_find(m, ids[2])->state, XM_SEGMENT_LOADING);
    WANT(section.client.mem_loading, 32u << 20);
    WANT(section.client_memory.out, out);
    sums();
    WANT(xm_memory.load(0, ids, 2), 0);
    copy_granules(views[0].address, xm_seg_find(m, ids[0])->slot->at, views[0].bytes);
    WANT(xm_memory.loaded(0, ids, 1), 0);
    WANT(xm_memory.end(0), 0);
    WANT(xm_memory_ready(0), 0);
    xm_memory_opened(0);
    all_is_well();
    nothing_is_left();
}

/* What will not come in is mapped to its slots ahead: then there is nothing to do for that when the process is to
 * run. What has not gone cannot be. */
static void some_go_home_ahead(void)
{
    enum { n = 4 };
    uint64_t ids[n], slot;

    anew(1);
    moves_block(100u << 20, n);
    for (int i = 0; i < n; i++) {
        ids[i] = views[i].id;
        WANT(xm_memory.slot(0, ids[i], &slot), 0);
        copy_granules(slot, views[i].address, views[i].bytes);
    }
    WANT(xm_memory.away(0, ids, 3), 0);
    WANT(xm_memory.home(0, ids, n), -EINVAL); /* the fourth has not gone */
    WANT(m->gone, 3);
    WANT(xm_memory.home(0, ids + 1, 2), 0); /* two neighbours */
    WANT(m->gone, 1);
    WANT(xm_seg_find(m, ids[0])->state, XM_SEGMENT_AWAY);
    WANT(xm_seg_find(m, ids[1])->state, XM_SEGMENT_HOST);
    WANT(xm_memory.home(0, ids + 1, 1), -EINVAL); /* it is there */
    WANT(xm_memory.load(0, ids + 1, 1), 0);       /* and may come in all the same */
    copy_granules(views[1].address, xm_seg_find(m, ids[1])->slot->at, views[1].bytes);
    WANT(xm_memory.loaded(0, ids + 1, 1), 0);
    WANT(xm_memory.home(0, ids, 1), 0);
    WANT(m->gone, 0);
    sums();
    WANT(xm_memory.end(0), 0);
    WANT(xm_memory.home(0, ids, 1), -EPERM);
    WANT(xm_memory_ready(0), 0);
    xm_memory_opened(0);
    all_is_well();
    nothing_is_left();
}

/* No more host memory than the daemon allows; free slots of another size make place. */
static void host_memory_is_bounded(void)
{
    uint64_t slot, all, idle;

    anew(1);
    section.daemon_memory.host = 72u << 20;
    WANT(xm_memory.slots(0, 2, 32u << 20), 0);
    WANT(xm_memory.slots(0, 3, 32u << 20), -ENOMEM);
    WANT(xm_memory.pool(0, &all, &idle), 0);
    WANT(all, 64u << 20);
    WANT(idle, 64u << 20);
    WANT(xm_mem_allocate(m, contexts[0], 16u << 20, &blocks[0].at), 0);
    WANT(xm_mem_allocate(m, contexts[0], 64u << 20, &blocks[1].at), 0);
    blocks[0].bytes = 16u << 20;
    blocks[1].bytes = 64u << 20;
    for (int i = 0; i < 2; i++)
        stamp(&blocks[i]);
    xm_memory_stopped(0);
    WANT(xm_memory.begin(0), 0);
    WANT(xm_memory.list(0, views, HANDLES), 3);
    WANT(xm_memory.slot(0, views[0].id, &slot), 0); /* 16 for one of the two of 32 */
    WANT(xm_memory.slot(0, views[1].id, &slot), 0);
    WANT(xm_memory.slot(0, views[2].id, &slot), -ENOMEM);
    WANT(xm_memory.pool(0, &all, &idle), 0);
    WANT(all, 48u << 20);
    WANT(idle, 0);
    WANT(xm_memory.pool(3, &all, &idle), -ENODEV);
    WANT(xm_memory.end(0), 0);
    WANT(xm_memory.pool(0, &all, &idle), 0);
    WANT(idle, 48u << 20);                    /* nothing went there */
    section.daemon_memory.target = 80u << 20; /* all of it is taken */
    section.daemon_memory.host = 32u << 20;
    WANT(xm_mem_allocate(m, contexts[0], 40u << 20, &blocks[2].at), CUDA_ERROR_OUT_OF_MEMORY);
    blocks[2].at = 0;
    WANT(xm_memory_ready(0), 0);
    xm_memory_opened(0);
    all_is_well();
    nothing_is_left();
}

/* A clean copy is kept until its slot is needed, and what went by it is there again. */
static void clean_copies_give_way(void)
{
    uint64_t ids[2], slot, kept, all, idle, version, out = m->out;
    unsigned before;

    anew(1);
    moves_block(64u << 20, 2);
    for (int i = 0; i < 2; i++) {
        ids[i] = views[i].id;
        WANT(xm_memory.slot(0, ids[i], &slot), 0);
        copy_granules(slot, views[i].address, views[i].bytes);
    }
    WANT(xm_memory.spare(0, ids, 2), -ESTALE); /* they came from nowhere */
    WANT(xm_memory.away(0, ids, 2), 0);
    WANT(xm_memory.load(0, ids, 2), 0);
    for (int i = 0; i < 2; i++)
        copy_granules(views[i].address, xm_seg_find(m, ids[i])->slot->at, views[i].bytes);
    WANT(xm_memory.loaded(0, ids, 2), 0);
    WANT(xm_memory.pool(0, &all, &idle), 0);
    WANT(all, 64u << 20);
    WANT(idle, 0);
    version = xm_seg_find(m, ids[0])->version;
    WANT(xm_memory.away(0, ids, 1), -EINVAL); /* nothing was copied */
    WANT(xm_memory.spare(0, ids, 2), 0);
    WANT(xm_seg_find(m, ids[0])->version, version);
    WANT(m->out, out + (64u << 20)); /* of the first time */
    sums();
    WANT(xm_memory.load(0, ids, 2), 0);
    for (int i = 0; i < 2; i++)
        copy_granules(views[i].address, xm_seg_find(m, ids[i])->slot->at, views[i].bytes);
    WANT(xm_memory.loaded(0, ids, 2), 0);
    WANT(xm_memory.end(0), 0);
    WANT(xm_memory_ready(0), 0);
    xm_memory_opened(0);
    all_is_well();
    section.daemon_memory.host = 64u << 20; /* no more than there are */
    section.daemon_memory.target = 64u << 20;
    WANT(xm_mem_allocate(m, contexts[0], 32u << 20, &blocks[1].at), 0);
    blocks[1].bytes = 32u << 20;
    stamp(&blocks[1]);
    WANT(m->slots_kept, 32u << 20);
    WANT(m->slots_all, 64u << 20);
    all_is_well();
    WANT(xm_memory.forgo(0, 32u << 20, &kept), 0);
    WANT(kept, 32u << 20);
    WANT(xm_memory.forgo(0, 1, &kept), 0);
    WANT(kept, 0);
    WANT(m->slots_free, 32u << 20);
    WANT(xm_memory.forgo(3, 0, &kept), -ENODEV);
    before = rings;
    release(&blocks[0]);
    TRUE(rings != before); /* others may wait for what is free now */
    nothing_is_left();
}

static const uint64_t low = 80u << 20;
static uint64_t acknowledged; /* the target that the daemon knows to hold; 0: none */
static long locks_until;

/* The daemon lowers the target as somebody is about to take a lock, and the engine looks at once. */
static void lowered(void)
{
    if (locks_until-- != 0)
        return;
    section.daemon_memory.target = low;
    section.daemon_memory.want++;
    if (section.client_memory.resident <= low)
        acknowledged = low;
}

static void within_acknowledged(uint64_t bytes)
{
    if (acknowledged && bytes > acknowledged)
        DIE("%llu bytes, beyond a target that was acknowledged", (unsigned long long)bytes);
}

/* Nothing is made that a target allowed which was lowered meanwhile, once that has been acknowledged. */
static void lowered_while_allocating(void)
{
    int at_once = 0, later = 0;

    for (long k = 0; k < 40; k++) {
        anew(1);
        acknowledged = 0;
        for (int i = 0; i < 2; i++)
            WANT(xm_mem_allocate(m, contexts[0], 40u << 20, &blocks[i].at), 0);
        making = within_acknowledged;
        locks_until = k;
        at_lock = lowered;
        WANT(xm_mem_allocate(m, contexts[0], 40u << 20, &blocks[2].at), 0);
        at_lock = NULL;
        making = NULL;
        *(acknowledged ? &at_once : &later) += locks_until < 0;
        for (int i = 0; i < 3; i++)
            blocks[i].bytes = 40u << 20;
        if (acknowledged)
            sums();
        section.daemon_memory.target = 0; /* what there is may stay */
        nothing_is_left();
    }
    TRUE(at_once > 2 && later > 2);
}

static CUresult fake_export(void *fd, CUmemGenericAllocationHandle h, CUmemAllocationHandleType type, unsigned long long flags)
{
    (void)type, (void)flags;
    *(int *)fd = (int)h;
    return CUDA_SUCCESS;
}

/* What the program's own address still reaches, as an unmapping failed, is given to nobody. */
static void what_stays_mapped_is_not_given(void)
{
    uint64_t bytes;
    CUdeviceptr at;
    int fd;

    anew(1);
    xm_real.cuMemExportToShareableHandle = fake_export;
    section.daemon_memory.target = 0;
    WANT(xm_mem_allocate(m, contexts[0], 64u << 20, &blocks[0].at), 0);
    blocks[0].bytes = 64u << 20;
    stamp(&blocks[0]);
    at = blocks[0].at;
    for (int i = 0; i < 2; i++)
        TRUE(!handles[mapping_at(at)->handle].device);
    fail_at = calls + 1; /* the unmapping, after the waiting */
    release(&blocks[0]);
    fail_at = -1;
    TRUE(unmaps_failed == 1);
    for (;;) {
        WANT(xm_memory.give(0, &fd, &bytes), 0);
        if (!bytes)
            break;
        for (int i = 0; i < MAPPINGS; i++)
            if (mappings[i].bytes && mappings[i].handle == fd && mappings[i].at >= at && mappings[i].at < at + (64u << 20))
                DIE("slot %d is given to another process, and is still mapped at %llx of the program's", fd, (unsigned long long)mappings[i].at);
    }
}

int main(void)
{
    fake_memory_begin();
    what_stays_mapped_is_not_given();
    dead_engine();
    flights_land();
    drained();
    room_is_asked_for();
    load_fails_at_every_call();
    loading_is_given_back();
    some_go_home_ahead();
    host_memory_is_bounded();
    clean_copies_give_way();
    lowered_while_allocating();
    for (unsigned i = 1; i <= 60; i++)
        history(i, 300);
    for (unsigned i = 1; i <= 200; i++) {
        fail_one_in = 4 + i % 40;
        history(i, 200);
    }
    return 0;
}
