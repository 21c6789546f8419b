/* The way into the rings, and waiting for what is in them. */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 30000    /* before a waiter sleeps: a wake-up costs more */
#define CHECK_NS 50000000 /* a sleeping waiter looks that often whether the device lives */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ring_get(const struct sim_ctx *c, unsigned channel)
{
    return __atomic_load_n(&c->mem->rings[channel].get, __ATOMIC_SEQ_CST);
}

/* Sleeps until a channel's count differs from seen, or a moment has passed. */
static void ring_sleep(struct sim_ring *ring, uint64_t seen)
{
    struct timespec t = {0, CHECK_NS};

    __atomic_store_n(&ring->waiting, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ring->get, __ATOMIC_SEQ_CST) == seen)
        syscall(SYS_futex, (uint32_t *)(void *)&ring->get, FUTEX_WAIT, (uint32_t)seen, &t, NULL, 0);
}

bool sim_done(const struct sim_mark *m)
{
    return !m->ctx || !sim_ctx_is(m->ctx, m->ctx_id) || (int64_t)(ring_get(m->ctx, m->channel) - m->count) >= 0;
}

int sim_wait(const struct sim_mark *m)
{
    uint64_t begun = 0;

    while (!sim_done(m)) {
        int rc = sim_ctx_error(m->ctx);
        if (rc)
            return rc;
        uint64_t seen = ring_get(m->ctx, m->channel);
        if ((int64_t)(seen - m->count) >= 0)
            break;
        uint64_t now = now_ns();
        if (!begun)
            begun = now;
        if (now - begun < SPIN_NS) {
            __builtin_ia32_pause();
            continue;
        }
        ring_sleep(&m->ctx->mem->rings[m->channel], seen);
        if (ring_get(m->ctx, m->channel) == seen && sim_device_gone())
            return CUDA_ERROR_UNKNOWN;
    }
    return m->ctx && sim_ctx_is(m->ctx, m->ctx_id) ? sim_ctx_error(m->ctx) : CUDA_SUCCESS;
}

/* Makes room for n entries; may drop the lock meanwhile, so what the caller
 * knows of the context is stale when it says false with *rc success. */
static bool ring_room(struct sim_ctx *c, unsigned channel, unsigned n, int *rc)
{
    struct sim_ring *ring = &c->mem->rings[channel];
    uint64_t get = ring_get(c, channel);

    *rc = CUDA_SUCCESS;
    if (ring->put - get + n <= SIM_ENTRIES)
        return true;
    pthread_mutex_unlock(&c->lock);
    ring_sleep(ring, get);
    *rc = sim_ctx_error(c);
    if (!*rc && ring_get(c, channel) == get && sim_device_gone())
        *rc = CUDA_ERROR_UNKNOWN;
    pthread_mutex_lock(&c->lock);
    return false;
}

/* Precondition: c->lock is held and there is room. */
static uint64_t ring_put(struct sim_ctx *c, unsigned channel, struct sim_entry *e)
{
    struct sim_ring *ring = &c->mem->rings[channel];
    uint64_t put = ring->put;

    e->submitted = now_ns();
    if (e->command == SIM_WAIT || e->command == SIM_AFTER)
        c->waits[channel] = put + 1;
    memcpy(&c->mem->entries[channel][put % SIM_ENTRIES], e, offsetof(struct sim_entry, args) + e->arg_bytes);
    __atomic_store_n(&ring->put, put + 1, __ATOMIC_SEQ_CST);
    return put + 1;
}

/* What a command of s has to wait for on other channels, because the legacy
 * stream and the blocking ones are in order with each other: counts by channel,
 * 0 none. Precondition: c->lock is held. */
static unsigned implied_waits(struct sim_ctx *c, const struct sim_stream *s, uint64_t after[SIM_CHANNELS])
{
    unsigned n = 0;

    memset(after, 0, SIM_CHANNELS * sizeof *after);
    if (s->legacy) {
        for (unsigned ch = 1; ch < SIM_CHANNELS; ch++)
            if (c->blocking[ch] > c->blocking_seen[ch] && ring_get(c, ch) < c->blocking[ch]) {
                after[ch] = c->blocking[ch];
                n++;
            }
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && s->channel != 0 && c->legacy_last > c->legacy_seen[s->channel] &&
               ring_get(c, 0) < c->legacy_last) {
        after[0] = c->legacy_last;
        n++;
    }
    for (unsigned ch = 0; c->barred[s->channel] && ch < SIM_CHANNELS; ch++)
        if (ch != s->channel && ring_get(c, ch) < c->barrier[ch] && after[ch] < c->barrier[ch]) {
            n += !after[ch];
            after[ch] = c->barrier[ch];
        }
    return n;
}

void sim_ctx_barrier(struct sim_ctx *c)
{
    pthread_mutex_lock(&c->lock);
    for (unsigned ch = 0; ch < SIM_CHANNELS; ch++) {
        c->barrier[ch] = c->mem->rings[ch].put;
        c->barred[ch] = true;
    }
    pthread_mutex_unlock(&c->lock);
}

static void put_implied(struct sim_ctx *c, unsigned channel, const uint64_t after[SIM_CHANNELS])
{
    for (unsigned ch = 0; ch < SIM_CHANNELS; ch++) {
        if (!after[ch])
            continue;
        struct sim_entry e = {.command = SIM_AFTER, .a = c->id, .b = ch, .c = after[ch]};
        ring_put(c, channel, &e);
        if (channel == 0 && c->blocking_seen[ch] < after[ch])
            c->blocking_seen[ch] = after[ch];
        if (ch == 0 && c->legacy_seen[channel] < after[ch])
            c->legacy_seen[channel] = after[ch];
    }
    c->barred[channel] = false;
}

/* A stream with nothing outstanding moves to the emptiest channel, one that may be
 * held last: streams share one only when more of them than there are channels
 * have work at once, and a held stream holds nobody who comes later and finds
 * room elsewhere. (40 streams on an H200, one of them held: none is held with
 * it.) Precondition: c->lock is held. */
static void rebind(struct sim_ctx *c, struct sim_stream *s)
{
    uint64_t least = UINT64_MAX;
    unsigned best = s->channel;

    if (s->legacy || ring_get(c, s->channel) < s->last)
        return;
    for (unsigned i = 0; i < SIM_CHANNELS - 1; i++) {
        unsigned ch = 1 + (s->channel - 1 + i) % (SIM_CHANNELS - 1);
        uint64_t get = ring_get(c, ch), load = c->mem->rings[ch].put - get;
        if (get < c->waits[ch])
            load += SIM_ENTRIES;
        if (load < least) {
            least = load;
            best = ch;
        }
    }
    if (best != s->channel) {
        s->channel = best;
        s->last = 0;
    }
}

/* Makes a stream the calling thread's alone until sim_stream_disown: what is one
 * command to the program and several to the device is not mixed with others. */
void sim_stream_own(struct sim_stream *s)
{
    struct sim_ctx *c = s->ctx;

    pthread_mutex_lock(&c->lock);
    while (s->owned && !pthread_equal(s->owner, pthread_self()))
        pthread_cond_wait(&c->disowned, &c->lock);
    s->owner = pthread_self();
    s->owned++;
    pthread_mutex_unlock(&c->lock);
}

void sim_stream_disown(struct sim_stream *s)
{
    struct sim_ctx *c = s->ctx;

    pthread_mutex_lock(&c->lock);
    if (!--s->owned)
        pthread_cond_broadcast(&c->disowned);
    pthread_mutex_unlock(&c->lock);
}

/* Takes the context's lock, with the stream's channel chosen and room there for n
 * entries and what has to come before them; not taken on an error. */
static int enter(struct sim_ctx *c, struct sim_stream *s, unsigned n, uint64_t after[SIM_CHANNELS])
{
    int rc;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        rc = sim_ctx_is(c, s->ctx_id) ? sim_ctx_error(c) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (!rc && s->owned && !pthread_equal(s->owner, pthread_self())) {
            pthread_cond_wait(&c->disowned, &c->lock);
            continue;
        }
        if (!rc)
            rebind(c, s);
        if (rc || ring_room(c, s->channel, n + implied_waits(c, s, after), &rc) || rc)
            break;
    }
    if (rc)
        pthread_mutex_unlock(&c->lock);
    return rc;
}

/* count: behind the last entry. Gives the lock back. */
static void leave(struct sim_ctx *c, struct sim_stream *s, uint64_t count)
{
    s->last = count;
    if (s->legacy)
        c->legacy_last = count;
    else if (!(s->flags & CU_STREAM_NON_BLOCKING))
        c->blocking[s->channel] = count;
    struct sim_context *mem = c->mem;
    bool ring_it = __atomic_load_n(&mem->asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&mem->asleep, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&c->lock);
    if (ring_it)
        sim_ring_bell();
}

int sim_submit(struct sim_stream *s, struct sim_entry *e, struct sim_mark *mark)
{
    struct sim_ctx *c = s->ctx;
    uint64_t after[SIM_CHANNELS];

    if (mark)
        *mark = (struct sim_mark){0};
    if (sim_capturing(s))
        return sim_capture_entry(s, e);
    int rc = sim_capture_implicit(s);
    if (!rc)
        rc = enter(c, s, 1, after);
    if (rc)
        return rc;
    put_implied(c, s->channel, after);
    uint64_t count = ring_put(c, s->channel, e);
    if (mark)
        *mark = (struct sim_mark){c, s->ctx_id, s->channel, count};
    leave(c, s, count);
    return CUDA_SUCCESS;
}

int sim_submit_behind_all(struct sim_ctx *c, struct sim_entry *e, struct sim_mark *mark)
{
    pthread_mutex_lock(&c->lock);
    for (unsigned ch = 0; ch < SIM_CHANNELS; ch++)
        c->barrier[ch] = c->mem->rings[ch].put;
    c->barred[0] = true;
    pthread_mutex_unlock(&c->lock);
    return sim_submit(&c->legacy, e, mark);
}

int sim_submit_call(struct sim_stream *s, struct sim_call *call)
{
    struct sim_ctx *c = s->ctx;
    uint64_t after[SIM_CHANNELS];
    struct sim_entry reached = {.command = SIM_NOP}, wait;

    int rc = sim_capture_implicit(s);
    if (!rc)
        rc = enter(c, s, 2, after);
    if (rc)
        return rc;
    if (!sim_host_place(c, s->channel, &wait)) {
        pthread_mutex_unlock(&c->lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    put_implied(c, s->channel, after);
    const struct sim_mark mark = {c, s->ctx_id, s->channel, ring_put(c, s->channel, &reached)};
    uint64_t count = ring_put(c, s->channel, &wait);
    sim_host_placed(c, &mark, call);
    leave(c, s, count);
    return CUDA_SUCCESS;
}
