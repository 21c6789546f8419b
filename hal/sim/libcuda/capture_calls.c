/* The program's calls that begin captures, end them and ask about them. */
#include "capture.h"

static int begin_capture(CUstream h, bool ptds, int mode)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_capture_implicit(s);
    if (rc || s->legacy)
        return rc ? rc : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&sim_graph_lock);
    rc = sim_capture_begin(s, c, mode, NULL, NULL, 0);
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuStreamBeginCapture(CUstream h) { return begin_capture(h, false, CU_STREAM_CAPTURE_MODE_GLOBAL); }
EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream h) { return begin_capture(h, true, CU_STREAM_CAPTURE_MODE_GLOBAL); }
EXPORT CUresult cuStreamBeginCapture_v2(CUstream h, int mode) { return begin_capture(h, false, mode); }
EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream h, int mode) { return begin_capture(h, true, mode); }

static bool nodes_of(const struct sim_graph *g, const CUgraphNode *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!nodes || !sim_is_node(nodes[i]) || nodes[i]->graph != g)
            return false;
    return true;
}

static int begin_to_graph(CUstream h, bool ptds, CUgraph g, const CUgraphNode *before, size_t n, int mode)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_capture_implicit(s);
    if (rc || s->legacy)
        return rc ? rc : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&sim_graph_lock);
    rc = sim_is_graph(g) && !g->capturing && nodes_of(g, before, n) ? sim_capture_begin(s, c, mode, g, before, n) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream h, CUgraph g, const CUgraphNode *before, const CUgraphEdgeData *data, size_t n, int mode)
{
    (void)data;
    return begin_to_graph(h, false, g, before, n, mode);
}

EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream h, CUgraph g, const CUgraphNode *before, const CUgraphEdgeData *data, size_t n, int mode)
{
    (void)data;
    return begin_to_graph(h, true, g, before, n, mode);
}

static int end_capture(CUstream h, bool ptds, CUgraph *out)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_graph *g = NULL;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    pthread_mutex_lock(&sim_graph_lock);
    rc = sim_capture_end(s, &g);
    if (!out && g) { /* nobody wants it */
        sim_graph_drop(g);
        g = NULL;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    if (out)
        *out = g;
    return rc;
}

EXPORT CUresult cuStreamEndCapture(CUstream h, CUgraph *out) { return end_capture(h, false, out); }
EXPORT CUresult cuStreamEndCapture_ptsz(CUstream h, CUgraph *out) { return end_capture(h, true, out); }

struct info {
    int *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **tail;
    const CUgraphEdgeData **data;
    size_t *tails;
};

static int tell(CUstream h, bool ptds, struct info to)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (!to.status)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_capture_is_implicit(s))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    pthread_mutex_lock(&sim_graph_lock);
    const struct sim_capture *cap = s->capture;
    *to.status = !cap ? CU_STREAM_CAPTURE_STATUS_NONE : cap->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (cap && !cap->invalid) {
        if (to.id)
            *to.id = cap->id;
        if (to.graph)
            *to.graph = cap->graph;
        if (to.tail)
            *to.tail = s->tail;
        if (to.data)
            *to.data = s->edges;
        if (to.tails)
            *to.tails = s->tails;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream h, int *status) { return tell(h, false, (struct info){.status = status}); }
EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream h, int *status) { return tell(h, true, (struct info){.status = status}); }
EXPORT CUresult cuStreamGetCaptureInfo(CUstream h, int *status, cuuint64_t *id) { return tell(h, false, (struct info){.status = status, .id = id}); }
EXPORT CUresult cuStreamGetCaptureInfo_ptsz(CUstream h, int *status, cuuint64_t *id) { return tell(h, true, (struct info){.status = status, .id = id}); }

#define INFO_V2 CUstream h, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **tail, size_t *tails
#define INFO_V3 CUstream h, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **tail, const CUgraphEdgeData **data, size_t *tails

EXPORT CUresult cuStreamGetCaptureInfo_v2(INFO_V2) { return tell(h, false, (struct info){status, id, graph, tail, NULL, tails}); }
EXPORT CUresult cuStreamGetCaptureInfo_v2_ptsz(INFO_V2) { return tell(h, true, (struct info){status, id, graph, tail, NULL, tails}); }
EXPORT CUresult cuStreamGetCaptureInfo_v3(INFO_V3) { return tell(h, false, (struct info){status, id, graph, tail, data, tails}); }
EXPORT CUresult cuStreamGetCaptureInfo_v3_ptsz(INFO_V3) { return tell(h, true, (struct info){status, id, graph, tail, data, tails}); }

static int update(CUstream h, bool ptds, const CUgraphNode *nodes, size_t n, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    const struct sim_capture *cap = s->capture;
    bool ok = cap && !cap->invalid && nodes_of(cap->graph, nodes, n);
    rc = ok ? CUDA_SUCCESS : cap && cap->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : cap ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_ILLEGAL_STATE;
    if (ok && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->tails = 0;
    for (size_t i = 0; ok && i < n && !rc; i++)
        rc = sim_capture_add_tail(s, nodes[i]) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim_graph_lock);
    return rc;
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode *nodes, size_t n, unsigned flags) { return update(h, false, nodes, n, flags); }
EXPORT CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream h, CUgraphNode *nodes, size_t n, unsigned flags) { return update(h, true, nodes, n, flags); }
EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream h, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t n, unsigned flags)
{
    (void)data;
    return update(h, false, nodes, n, flags);
}
EXPORT CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream h, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t n, unsigned flags)
{
    (void)data;
    return update(h, true, nodes, n, flags);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    int old = sim_capture_mode;
    sim_capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
