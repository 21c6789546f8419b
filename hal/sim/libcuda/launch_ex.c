/* Launches with attributes. What an attribute changes here is what the program can
 * see: which launches are refused, and events. Blocks of a cluster and of a
 * cooperative launch are resident at once in any case. */
#include "cu_graph.h"
#include "launch.h"

#include <string.h>

enum { /* CUlaunchAttributeID */
    IGNORE,
    ACCESS_POLICY_WINDOW,
    COOPERATIVE,
    SYNCHRONIZATION_POLICY,
    CLUSTER_DIMENSION,
    CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    PROGRAMMATIC_STREAM_SERIALIZATION,
    PROGRAMMATIC_EVENT,
    PRIORITY,
    MEM_SYNC_DOMAIN_MAP,
    MEM_SYNC_DOMAIN,
    PREFERRED_CLUSTER_DIMENSION,
    LAUNCH_COMPLETION_EVENT,
    DEVICE_UPDATABLE_KERNEL_NODE,
    PREFERRED_SHARED_MEMORY_CARVEOUT,
    NVLINK_UTIL_CENTRIC_SCHEDULING = 16
};

#define PORTABLE_CLUSTER 8u
#define LARGEST_CLUSTER 16u

/* What the attributes of a launch come to. */
struct wishes {
    bool together;
    bool clustered;
    unsigned cluster[3];
    CUevent event;
};

static uint32_t word(const struct cu_launch_attribute *a, unsigned i)
{
    uint32_t v;
    memcpy(&v, a->value + 4 * i, sizeof v);
    return v;
}

static int event_of(const struct cu_launch_attribute *a, struct wishes *w)
{
    memcpy(&w->event, a->value, sizeof w->event);
    if (!sim_is_event(w->event))
        return CUDA_ERROR_INVALID_VALUE;
    return w->event->flags & CU_EVENT_DISABLE_TIMING ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static int take(const struct cu_launch_attribute *a, struct wishes *w)
{
    switch (a->id) {
    case IGNORE:
    case ACCESS_POLICY_WINDOW:
    case PROGRAMMATIC_STREAM_SERIALIZATION:
    case PRIORITY:
    case MEM_SYNC_DOMAIN_MAP:
    case PREFERRED_CLUSTER_DIMENSION:
    case NVLINK_UTIL_CENTRIC_SCHEDULING:
        return CUDA_SUCCESS;
    case COOPERATIVE:
        w->together = word(a, 0) != 0;
        return CUDA_SUCCESS;
    case CLUSTER_DIMENSION:
        for (unsigned i = 0; i < 3; i++)
            w->cluster[i] = word(a, i);
        w->clustered = w->cluster[0] || w->cluster[1] || w->cluster[2]; /* all of them 0: none */
        return CUDA_SUCCESS;
    case CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return word(a, 0) <= 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case MEM_SYNC_DOMAIN:
        return word(a, 0) <= 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case PREFERRED_SHARED_MEMORY_CARVEOUT:
        return word(a, 0) <= 100 || word(a, 0) == UINT32_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case PROGRAMMATIC_EVENT:
    case LAUNCH_COMPLETION_EVENT:
        return event_of(a, w);
    case DEVICE_UPDATABLE_KERNEL_NODE:
        return word(a, 0) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static int cluster_ok(const struct sim_shape *shape, const struct wishes *w, bool wide)
{
    uint64_t n = (uint64_t)w->cluster[0] * w->cluster[1] * w->cluster[2];

    if (!w->clustered)
        return CUDA_SUCCESS;
    for (unsigned i = 0; i < 3; i++)
        if (!w->cluster[i] || shape->grid[i] % w->cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return n <= (wide ? LARGEST_CLUSTER : PORTABLE_CLUSTER) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

static int together_ok(const struct sim_entry *e)
{
    uint64_t most = (uint64_t)SIM_MULTIPROCESSORS * sim_blocks_resident(e->block[0] * e->block[1] * e->block[2], e->shared);
    /* No sum of a grid's dimensions overflows: 2^31 * 2^16 * 2^16. */
    uint64_t blocks = (uint64_t)e->grid[0] * e->grid[1];
    return blocks <= most && blocks * e->grid[2] <= most ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

/* ptds: whether stream 0 is the thread's. */
static int launch(CUfunction f, const struct sim_shape *shape, CUstream h, bool ptds, void **params, void **extra, const struct wishes *w)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_entry e;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    const struct sim_function *known = w->together || w->clustered ? sim_function_of(f, c, &rc) : NULL;
    if (known && w->together && shape->shared > (unsigned)known->max_dynamic)
        rc = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE; /* not one block would be resident */
    if (known && !rc)
        rc = cluster_ok(shape, w, known->wide_clusters);
    if (!rc)
        rc = sim_launch_entry(c, f, shape, params, extra, &e);
    if (!rc && w->together)
        rc = together_ok(&e);
    rc = rc ? sim_capture_refused(s, rc) : sim_launch_run(c, s, f, &e);
    if (rc || !w->event)
        return rc;
    return sim_capturing(s) ? sim_capture_record(s, w->event, 0) : sim_event_record(s, c, w->event);
}

int sim_launch_together(CUfunction f, const struct sim_shape *shape, CUstream h, bool ptds, void **params)
{
    const struct wishes w = {.together = true};
    return launch(f, shape, h, ptds, params, NULL, &w);
}

static int launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra, bool ptds)
{
    struct wishes w = {0};

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs && !rc; i++)
        rc = take(&config->attrs[i], &w);
    if (rc)
        return rc;
    const struct sim_shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                    {config->blockDimX, config->blockDimY, config->blockDimZ},
                                    config->sharedMemBytes};
    return launch(f, &shape, config->hStream, ptds, params, extra, &w);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_ex(config, f, params, extra, false);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_ex(config, f, params, extra, true);
}
