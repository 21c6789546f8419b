/* What streams can be told beside their flags. Nothing here changes how the
 * simulated device runs a stream; a program finds again what it has set. */
#include "cu_graph.h"
#include "sim.h"

#include <string.h>

enum { ACCESS_POLICY_WINDOW = 1, SYNCHRONIZATION_POLICY = 3, PRIORITY = 8, MEM_SYNC_DOMAIN_MAP = 9, MEM_SYNC_DOMAIN = 10 };

#define VALUE_BYTES 64u

/* Where a stream keeps an attribute; NULL: it has no such one. */
static uint64_t *place(struct sim_stream *s, int attribute)
{
    switch (attribute) {
    case SYNCHRONIZATION_POLICY:
        return s->attributes[0];
    case MEM_SYNC_DOMAIN_MAP:
        return s->attributes[1];
    case MEM_SYNC_DOMAIN:
        return s->attributes[2];
    }
    return NULL;
}

static int get(CUstream h, bool ptds, int attribute, void *value)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    const uint64_t *at = place(s, attribute);
    if (!value || (!at && attribute != PRIORITY && attribute != ACCESS_POLICY_WINDOW))
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, VALUE_BYTES);
    if (attribute == PRIORITY)
        memcpy(value, &s->priority, sizeof s->priority);
    else if (attribute == SYNCHRONIZATION_POLICY && !*at)
        memcpy(value, &(int32_t){-1}, sizeof(int32_t)); /* not set */
    else if (attribute == MEM_SYNC_DOMAIN_MAP && !*at)
        memcpy(value, &(uint16_t){0x100}, sizeof(uint16_t)); /* 0 to 0, 1 to 1 */
    else if (at)
        memcpy(value, at, 16);
    return CUDA_SUCCESS;
}

static int set(CUstream h, bool ptds, int attribute, const void *value)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    int32_t v;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    uint64_t *at = place(s, attribute);
    if (!value || (!at && attribute != PRIORITY && attribute != ACCESS_POLICY_WINDOW))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&v, value, sizeof v);
    if ((attribute == SYNCHRONIZATION_POLICY && (v < 1 || v > 4)) || (attribute == MEM_SYNC_DOMAIN && (v < 0 || v > 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == PRIORITY)
        s->priority = v > 0 ? 0 : v < SIM_PRIORITY_GREATEST ? SIM_PRIORITY_GREATEST : v;
    else if (at)
        memcpy(at, value, 16);
    return CUDA_SUCCESS;
}

static int copy(CUstream dst, CUstream src, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *to, *from;

    int rc = sim_stream_of(dst, ptds, &c, &to);
    if (!rc)
        rc = sim_stream_of(src, ptds, &c, &from);
    if (rc)
        return rc;
    memmove(to->attributes, from->attributes, sizeof to->attributes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetAttribute(CUstream h, int attribute, void *value) { return get(h, false, attribute, value); }
EXPORT CUresult cuStreamGetAttribute_ptsz(CUstream h, int attribute, void *value) { return get(h, true, attribute, value); }
EXPORT CUresult cuStreamSetAttribute(CUstream h, int attribute, const void *value) { return set(h, false, attribute, value); }
EXPORT CUresult cuStreamSetAttribute_ptsz(CUstream h, int attribute, const void *value) { return set(h, true, attribute, value); }
EXPORT CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) { return copy(dst, src, false); }
EXPORT CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src) { return copy(dst, src, true); }
