/* Where the memory of a pool comes from and goes to. The device gives it in chunks
 * that belong to the process; blocks of them are handed out, and are used again in
 * the order of streams. */
#include "pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#define CHUNK ((size_t)32 << 20)
#define GRAIN ((size_t)512)

static size_t whole(size_t n) { return (n + CHUNK - 1) / CHUNK * CHUNK; }

static void share(const struct sim_pool *p, const struct sim_pool_chunk *k)
{
    struct sim_request q = {.op = SIM_ACCESS, .a = k->base};
    struct sim_reply reply;

    for (int i = 0; i < sim_device_count; i++)
        if (p->access >> i & 1)
            q.b |= 1u << sim_devices[i].number;
    sim_call(&q, -1, &reply, NULL);
}

void sim_pool_share(struct sim_pool *p)
{
    for (const struct sim_pool_chunk *k = p->chunks; k; k = k->next)
        share(p, k);
}

static bool chunk_new(struct sim_pool *p, size_t n)
{
    size_t size = whole(n);
    struct sim_reply reply;

    if (size < n || size > sim_devices[p->device].memory || (p->most && size > p->most - p->reserved))
        return false;
    struct sim_pool_chunk *k = calloc(1, sizeof *k);
    struct sim_pool_block *b = calloc(1, sizeof *b);
    void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct sim_request q = {.op = SIM_ALLOC, .device = sim_devices[p->device].number, .b = (uintptr_t)at, .c = size};
    if (!k || !b || at == MAP_FAILED || sim_call(&q, -1, &reply, NULL)) {
        free(k);
        free(b);
        if (at != MAP_FAILED)
            munmap(at, size);
        return false;
    }
    *b = (struct sim_pool_block){.base = (uintptr_t)at, .size = size, .free = true};
    *k = (struct sim_pool_chunk){.next = p->chunks, .base = (uintptr_t)at, .size = size, .blocks = b};
    p->chunks = k;
    if (p->access)
        share(p, k);
    p->reserved += size;
    if (p->reserved > p->reserved_high)
        p->reserved_high = p->reserved;
    return true;
}

static void chunk_end(struct sim_pool *p, struct sim_pool_chunk *k)
{
    struct sim_request q = {.op = SIM_FREE, .a = k->base};
    struct sim_reply reply;

    sim_call(&q, -1, &reply, NULL);
    munmap((void *)(uintptr_t)k->base, k->size);
    p->reserved -= k->size;
    for (struct sim_pool_block *b = k->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(k);
}

static bool idle(const struct sim_pool_block *b) { return b->free && sim_done(&b->mark); }

/* Free neighbours that nobody has to wait for become one. */
static void join(struct sim_pool_chunk *k)
{
    for (struct sim_pool_block *b = k->blocks; b; b = b->next)
        while (b->next && idle(b) && idle(b->next)) {
            struct sim_pool_block *gone = b->next;
            b->size += gone->size;
            b->next = gone->next;
            b->stream_id = 0;
            b->mark = (struct sim_mark){0};
            free(gone);
        }
}

void sim_pool_trim(struct sim_pool *p, uint64_t keep)
{
    const uint64_t before = p->reserved;

    for (struct sim_pool_chunk **at = &p->chunks; *at && p->reserved > keep;) {
        struct sim_pool_chunk *k = *at;
        join(k);
        if (k->blocks->next || !idle(k->blocks)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        chunk_end(p, k);
    }
    if (p->reserved < keep && p->reserved < before)
        chunk_new(p, (before < keep ? before : keep) - p->reserved); /* the pieces are not that fine */
}

/* Whether a stream may have a free block now. */
static bool fits(const struct sim_pool *p, const struct sim_pool_block *b, const struct sim_stream *s, size_t n)
{
    if (!b->free || b->size < n)
        return false;
    if (!b->mark.ctx || (b->stream_id == s->id && b->ctx_id == s->ctx_id))
        return true;
    bool waited = b->mark.ctx == s->ctx && b->mark.ctx_id == s->ctx_id && s->seen[b->mark.channel] >= b->mark.count;
    return (p->reuse[0] && waited) || (p->reuse[1] && sim_done(&b->mark));
}

static struct sim_pool_block *find(struct sim_pool *p, const struct sim_stream *s, size_t n)
{
    for (struct sim_pool_chunk *k = p->chunks; k; k = k->next) {
        join(k);
        for (struct sim_pool_block *b = k->blocks; b; b = b->next)
            if (fits(p, b, s, n))
                return b;
    }
    return NULL;
}

/* A block that another stream is not through with: this one is made to wait. */
static struct sim_pool_block *find_behind(struct sim_pool *p, struct sim_stream *s, size_t n)
{
    for (struct sim_pool_chunk *k = p->chunks; p->reuse[2] && k; k = k->next)
        for (struct sim_pool_block *b = k->blocks; b; b = b->next) {
            if (!b->free || b->size < n)
                continue;
            struct sim_entry e = {.command = SIM_AFTER, .a = b->mark.ctx_id, .b = b->mark.channel, .c = b->mark.count};
            return sim_submit(s, &e, NULL) ? NULL : b;
        }
    return NULL;
}

static bool split(struct sim_pool_block *b, size_t n)
{
    if (b->size == n)
        return true;
    struct sim_pool_block *rest = malloc(sizeof *rest);
    if (!rest)
        return false;
    *rest = *b;
    rest->base += n;
    rest->size -= n;
    b->size = n;
    b->next = rest;
    return true;
}

int sim_pool_take(struct sim_pool *p, struct sim_stream *s, size_t n, uint64_t *out)
{
    const size_t asked = n;

    if (n > sim_devices[p->device].memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n = (n + GRAIN - 1) / GRAIN * GRAIN;
    struct sim_pool_block *b = find(p, s, n);
    if (!b && chunk_new(p, n))
        b = find(p, s, n);
    if (!b) {
        for (struct sim_pool *q = sim_pools; q; q = q->next)
            sim_pool_trim(q, 0);
        if (chunk_new(p, n))
            b = find(p, s, n);
    }
    if (!b)
        b = find_behind(p, s, n);
    if (!b || !split(b, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->free = false;
    b->asked = asked;
    p->used += asked;
    if (p->used > p->used_high)
        p->used_high = p->used;
    *out = b->base;
    return CUDA_SUCCESS;
}

void sim_pool_give(struct sim_pool *p, uint64_t base, const struct sim_stream *s, const struct sim_mark *mark)
{
    for (struct sim_pool_chunk *k = p->chunks; k; k = k->next)
        for (struct sim_pool_block *b = k->blocks; b; b = b->next) {
            if (b->base != base || b->free)
                continue;
            b->free = true;
            b->ctx_id = s ? s->ctx_id : 0;
            b->stream_id = s ? s->id : 0;
            b->mark = mark ? *mark : (struct sim_mark){0};
            p->used -= b->asked;
            return;
        }
}
