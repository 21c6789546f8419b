/* Initialisation, versions, error texts, the device and its attributes. */
#include "gen/answers.h"
#include "gen/stubs.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRESH, READY, FORKED };
static int state;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* A forked child has the parent's objects and no device: like the driver, it is
 * not initialised and cannot be. */
static void in_child(void)
{
    __atomic_store_n(&state, FORKED, __ATOMIC_RELEASE);
    sim_forget_connection();
}

EXPORT CUresult cuInit(unsigned flags)
{
    static bool watching;
    int rc = CUDA_SUCCESS;

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (now == READY)
        return CUDA_SUCCESS;
    if (now == FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&init_lock);
    if (state == FRESH) {
        rc = sim_connect();
        if (!rc && !watching)
            watching = pthread_atfork(NULL, NULL, in_child) == 0;
        if (!rc)
            __atomic_store_n(&state, READY, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&init_lock);
    return rc;
}

int sim_ready(void)
{
    if (sim_in_host_function())
        return CUDA_ERROR_NOT_PERMITTED;
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == READY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static const struct sim_error *error_of(CUresult value)
{
    for (size_t i = 0; i < SIM_ERROR_COUNT; i++)
        if (sim_errors[i].value == value)
            return &sim_errors[i];
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_error *e = error_of(error);
    *text = e ? e->name : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_error *e = error_of(error);
    *text = e ? e->text : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, int *status)
{
    return sim_proc_address(symbol, function, version, flags, SIM_DRIVER_VERSION, status);
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    int status = 0;
    void *found = NULL;
    int rc = sim_proc_address(symbol, function ? &found : NULL, version, flags, SIM_DRIVER_VERSION, &status);
    if (rc || status)
        return rc ? rc : CUDA_ERROR_NOT_FOUND; /* and the pointer stays as it was */
    *function = found;
    return CUDA_SUCCESS;
}

/* One line for each name, of a call or a kernel: few, and never forgotten. */
int sim_unsupported(const char *symbol)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *said[1024];
    static size_t n;
    bool fresh = true;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n && fresh; i++)
        fresh = strcmp(said[i], symbol) != 0;
    if (fresh && n < sizeof said / sizeof *said && (said[n] = strdup(symbol)))
        n++;
    pthread_mutex_unlock(&lock);
    if (fresh)
        fprintf(stderr, "xmsched sim: %s is not implemented by the simulated driver\n", symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- the device ---- */

static int check_device(CUdevice device)
{
    int rc = sim_ready();
    return rc ? rc : device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!name || !length)
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = strlen(sim_device.name), room = (unsigned)length - 1; /* a negative length is a large one */
    if (n > room)
        n = room;
    memcpy(name, sim_device.name, n);
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
    memcpy(uuid->bytes, sim_device.uuid, sizeof uuid->bytes);
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
    memcpy(uuid->bytes, sim_device.uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    int rc = check_device(device);
    if (rc)
        return rc;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = sim_device.memory;
    return CUDA_SUCCESS;
}

/* What the recorded device has and the simulated one does not do. */
static int simulated_attribute(int attribute, int recorded)
{
    switch (attribute) {
    case 96:  /* COOPERATIVE_MULTI_DEVICE_LAUNCH */
    case 102: /* VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED */
    case 103: /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
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
    case 141: /* HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    case 142: /* HOST_NUMA_MEMORY_POOLS_SUPPORTED */
    case 144: /* HOST_MEMORY_POOLS_SUPPORTED */
    case 145: /* HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
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
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
