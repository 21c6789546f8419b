/* Contexts: their life, each thread's stack of them, and questions about them. The
 * primary one is primary.c's. */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK 64u /* contexts a thread can push; the driver has no such limit */

struct binding {
    struct sim_ctx *ctx;
    uint64_t id; /* of a created context: the handle may have been given out again */
};

static __thread struct binding stack[STACK];
static __thread unsigned depth;

bool sim_ctx_is(const struct sim_ctx *c, uint64_t id)
{
    return __atomic_load_n(&c->live, __ATOMIC_ACQUIRE) && id && __atomic_load_n(&c->id, __ATOMIC_ACQUIRE) == id;
}

int sim_ctx_error(const struct sim_ctx *c)
{
    return c->mem ? (int)__atomic_load_n(&c->mem->error, __ATOMIC_ACQUIRE) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static int top(struct sim_ctx **out)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!depth || !stack[depth - 1].ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct binding *b = &stack[depth - 1];
    if (b->ctx->primary ? !__atomic_load_n(&b->ctx->id, __ATOMIC_ACQUIRE) : !sim_ctx_is(b->ctx, b->id))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = b->ctx;
    return CUDA_SUCCESS;
}

int sim_current(struct sim_ctx **out)
{
    int rc = top(out);
    return rc ? rc : sim_ctx_error(*out);
}

/* ---- life ---- */

int sim_ctx_begin(struct sim_ctx *c)
{
    struct sim_request q = {.op = SIM_CONTEXT, .device = sim_devices[c->device].number};
    struct sim_reply r;
    int fd;

    int rc = sim_call(&q, -1, &r, &fd);
    if (rc)
        return rc;
    void *mem = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct sim_context), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (mem == MAP_FAILED) {
        q = (struct sim_request){.op = SIM_CONTEXT_END, .a = r.a};
        sim_call(&q, -1, &r, NULL);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->disowned, NULL);
    c->mem = mem;
    c->next_channel = 1;
    c->legacy_last = 0;
    memset(c->legacy_seen, 0, sizeof c->legacy_seen);
    memset(c->blocking, 0, sizeof c->blocking);
    memset(c->blocking_seen, 0, sizeof c->blocking_seen);
    memset(c->waits, 0, sizeof c->waits);
    memset(c->barred, 0, sizeof c->barred);
    c->legacy = (struct sim_stream){.live = 1, .ctx = c, .ctx_id = r.a, .legacy = true, .id = 1};
    __atomic_store_n(&c->id, r.a, __ATOMIC_RELEASE);
    __atomic_store_n(&c->live, 1, __ATOMIC_RELEASE);
    rc = sim_rm_context_begin(c);
    if (rc)
        sim_ctx_end(c);
    return rc;
}

/* The shared memory of a context that has ended stays mapped for a while: another
 * thread may just be looking at its rings. */
static void bury(struct sim_context *mem)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct sim_context *buried[8];
    static unsigned next;

    pthread_mutex_lock(&lock);
    struct sim_context *oldest = buried[next];
    buried[next] = mem;
    next = (next + 1) % (sizeof buried / sizeof *buried);
    pthread_mutex_unlock(&lock);
    if (oldest)
        munmap(oldest, sizeof *oldest);
}

/* Ends the device's side and forgets what belongs to it. */
void sim_ctx_end(struct sim_ctx *c)
{
    struct sim_request q = {.op = SIM_CONTEXT_END, .a = c->id};
    struct sim_reply r;

    sim_ctx_drain(c);
    sim_host_context_gone(c);
    sim_capture_context_gone(c);
    sim_module_context_gone(c);
    sim_memory_context_gone(c);
    sim_rm_context_end(c);
    sim_call(&q, -1, &r, NULL);
    pthread_mutex_lock(&c->lock);
    __atomic_store_n(&c->id, 0, __ATOMIC_RELEASE);
    free(c->free_slots);
    c->free_slots = NULL;
    c->slots_used = c->slots_free = c->slots_first = 0;
    c->chunk_count = 0;
    pthread_mutex_unlock(&c->lock);
    bury(c->mem);
}

int sim_ctx_drain(struct sim_ctx *c)
{
    int rc = CUDA_SUCCESS;

    for (unsigned ch = 0; ch < SIM_CHANNELS; ch++) {
        struct sim_mark m = {c, c->id, ch, __atomic_load_n(&c->mem->rings[ch].put, __ATOMIC_SEQ_CST)};
        int one = sim_wait(&m);
        rc = rc ? rc : one;
    }
    return rc;
}

/* ---- the thread's stack ---- */

static int push(struct sim_ctx *c)
{
    if (depth == STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = (struct binding){c, c->id};
    return CUDA_SUCCESS;
}

static bool known(const struct sim_ctx *c)
{
    return sim_is_ctx(c) && c->id;
}

/* Which of the scheduling flags is given: at most one. */
bool sim_ctx_flags_ok(unsigned flags)
{
    unsigned sched = flags & 7u;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && (sched <= 2 || sched == 4);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = depth ? stack[depth - 1].ctx : NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext c)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!c) {
        if (depth)
            depth--;
        return CUDA_SUCCESS;
    }
    if (!sim_was_ctx(c)) /* one that was destroyed can be made current, and answers so */
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!depth)
        return push(c);
    stack[depth - 1] = (struct binding){c, c->id};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext c)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    return known(c) ? push(c) : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth].ctx;
    return CUDA_SUCCESS;
}

/* The names of before CUDA 4.0, which differ only in where contexts may be
 * current. */
EXPORT CUresult cuCtxPushCurrent(CUcontext c) { return cuCtxPushCurrent_v2(c); }
EXPORT CUresult cuCtxPopCurrent(CUcontext *out) { return cuCtxPopCurrent_v2(out); }

#define COREDUMP 0x20u
#define COREDUMP_BY_USER 0x40u /* read back as the former */

static int create(CUcontext *out, unsigned flags, CUdevice device, unsigned version)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !sim_ctx_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_ctx *c = sim_ctx_new();
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->device = device;
    c->flags = flags & COREDUMP_BY_USER ? (flags & ~COREDUMP_BY_USER) | COREDUMP : flags;
    c->version = version;
    rc = sim_ctx_begin(c);
    if (!rc)
        rc = push(c);
    if (rc) {
        if (c->id)
            sim_ctx_end(c);
        c->live = 1;
        sim_object_free(c);
        return rc;
    }
    *out = c;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device) { return create(out, flags, device, 3010); }
EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) { return create(out, flags, device, 3020); }

/* Shares of the multiprocessors are for clients of a multi-process server. */
EXPORT CUresult cuCtxCreate_v3(CUcontext *out, const void *affinity, int n, unsigned flags, CUdevice device)
{
    if (n < 0 || !affinity != !n)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    if (n)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device, 3020);
}

struct create_params {
    const void *affinity;
    int n;
    const void *graphics;
};

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, const struct create_params *p, unsigned flags, CUdevice device)
{
    if (p && p->graphics)
        return sim_unsupported("cuCtxCreate_v4 for use in graphics");
    return p ? cuCtxCreate_v3(out, p->affinity, p->n, flags, device) : create(out, flags, device, 3020);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext c)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(c) || c->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth && stack[depth - 1].ctx == c)
        depth--;
    sim_ctx_end(c);
    sim_object_free(c);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy(CUcontext c) { return cuCtxDestroy_v2(c); }

/* The uses that programs of before version 4 count. */
EXPORT CUresult cuCtxAttach(CUcontext *out, unsigned flags)
{
    struct sim_ctx *c;
    int rc = top(&c);
    if (rc)
        return rc;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_add_fetch(&c->attached, 1, __ATOMIC_RELAXED);
    *out = c;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDetach(CUcontext c)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!known(c) || !depth || stack[depth - 1].ctx != c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!c->attached)
        return cuCtxDestroy_v2(c);
    __atomic_sub_fetch(&c->attached, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    struct sim_ctx *c;
    int rc = top(&c);
    if (rc)
        return rc;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = c->device;
    return CUDA_SUCCESS;
}

static int one(CUcontext c, struct sim_ctx **out)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!c)
        return top(out);
    *out = c;
    return known(c) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    struct sim_ctx *c;
    int rc = one(ctx, &c);
    if (rc)
        return rc;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = c->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags)
{
    struct sim_ctx *c;
    int rc = top(&c);
    if (rc)
        return rc;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = c->flags;
    return CUDA_SUCCESS;
}

/* Which flags can be set later: how the host waits. */
EXPORT CUresult cuCtxSetFlags(unsigned flags)
{
    struct sim_ctx *c;
    int rc = top(&c);
    if (rc)
        return rc;
    if (!sim_ctx_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    c->flags = flags & ~(unsigned)CU_CTX_MAP_HOST;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    struct sim_ctx *c;
    int rc = one(ctx, &c);
    if (rc)
        return rc;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = c->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
    struct sim_ctx *c;
    int rc = one(ctx, &c);
    if (rc)
        return rc;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = c->version ? c->version : 3020; /* the primary context is of the newer kind */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct sim_ctx *c;
    int rc = top(&c);
    if (rc)
        return rc;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = SIM_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

static int synchronize(struct sim_ctx *c)
{
    int rc = sim_capture_context(c);
    if (rc)
        return rc;
    rc = sim_ctx_drain(c);
    sim_pools_settle();
    return rc;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    return rc ? rc : synchronize(c);
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    struct sim_ctx *c;
    int rc = one(ctx, &c);
    return rc ? rc : synchronize(c);
}

/* ---- events of a whole context ---- */

EXPORT CUresult cuCtxRecordEvent(CUcontext ctx, CUevent e)
{
    struct sim_ctx *c;
    int rc = one(ctx, &c);
    if (rc)
        return rc;
    return sim_is_event(e) ? sim_event_record_all(c, e) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuCtxWaitEvent(CUcontext ctx, CUevent e)
{
    struct sim_ctx *c;
    int rc = one(ctx, &c);
    if (rc)
        return rc;
    if (!sim_is_event(e))
        return CUDA_ERROR_INVALID_HANDLE;
    rc = sim_event_wait(&c->legacy, e); /* and all that comes waits for the legacy stream */
    if (!rc)
        sim_ctx_barrier(c);
    return rc;
}
