/* Functions of the program in its streams. In the ring a call is two commands: one
 * that lets the driver's thread know that it is reached, and a wait for a word that
 * this thread writes when the function has returned. Each channel with calls has
 * one thread, made at the first of them: functions of streams on different
 * channels run at once.
 */
#define _GNU_SOURCE
#include "graph.h"

#include <signal.h>
#include <stdlib.h>

struct sim_call {
    struct sim_call *next;
    struct sim_mark reached;
    CUhostFn fn;
    CUstreamCallback callback;
    void *data;
    CUstream stream; /* as the program named it */
};

/* Protected by the context's lock. */
struct sim_host_queue {
    struct sim_ctx *ctx;
    unsigned channel;
    pthread_t thread;
    pthread_cond_t more;
    struct sim_call *first, **end;
    uint64_t placed; /* calls so far: what the last one's wait compares with */
    bool quit;
};

static __thread bool in_call;

bool sim_in_host_function(void) { return in_call; }

static void invoke(const struct sim_call *call, int rc)
{
    in_call = true;
    if (call->callback)
        call->callback(call->stream, rc, call->data);
    else if (!rc)
        call->fn(call->data);
    in_call = false;
}

static struct sim_call *next_call(struct sim_host_queue *q)
{
    pthread_mutex_lock(&q->ctx->lock);
    while (!q->first && !q->quit)
        pthread_cond_wait(&q->more, &q->ctx->lock);
    struct sim_call *call = q->first;
    if (call && !(q->first = call->next))
        q->end = &q->first;
    pthread_mutex_unlock(&q->ctx->lock);
    return call;
}

static void *serve(void *queue)
{
    struct sim_host_queue *q = queue;
    uint64_t done = 0;

    for (struct sim_call *call; (call = next_call(q)) != NULL; free(call)) {
        invoke(call, sim_wait(&call->reached));
        __atomic_store_n(&q->ctx->host_words[q->channel], ++done, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* A thread of the driver's takes no signal of the program's. */
static bool start(struct sim_host_queue *q)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&q->thread, NULL, serve, q) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* Precondition: the context's lock is held. NULL: no memory, or no thread. */
static struct sim_host_queue *queue_of(struct sim_ctx *c, unsigned channel)
{
    if (c->host_queue[channel])
        return c->host_queue[channel];
    struct sim_host_queue *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->ctx = c;
    q->channel = channel;
    q->end = &q->first;
    pthread_cond_init(&q->more, NULL);
    c->host_words[channel] = 0;
    if (!start(q)) {
        pthread_cond_destroy(&q->more);
        free(q);
        return NULL;
    }
    return c->host_queue[channel] = q;
}

/* The words that streams wait for lie in memory that the device can read. */
static int make_words(struct sim_ctx *c)
{
    void *p = NULL;

    if (__atomic_load_n(&c->host_words, __ATOMIC_ACQUIRE))
        return CUDA_SUCCESS;
    int rc = sim_host_alloc(SIM_CHANNELS * sizeof *c->host_words, &p);
    if (rc)
        return rc;
    pthread_mutex_lock(&c->lock);
    bool mine = !c->host_words;
    if (mine)
        __atomic_store_n(&c->host_words, p, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&c->lock);
    if (!mine)
        sim_host_free(p, SIM_CHANNELS * sizeof *c->host_words);
    return CUDA_SUCCESS;
}

/* Called by sim_submit_call with the context's lock held, the channel chosen and
 * room in its ring: gives the wait. */
bool sim_host_place(struct sim_ctx *c, unsigned channel, struct sim_entry *wait)
{
    struct sim_host_queue *q = queue_of(c, channel);

    if (!q)
        return false;
    *wait = (struct sim_entry){.command = SIM_WAIT, .kind = 8, .flags = 0, .a = (uintptr_t)&c->host_words[channel], .b = ++q->placed};
    return true;
}

/* Behind sim_host_place, when both commands are in the ring. */
void sim_host_placed(struct sim_ctx *c, const struct sim_mark *reached, struct sim_call *call)
{
    struct sim_host_queue *q = c->host_queue[reached->channel];

    call->reached = *reached;
    *q->end = call;
    q->end = &call->next;
    pthread_cond_signal(&q->more);
}

int sim_host_submit(struct sim_stream *s, CUhostFn fn, CUstreamCallback callback, void *data)
{
    struct sim_call *call = malloc(sizeof *call);

    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *call = (struct sim_call){.fn = fn, .callback = callback, .data = data, .stream = s->legacy ? NULL : s};
    int rc = make_words(s->ctx);
    if (!rc)
        rc = sim_submit_call(s, call);
    if (rc)
        free(call);
    return rc;
}

/* The context's commands are over, or it has failed: all that was queued is
 * called, with the context's error, and the threads end. */
void sim_host_context_gone(struct sim_ctx *c)
{
    for (unsigned ch = 0; ch < SIM_CHANNELS; ch++) {
        struct sim_host_queue *q = c->host_queue[ch];
        if (!q)
            continue;
        pthread_mutex_lock(&c->lock);
        q->quit = true;
        pthread_cond_signal(&q->more);
        pthread_mutex_unlock(&c->lock);
        pthread_join(q->thread, NULL);
        pthread_cond_destroy(&q->more);
        free(q);
        c->host_queue[ch] = NULL;
    }
    if (c->host_words)
        sim_host_free(c->host_words, SIM_CHANNELS * sizeof *c->host_words);
    c->host_words = NULL;
}

static int launch_host(CUstream h, bool ptds, CUhostFn fn, void *data)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    const CUDA_HOST_NODE_PARAMS p = {fn, data};

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_capturing(s))
        return sim_host_submit(s, fn, NULL, data);
    struct sim_work w;
    rc = sim_work_host(&w, &p);
    return rc ? rc : sim_capture_work(s, &w);
}

static int add_callback(CUstream h, bool ptds, CUstreamCallback callback, void *data, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_capture_sync(s);
    return rc ? rc : sim_host_submit(s, NULL, callback, data);
}

EXPORT CUresult cuLaunchHostFunc(CUstream h, CUhostFn fn, void *data) { return launch_host(h, false, fn, data); }
EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream h, CUhostFn fn, void *data) { return launch_host(h, true, fn, data); }
EXPORT CUresult cuStreamAddCallback(CUstream h, CUstreamCallback callback, void *data, unsigned flags) { return add_callback(h, false, callback, data, flags); }
EXPORT CUresult cuStreamAddCallback_ptsz(CUstream h, CUstreamCallback callback, void *data, unsigned flags) { return add_callback(h, true, callback, data, flags); }
