/* Pools over the failing driver of mem_faults.c, with streams that get as far as the test lets them. After each step:
 * what is given out overlaps nothing that is in use, and nothing that a stream may still use which the new one does not
 * come behind; the sums are what is there. */
#define main mem_faults
#include "mem_faults.c"
#undef main

#include "mem_pool.h"

/* --- streams and events ------------------------------------------------------------------ */

enum { STREAMS = 5, EVENTS = 4096, POOLS = 3, PAST = 4096 };

/* A stream that is gone works on; its place is taken by one of another key. */
static struct stream {
    uintptr_t key;
    uint64_t issued, done;
    uint64_t behind[1024]; /* by number: it has been made to wait for so much of that one */
} *streams[1024];
static int all_streams, live[STREAMS];

static struct event {
    int stream;
    uint64_t at;
    bool there;
} events[EVENTS];
static unsigned waits;
static void (*at_query)(void); /* runs while the driver is asked of an event */

static int stream_of(uintptr_t key)
{
    for (int i = 0; i < all_streams; i++)
        if (streams[i]->key == key)
            return i;
    DIE("no stream %lx", (unsigned long)key);
}

static struct event *event_of(CUevent e)
{
    uintptr_t i = (uintptr_t)e;

    if (!i || i >= EVENTS || !events[i].there)
        DIE("no event %lu", (unsigned long)i);
    return &events[i];
}

static CUresult event_create(CUevent *e, unsigned flags)
{
    (void)flags;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uintptr_t i = 1; i < EVENTS; i++)
        if (!events[i].there) {
            events[i] = (struct event){.there = true};
            *e = (CUevent)i;
            return CUDA_SUCCESS;
        }
    DIE("too many events");
}

static CUresult event_record(CUevent e, CUstream s)
{
    int i = stream_of((uintptr_t)s);

    if (fails())
        return CUDA_ERROR_INVALID_VALUE;
    event_of(e)->stream = i;
    event_of(e)->at = ++streams[i]->issued;
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent e)
{
    struct event *event = event_of(e);

    if (at_query)
        at_query();
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    return streams[event->stream]->done >= event->at ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_destroy(CUevent e)
{
    event_of(e)->there = false;
    return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream s, CUevent e, unsigned flags)
{
    struct event *event = event_of(e);
    uint64_t *behind = &streams[stream_of((uintptr_t)s)]->behind[event->stream];

    (void)flags;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *behind = *behind > event->at ? *behind : event->at;
    waits++;
    return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream s, CUcontext *context)
{
    (void)s;
    *context = contexts[0];
    return CUDA_SUCCESS;
}

static void stream_begins(int i)
{
    struct stream *s = calloc(1, sizeof *s);

    if (all_streams == 1024)
        DIE("too many streams");
    s->key = 0x10000 + (uintptr_t)all_streams * 16;
    live[i] = all_streams;
    streams[all_streams++] = s;
}

static void streams_begin(void)
{
    for (int i = 0; i < STREAMS; i++)
        stream_begins(i);
}

static void streams_free(void)
{
    for (int i = 0; i < all_streams; i++)
        free(streams[i]);
    all_streams = 0;
}

static void streams_end(void)
{
    for (int i = 0; i < STREAMS; i++)
        xm_orders_stream_gone(streams[live[i]]->key);
    streams_free();
}

/* --- what may still be in use ---------------------------------------------------------------- */

static struct past {
    CUdeviceptr at;
    uint64_t bytes; /* 0: free */
    int stream;
    uint64_t until;
} past[PAST];

static void remember(const struct block *b, int stream)
{
    for (int i = 0; i < PAST; i++)
        if (!past[i].bytes || streams[past[i].stream]->done >= past[i].until) {
            past[i] = (struct past){b->at, b->bytes, stream, streams[stream]->issued};
            return;
        }
    DIE("too much is remembered");
}

static bool overlap(CUdeviceptr a, uint64_t n, CUdeviceptr b, uint64_t k)
{
    return a < b + k && b < a + n;
}

static void may_be_used(const struct block *b, int stream)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at && &blocks[i] != b && overlap(b->at, b->bytes, blocks[i].at, blocks[i].bytes))
            DIE("given out twice");
    for (int i = 0; i < PAST; i++)
        if (past[i].bytes && past[i].stream != stream && streams[past[i].stream]->done < past[i].until &&
            (stream < 0 || streams[stream]->behind[past[i].stream] < past[i].until) && overlap(b->at, b->bytes, past[i].at, past[i].bytes))
            DIE("given out while a stream may still use it");
}

/* --- the program ------------------------------------------------------------------------------- */

static struct {
    CUmemoryPool handle;
    uint64_t most;
} owned[POOLS];
static bool pooled[BLOCKS];
static uintptr_t names = 0x100;

static void pool_begins(int i)
{
    owned[i].handle = (CUmemoryPool)(names += 16);
    owned[i].most = chance(3) ? 0 : 96u << 20;
    xm_pool_made(m, owned[i].handle, owned[i].most);
}

static void pool_ends(int i)
{
    struct xm_pool *p = xm_pool_known(owned[i].handle);

    TRUE(p != NULL);
    xm_pool_ended(p);
    xm_pool_let_go(p);
}

static struct xm_order *order_of(int stream)
{
    CUresult r;
    struct xm_order *o = xm_order_hold(streams[stream]->key, contexts[0], &r);

    TRUE(o != NULL);
    return o;
}

static void let_order_go(struct xm_order *o)
{
    pthread_mutex_lock(&xm_mem_lock);
    xm_order_let_go(o);
    pthread_mutex_unlock(&xm_mem_lock);
}

static void pool_take(int i)
{
    struct block *b = &blocks[i];
    int stream = live[chance(STREAMS)];
    CUmemoryPool named = owned[chance(POOLS)].handle;
    struct xm_pool *p = xm_pool_of(named);
    uint64_t bytes = some_size();

    TRUE(p != NULL);
    if (!xm_pool_allocate_kept(streams[stream]->key, contexts[0], &named, bytes, &b->at)) {
        struct xm_order *o = order_of(stream);

        if (xm_pool_allocate(p, o, streams[stream]->key, bytes, &b->at))
            TRUE(b->at == 0);
        let_order_go(o);
    }
    TRUE(!p->most || p->reserved <= p->most);
    xm_pool_let_go(p);
    if (!b->at)
        return;
    b->bytes = bytes;
    pooled[i] = true;
    may_be_used(b, stream);
    stamp(b);
    streams[stream]->issued++;
}

/* As the door does it: where no event can be had the stream is waited for. */
static void give_behind(int i)
{
    int stream = live[chance(STREAMS)];
    struct xm_order *o;
    uint64_t place;
    struct block *b = &blocks[i];

    TRUE(xm_pool_holds(b->at, streams[stream]->key, contexts[0], &o));
    if (!o)
        o = order_of(stream);
    streams[stream]->issued++; /* that is what uses it last */
    if (xm_order_mark(o, streams[stream]->key, contexts[0], &place)) {
        streams[stream]->done = streams[stream]->issued;
        place = 0;
    }
    WANT(xm_pool_free_behind(b->at, o, place), CUDA_SUCCESS);
    remember(b, stream);
    WANT(xm_pool_free_now(b->at), CUDA_ERROR_INVALID_VALUE);
    b->at = 0;
    pooled[i] = false;
}

static void give_now(int i)
{
    struct block *b = &blocks[i];

    if (!pooled[i]) {
        release(b);
        return;
    }
    WANT(xm_pool_free_now(b->at), CUDA_SUCCESS);
    b->at = 0;
    pooled[i] = false;
}

/* --- sums ------------------------------------------------------------------------------------------ */

static void pool_sums(void)
{
    uint64_t chunks = 0, due = 0;

    sums();
    for (struct xm_pool *p = xm_pool_next(NULL); p; p = xm_pool_next(p)) {
        uint64_t reserved = 0, idle = 0, used = 0;

        for (struct xm_range *r = p->chunks; r; r = r->sibling) {
            uint64_t rooms = 0;

            TRUE(r->pool == p && !r->context && !r->arena);
            reserved += r->bytes;
            for (struct xm_block *b = r->blocks; b; b = b->behind) {
                rooms += b->room;
                idle += b->shelf ? b->room : 0;
                used += b->asked;
                TRUE(!b->shelf || (!b->asked && b->shelf->pool == p));
                TRUE(b->shelf || b->asked);
                TRUE(!b->behind || b->behind->before == b);
                TRUE(!b->behind || !b->shelf || b->shelf != b->behind->shelf);
            }
            WANT(rooms, r->bytes);
        }
        WANT(p->reserved, reserved);
        WANT(p->idle, idle);
        WANT(p->used, used);
        WANT(p->due, idle && reserved > (p->ended ? 0 : p->threshold));
        due += p->due;
        chunks += reserved;
    }
    TRUE(due <= xm_pool_due);
    for (struct xm_range *r = m->first; r; r = r->next)
        chunks -= r->pool ? r->bytes : 0;
    WANT(chunks, 0);
}

static void goes_on(struct stream *s)
{
    s->done += s->issued > s->done ? chance((unsigned)(s->issued - s->done) + 1) : 0;
}

static void pool_step(void)
{
    int i = (int)chance(BLOCKS), k = (int)chance(POOLS), s = (int)chance(STREAMS);
    struct xm_pool *p;

    switch (chance(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (!blocks[i].at)
            pool_take(i);
        break;
    case 4:
    case 5:
        if (blocks[i].at)
            give_behind(i);
        break;
    case 6:
        if (!blocks[i].at) {
            allocate(&blocks[i]);
            if (blocks[i].at)
                may_be_used(&blocks[i], -1);
        } else if (chance(2)) {
            give_now(i);
        }
        break;
    case 7:
        for (int n = 0; n < all_streams; n++)
            goes_on(streams[n]);
        break;
    case 8:
        xm_pools_settle();
        break;
    case 9:
        p = xm_pool_of(owned[k].handle);
        if (chance(2)) {
            (void)xm_pool_trim(p, chance(100) * GRANULE, chance(2));
        } else {
            p->threshold = chance(2) ? UINT64_MAX : chance(100) * GRANULE;
            p->opportunistic = chance(3);
            p->internal = chance(3);
            xm_pool_due_again(p);
        }
        xm_pool_let_go(p);
        break;
    case 10:
        if (chance(4) == 0) {
            pool_ends(k);
            pool_begins(k);
        } else if (chance(4) == 0) {
            xm_orders_stream_gone(streams[live[s]]->key);
            stream_begins(s);
        } else {
            section.daemon_memory.target = m->resident + (uint64_t)chance(20) * (GRANULE * 16);
        }
        break;
    default:
        move();
    }
}

static void pool_history(unsigned with, int steps)
{
    anew(with);
    section.daemon_memory.limit = chance(2) ? 0 : 400u << 20;
    memset(past, 0, sizeof past);
    for (int i = 0; i < POOLS; i++)
        pool_begins(i);
    streams_begin();
    for (int i = 0; i < steps; i++) {
        pool_step();
        pool_sums();
        for (int k = 0; k < BLOCKS; k++)
            if (blocks[k].at)
                look(&blocks[k]);
    }
    fail_at = -1;
    fail_one_in = 0;
    for (int i = 0; i < all_streams; i++)
        streams[i]->done = streams[i]->issued;
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at && chance(2))
            give_now(i);
        else if (blocks[i].at)
            give_behind(i);
    for (int i = 0; i < all_streams; i++)
        streams[i]->done = streams[i]->issued;
    for (int i = 0; i < POOLS; i++)
        pool_ends(i);
    xm_pools_settle();
    WANT(xm_pool_due, 0);
    TRUE(!xm_pool_next(NULL));
    streams_end();
    section.daemon_memory.limit = 0;
    nothing_is_left();
}

/* A history of one pool, which is held. */
static struct xm_pool *one_pool(unsigned with)
{
    anew(with);
    memset(past, 0, sizeof past);
    streams_begin();
    pool_begins(0);
    return xm_pool_of(owned[0].handle);
}

/* What a context takes along: places of its streams, and what was freed behind them. */
static void context_takes_all(void)
{
    struct xm_pool *p;

    p = one_pool(7);
    for (int i = 0; i < 3; i++) {
        struct xm_order *o = order_of(live[0]);
        uint64_t place;

        if (i)
            WANT(xm_mem_allocate(m, contexts[0], i == 1 ? 100 : 40u << 20, &blocks[0].at), 0);
        else
            WANT(xm_pool_allocate(p, o, streams[live[0]]->key, 5000, &blocks[0].at), 0);
        WANT(xm_order_mark(o, streams[live[0]]->key, contexts[0], &place), 0);
        WANT(xm_pool_free_behind(blocks[0].at, o, place), 0);
    }
    TRUE(p->idle == p->reserved && p->reserved == XM_CHUNK);
    xm_pools_settle();
    WANT(p->reserved, XM_CHUNK); /* it is waited for */
    xm_orders_context_goes(contexts[0]);
    memset(events, 0, sizeof events); /* nobody asks of them any more */
    xm_pools_settle();
    WANT(p->reserved, XM_CHUNK);
    xm_pool_context_ended(contexts[0]);
    xm_mem_context_ended(contexts[0]);
    xm_orders_context_answered(contexts[0]);
    WANT(m->resident - m->cached, XM_CHUNK);
    xm_pools_settle();
    WANT(p->reserved, 0);
    blocks[0].at = 0;
    xm_pool_let_go(p);
    pool_ends(0);
    WANT(xm_pool_due, 0);
    streams_free();
    nothing_is_left();
}

/* One pool of one chunk, which is freed behind what live[0] still does. */
static struct xm_pool *all_is_behind(void)
{
    struct xm_order *o;
    struct xm_pool *p;
    CUdeviceptr at;
    uint64_t place;

    p = one_pool(11);
    p->most = XM_CHUNK;
    o = order_of(live[0]);
    WANT(xm_pool_allocate(p, o, streams[live[0]]->key, XM_CHUNK, &at), 0);
    streams[live[0]]->issued++;
    WANT(xm_order_mark(o, streams[live[0]]->key, contexts[0], &place), 0);
    WANT(xm_pool_free_behind(at, o, place), 0);
    return p;
}

static void all_ends(struct xm_pool *p)
{
    xm_pools_settle();
    WANT(p->reserved, 0);
    xm_pool_let_go(p);
    pool_ends(0);
    WANT(xm_pool_due, 0);
    streams_end();
    nothing_is_left();
}

static void never(void)
{
    DIE("asked of an event whose context goes");
}

/* Who may end it is two: until the last of them has been answered nobody asks, and then again. */
static void contexts_that_stay_are_asked_again(void)
{
    struct xm_pool *p = all_is_behind();

    xm_orders_context_goes(contexts[0]);
    xm_orders_context_goes(contexts[0]);
    streams[live[0]]->done = streams[live[0]]->issued;
    at_query = never;
    for (int i = 0; i < 2; i++) {
        xm_pools_settle();
        WANT(p->reserved, XM_CHUNK);
        if (!i)
            xm_orders_context_answered(contexts[0]);
    }
    at_query = NULL;
    xm_orders_context_answered(contexts[0]);
    all_ends(p);
}

/* What it has done before it goes is free at once, though nobody has asked yet. */
static void done_before_it_goes(void)
{
    struct xm_pool *p = all_is_behind();

    streams[live[0]]->done = streams[live[0]]->issued;
    xm_orders_context_goes(contexts[0]);
    at_query = never;
    xm_pools_settle();
    WANT(p->reserved, 0);
    at_query = NULL;
    xm_orders_context_answered(contexts[0]);
    all_ends(p);
}

static void ends_now(void)
{
    meanwhile = NULL;
    xm_pool_context_ended(contexts[0]);
    xm_mem_context_ended(contexts[0]);
    xm_orders_context_answered(contexts[0]);
}

static void stays_after_all(void)
{
    meanwhile = NULL;
    xm_orders_context_answered(contexts[0]);
}

/* Memory that there is only behind a context that goes: it is had when the context has ended, with nobody made to wait;
 * behind its stream when it stays; and not when it goes for too long. */
static void only_behind_what_goes(void)
{
    static void (*const become[])(void) = {ends_now, stays_after_all, NULL};

    for (int i = 0; i < 3; i++) {
        struct xm_pool *p = all_is_behind();
        struct xm_order *o = order_of(live[1]);
        unsigned before = waits;
        CUdeviceptr at;

        xm_orders_context_goes(contexts[0]);
        meanwhile = become[i];
        WANT(xm_pool_allocate(p, o, streams[live[1]]->key, 5000, &at), i < 2 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
        WANT(waits - before, i == 1);
        let_order_go(o);
        if (at)
            WANT(xm_pool_free_now(at), 0);
        else
            stays_after_all();
        streams[live[0]]->done = streams[live[0]]->issued;
        all_ends(p);
    }
}

static _Atomic bool waited, marked_now;
static pthread_t marker;

static void it_waits(void)
{
    waited = true;
}

static void *marks(void *arg)
{
    (void)arg;
    xm_orders_context_goes(contexts[0]);
    marked_now = true;
    return NULL;
}

/* The other thread asks as well before it marks. */
static void marked_while_asked(void)
{
    if (marker)
        return;
    TRUE(pthread_create(&marker, NULL, marks, NULL) == 0);
    while (!waited && !marked_now)
        ;
    TRUE(!marked_now);
}

/* A context that goes waits for who is in the driver with an event of it. */
static void who_asks_is_waited_for(void)
{
    struct xm_pool *p = all_is_behind();

    meanwhile = it_waits;
    at_query = marked_while_asked;
    xm_pools_settle();
    TRUE(pthread_join(marker, NULL) == 0);
    meanwhile = at_query = NULL;
    TRUE(waited && marked_now);
    memset(events, 0, sizeof events);
    ends_now();
    all_ends(p);
}

/* The record of a stream that is gone has events of its context, which are not destroyed while that goes. */
static void records_of_what_goes_are_let_alone(void)
{
    struct xm_pool *p = all_is_behind();
    struct xm_order *o = order_of(live[1]), *other;
    uint64_t place;

    streams[live[1]]->issued++;
    WANT(xm_order_mark(o, streams[live[1]]->key, contexts[0], &place), 0);
    xm_orders_stream_gone(streams[live[1]]->key);
    let_order_go(o);
    xm_orders_context_goes(contexts[0]);
    memset(events, 0, sizeof events);
    other = order_of(live[2]);
    TRUE(other != o);
    let_order_go(other);
    ends_now();
    all_ends(p);
}

/* Neighbours that are freed one after the other, in either order, are free when the stream has passed the last. */
static void neighbours_wait_for_the_last(void)
{
    for (int first = 0; first < 2; first++) {
        struct block b[2];
        struct xm_pool *p;
        uint64_t passed = 0;
        CUdeviceptr at;

        p = one_pool(8);
        for (int i = 0; i < 2; i++) {
            struct xm_order *o = order_of(live[0]);

            WANT(xm_pool_allocate(p, o, streams[live[0]]->key, 16u << 20, &b[i].at), 0);
            let_order_go(o);
        }
        WANT(b[1].at, b[0].at + (16u << 20));
        for (int i = 0; i < 2; i++) {
            struct xm_order *o = order_of(live[0]);
            uint64_t place;

            WANT(xm_order_mark(o, streams[live[0]]->key, contexts[0], &place), 0);
            WANT(xm_pool_free_behind(b[first ^ i].at, o, place), 0);
            passed = i ? passed : streams[live[0]]->issued;
        }
        streams[live[0]]->done = passed;
        for (int i = 0; i < 2; i++) { /* of another stream: while the last is not passed, and when it is */
            struct xm_order *o = order_of(live[1]);

            WANT(xm_pool_allocate(p, o, streams[live[1]]->key, 16u << 20, &at), 0);
            TRUE((at == b[0].at || at == b[1].at) == (i == 1));
            WANT(xm_pool_free_now(at), 0);
            WANT(xm_pool_trim(p, XM_CHUNK, true), i == 0);
            let_order_go(o);
            streams[live[0]]->done = streams[live[0]]->issued;
        }
        xm_pool_let_go(p);
        pool_ends(0);
        streams_free();
        nothing_is_left();
    }
}

/* What a stream freed that is gone, and not through with it, is waited for by whoever gets it: all of it, in one piece or
 * in two, and nobody else's are the stream's record and its places meanwhile. */
static void streams_that_are_gone_are_waited_for(void)
{
    for (uint64_t part = 16u << 20; part <= XM_CHUNK; part *= 2) {
        struct xm_order *o[3];
        struct xm_pool *p;
        uint64_t place;

        p = one_pool(9);
        p->most = XM_CHUNK;
        o[0] = order_of(live[0]);
        blocks[0].bytes = XM_CHUNK;
        WANT(xm_pool_allocate(p, o[0], streams[live[0]]->key, XM_CHUNK, &blocks[0].at), 0);
        streams[live[0]]->issued++;
        WANT(xm_order_mark(o[0], streams[live[0]]->key, contexts[0], &place), 0);
        remember(&blocks[0], live[0]);
        WANT(xm_pool_free_behind(blocks[0].at, o[0], place), 0);
        blocks[0].at = 0;
        xm_orders_stream_gone(streams[live[0]]->key);
        for (int i = 1; i < 3; i++) {
            o[i] = order_of(live[i]);
            if (i == 2 && part == XM_CHUNK) { /* the first has all */
                TRUE(o[1] != o[2]);
                let_order_go(o[2]);
                break;
            }
            blocks[i].bytes = part;
            WANT(xm_pool_allocate(p, o[i], streams[live[i]]->key, part, &blocks[i].at), 0);
            may_be_used(&blocks[i], live[i]);
        }
        for (int i = 1; i < 3; i++) {
            if (blocks[i].at) {
                let_order_go(o[i]);
                WANT(xm_pool_free_now(blocks[i].at), 0);
            }
            blocks[i].at = 0;
        }
        xm_pool_let_go(p);
        pool_ends(0);
        streams_end();
        nothing_is_left();
    }
}

/* Before we hear of a pool's end the driver may have given its number anew. */
static void numbers_come_again(void)
{
    struct xm_pool *old, *now;

    anew(10);
    pool_begins(0);
    old = xm_pool_known(owned[0].handle);
    xm_pool_made(m, owned[0].handle, 0);
    xm_pool_ended(old);
    now = xm_pool_known(owned[0].handle);
    TRUE(now && now != old && !now->ended);
    xm_pool_let_go(old);
    xm_pool_let_go(now);
    pool_ends(0);
    TRUE(!xm_pool_next(NULL));
}

int main(void)
{
    fake_memory_begin();
    xm_real.cuEventCreate = event_create;
    xm_real.cuEventRecord = event_record;
    xm_real.cuEventQuery = event_query;
    xm_real.cuEventDestroy_v2 = event_destroy;
    xm_real.cuStreamWaitEvent = stream_wait;
    xm_real.cuStreamGetCtx = stream_context;
    context_takes_all();
    contexts_that_stay_are_asked_again();
    done_before_it_goes();
    only_behind_what_goes();
    who_asks_is_waited_for();
    records_of_what_goes_are_let_alone();
    neighbours_wait_for_the_last();
    streams_that_are_gone_are_waited_for();
    numbers_come_again();
    for (unsigned i = 1; i <= 60; i++)
        pool_history(i, 400);
    for (unsigned i = 1; i <= 100; i++) {
        fail_one_in = 4 + i % 40;
        pool_history(i, 300);
    }
    TRUE(waits > 10);
    return 0;
}
