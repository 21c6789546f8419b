/* The devices that the program sees, and their attributes. */
#include "gen/answers.h"
#include "sim.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_device sim_devices[SIM_DEVICES];
int sim_device_count;

/* ---- CUDA_VISIBLE_DEVICES ---- */

#define UUID_TEXT 41u /* "GPU-", 32 digits, four dashes, NUL */

static void uuid_text(char out[UUID_TEXT], const uint8_t *u)
{
    snprintf(out, UUID_TEXT, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4],
             u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

/* Which device one word of the list means; -1: none. A number may have anything
 * behind its digits. A UUID may be cut short while it still means one device. */
static int meant(const char *word, size_t length, bool uuids, const struct sim_device *all, unsigned n)
{
    int found = -1;

    if (!uuids) {
        char *end;
        unsigned long i = strtoul(word, &end, 10);
        return isdigit((unsigned char)*word) && i < n ? (int)i : -1;
    }
    for (unsigned i = 0; i < n; i++) {
        char text[UUID_TEXT];
        uuid_text(text, all[i].uuid);
        if (length < 4 || length >= UUID_TEXT || strncmp(word, text, length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

/* As the driver reads it: numbers or UUIDs, whichever the first is; the list ends
 * at the first that means no device; one that is named twice makes it empty. */
void sim_devices_choose(const struct sim_device *all, unsigned n)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    unsigned seen = 0;

    sim_device_count = 0;
    if (!list) {
        memcpy(sim_devices, all, n * sizeof *all);
        sim_device_count = (int)n;
        return;
    }
    bool uuids = !strncmp(list, "GPU-", 4);
    for (const char *word = list;;) {
        while (isspace((unsigned char)*word))
            word++;
        size_t length = strcspn(word, ", \t");
        int i = meant(word, length, uuids, all, n);
        if (i < 0)
            return;
        if (seen >> i & 1) {
            sim_device_count = 0;
            return;
        }
        seen |= 1u << i;
        sim_devices[sim_device_count++] = all[i];
        word = strchr(word, ',');
        if (!word++)
            return;
    }
}

/* ---- the devices ---- */

static int check_device(CUdevice device)
{
    int rc = sim_ready();
    return rc ? rc : sim_device_is(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_is(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!name || !length)
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = strlen(sim_devices[device].name), room = (unsigned)length - 1; /* a negative length is a large one */
    if (n > room)
        n = room;
    memcpy(name, sim_devices[device].name, n);
    name[n] = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, sim_devices[device].uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

/* Without MIG the two are one. */
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, sim_devices[device].uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = sim_devices[device].memory;
    return CUDA_SUCCESS;
}

/* What the recorded device has and the simulated one does not do. */
static int simulated_attribute(int attribute, int recorded)
{
    switch (attribute) {
    case 96:  /* COOPERATIVE_MULTI_DEVICE_LAUNCH */
    case 107: /* GENERIC_COMPRESSION_SUPPORTED */
    case 110: /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    case 112: /* SPARSE_CUDA_ARRAY_SUPPORTED */
    case 114: /* TIMELINE_SEMAPHORE_INTEROP_SUPPORTED */
    case 116: /* GPU_DIRECT_RDMA_SUPPORTED */
    case 119: /* MEMPOOL_SUPPORTED_HANDLE_TYPES */
    case 120: /* CLUSTER_LAUNCH */
    case 121: /* DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED */
    case 124: /* DMA_BUF_SUPPORTED */
    case 125: /* IPC_EVENT_SUPPORTED */
    case 127: /* TENSOR_MAP_ACCESS_SUPPORTED */
    case 128: /* HANDLE_TYPE_FABRIC_SUPPORTED */
    case 129: /* UNIFIED_FUNCTION_POINTERS */
    case 142: /* HOST_NUMA_MEMORY_POOLS_SUPPORTED */
    case 144: /* HOST_MEMORY_POOLS_SUPPORTED */
        return 0;
    }
    return recorded;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < SIM_ATTRIBUTE_COUNT; i++)
        if (sim_attributes[i].attribute == attribute) {
            *value = simulated_attribute(attribute, sim_attributes[i].value);
            if (attribute == 33) /* PCI_BUS_ID */
                *value += (int)sim_devices[device].number;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
