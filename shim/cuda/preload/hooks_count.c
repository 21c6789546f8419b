/* Memory of the device that is not made of segments: passed through, within the limit, and counted. */
#include <stddef.h>

#include "admission.h"
#include "hooks.h"
#include "mem_count.h"
#include "memory_here.h"
#include "probes.h"
#include "record.h"
#include "uncovered.h"

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    CUcontext context;
    struct xm_mem *m = xm_memory_here(&context);
    CUresult r = XM_COUNTED(m, bytes, XM_DRIVER(cuMemAllocManaged)(dptr, bytes, flags));

    if (r == CUDA_SUCCESS && m)
        xm_count_made(m, context, XM_COUNT_UNIFIED, *dptr, bytes);
    if (r == CUDA_SUCCESS)
        xm_range_came(NULL, 0, *dptr, bytes, XM_COMMAND_UNIFIED);
    return xm_site_made(r, dptr, bytes);
}

/* ---- what the program maps itself ---- */

/* Memory of the host is none of the device's, wherever it is mapped. */
static struct xm_mem *memory_for(const CUmemAllocationProp *prop)
{
    CUcontext context;

    if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return NULL;
    (void)xm_memory_here(&context); /* it may be the first to allocate */
    return xm_memory_on(prop->location.id);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct xm_mem *m = memory_for(prop);
    CUresult r = XM_COUNTED(m, size, XM_DRIVER(cuMemCreate)(handle, size, prop, flags));

    if (r == CUDA_SUCCESS)
        xm_count_handle(m, *handle, size);
    if (r == CUDA_SUCCESS && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        XM_SITE(create, *handle, size, 0);
    return r;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult r;

    XM_SITE(release, handle, 0, 0);
    r = XM_DRIVER(cuMemRelease)(handle);
    if (r == CUDA_SUCCESS)
        xm_count_released(handle);
    return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult r = XM_DRIVER(cuMemMap)(ptr, size, offset, handle, flags);

    if (r == CUDA_SUCCESS)
        xm_count_mapped(ptr, size, handle);
    if (r == CUDA_SUCCESS)
        xm_range_came(NULL, 0, ptr, size, XM_COMMAND_MAPPED);
    return r;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult r;

    xm_range_goes(NULL, 0, ptr, size);
    r = xm_range_gone(XM_DRIVER(cuMemUnmap)(ptr, size), ptr, size);
    if (r == CUDA_SUCCESS)
        xm_count_unmapped(ptr, size);
    return r;
}

/* ---- arrays ---- */

/* The beginnings of the descriptors, and the formats (cuda.h, CUDA 13.0). */
struct flat {
    size_t width, height;
    unsigned format, channels;
};

struct deep {
    size_t width, height, depth;
    unsigned format, channels;
};

static size_t element(unsigned format)
{
    switch (format) {
    case 1: /* 8 bits */
    case 8:
        return 1;
    case 2: /* 16 bits */
    case 9:
    case 16:
        return 2;
    default:
        return 4;
    }
}

static size_t volume(const struct deep *d)
{
    return d->width * (d->height ? d->height : 1) * (d->depth ? d->depth : 1) * element(d->format) * (d->channels ? d->channels : 1);
}

static size_t flat_bytes(const void *descriptor)
{
    const struct flat *f = descriptor;
    struct deep d;

    if (!f)
        return 0;
    d = (struct deep){f->width, f->height, 1, f->format, f->channels};
    return volume(&d);
}

static size_t deep_bytes(const void *descriptor)
{
    return descriptor ? volume(descriptor) : 0;
}

#define ARRAY(bytes_, call)                                                        \
    CUcontext context;                                                             \
    struct xm_mem *m = xm_memory_here(&context);                                   \
    size_t bytes = m ? (bytes_) : 0;                                               \
    CUresult r = XM_COUNTED(m, bytes, call);                                       \
                                                                                   \
    if (r == CUDA_SUCCESS && m)                                                    \
        xm_count_made(m, context, XM_COUNT_ARRAY, (uintptr_t)*array, bytes);       \
    return r

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
    return XM_DRIVER(cuArrayCreate)(array, d);
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
    ARRAY(flat_bytes(d), XM_DRIVER(cuArrayCreate_v2)(array, d));
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    return XM_DRIVER(cuArray3DCreate)(array, d);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    ARRAY(deep_bytes(d), XM_DRIVER(cuArray3DCreate_v2)(array, d));
}

/* Each level has a quarter, or an eighth, of the one before: a third more in all. */
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    ARRAY(deep_bytes(d) / 3 * 4, XM_DRIVER(cuMipmappedArrayCreate)(array, d, levels));
}

static CUresult given_back(CUresult result, uint64_t key)
{
    if (result == CUDA_SUCCESS)
        xm_count_gone(key);
    return result;
}

CUresult cuArrayDestroy(CUarray array)
{
    return given_back(XM_DRIVER(cuArrayDestroy)(array), (uintptr_t)array);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    return given_back(XM_DRIVER(cuMipmappedArrayDestroy)(array), (uintptr_t)array);
}
