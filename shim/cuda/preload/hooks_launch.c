/* Launches whose stream is not a parameter of its own, and captures. */
#include <stddef.h>

#include "admission.h"
#include "hooks.h"
#include "probes.h"
#include "record.h"
#include "sample.h"

static CUstream stream_of(const CUlaunchConfig *config)
{
    return config ? config->hStream : NULL; /* the driver refuses the NULL */
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    CUresult result;
    bool sampled = xm_learns() && xm_sample_begin_config(config, f, params, extra);

    XM_SITE(launch, stream_of(config), 0, 0);
    xm_admit(stream_of(config), 0);
    result = xm_done(XM_DRIVER(cuLaunchKernelEx)(config, f, params, extra));
    if (xm_recording() && result == CUDA_SUCCESS)
        xm_record_config(0, config, f, params, extra);
    if (sampled)
        xm_sample_end(result);
    return result;
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    CUresult result;
    bool sampled = xm_learns() && xm_sample_begin_config(config, f, params, extra);

    XM_SITE(launch, stream_of(config), XM_PTDS, 0);
    xm_admit(stream_of(config), XM_PTDS);
    result = xm_done(XM_DRIVER(cuLaunchKernelEx_ptsz)(config, f, params, extra));
    if (xm_recording() && result == CUDA_SUCCESS)
        xm_record_config(XM_PTDS, config, f, params, extra);
    if (sampled)
        xm_sample_end(result);
    return result;
}

/* Counted before the driver is asked: no command of another thread may slip
 * between the capture's beginning and our knowing of it. */
#define BEGIN_CAPTURE(call)                                                        \
    CUresult result;                                                               \
                                                                                   \
    if (xm_learns())                                                               \
        xm_sample_quiet();                                                         \
    xm_capture_began(hStream);                                                     \
    result = call;                                                                 \
    if (result != CUDA_SUCCESS)                                                    \
        xm_capture_ended(hStream);                                                 \
    return result

CUresult cuStreamBeginCapture(CUstream hStream)
{
    BEGIN_CAPTURE(XM_DRIVER(cuStreamBeginCapture)(hStream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
    BEGIN_CAPTURE(XM_DRIVER(cuStreamBeginCapture_ptsz)(hStream));
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(XM_DRIVER(cuStreamBeginCapture_v2)(hStream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(XM_DRIVER(cuStreamBeginCapture_v2_ptsz)(hStream, mode));
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph graph, const CUgraphNode *nodes,
                                     const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(XM_DRIVER(cuStreamBeginCaptureToGraph)(hStream, graph, nodes, edges, n, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph graph, const CUgraphNode *nodes,
                                          const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(XM_DRIVER(cuStreamBeginCaptureToGraph_ptsz)(hStream, graph, nodes, edges, n, mode));
}

typedef CUresult is_capturing_fn(CUstream, CUstreamCaptureStatus *);

static bool captures(is_capturing_fn *ask, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return ask && ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether a failed end has ended the capture (it was invalid) or not (another
 * thread's, or a stream that merely joined) only the driver knows. */
#define END_CAPTURE(call, ask)                                                     \
    bool before = captures(ask, hStream);                                          \
    CUresult result = call;                                                        \
                                                                                   \
    if (before && !captures(ask, hStream))                                         \
        xm_capture_ended(hStream);                                                 \
    return result

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *graph)
{
    END_CAPTURE(XM_DRIVER(cuStreamEndCapture)(hStream, graph), xm_real.cuStreamIsCapturing);
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *graph)
{
    END_CAPTURE(XM_DRIVER(cuStreamEndCapture_ptsz)(hStream, graph), xm_real.cuStreamIsCapturing_ptsz);
}
