/* The resource manager: the objects through which the channels of a context are
 * controlled. The driver makes them by ioctls on a descriptor of its own, which a
 * preloaded library sees; xm_sim_ioctl answers these ioctls, its own and others', in
 * the kernel driver's place. What the objects are the device knows.
 *
 * XMSCHED_SIM_RM makes a process's driver another one, for tests:
 *   refuse            every control that changes something is refused
 *   refuse-hold       taking channels off is refused, putting them back is not
 *   refuse-slice      setting a time slice is refused
 *   unknown           objects are made with a request of a size that nobody knows
 *   mps               the process has no channels of its own, as a client of MPS
 *   debugger, profiler, mig   and there is an object of that kind
 *   none              there are no such ioctls at all
 *
 * Nothing of the driver is locked while an ioctl of its own runs, but for rm_lock,
 * which xm_sim_ioctl never takes. */
#include "rm.h"
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* On a channel group; both are answered and stop nothing that runs, as on the H200
 * (ctrla06c.h of the open kernel modules). */
#define GPFIFO_SCHEDULE 0xA06C0101u
#define PREEMPT 0xA06C0105u

/* An allocation as no driver has it. */
#define UNKNOWN_ALLOC _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC, sizeof(struct NVOS64_PARAMETERS) + 8)

static pthread_mutex_t rm_lock = PTHREAD_MUTEX_INITIALIZER;
static int rm_fd = -1;
static uint32_t rm_client;
static struct {
    uint32_t device, subdevice;
} rm_devices[SIM_DEVICES];
static uint32_t last_handle = 0x5c000000; /* as libcuda counts them */

static bool asked(const char *how)
{
    const char *s = getenv("XMSCHED_SIM_RM");
    return s && !strcmp(s, how);
}

/* ---- answers ---- */

/* What the thread's allocation is for, which the ioctl does not say. */
static __thread struct sim_rm_for made_for;

static uint32_t ask(struct sim_request *q, struct sim_reply *r)
{
    int rc = sim_call(q, -1, r, NULL);
    return rc == CUDA_ERROR_UNKNOWN ? NV_ERR_GPU_IS_LOST : (uint32_t)rc;
}

static uint32_t alloc(uint32_t client, uint32_t parent, uint32_t *handle, uint32_t class, const void *params)
{
    struct sim_rm_for what = {.context = made_for.context};
    struct sim_reply r;

    if (class == KEPLER_CHANNEL_GROUP_A && params)
        what.engine = ((const struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *)params)->engineType;
    if (class == NV01_DEVICE_0 && params)
        what.device = ((const struct NV0080_ALLOC_PARAMETERS *)params)->deviceId;
    struct sim_request q = {.op = SIM_RM_ALLOC, .a = client, .b = parent, .c = *handle, .d = class};
    memcpy(q.text, &what, sizeof what);
    uint32_t status = ask(&q, &r);
    if (!status)
        *handle = (uint32_t)r.a;
    return status;
}

static uint32_t dup_object(struct NVOS55_PARAMETERS *p)
{
    struct sim_request q = {
        .op = SIM_RM_DUP, .a = p->hClient, .b = p->hParent, .c = p->hObject, .d = (uint64_t)p->hClientSrc << 32 | p->hObjectSrc};
    struct sim_reply r;
    uint32_t status = ask(&q, &r);
    if (!status)
        p->hObject = (uint32_t)r.a;
    return status;
}

static uint32_t timeslice(const struct NVOS54_PARAMETERS *c, struct NVA06C_CTRL_TIMESLICE_PARAMS *p)
{
    bool set = c->cmd == NVA06C_CTRL_CMD_SET_TIMESLICE;
    struct sim_request q = {.op = set ? SIM_RM_SLICE : SIM_RM_GET_SLICE, .a = c->hClient, .b = c->hObject, .c = p->timesliceUs};
    struct sim_reply r;

    if (set && (asked("refuse") || asked("refuse-slice")))
        return NV_ERR_INSUFFICIENT_PERMISSIONS;
    uint32_t status = ask(&q, &r);
    if (!status && !set)
        p->timesliceUs = r.a;
    return status;
}

static uint32_t disable(const struct NVOS54_PARAMETERS *c, const struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *p)
{
    struct sim_request q = {.op = SIM_RM_HOLD, .a = c->hClient, .b = c->hObject, .c = p->bDisable != 0, .d = p->numChannels};
    struct sim_reply r;

    if (p->pRunlistPreemptEvent || asked("refuse") || (asked("refuse-hold") && p->bDisable))
        return NV_ERR_INSUFFICIENT_PERMISSIONS;
    if (p->numChannels > NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES)
        return NV_ERR_INVALID_ARGUMENT;
    if (p->bOnlyDisableScheduling || p->bRewindGpPut)
        return NV_ERR_NOT_SUPPORTED; /* by this device */
    for (uint32_t i = 0; i < p->numChannels; i++) {
        const uint32_t pair[2] = {p->hClientList[i], p->hChannelList[i]};
        memcpy(q.text + i * sizeof pair, pair, sizeof pair);
    }
    return ask(&q, &r);
}

static uint32_t identity(const struct NVOS54_PARAMETERS *c, struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *p)
{
    struct sim_request q = {.op = SIM_RM_LOOK, .a = c->hClient, .b = c->hObject};
    struct sim_reply r;
    uint32_t status = ask(&q, &r);
    if (status)
        return status;
    if (r.a != NV20_SUBDEVICE_0 || (p->flags & 3) != NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY)
        return NV_ERR_NOT_SUPPORTED;
    p->length = sizeof r.uuid;
    memcpy(p->data, r.uuid, sizeof r.uuid);
    return NV_OK;
}

/* The object is there, and a control of it stops nothing. */
static uint32_t known(const struct NVOS54_PARAMETERS *c, uint64_t class)
{
    struct sim_request q = {.op = SIM_RM_LOOK, .a = c->hClient, .b = c->hObject};
    struct sim_reply r;
    uint32_t status = ask(&q, &r);
    return status ? status : r.a == class ? NV_OK : NV_ERR_NOT_SUPPORTED;
}

static size_t params_of(uint32_t cmd)
{
    switch (cmd) {
    case NVA06C_CTRL_CMD_SET_TIMESLICE:
    case NVA06C_CTRL_CMD_GET_TIMESLICE:
        return sizeof(struct NVA06C_CTRL_TIMESLICE_PARAMS);
    case NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS:
        return sizeof(struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS);
    case NV2080_CTRL_CMD_GPU_GET_GID_INFO:
        return sizeof(struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS);
    }
    return 0;
}

static uint32_t control(const struct NVOS54_PARAMETERS *c)
{
    void *params = (void *)(uintptr_t)c->params;
    const size_t want = params_of(c->cmd);

    if (want && (!params || c->paramsSize != want || c->flags & NVOS54_FLAGS_FINN_SERIALIZED))
        return NV_ERR_INVALID_PARAM_STRUCT;
    switch (c->cmd) {
    case NVA06C_CTRL_CMD_SET_TIMESLICE:
    case NVA06C_CTRL_CMD_GET_TIMESLICE:
        return timeslice(c, params);
    case NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS:
        return disable(c, params);
    case NV2080_CTRL_CMD_GPU_GET_GID_INFO:
        return identity(c, params);
    case GPFIFO_SCHEDULE:
    case PREEMPT:
        return known(c, KEPLER_CHANNEL_GROUP_A);
    }
    return NV_ERR_NOT_SUPPORTED;
}

static int answer(unsigned long request, void *arg)
{
    struct NVOS00_PARAMETERS *gone = arg;
    struct NVOS21_PARAMETERS *made = arg;
    struct NVOS64_PARAMETERS *made64 = arg;
    struct sim_reply r;

    switch (request) {
    case XM_RM_ALLOC21:
        made->status = alloc(made->hRoot, made->hObjectParent, &made->hObjectNew, made->hClass, (void *)(uintptr_t)made->pAllocParms);
        return 0;
    case XM_RM_ALLOC64:
    case UNKNOWN_ALLOC:
        made64->status =
            alloc(made64->hRoot, made64->hObjectParent, &made64->hObjectNew, made64->hClass, (void *)(uintptr_t)made64->pAllocParms);
        return 0;
    case XM_RM_FREE: {
        struct sim_request q = {.op = SIM_RM_FREE, .a = gone->hRoot, .b = gone->hObjectOld};
        gone->status = ask(&q, &r);
        return 0;
    }
    case XM_RM_DUP_OBJECT:
        ((struct NVOS55_PARAMETERS *)arg)->status = dup_object(arg);
        return 0;
    case XM_RM_CONTROL:
        ((struct NVOS54_PARAMETERS *)arg)->status = control(arg);
        return 0;
    }
    errno = EINVAL;
    return -1;
}

/* What the kernel's driver does with an ioctl on the descriptor that cuInit's
 * process has open: 0, and the status in the argument; or -1 and errno. */
EXPORT int xm_sim_ioctl(int fd, unsigned long request, void *arg)
{
    if (sim_tools_file(fd))
        return sim_tools_ioctl(fd, request, arg);
    if (fd < 0 || fd != __atomic_load_n(&rm_fd, __ATOMIC_ACQUIRE) || _IOC_TYPE(request) != NV_IOCTL_MAGIC) {
        errno = ENOTTY;
        return -1;
    }
    if (!arg) {
        errno = EFAULT;
        return -1;
    }
    if (sim_connection_lost()) { /* a forked child has its parent's descriptor and objects, and no device */
        errno = ENODEV;
        return -1;
    }
    return answer(request, arg);
}

/* ---- the driver's own objects ---- */

/* By way of libc, where a preloaded library sees it. The kernel knows nothing of it. */
static int call(unsigned long request, void *arg)
{
    int kept = errno;
    int rc = ioctl(rm_fd, request, arg);
    if (rc < 0 && errno == ENOTTY)
        rc = xm_sim_ioctl(rm_fd, request, arg);
    errno = kept;
    return rc;
}

/* Makes an object of the driver's own; 0 when that fails. The client's handle is the
 * kernel driver's to choose. */
static uint32_t make(uint32_t parent, uint32_t class, void *params, size_t size)
{
    struct {
        struct NVOS64_PARAMETERS known;
        uint64_t unknown;
    } p = {.known = {.hRoot = rm_client, .hObjectParent = parent, .hClass = class, .pAllocParms = (uintptr_t)params, .paramsSize = (uint32_t)size}};

    if (parent)
        p.known.hObjectNew = __atomic_add_fetch(&last_handle, 1, __ATOMIC_RELAXED);
    int rc = call(asked("unknown") ? UNKNOWN_ALLOC : XM_RM_ALLOC64, &p);
    return rc || p.known.status ? 0 : p.known.hObjectNew;
}

static void drop(uint32_t parent, uint32_t *handle)
{
    struct NVOS00_PARAMETERS p = {.hRoot = rm_client, .hObjectParent = parent, .hObjectOld = *handle};

    if (*handle)
        call(XM_RM_FREE, &p);
    *handle = 0;
}

/* What makes a process one whose channels are better left alone. */
static void mark(CUdevice d)
{
    if (asked("mps"))
        make(rm_devices[d].device, MPS_COMPUTE, NULL, 0);
    if (asked("debugger"))
        make(rm_devices[d].device, GT200_DEBUGGER, NULL, 0);
    if (asked("profiler"))
        make(rm_devices[d].subdevice, MAXWELL_PROFILER_DEVICE, NULL, 0);
    if (asked("mig"))
        make(rm_devices[d].subdevice, AMPERE_SMC_PARTITION_REF, NULL, 0);
}

/* Precondition: rm_lock is held. */
static bool device_begin(CUdevice d)
{
    if (rm_fd < 0)
        __atomic_store_n(&rm_fd, open("/dev/null", O_RDWR | O_CLOEXEC), __ATOMIC_RELEASE);
    if (rm_fd < 0)
        return false;
    if (!rm_client)
        rm_client = make(0, NV01_ROOT_CLIENT, NULL, 0);
    if (!rm_client)
        return false;
    if (rm_devices[d].subdevice)
        return true;
    struct NV0080_ALLOC_PARAMETERS device = {.deviceId = sim_devices[d].number, .hClientShare = rm_client};
    struct NV2080_ALLOC_PARAMETERS subdevice = {0};
    rm_devices[d].device = make(rm_client, NV01_DEVICE_0, &device, sizeof device);
    if (rm_devices[d].device)
        rm_devices[d].subdevice = make(rm_devices[d].device, NV20_SUBDEVICE_0, &subdevice, sizeof subdevice);
    if (!rm_devices[d].subdevice) {
        drop(rm_client, &rm_devices[d].device);
        return false;
    }
    mark(d);
    return true;
}

static const struct {
    uint32_t engine;
    unsigned channels;
} wanted[4] = {{NV2080_ENGINE_TYPE_GRAPHICS, 8}, {11, 4}, {12, 4}, {13, 4}}; /* the copy engines that an H200's libcuda uses */

static bool groups(struct sim_rm_set *set, uint32_t device)
{
    unsigned n = 0;

    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS p = {.engineType = wanted[i].engine};
        set->groups[i] = make(device, KEPLER_CHANNEL_GROUP_A, &p, sizeof p);
        for (unsigned k = 0; set->groups[i] && k < wanted[i].channels; k++)
            if (!(set->channels[n++] = make(set->groups[i], HOPPER_CHANNEL_GPFIFO_A, NULL, 0)))
                return false;
        if (!set->groups[i])
            return false;
    }
    return true;
}

int sim_rm_context_begin(struct sim_ctx *c)
{
    memset(&c->rm, 0, sizeof c->rm);
    if (asked("none"))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&rm_lock);
    bool ok = device_begin(c->device);
    pthread_mutex_unlock(&rm_lock);
    if (!ok || asked("mps"))
        return ok ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    made_for.context = c->id;
    ok = groups(&c->rm, rm_devices[c->device].device);
    made_for.context = 0;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void sim_rm_context_end(struct sim_ctx *c)
{
    unsigned n = 0;

    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        for (unsigned k = 0; k < wanted[i].channels; k++)
            drop(c->rm.groups[i], &c->rm.channels[n++]);
        drop(rm_devices[c->device].device, &c->rm.groups[i]);
    }
}
