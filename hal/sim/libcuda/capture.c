/* Captures: what is put into a capturing stream becomes a node of a graph, and
 * events carry the capture from stream to stream. What would have to know the end
 * of something that has not begun is refused, and the capture is lost. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures; /* all that have not ended */
static unsigned capture_count;       /* of them; read without the lock */
static uint64_t last_id;

__thread int sim_capture_mode; /* CU_STREAM_CAPTURE_MODE_*, of the thread */

/* ---- streams in a capture ---- */

static bool grow(struct sim_stream *s, size_t n)
{
    if (n <= s->tail_room)
        return true;
    struct sim_node **p = realloc(s->tail, n * sizeof *p);
    void *edges = p ? calloc(n, sizeof(CUgraphEdgeData)) : NULL;
    if (p)
        s->tail = p;
    if (!edges)
        return false;
    free(s->edges);
    s->edges = edges;
    s->tail_room = n;
    return true;
}

static bool set_tail(struct sim_stream *s, struct sim_node *const *tail, size_t n)
{
    if (!grow(s, n))
        return false;
    if (n)
        memmove(s->tail, tail, n * sizeof *tail);
    s->tails = n;
    return true;
}

bool sim_capture_add_tail(struct sim_stream *s, struct sim_node *node)
{
    for (size_t i = 0; i < s->tails; i++)
        if (s->tail[i] == node)
            return true;
    if (s->tails == s->tail_room && !grow(s, s->tail_room ? 2 * s->tail_room : 4))
        return false;
    s->tail[s->tails++] = node;
    return true;
}

static bool blocks(const struct sim_stream *s) { return !(s->flags & CU_STREAM_NON_BLOCKING); }

static void join(struct sim_capture *cap, struct sim_stream *s)
{
    s->capture_next = cap->streams;
    cap->streams = s;
    if (blocks(s))
        __atomic_add_fetch(&s->ctx->capturing, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&s->capture, cap, __ATOMIC_RELEASE);
}

static void part(struct sim_stream *s)
{
    __atomic_store_n(&s->capture, NULL, __ATOMIC_RELEASE);
    if (blocks(s))
        __atomic_sub_fetch(&s->ctx->capturing, 1, __ATOMIC_SEQ_CST);
    s->tails = 0;
    s->capture_next = NULL;
}

static struct sim_capture *by_id(uint64_t id)
{
    for (struct sim_capture *c = captures; c; c = c->next)
        if (c->id == id)
            return c;
    return NULL;
}

/* Takes a capture off the list and its streams out of it. keep: the graph stays. */
static void finish(struct sim_capture *cap, bool keep)
{
    for (struct sim_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == cap) {
            *p = cap->next;
            break;
        }
    __atomic_sub_fetch(&capture_count, 1, __ATOMIC_SEQ_CST);
    for (struct sim_stream *s = cap->streams, *next; s; s = next) {
        next = s->capture_next;
        part(s);
    }
    cap->graph->capturing = false;
    if (!keep && !cap->borrowed)
        sim_graph_drop(cap->graph);
    free(cap);
}

/* ---- commands ---- */

static int append(struct sim_stream *s, struct sim_work *w)
{
    struct sim_capture *cap = s->capture;

    if (!cap)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; /* it ended meanwhile */
    if (cap->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct sim_node *n = sim_graph_add(cap->graph, w, s->tail, s->tails);
    if (!n || !set_tail(s, &n, 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

int sim_capture_work(struct sim_stream *s, struct sim_work *w)
{
    pthread_mutex_lock(&sim_graph_lock);
    int rc = append(s, w);
    if (rc)
        sim_work_free(w);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* Commands of one entry that no caller has described better. */
static bool describe(const struct sim_stream *s, const struct sim_entry *e, struct sim_work *w)
{
    struct sim_rows rows = {.height = 1, .depth = 1};

    *w = (struct sim_work){.type = CU_GRAPH_NODE_TYPE_EMPTY, .ctx = s->ctx, .ctx_id = s->ctx_id};
    if (e->command == SIM_FILL_ROWS)
        memcpy(&rows, e->args, sizeof rows);
    switch (e->command) {
    case SIM_LAUNCH:
        w->type = CU_GRAPH_NODE_TYPE_KERNEL;
        memcpy(&w->kernel.entry, e, offsetof(struct sim_entry, args) + e->arg_bytes);
        return true;
    case SIM_FILL:
    case SIM_FILL_ROWS:
        w->type = CU_GRAPH_NODE_TYPE_MEMSET;
        w->set.fill = (struct sim_fill){.dst = e->a, .pitch = rows.dst_pitch, .n = e->c, .rows = rows.height, .value = (unsigned)e->b, .width = e->kind};
        w->set.given = (CUDA_MEMSET_NODE_PARAMS){e->a, rows.dst_pitch, (unsigned)e->b, e->kind, e->c, rows.height};
        return true;
    }
    return false;
}

int sim_capture_entry(struct sim_stream *s, const struct sim_entry *e)
{
    struct sim_work w;
    return describe(s, e, &w) ? sim_capture_work(s, &w) : sim_unsupported("a command of this kind in a capture");
}

/* ---- errors that captures cause ---- */

static int lose(struct sim_capture *cap, int rc)
{
    cap->invalid = true;
    return rc;
}

int sim_capture_sync(struct sim_stream *s)
{
    int rc = sim_capture_implicit(s);

    if (rc || !sim_capturing(s))
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (s->capture)
        rc = lose(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* Loses the captures of a context that have a blocking stream. */
static int lose_blocking(const struct sim_ctx *c)
{
    int rc = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    for (struct sim_capture *cap = captures; cap; cap = cap->next)
        for (struct sim_stream *s = cap->streams; s; s = s->capture_next)
            if (s->ctx == c && blocks(s))
                rc = lose(cap, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

bool sim_capture_is_implicit(const struct sim_stream *s)
{
    return s->legacy && __atomic_load_n(&s->ctx->capturing, __ATOMIC_ACQUIRE);
}

int sim_capture_implicit(const struct sim_stream *s)
{
    return sim_capture_is_implicit(s) ? lose_blocking(s->ctx) : CUDA_SUCCESS;
}

int sim_capture_waits(struct sim_stream *s)
{
    int rc = sim_capture_sync(s);
    return rc ? rc : sim_capture_unsafe();
}

int sim_capture_refused(struct sim_stream *s, int rc)
{
    if (!sim_capturing(s))
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (s->capture)
        lose(s->capture, rc);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

int sim_capture_context(const struct sim_ctx *c)
{
    int rc = CUDA_SUCCESS;

    if (!__atomic_load_n(&capture_count, __ATOMIC_ACQUIRE))
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    for (struct sim_capture *cap = captures; cap; cap = cap->next)
        if (cap->ctx == c)
            rc = lose(cap, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* Whether a capture forbids unsafe calls to the calling thread. */
static bool forbids(const struct sim_capture *cap)
{
    if (sim_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED || cap->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (pthread_equal(cap->thread, pthread_self()))
        return true;
    return sim_capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && cap->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

int sim_capture_unsafe(void)
{
    int rc = CUDA_SUCCESS;

    if (!__atomic_load_n(&capture_count, __ATOMIC_ACQUIRE))
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    for (struct sim_capture *cap = captures; cap; cap = cap->next)
        if (forbids(cap))
            rc = lose(cap, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* ---- events ---- */

static void forget_event(struct sim_event *e)
{
    free(e->tail);
    e->tail = NULL;
    e->tails = 0;
    __atomic_store_n(&e->capture, 0, __ATOMIC_RELEASE);
}

/* The event is recorded outside of captures from now on, or ends. */
void sim_capture_event_gone(struct sim_event *e)
{
    if (!__atomic_load_n(&e->capture, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&sim_graph_lock);
    forget_event(e);
    pthread_mutex_unlock(&sim_graph_lock);
}

int sim_capture_event(const struct sim_event *e)
{
    int rc = CUDA_SUCCESS;

    if (!__atomic_load_n(&e->capture, __ATOMIC_ACQUIRE))
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    if (e->capture) {
        struct sim_capture *cap = by_id(e->capture);
        rc = cap ? lose(cap, CUDA_ERROR_CAPTURED_EVENT) : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* EXTERNAL: the event is the program's, and its record a node. */
static int external(struct sim_stream *s, struct sim_event *e, unsigned type)
{
    struct sim_work w = {.type = type, .event = e};
    return append(s, &w);
}

int sim_capture_record(struct sim_stream *s, struct sim_event *e, unsigned flags)
{
    int rc = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *cap = s->capture;
    if (!cap || cap->invalid) {
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (flags) {
        rc = external(s, e, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    } else {
        struct sim_node **tail = malloc((s->tails + 1) * sizeof *tail);
        if (tail) {
            forget_event(e);
            if (s->tails)
                memcpy(tail, s->tail, s->tails * sizeof *tail);
            e->tail = tail;
            e->tails = s->tails;
            __atomic_store_n(&e->capture, cap->id, __ATOMIC_RELEASE);
        } else {
            rc = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* A stream waits for an event of a capture: it belongs to the capture now. */
static int wait_inside(struct sim_stream *s, struct sim_event *e, struct sim_capture *of)
{
    if (of->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->legacy)
        return lose(of, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (s->capture && s->capture != of) {
        lose(of, 0);
        return lose(s->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (!s->capture) {
        if (!set_tail(s, e->tail, e->tails))
            return CUDA_ERROR_OUT_OF_MEMORY;
        join(of, s);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < e->tails; i++)
        if (!sim_capture_add_tail(s, e->tail[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

int sim_capture_wait(struct sim_stream *s, struct sim_event *e, unsigned flags)
{
    int rc;

    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *of = e->capture ? by_id(e->capture) : NULL;
    if (s->capture && s->capture->invalid)
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (s->capture && flags)
        rc = external(s, e, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    else if (of)
        rc = wait_inside(s, e, of);
    else if (s->capture && (e->capture || e->recorded))
        rc = lose(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    else
        rc = s->capture ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; /* never recorded, or in a capture that is over */
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

/* ---- ends of what captures know ---- */

void sim_capture_stream_gone(struct sim_stream *s)
{
    if (!sim_capturing(s) && !s->tail)
        return;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *cap = s->capture;
    if (cap) {
        cap->invalid = true;
        for (struct sim_stream **p = &cap->streams; *p; p = &(*p)->capture_next)
            if (*p == s) {
                *p = s->capture_next;
                break;
            }
        part(s);
        if (cap->origin == s)
            finish(cap, false);
    }
    free(s->tail);
    free(s->edges);
    s->tail = NULL;
    s->edges = NULL;
    s->tails = s->tail_room = 0;
    pthread_mutex_unlock(&sim_graph_lock);
}

void sim_capture_context_gone(struct sim_ctx *c)
{
    if (!__atomic_load_n(&capture_count, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&sim_graph_lock);
    for (struct sim_capture *cap = captures, *next; cap; cap = next) {
        next = cap->next;
        if (cap->ctx == c)
            finish(cap, false);
    }
    pthread_mutex_unlock(&sim_graph_lock);
}

/* ---- beginning and ending ---- */

int sim_capture_begin(struct sim_stream *s, struct sim_ctx *c, int mode, struct sim_graph *into, struct sim_node *const *before, size_t n)
{
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_capture *cap = calloc(1, sizeof *cap);
    struct sim_graph *g = cap ? into ? into : sim_graph_make() : NULL;
    if (!g || !set_tail(s, before, n)) {
        if (g && !into)
            sim_graph_drop(g);
        free(cap);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *cap = (struct sim_capture){.next = captures, .id = ++last_id, .mode = mode, .thread = pthread_self(), .ctx = c, .graph = g, .borrowed = into, .origin = s};
    g->capturing = true;
    captures = cap;
    __atomic_add_fetch(&capture_count, 1, __ATOMIC_SEQ_CST);
    join(cap, s);
    return CUDA_SUCCESS;
}

/* Marks what the origin's next node would depend on, and all that this depends on.
 * Nodes of a graph are in an order that keeps the edges: the captured ones are made
 * behind those that they depend on. */
static bool joined(const struct sim_capture *cap)
{
    const struct sim_graph *g = cap->graph;
    bool *reached = calloc(g->count + 1, sizeof *reached), ok = reached != NULL;

    for (size_t i = 0; ok && i < cap->origin->tails; i++)
        reached[cap->origin->tail[i]->index] = true;
    for (size_t i = g->count; ok && i-- > 0;)
        for (size_t k = 0; reached[i] && k < g->nodes[i]->befores; k++)
            reached[g->nodes[i]->before[k]->index] = true;
    for (const struct sim_stream *s = cap->streams; ok && s; s = s->capture_next)
        for (size_t i = 0; ok && i < s->tails; i++)
            ok = reached[s->tail[i]->index];
    free(reached);
    return ok;
}

int sim_capture_end(struct sim_stream *s, struct sim_graph **out)
{
    struct sim_capture *cap = s->capture;

    if (!cap)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (cap->origin != s)
        return lose(cap, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    bool stranger = cap->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(cap->thread, pthread_self());
    int rc = stranger ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD : cap->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : joined(cap) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *out = rc ? NULL : cap->graph;
    finish(cap, !rc);
    return rc;
}
