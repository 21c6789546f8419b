/* What a pool is told and says of itself. */
#include "pool.h"

#include <string.h>

enum { REUSE_FIRST = 1, REUSE_LAST = 3, THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH };

static int set(struct sim_pool *p, int attribute, const void *value)
{
    uint64_t v;

    if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST) {
        memcpy(&p->reuse[attribute - REUSE_FIRST], value, sizeof(int));
        return CUDA_SUCCESS;
    }
    if (attribute != THRESHOLD && attribute != RESERVED_HIGH && attribute != USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&v, value, sizeof v);
    if (attribute == THRESHOLD) {
        p->threshold = v;
        return CUDA_SUCCESS;
    }
    if (v) /* high-water marks can only be lowered to what is */
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == RESERVED_HIGH)
        p->reserved_high = p->reserved;
    else
        p->used_high = p->used;
    return CUDA_SUCCESS;
}

static int get(const struct sim_pool *p, int attribute, void *value)
{
    if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST) {
        memcpy(value, &p->reuse[attribute - REUSE_FIRST], sizeof(int));
        return CUDA_SUCCESS;
    }
    const uint64_t v[] = {p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};
    if (attribute < THRESHOLD || attribute > USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, &v[attribute - THRESHOLD], sizeof *v);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool p, int attribute, void *value)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    sim_pools_lock();
    rc = sim_pool_ok(p) && value ? set(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    sim_pools_unlock();
    return rc;
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool p, int attribute, void *value)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    sim_pools_lock();
    rc = sim_pool_ok(p) && value ? get(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    sim_pools_unlock();
    return rc;
}

/* ---- access: the pool's own device always has it ---- */

/* Into *access, the other devices that have it. */
static int set_access(const struct sim_pool *p, const CUmemAccessDesc *d, uint32_t *access)
{
    if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE || d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_device_is(d->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && d->location.id == p->device)
        return CUDA_ERROR_INVALID_DEVICE; /* a pool's own device keeps it */
    if (d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        *access &= ~(1u << d->location.id);
    else if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    else if (d->location.id != p->device)
        *access |= 1u << d->location.id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *list, size_t n)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!sim_pool_ok(p) || (n && !list))
        return CUDA_ERROR_INVALID_VALUE;
    sim_pools_lock();
    uint32_t access = p->access;
    for (size_t i = 0; i < n && !rc; i++)
        rc = set_access(p, &list[i], &access);
    if (!rc && access != p->access) {
        p->access = access;
        sim_pool_share(p);
    }
    sim_pools_unlock();
    return rc;
}

EXPORT CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool p, CUmemLocation *l)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!flags || !l || !sim_pool_ok(p) || (l->type == CU_MEM_LOCATION_TYPE_DEVICE && !sim_device_is(l->id)) ||
        (l->type != CU_MEM_LOCATION_TYPE_DEVICE && l->type != CU_MEM_LOCATION_TYPE_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    bool has = l->type == CU_MEM_LOCATION_TYPE_DEVICE && (l->id == p->device || p->access >> l->id & 1);
    *flags = has ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
