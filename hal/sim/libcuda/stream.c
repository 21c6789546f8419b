/* Streams. They fold onto the channels of their context: the legacy stream has
 * channel 0, the others share the rest (ring.c says when). */
#include "sim.h"

#include <stdlib.h>

/* A thread's per-thread stream in one context. */
struct own {
    struct own *next;
    struct sim_stream *stream;
};

static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static bool own_ok;

static void own_gone(void *list)
{
    if (sim_ready())
        return; /* a forked child: the parent's locks may be taken for ever */
    for (struct own *o = list, *next; o; o = next) {
        next = o->next;
        sim_capture_stream_gone(o->stream);
        sim_object_free(o->stream);
        free(o);
    }
}

static void own_init(void) { own_ok = pthread_key_create(&own_key, own_gone) == 0; }

unsigned sim_stream_channel(struct sim_ctx *c)
{
    pthread_mutex_lock(&c->lock);
    unsigned ch = c->next_channel;
    c->next_channel = ch + 1 == SIM_CHANNELS ? 1 : ch + 1;
    pthread_mutex_unlock(&c->lock);
    return ch;
}

static struct sim_stream *stream_new(struct sim_ctx *c, unsigned flags, int priority)
{
    static uint64_t ids = 2; /* 1 and 2 are the default streams' */
    struct sim_stream *s = sim_stream_new();

    if (!s)
        return NULL;
    s->flags = flags;
    s->priority = priority;
    s->ctx = c;
    s->ctx_id = c->id;
    s->channel = sim_stream_channel(c);
    s->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&s->live, 1, __ATOMIC_RELEASE);
    return s;
}

static struct sim_stream *per_thread(struct sim_ctx *c)
{
    pthread_once(&own_once, own_init);
    if (!own_ok)
        return NULL;
    struct own *list = pthread_getspecific(own_key);
    for (struct own *o = list; o; o = o->next)
        if (o->stream->ctx == c && o->stream->ctx_id == c->id)
            return o->stream;
    struct own *o = malloc(sizeof *o);
    struct sim_stream *s = o ? stream_new(c, 0, 0) : NULL;
    if (!s) {
        free(o);
        return NULL;
    }
    s->per_thread = true;
    *o = (struct own){list, s};
    if (pthread_setspecific(own_key, o)) {
        sim_object_free(s);
        free(o);
        return NULL;
    }
    return s;
}

int sim_stream_of(CUstream handle, bool ptds, struct sim_ctx **c, struct sim_stream **out)
{
    /* A host function, which may not call the driver, can put work into a stream
     * that it names all the same. */
    int rc = sim_in_host_function() && sim_is_stream(handle) ? CUDA_SUCCESS : sim_current(c);
    if (rc)
        return rc;
    uintptr_t h = (uintptr_t)handle;
    if (h == 1 || (h == 0 && !ptds)) {
        *out = &(*c)->legacy;
        return CUDA_SUCCESS;
    }
    if (h == 0 || h == 2) {
        *out = per_thread(*c);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!sim_is_stream(handle) || handle->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_ctx_is(handle->ctx, handle->ctx_id))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *c = handle->ctx;
    *out = handle;
    return sim_ctx_error(*c);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > 0)
        priority = 0;
    if (priority < SIM_PRIORITY_GREATEST)
        priority = SIM_PRIORITY_GREATEST;
    struct sim_stream *s = stream_new(c, flags, priority);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = s;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_stream *s = stream_new(c, flags, 0);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = s;
    return CUDA_SUCCESS;
}

/* What is queued still runs. */
EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!sim_is_stream(handle) || handle->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_capture_stream_gone(handle);
    sim_object_free(handle);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

/* What a stream's caller waits for: its last command; for the legacy stream also
 * those of the blocking streams. Fills at most SIM_CHANNELS marks. */
static unsigned marks_of(struct sim_ctx *c, struct sim_stream *s, struct sim_mark m[SIM_CHANNELS])
{
    unsigned n = 0;

    pthread_mutex_lock(&c->lock);
    if (s->last)
        m[n++] = (struct sim_mark){c, s->ctx_id, s->channel, s->last};
    for (unsigned ch = 1; s->legacy && ch < SIM_CHANNELS; ch++)
        if (c->blocking[ch])
            m[n++] = (struct sim_mark){c, s->ctx_id, ch, c->blocking[ch]};
    pthread_mutex_unlock(&c->lock);
    return n;
}

static int synchronize(CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_mark m[SIM_CHANNELS];

    int rc = sim_ready();
    if (!rc)
        rc = sim_stream_of(h, ptds, &c, &s);
    if (!rc)
        rc = sim_capture_waits(s);
    if (rc)
        return rc;
    unsigned n = marks_of(c, s, m);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = sim_wait(&m[i]);
    sim_pools_settle();
    return rc ? rc : sim_ctx_error(c);
}

static int query(CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_mark m[SIM_CHANNELS];

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    rc = sim_capture_waits(s);
    if (rc)
        return rc;
    unsigned n = marks_of(c, s, m);
    for (unsigned i = 0; i < n; i++)
        if (!sim_done(&m[i]))
            return CUDA_ERROR_NOT_READY;
    return sim_ctx_error(c);
}

EXPORT CUresult cuStreamSynchronize(CUstream h) { return synchronize(h, false); }
EXPORT CUresult cuStreamSynchronize_ptsz(CUstream h) { return synchronize(h, true); }
EXPORT CUresult cuStreamQuery(CUstream h) { return query(h, false); }
EXPORT CUresult cuStreamQuery_ptsz(CUstream h) { return query(h, true); }

/* ---- questions ---- */

/* The stream that a getter is asked about: its handle is judged before where the answer goes. */
static int asked(CUstream h, bool ptds, const void *answer, struct sim_ctx **c, struct sim_stream **s)
{
    int rc = sim_stream_of(h, ptds, c, s);
    if (rc)
        return rc;
    return answer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int get_flags(CUstream h, bool ptds, unsigned *flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    int rc = asked(h, ptds, flags, &c, &s);
    if (!rc)
        rc = sim_capture_sync(s); /* so does an H200, and cuStreamGetPriority is another matter */
    if (!rc)
        *flags = s->flags;
    return rc;
}

static int get_priority(CUstream h, bool ptds, int *priority)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    int rc = asked(h, ptds, priority, &c, &s);
    if (!rc)
        *priority = s->priority;
    return rc;
}

static int get_ctx(CUstream h, bool ptds, CUcontext *out)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    int rc = asked(h, ptds, out, &c, &s);
    if (!rc)
        *out = c;
    return rc;
}

static int get_id(CUstream h, bool ptds, unsigned long long *id)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    int rc = asked(h, ptds, id, &c, &s);
    if (!rc)
        *id = s->per_thread ? 2 : s->id;
    return rc;
}

static int get_device(CUstream h, bool ptds, CUdevice *device)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    int rc = asked(h, ptds, device, &c, &s);
    if (!rc)
        *device = c->device;
    return rc;
}

EXPORT CUresult cuStreamGetFlags(CUstream h, unsigned *f) { return get_flags(h, false, f); }
EXPORT CUresult cuStreamGetFlags_ptsz(CUstream h, unsigned *f) { return get_flags(h, true, f); }
EXPORT CUresult cuStreamGetPriority(CUstream h, int *p) { return get_priority(h, false, p); }
EXPORT CUresult cuStreamGetPriority_ptsz(CUstream h, int *p) { return get_priority(h, true, p); }
EXPORT CUresult cuStreamGetCtx(CUstream h, CUcontext *c) { return get_ctx(h, false, c); }
EXPORT CUresult cuStreamGetCtx_ptsz(CUstream h, CUcontext *c) { return get_ctx(h, true, c); }
EXPORT CUresult cuStreamGetId(CUstream h, unsigned long long *i) { return get_id(h, false, i); }
EXPORT CUresult cuStreamGetId_ptsz(CUstream h, unsigned long long *i) { return get_id(h, true, i); }
EXPORT CUresult cuStreamGetDevice(CUstream h, CUdevice *d) { return get_device(h, false, d); }
EXPORT CUresult cuStreamGetDevice_ptsz(CUstream h, CUdevice *d) { return get_device(h, true, d); }
