/* Events: a mark in a channel, and a slot where the device puts the time. */
#include "sim.h"

#include <stdlib.h>

/* Takes a slot whose last writer has passed. */
static bool slot_take(struct sim_ctx *c, uint32_t *slot)
{
    bool ok = false;

    pthread_mutex_lock(&c->lock);
    if (!c->free_slots)
        c->free_slots = malloc(SIM_EVENTS * sizeof *c->free_slots);
    struct sim_free_slot *f = c->free_slots ? &c->free_slots[c->slots_first % SIM_EVENTS] : NULL;
    if (f && c->slots_free && __atomic_load_n(&c->mem->rings[f->channel].get, __ATOMIC_SEQ_CST) >= f->count) {
        *slot = f->slot;
        c->slots_first++;
        c->slots_free--;
        ok = true;
    } else if (f && c->slots_used < SIM_EVENTS) {
        *slot = c->slots_used++;
        ok = true;
    }
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static void slot_give(struct sim_event *e)
{
    struct sim_ctx *c = e->ctx;

    pthread_mutex_lock(&c->lock);
    if (sim_ctx_is(c, e->ctx_id) && c->free_slots) {
        struct sim_free_slot f = {.slot = e->slot};
        if (e->recorded && e->mark.ctx == c)
            f = (struct sim_free_slot){e->slot, e->mark.channel, e->mark.count};
        c->free_slots[(c->slots_first + c->slots_free++) % SIM_EVENTS] = f;
    }
    pthread_mutex_unlock(&c->lock);
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || flags > 7 || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS)
        return sim_unsupported("cuEventCreate with CU_EVENT_INTERPROCESS");
    struct sim_event *e = sim_event_new();
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->flags = flags;
    e->ctx = c;
    e->ctx_id = c->id;
    bool timed = !(flags & CU_EVENT_DISABLE_TIMING);
    bool ok = !timed || slot_take(c, &e->slot);
    __atomic_store_n(&e->live, 1, __ATOMIC_RELEASE);
    if (!ok) {
        sim_object_free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = e;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_is_event(e))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!(e->flags & CU_EVENT_DISABLE_TIMING))
        slot_give(e);
    sim_capture_event_gone(e);
    sim_object_free(e);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent e) { return cuEventDestroy_v2(e); }

static int check(CUevent e)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    return sim_is_event(e) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static int recorded(struct sim_ctx *c, struct sim_event *e, const struct sim_mark *mark)
{
    sim_capture_event_gone(e);
    pthread_mutex_lock(&c->lock);
    e->mark = *mark;
    e->recorded = true;
    pthread_mutex_unlock(&c->lock);
    return CUDA_SUCCESS;
}

int sim_event_record(struct sim_stream *s, struct sim_ctx *c, struct sim_event *e)
{
    struct sim_mark mark;
    struct sim_entry entry = {.command = SIM_EVENT, .a = e->slot};

    if (e->ctx != c || e->ctx_id != s->ctx_id)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->flags & CU_EVENT_DISABLE_TIMING)
        entry = (struct sim_entry){.command = SIM_NOP};
    int rc = sim_submit(s, &entry, &mark);
    return rc ? rc : recorded(c, e, &mark);
}

int sim_event_record_all(struct sim_ctx *c, struct sim_event *e)
{
    struct sim_mark mark;
    struct sim_entry entry = {.command = e->flags & CU_EVENT_DISABLE_TIMING ? SIM_NOP : SIM_EVENT, .a = e->slot};

    if (e->ctx != c || e->ctx_id != c->id)
        return CUDA_ERROR_INVALID_HANDLE;
    int rc = sim_submit_behind_all(c, &entry, &mark);
    return rc ? rc : recorded(c, e, &mark);
}

static int record(CUevent e, CUstream h, bool ptds, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = check(e);
    if (!rc)
        rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags && !sim_capturing(s))
        return CUDA_ERROR_ILLEGAL_STATE; /* EXTERNAL means something in captures alone */
    if (e->ctx != c || e->ctx_id != s->ctx_id)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_capturing(s) ? sim_capture_record(s, e, flags) : sim_event_record(s, c, e);
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream h) { return record(e, h, false, 0); }
EXPORT CUresult cuEventRecord_ptsz(CUevent e, CUstream h) { return record(e, h, true, 0); }
EXPORT CUresult cuEventRecordWithFlags(CUevent e, CUstream h, unsigned flags) { return record(e, h, false, flags); }
EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent e, CUstream h, unsigned flags) { return record(e, h, true, flags); }

static bool mark_of(struct sim_event *e, struct sim_mark *m)
{
    pthread_mutex_lock(&e->ctx->lock);
    bool recorded = e->recorded;
    *m = e->mark;
    pthread_mutex_unlock(&e->ctx->lock);
    return recorded;
}

EXPORT CUresult cuEventQuery(CUevent e)
{
    struct sim_mark m;
    int rc = check(e);
    if (rc)
        return rc;
    rc = sim_capture_event(e);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    if (mark_of(e, &m) && !sim_done(&m))
        return CUDA_ERROR_NOT_READY;
    return sim_ctx_is(e->ctx, e->ctx_id) ? sim_ctx_error(e->ctx) : CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
    struct sim_mark m;
    int rc = check(e);
    if (rc)
        return rc;
    rc = sim_capture_event(e);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    rc = mark_of(e, &m) ? sim_wait(&m) : CUDA_SUCCESS;
    sim_pools_settle();
    return rc;
}

static int elapsed(float *ms, CUevent start, CUevent end)
{
    struct sim_mark a, b;

    int rc = check(start);
    if (!rc)
        rc = check(end);
    if (rc)
        return rc;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !mark_of(start, &a) || !mark_of(end, &b))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_done(&a) || !sim_done(&b))
        return CUDA_ERROR_NOT_READY;
    if (start->ctx != end->ctx || !sim_ctx_is(start->ctx, start->ctx_id))
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t from = __atomic_load_n(&start->ctx->mem->stamps[start->slot], __ATOMIC_ACQUIRE);
    uint64_t to = __atomic_load_n(&end->ctx->mem->stamps[end->slot], __ATOMIC_ACQUIRE);
    *ms = (float)((double)(int64_t)(to - from) / 1e6);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) { return elapsed(ms, start, end); }
EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) { return elapsed(ms, start, end); }

int sim_event_wait(struct sim_stream *s, struct sim_event *e)
{
    struct sim_mark m;

    if (!mark_of(e, &m) || sim_done(&m))
        return CUDA_SUCCESS; /* never recorded, or past */
    struct sim_entry entry = {.command = SIM_AFTER, .a = m.ctx_id, .b = m.channel, .c = m.count};
    int rc = sim_submit(s, &entry, NULL);
    if (!rc && m.ctx == s->ctx) {
        pthread_mutex_lock(&s->ctx->lock);
        if (s->seen[m.channel] < m.count)
            s->seen[m.channel] = m.count;
        pthread_mutex_unlock(&s->ctx->lock);
    }
    return rc;
}

static int wait_event(CUstream h, bool ptds, CUevent e, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (!rc)
        rc = check(e);
    if (rc)
        return rc;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags && !sim_capturing(s))
        return CUDA_ERROR_ILLEGAL_STATE;
    rc = sim_capture_implicit(s);
    if (rc)
        return rc;
    if (sim_capturing(s) || __atomic_load_n(&e->capture, __ATOMIC_ACQUIRE))
        return sim_capture_wait(s, e, flags);
    return sim_event_wait(s, e);
}

EXPORT CUresult cuStreamWaitEvent(CUstream h, CUevent e, unsigned flags) { return wait_event(h, false, e, flags); }
EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream h, CUevent e, unsigned flags) { return wait_event(h, true, e, flags); }
