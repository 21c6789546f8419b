/* Copies from and to memory that the driver does not know (pageable): it goes
 * through pinned staging memory, as it does in the driver. A copy from there
 * has read its source when it returns, one into it has brought the bytes. */
#include "copy.h"

#include <string.h>
#include <time.h>

/* ---- the staging memory ---- */

static struct sim_chunk *chunk_try(struct sim_ctx *c)
{
    for (unsigned i = 0; i < c->chunk_count; i++) {
        struct sim_chunk *k = &c->chunks[i];
        if (!k->taken && sim_done(&k->busy)) {
            k->taken = true;
            return k;
        }
    }
    return NULL;
}

/* Takes a piece of staging memory that the device is through with. The pool
 * grows before anybody waits, so that a gated stream seldom blocks another. */
static int chunk_take(struct sim_ctx *c, struct sim_chunk **out)
{
    const struct timespec moment = {0, 20000};

    for (;;) {
        pthread_mutex_lock(&c->lock);
        struct sim_chunk *k = chunk_try(c);
        bool grow = !k && c->chunk_count < SIM_CHUNKS;
        pthread_mutex_unlock(&c->lock);
        if (k) {
            *out = k;
            return CUDA_SUCCESS;
        }
        int rc = sim_ctx_error(c);
        if (!rc && sim_device_gone())
            rc = CUDA_ERROR_UNKNOWN;
        void *p = NULL;
        if (!rc && grow)
            rc = sim_host_alloc(SIM_CHUNK_BYTES, &p);
        if (rc)
            return rc;
        if (!p) {
            nanosleep(&moment, NULL);
            continue;
        }
        pthread_mutex_lock(&c->lock);
        grow = c->chunk_count < SIM_CHUNKS;
        if (grow)
            c->chunks[c->chunk_count++] = (struct sim_chunk){.data = p};
        pthread_mutex_unlock(&c->lock);
        if (!grow)
            sim_host_free(p, SIM_CHUNK_BYTES);
    }
}

static void chunk_give(struct sim_ctx *c, struct sim_chunk *k, const struct sim_mark *busy)
{
    pthread_mutex_lock(&c->lock);
    k->busy = *busy;
    k->taken = false;
    pthread_mutex_unlock(&c->lock);
}

/* ---- pieces of a copy that fit into a chunk ---- */

/* rows rows of width bytes, the first of them at (x, y, z). */
struct piece {
    size_t x, y, z, width, rows;
};

/* Goes on to the next piece; the first follows an empty one. */
static bool next_piece(const struct sim_transfer *t, struct piece *p)
{
    p->x += p->width;
    if (p->x == t->width) {
        p->x = 0;
        p->y += p->rows;
        if (p->y == t->height) {
            p->y = 0;
            p->z++;
        }
    }
    if (p->z == t->depth)
        return false;
    p->width = t->width - p->x < SIM_CHUNK_BYTES ? t->width - p->x : SIM_CHUNK_BYTES;
    p->rows = 1;
    if (p->width == t->width) {
        size_t most = SIM_CHUNK_BYTES / p->width;
        p->rows = t->height - p->y < most ? t->height - p->y : most;
    }
    return true;
}

static uint64_t place(const struct sim_end *e, const struct piece *p, size_t row)
{
    return e->base + p->z * e->slice + (p->y + row) * e->pitch + p->x;
}

static int enqueue_piece(struct sim_stream *s, struct sim_end to, struct sim_end from, const struct piece *p, struct sim_mark *mark)
{
    struct sim_transfer t = {.to = to, .from = from, .width = p->width, .height = p->rows, .depth = 1};
    return sim_transfer_enqueue(s, &t, mark);
}

static struct sim_end in_chunk(const struct sim_chunk *k, const struct piece *p)
{
    return (struct sim_end){.base = (uintptr_t)k->data, .pitch = p->width};
}

#define AHEAD 4u /* pieces of one copy that may lie staged; an H200 takes 1 MiB beside held work, and not 8 */

int sim_stage_in(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t, struct sim_mark *mark)
{
    struct sim_mark staged[AHEAD] = {0};
    struct piece p = {0};

    for (unsigned i = 0; next_piece(t, &p); i++) {
        struct sim_chunk *k;
        int rc = sim_wait(&staged[i % AHEAD]);
        if (!rc)
            rc = chunk_take(c, &k);
        if (rc)
            return rc;
        for (size_t i = 0; i < p.rows; i++)
            memcpy((char *)k->data + i * p.width, (const void *)(uintptr_t)place(&t->from, &p, i), p.width);
        *mark = (struct sim_mark){0};
        struct sim_end to = {.base = place(&t->to, &p, 0), .pitch = t->to.pitch};
        rc = enqueue_piece(s, to, in_chunk(k, &p), &p, mark);
        chunk_give(c, k, mark);
        if (rc)
            return rc;
        staged[i % AHEAD] = *mark;
    }
    return CUDA_SUCCESS;
}

/* A piece that is on its way out. */
struct outgoing {
    struct sim_chunk *chunk;
    struct sim_mark mark;
    struct piece piece;
};

static int fetch(struct sim_ctx *c, const struct sim_transfer *t, struct outgoing *o)
{
    const struct piece *p = &o->piece;

    int rc = sim_wait(&o->mark);
    for (size_t i = 0; !rc && i < p->rows; i++)
        memcpy((void *)(uintptr_t)place(&t->to, p, i), (const char *)o->chunk->data + i * p->width, p->width);
    chunk_give(c, o->chunk, &o->mark);
    return rc;
}

/* One piece is on its way while the one before is read out. */
int sim_stage_out(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t)
{
    struct outgoing before = {0};
    struct piece p = {0};
    int rc = CUDA_SUCCESS;

    while (!rc && next_piece(t, &p)) {
        struct outgoing now = {.piece = p};
        rc = chunk_take(c, &now.chunk);
        if (rc)
            break;
        struct sim_end from = {.base = place(&t->from, &p, 0), .pitch = t->from.pitch};
        rc = enqueue_piece(s, in_chunk(now.chunk, &p), from, &p, &now.mark);
        if (rc) {
            chunk_give(c, now.chunk, &(struct sim_mark){0});
            break;
        }
        if (before.chunk)
            rc = fetch(c, t, &before);
        before = now;
    }
    if (before.chunk) {
        int last = fetch(c, t, &before);
        rc = rc ? rc : last;
    }
    return rc;
}
