/* Stream memory operations: waits for words and writes of them, one a call or
 * many. All of a batch is checked before any of it is queued. */
#include "graph.h"
#include "memops.h"

#define MAX_OPS 255u

static bool address_ok(CUdeviceptr address, unsigned width)
{
    struct sim_range r;
    return address % width == 0 && sim_range_find(address, width, &r);
}

static bool wait_ok(const CUstreamBatchMemOpParams *p, unsigned width)
{
    return !(p->flags & ~(3u | 1u << 30)) && address_ok(p->address, width); /* how to compare, and FLUSH */
}

static bool write_ok(const CUstreamBatchMemOpParams *p, unsigned width)
{
    return !p->flags && address_ok(p->address, width); /* an H200 takes no flag for a write */
}

static bool op_ok(const CUstreamBatchMemOpParams *p)
{
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_ok(p, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_ok(p, 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_ok(p, 4);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_ok(p, 8);
    case CU_STREAM_MEM_OP_BARRIER:
        return p->whole_flags <= 1;
    }
    return false;
}

int sim_memops_check(unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags)
{
    if (count > MAX_OPS || flags || (count && !ops))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (ops[i].operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
            return CUDA_ERROR_NOT_SUPPORTED; /* CAN_FLUSH_REMOTE_WRITES is 0 */
    for (unsigned i = 0; i < count; i++)
        if (!op_ok(&ops[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static struct sim_entry entry_of(const CUstreamBatchMemOpParams *p)
{
    const bool wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    struct sim_entry e = {.command = SIM_NOP};

    if (p->operation == CU_STREAM_MEM_OP_BARRIER)
        return e; /* commands of a stream end before the next begins */
    const bool wait = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    e.command = wait ? SIM_WAIT : SIM_WRITE;
    e.kind = wide ? 8 : 4;
    e.flags = wait ? p->flags & 3u : 0;
    e.a = p->address;
    e.b = wide ? p->value : (uint32_t)p->value;
    return e;
}

int sim_memops_run(struct sim_stream *s, unsigned count, const CUstreamBatchMemOpParams *ops)
{
    int rc = CUDA_SUCCESS;

    sim_stream_own(s);
    for (unsigned i = 0; i < count && !rc; i++) {
        struct sim_entry e = entry_of(&ops[i]);
        rc = sim_submit(s, &e, NULL);
    }
    sim_stream_disown(s);
    return rc;
}

static int operations(CUstream h, bool ptds, unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (!rc)
        rc = sim_memops_check(count, ops, flags);
    if (rc)
        return rc;
    if (!sim_capturing(s))
        return sim_memops_run(s, count, ops);
    struct sim_work w;
    rc = sim_work_batch(&w, count, ops, flags, c);
    return rc ? rc : sim_capture_work(s, &w);
}

static int word_op(unsigned operation, CUstream h, bool ptds, CUdeviceptr address, uint64_t value, unsigned flags)
{
    const CUstreamBatchMemOpParams p = {.operation = operation, .address = address, .value = value, .flags = flags};
    return operations(h, ptds, 1, &p, 0);
}

#define WORD_OP(name, operation, type)                                                            \
    EXPORT CUresult name(CUstream h, CUdeviceptr a, type v, unsigned flags)                       \
    {                                                                                            \
        return word_op(operation, h, false, a, v, flags);                                        \
    }                                                                                            \
    EXPORT CUresult name##_ptsz(CUstream h, CUdeviceptr a, type v, unsigned flags)                \
    {                                                                                            \
        return word_op(operation, h, true, a, v, flags);                                         \
    }

WORD_OP(cuStreamWaitValue32_v2, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
WORD_OP(cuStreamWriteValue32_v2, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
WORD_OP(cuStreamWaitValue64_v2, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
WORD_OP(cuStreamWriteValue64_v2, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)

#define BATCH(name)                                                                                            \
    EXPORT CUresult name(CUstream h, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)             \
    {                                                                                                          \
        return operations(h, false, count, ops, flags);                                                        \
    }                                                                                                          \
    EXPORT CUresult name##_ptsz(CUstream h, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)      \
    {                                                                                                          \
        return operations(h, true, count, ops, flags);                                                         \
    }

BATCH(cuStreamBatchMemOp_v2)

/* The first version, which a driver has to be told to allow (CAN_USE_STREAM_MEM_OPS_V1
 * is 0): it refuses whatever a stream is asked. */
static int first_version(CUstream h, bool ptds, unsigned count)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    return rc ? rc : count > MAX_OPS ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

#define FIRST(name, ptds, type)                                              \
    EXPORT CUresult name(CUstream h, CUdeviceptr a, type v, unsigned flags)  \
    {                                                                       \
        (void)a;                                                            \
        (void)v;                                                            \
        (void)flags;                                                        \
        return first_version(h, ptds, 1);                                   \
    }

FIRST(cuStreamWaitValue32, false, cuuint32_t)
FIRST(cuStreamWaitValue32_ptsz, true, cuuint32_t)
FIRST(cuStreamWriteValue32, false, cuuint32_t)
FIRST(cuStreamWriteValue32_ptsz, true, cuuint32_t)
FIRST(cuStreamWaitValue64, false, cuuint64_t)
FIRST(cuStreamWaitValue64_ptsz, true, cuuint64_t)
FIRST(cuStreamWriteValue64, false, cuuint64_t)
FIRST(cuStreamWriteValue64_ptsz, true, cuuint64_t)

EXPORT CUresult cuStreamBatchMemOp(CUstream h, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)
{
    (void)ops;
    (void)flags;
    return first_version(h, false, count);
}

EXPORT CUresult cuStreamBatchMemOp_ptsz(CUstream h, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)
{
    (void)ops;
    (void)flags;
    return first_version(h, true, count);
}
