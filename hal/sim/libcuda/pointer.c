/* What the driver says of an address: the range that holds it, and its
 * attributes. */
#include "cu_memory.h"
#include "sim.h"

#include <string.h>

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    struct sim_ctx *c;
    struct sim_range r;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!base && !size)
        return CUDA_SUCCESS; /* whatever the address */
    if (!sim_range_find(p, 1, &r))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = r.base;
    if (size)
        *size = r.size;
    return CUDA_SUCCESS;
}

/* An attribute's value in eight bytes, of which the first are its own. absent:
 * an address of this kind has none, and zero stands for it. */
struct attribute {
    uint64_t value;
    size_t bytes;
    bool absent;
};

/* The one that an address belongs to; memory of the host that is mapped by hand belongs
 * to the first that has access. */
static CUdevice device_of(const struct sim_range *r)
{
    if (r->kind == SIM_RANGE_POOL)
        return r->pool->device;
    if (r->kind != SIM_RANGE_MAPPED)
        return r->ctx->device;
    return r->home >= 0 ? r->home : r->readable ? __builtin_ctz(r->readable) : 0;
}

/* The attribute of p, which lies in r; NULL: in nobody's memory. */
static int attribute_of(int attribute, CUdeviceptr p, const struct sim_range *r, struct attribute *a)
{
    const bool by_hand = r && r->kind == SIM_RANGE_MAPPED, on_host = by_hand && r->home < 0;
    const bool host = r && (r->kind == SIM_RANGE_HOST || r->kind == SIM_RANGE_REGISTERED);
    const bool managed = r && r->kind == SIM_RANGE_MANAGED;

    switch (attribute) {
    case 1: /* CONTEXT */
        *a = (struct attribute){r && r->kind != SIM_RANGE_POOL && !by_hand ? (uintptr_t)r->ctx : 0, sizeof(CUcontext), !r};
        return CUDA_SUCCESS;
    case 2: /* MEMORY_TYPE: 1 host, 2 device */
        *a = (struct attribute){!r ? 0 : host || on_host ? 1 : 2, sizeof(unsigned), !r};
        return CUDA_SUCCESS;
    case 3: /* DEVICE_POINTER */
        *a = (struct attribute){r ? p : 0, sizeof p, !r};
        return CUDA_SUCCESS;
    case 4: /* HOST_POINTER */
        *a = (struct attribute){host || managed ? p : 0, sizeof p, !host && !managed};
        return CUDA_SUCCESS;
    case 7: /* BUFFER_ID */
        *a = (struct attribute){r ? r->id : 0, sizeof(uint64_t), !r};
        return CUDA_SUCCESS;
    case 6: /* SYNC_MEMOPS */
        *a = (struct attribute){r && r->sync, sizeof(bool), !r};
        return CUDA_SUCCESS;
    case 8: /* IS_MANAGED */
        *a = (struct attribute){managed, sizeof(bool), !r};
        return CUDA_SUCCESS;
    case 10: /* IS_LEGACY_CUDA_IPC_CAPABLE */
    case 15: /* IS_GPU_DIRECT_RDMA_CAPABLE */
    case 21: /* IS_HW_DECOMPRESS_CAPABLE */
        *a = (struct attribute){0, sizeof(bool), !r};
        return CUDA_SUCCESS;
    case 9: /* DEVICE_ORDINAL; CU_DEVICE_INVALID */
        *a = (struct attribute){(uint64_t)(int64_t)(r ? device_of(r) : CU_DEVICE_INVALID), sizeof(int), !r};
        return CUDA_SUCCESS;
    case 11: /* RANGE_START_ADDR */
        *a = (struct attribute){r ? r->base : 0, sizeof p, !r};
        return CUDA_SUCCESS;
    case 12: /* RANGE_SIZE */
        *a = (struct attribute){r ? r->size : 0, sizeof(size_t), !r};
        return CUDA_SUCCESS;
    case 13: /* MAPPED */
        *a = (struct attribute){r != NULL, sizeof(bool), !r};
        return CUDA_SUCCESS;
    case 14: /* ALLOWED_HANDLE_TYPES */
        *a = (struct attribute){by_hand ? r->handle_types : 0, sizeof(uint64_t), !r};
        return CUDA_SUCCESS;
    case 16: /* ACCESS_FLAGS: read and write */
        *a = (struct attribute){r ? 3 : 0, sizeof(int), !r};
        return CUDA_SUCCESS;
    case 17: /* MEMPOOL_HANDLE */
        *a = (struct attribute){r ? (uintptr_t)r->pool : 0, sizeof(struct sim_pool *), !r};
        return CUDA_SUCCESS;
    case 18: /* MAPPING_SIZE: there is no mapping beyond the range */
        *a = (struct attribute){r ? r->size : 0, sizeof(size_t), !r};
        return CUDA_SUCCESS;
    case 19: /* MAPPING_BASE_ADDR */
        *a = (struct attribute){r ? r->base : 0, sizeof p, !r};
        return CUDA_SUCCESS;
    case 20: /* MEMORY_BLOCK_ID */
        *a = (struct attribute){r ? r->id : 0, sizeof(uint64_t), !r};
        return CUDA_SUCCESS;
    }
    return attribute < 1 || attribute > 21 ? CUDA_ERROR_INVALID_VALUE
                                           : sim_unsupported("cuPointerGetAttribute with an attribute that it does not know");
}

EXPORT CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr p)
{
    struct sim_range r;
    struct attribute a;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!data || !sim_range_find(p, 1, &r))
        return CUDA_ERROR_INVALID_VALUE;
    rc = attribute_of(attribute, p, &r, &a);
    if (rc)
        return rc;
    memcpy(data, &a.value, a.bytes);
    return a.absent ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Several at once: what an address does not have is zero, and no error. */
EXPORT CUresult cuPointerGetAttributes(unsigned n, int *attributes, void **data, CUdeviceptr p)
{
    struct sim_range r;
    struct attribute a;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!n || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = sim_range_find(p, 1, &r);
    for (unsigned i = 0; i < n; i++) {
        rc = attribute_of(attributes[i], p, known ? &r : NULL, &a);
        if (rc || !data[i])
            return rc ? rc : CUDA_ERROR_INVALID_VALUE;
        memcpy(data[i], &a.value, a.bytes);
    }
    return CUDA_SUCCESS;
}

/* The one attribute that can be set: synchronous calls on the memory wait for their
 * end, also where they would not. */
EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr p)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!value || attribute != 6 || !sim_range_set_sync(p, *(const unsigned *)value != 0))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
