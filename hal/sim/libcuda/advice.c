/* Advice about managed memory, and what is known of a range of it. */
#include "managed.h"

#include <string.h>

enum {
    SET_READ_MOSTLY = 1,
    UNSET_READ_MOSTLY,
    SET_PREFERRED_LOCATION,
    UNSET_PREFERRED_LOCATION,
    SET_ACCESSED_BY,
    UNSET_ACCESSED_BY
};

struct advice {
    int what;
    CUmemLocation place;
};

static void take(struct sim_advice *a, const void *how)
{
    const struct advice *d = how;
    uint32_t by = d->place.type == CU_MEM_LOCATION_TYPE_DEVICE ? SIM_BY_DEVICE(d->place.id) : SIM_BY_HOST;

    switch (d->what) {
    case SET_READ_MOSTLY:
    case UNSET_READ_MOSTLY:
        a->read_mostly = d->what == SET_READ_MOSTLY;
        break;
    case SET_PREFERRED_LOCATION:
        a->preferred = d->place;
        break;
    case UNSET_PREFERRED_LOCATION:
        a->preferred = (CUmemLocation){0, CU_DEVICE_INVALID};
        break;
    case SET_ACCESSED_BY:
        a->accessed_by |= by;
        break;
    default:
        a->accessed_by &= ~by;
    }
}

static int advise(CUdeviceptr p, size_t n, struct advice d)
{
    struct sim_range r;
    int rc = sim_ready();
    if (rc)
        return rc;
    if (d.what < SET_READ_MOSTLY || d.what > UNSET_ACCESSED_BY || !n)
        return CUDA_ERROR_INVALID_VALUE;
    if (d.what == SET_PREFERRED_LOCATION || d.what >= SET_ACCESSED_BY) /* the others have no use for a place */
        rc = sim_place_ok(d.place);
    if (!rc && d.what >= SET_ACCESSED_BY && d.place.type > CU_MEM_LOCATION_TYPE_HOST)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    if (!sim_range_find(p, n, &r) || r.kind != SIM_RANGE_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_capture_unsafe();
    if (!rc)
        rc = sim_managed_change(&r, p, n, take, &d);
    if (!rc && d.what <= UNSET_READ_MOSTLY) {
        struct sim_request q = {.op = SIM_MANAGED_ADVISE, .a = p, .b = n, .c = d.what == SET_READ_MOSTLY};
        struct sim_reply reply;
        rc = sim_call(&q, -1, &reply, NULL);
    }
    return rc;
}

EXPORT CUresult cuMemAdvise(CUdeviceptr p, size_t n, int what, CUdevice device)
{
    return advise(p, n, (struct advice){what, sim_place_of(device)});
}

/* Every place of the host is the host. */
EXPORT CUresult cuMemAdvise_v2(CUdeviceptr p, size_t n, int what, CUmemLocation place)
{
    bool prefers = what == SET_PREFERRED_LOCATION;

    if (place.type < CU_MEM_LOCATION_TYPE_DEVICE || place.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
        (place.type == CU_MEM_LOCATION_TYPE_DEVICE && !sim_device_is(place.id) && (prefers || what >= SET_ACCESSED_BY)))
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    if (prefers && sim_place_ok(place) == CUDA_SUCCESS && place.type != CU_MEM_LOCATION_TYPE_DEVICE)
        place = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU};
    return advise(p, n, (struct advice){what, place});
}

/* ---- questions ---- */

static int device_of(CUmemLocation l)
{
    if (!l.type)
        return CU_DEVICE_INVALID;
    return l.type == CU_MEM_LOCATION_TYPE_DEVICE ? l.id : CU_DEVICE_CPU;
}

/* Who accesses a range by advice: a list that ends in devices that are none. */
static void accessed_by(int *data, size_t n, uint32_t by)
{
    size_t used = 0;

    for (int i = 0; i < sim_device_count; i++)
        if (used < n && by & SIM_BY_DEVICE(i))
            data[used++] = i;
    if (used < n && by & SIM_BY_HOST)
        data[used++] = CU_DEVICE_CPU;
    while (used < n)
        data[used++] = CU_DEVICE_INVALID;
}

static bool attribute_ok(const void *data, size_t bytes, int attribute)
{
    return data && attribute >= 1 && attribute <= 8 && bytes && bytes % sizeof(int) == 0 && (attribute == 3 || bytes == sizeof(int));
}

/* Precondition: attribute_ok. */
static void range_attribute(int *data, size_t bytes, int attribute, const struct sim_advice *a)
{
    switch (attribute) {
    case 1: /* READ_MOSTLY */
        *data = (int)a->read_mostly;
        break;
    case 2: /* PREFERRED_LOCATION */
        *data = device_of(a->preferred);
        break;
    case 3: /* ACCESSED_BY */
        accessed_by(data, bytes / sizeof *data, a->accessed_by);
        break;
    case 4: /* LAST_PREFETCH_LOCATION */
        *data = device_of(a->prefetched);
        break;
    case 5: /* PREFERRED_LOCATION_TYPE */
        *data = a->preferred.type;
        break;
    case 6: /* PREFERRED_LOCATION_ID */
        *data = a->preferred.id;
        break;
    case 7: /* LAST_PREFETCH_LOCATION_TYPE */
        *data = a->prefetched.type;
        break;
    default: /* LAST_PREFETCH_LOCATION_ID */
        *data = a->prefetched.id;
    }
}

static int range_state(CUdeviceptr p, size_t n, struct sim_advice *a)
{
    struct sim_range r;
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!n || !sim_range_find(p, n, &r) || r.kind != SIM_RANGE_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *a = sim_managed_state(&r, p, n);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t bytes, int attribute, CUdeviceptr p, size_t n)
{
    struct sim_advice a;
    int rc = range_state(p, n, &a);
    if (rc)
        return rc;
    if (!attribute_ok(data, bytes, attribute))
        return CUDA_ERROR_INVALID_VALUE;
    range_attribute(data, bytes, attribute, &a);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *bytes, int *attributes, size_t count, CUdeviceptr p, size_t n)
{
    struct sim_advice a;
    int rc = range_state(p, n, &a);
    if (rc)
        return rc;
    if (!data || !bytes || !attributes || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) /* all or none */
        if (!attribute_ok(data[i], bytes[i], attributes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        range_attribute(data[i], bytes[i], attributes[i], &a);
    return CUDA_SUCCESS;
}
