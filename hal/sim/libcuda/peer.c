/* Contexts to each other: access of one device's to the memory of another's, and
 * their order. */
#include "copy.h"

static bool alive(CUcontext c) { return sim_is_ctx(c) && c->id; }

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_is(device) || !sim_device_is(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

enum { PERFORMANCE_RANK = 1, ACCESS_SUPPORTED, NATIVE_ATOMIC_SUPPORTED, ARRAY_ACCESS_SUPPORTED };

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice from, CUdevice to)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_is(from) || !sim_device_is(to) || from == to)
        return CUDA_ERROR_INVALID_DEVICE;
    if (attribute < PERFORMANCE_RANK || attribute > ARRAY_ACCESS_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == ACCESS_SUPPORTED || attribute == NATIVE_ATOMIC_SUPPORTED; /* all links are alike: rank 0 */
    return CUDA_SUCCESS;
}

/* The device knows who has access, and whether anything changes. */
static int set_peer(CUcontext peer, bool on)
{
    struct sim_ctx *c;
    struct sim_reply r;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!alive(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->device == peer->device)
        return on ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    struct sim_request q = {.op = SIM_PEER, .a = c->id, .b = peer->id, .c = on};
    return sim_call(&q, -1, &r, NULL);
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    return flags ? CUDA_ERROR_INVALID_VALUE : set_peer(peer, true);
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) { return set_peer(peer, false); }

static int wait_for(struct sim_stream *s, const struct sim_mark *m)
{
    struct sim_entry e = {.command = SIM_AFTER, .a = m->ctx_id, .b = m->channel, .c = m->count};
    return sim_submit(s, &e, NULL);
}

int sim_order_behind(struct sim_stream *s, struct sim_ctx *other)
{
    struct sim_entry e = {.command = SIM_NOP};
    struct sim_mark m;
    int rc = sim_submit_behind_all(other, &e, &m);
    return rc ? rc : wait_for(s, &m);
}

int sim_order_before(struct sim_ctx *other, struct sim_stream *s)
{
    struct sim_entry e = {.command = SIM_NOP};
    struct sim_mark m;
    int rc = sim_submit(s, &e, &m);
    if (!rc)
        rc = wait_for(&other->legacy, &m);
    if (!rc)
        sim_ctx_barrier(other);
    return rc;
}
