/* Copies in two and three dimensions, and between contexts. */
#include "copy.h"

/* Between contexts, if there are some: such a copy has no place in a capture; when no
 * stream is named it is in order with all that either context has and gets. */
struct ends {
    CUcontext to, from;
};

#define WITHIN ((struct ends){NULL, NULL})

static int run(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t, struct ends ends, bool async)
{
    const CUcontext both[2] = {ends.to, ends.from};
    int rc = ends.to && sim_capturing(s) ? sim_capture_sync(s) : CUDA_SUCCESS;

    for (int i = 0; i < 2 && !rc && !async; i++)
        if (both[i] && both[i] != c)
            rc = sim_order_behind(s, both[i]);
    if (!rc)
        rc = sim_transfer_run(c, s, t, async);
    for (int i = 0; i < 2 && !rc && !async; i++)
        if (both[i] && both[i] != c)
            rc = sim_order_before(both[i], s);
    return rc;
}

static int copy3d(const CUDA_MEMCPY3D *p, struct ends ends, CUstream h, bool ptds, bool async)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_transfer t;
    bool nothing;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_transfer_of(&t, p, &nothing);
    return rc || nothing ? rc : run(c, s, &t, ends, async);
}

static int copy2d(const CUDA_MEMCPY2D *p, CUstream h, bool ptds, bool async)
{
    if (!p)
        return copy3d(NULL, WITHIN, h, ptds, async);
    const CUDA_MEMCPY3D d = {
        .srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcMemoryType = p->srcMemoryType, .srcHost = p->srcHost,
        .srcDevice = p->srcDevice, .srcArray = p->srcArray, .srcPitch = p->srcPitch, .srcHeight = p->srcY + p->Height,
        .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstMemoryType = p->dstMemoryType, .dstHost = p->dstHost,
        .dstDevice = p->dstDevice, .dstArray = p->dstArray, .dstPitch = p->dstPitch, .dstHeight = p->dstY + p->Height,
        .WidthInBytes = p->WidthInBytes, .Height = p->Height, .Depth = 1,
    };
    return copy3d(&d, WITHIN, h, ptds, async);
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) { return copy2d(p, NULL, false, false); }
EXPORT CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *p) { return copy2d(p, NULL, true, false); }
EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) { return copy2d(p, NULL, false, false); }
EXPORT CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *p) { return copy2d(p, NULL, true, false); }
EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream h) { return copy2d(p, h, false, true); }
EXPORT CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *p, CUstream h) { return copy2d(p, h, true, true); }
EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) { return copy3d(p, WITHIN, NULL, false, false); }
EXPORT CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *p) { return copy3d(p, WITHIN, NULL, true, false); }
EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream h) { return copy3d(p, WITHIN, h, false, true); }
EXPORT CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *p, CUstream h) { return copy3d(p, WITHIN, h, true, true); }

/* ---- between contexts, which share one address space ---- */

static bool alive(CUcontext c) { return sim_is_ctx(c) && c->id; }

static int copy3d_peer(const CUDA_MEMCPY3D *p, CUstream h, bool ptds, bool async)
{
    if (p && !sim_ready() && (!alive(p->srcContext) || !alive(p->dstContext)))
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy3d(p, p ? (struct ends){p->dstContext, p->srcContext} : WITHIN, h, ptds, async);
}

EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D *p) { return copy3d_peer(p, NULL, false, false); }
EXPORT CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D *p) { return copy3d_peer(p, NULL, true, false); }
EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *p, CUstream h) { return copy3d_peer(p, h, false, true); }
EXPORT CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D *p, CUstream h) { return copy3d_peer(p, h, true, true); }

struct peer_copy {
    CUdeviceptr to;
    CUcontext to_ctx;
    CUdeviceptr from;
    CUcontext from_ctx;
    size_t n;
};

static int copy_peer(struct peer_copy p, CUstream h, bool ptds, bool async)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_transfer t;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (p.n && (!p.to || !p.from))
        return CUDA_ERROR_INVALID_VALUE;
    if (!alive(p.to_ctx) || !alive(p.from_ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!p.n)
        return CUDA_SUCCESS;
    rc = sim_transfer_bytes(&t, p.to, p.from, p.n, SIM_WITHIN);
    return rc ? rc : run(c, s, &t, (struct ends){p.to_ctx, p.from_ctx}, async);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n)
{
    return copy_peer((struct peer_copy){d, dc, s, sc, n}, NULL, false, false);
}

EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n)
{
    return copy_peer((struct peer_copy){d, dc, s, sc, n}, NULL, true, false);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream h)
{
    return copy_peer((struct peer_copy){d, dc, s, sc, n}, h, false, true);
}

EXPORT CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream h)
{
    return copy_peer((struct peer_copy){d, dc, s, sc, n}, h, true, true);
}
