/* The objects that come and go with contexts, and what is asked of them. With a
 * client's handle as argument: that of another process, which is nobody's here. */
#include "rm.h"

static void errors(uint32_t other)
{
    const struct object *group = find(KEPLER_CHANNEL_GROUP_A, 0, 1), *sub = find(NV20_SUBDEVICE_0, 0, 0);
    const struct object *channel = find(HOPPER_CHANNEL_GPFIFO_A, group->handle, 0);
    struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS d = {.bDisable = 1, .numChannels = 1, .hClientList = {client}, .hChannelList = {channel->handle}};
    uint64_t us = 100;

    TRUE(slice(0x12345, NVA06C_CTRL_CMD_SET_TIMESLICE, &us) == NV_ERR_OBJECT_NOT_FOUND);
    TRUE(slice(sub->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, &us) == NV_ERR_NOT_SUPPORTED);
    us = 0;
    TRUE(slice(group->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, &us) == NV_ERR_INVALID_ARGUMENT);
    TRUE(control(client, group->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, &us, 4) == NV_ERR_INVALID_PARAM_STRUCT);
    TRUE(control(client, group->handle, 0xa06c0199, &us, 8) == NV_ERR_NOT_SUPPORTED);
    TRUE(control(client, sub->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d - 4) == NV_ERR_INVALID_PARAM_STRUCT);
    TRUE(control(client, group->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d) == NV_ERR_NOT_SUPPORTED);
    d.numChannels = 65;
    TRUE(control(client, sub->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d) == NV_ERR_INVALID_ARGUMENT);
    d.numChannels = 2; /* all or none: the second is no channel */
    d.hClientList[1] = client;
    d.hChannelList[1] = group->handle;
    TRUE(control(client, sub->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d) == NV_ERR_INVALID_ARGUMENT);
    d.hClientList[1] = other;
    d.hChannelList[1] = channel->handle;
    TRUE(control(client, sub->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d) == NV_ERR_INVALID_CLIENT);
    TRUE(control(other, sub->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d) == NV_ERR_INVALID_CLIENT);
    d.numChannels = 1;
    d.pRunlistPreemptEvent = 1;
    TRUE(control(client, sub->handle, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &d, sizeof d) == NV_ERR_INSUFFICIENT_PERMISSIONS);
    struct NVOS00_PARAMETERS f = {.hRoot = other, .hObjectOld = other};
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_FREE, &f) && f.status == NV_ERR_INVALID_CLIENT);
    struct NVOS64_PARAMETERS a = {.hRoot = client, .hObjectParent = 0x777, .hClass = KEPLER_CHANNEL_GROUP_A};
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_ALLOC64, &a) && a.status);
    a = (struct NVOS64_PARAMETERS){.hRoot = client, .hObjectParent = sub->handle, .hObjectNew = channel->handle, .hClass = 0x90cc};
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_ALLOC64, &a) && a.status);
    TRUE(xm_sim_ioctl(rm_fd, 0xc0104677, &f) == -1 && errno == EINVAL);
    TRUE(xm_sim_ioctl(rm_fd, XM_RM_FREE, NULL) == -1 && errno == EFAULT);
    TRUE(xm_sim_ioctl(0, XM_RM_FREE, &f) == -1 && errno == ENOTTY);
    TRUE(xm_sim_ioctl(rm_fd, 0x5401, &f) == -1 && errno == ENOTTY);
}

/* Older callers, and names that are asked for. */
static void others(void)
{
    const struct object *group = find(KEPLER_CHANNEL_GROUP_A, 0, 1), *sub = find(NV20_SUBDEVICE_0, 0, 0);
    struct NVOS21_PARAMETERS a = {.hRoot = client, .hObjectParent = sub->handle, .hClass = GF100_PROFILER};
    struct NVOS55_PARAMETERS d = {.hClient = client, .hParent = sub->parent, .hClientSrc = client, .hObjectSrc = group->handle};
    struct NVOS00_PARAMETERS f = {.hRoot = client};
    uint64_t us = 500;

    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_ALLOC21, &a) && !a.status && a.hObjectNew);
    f.hObjectOld = a.hObjectNew;
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_FREE, &f) && !f.status);
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_FREE, &f) && f.status == NV_ERR_OBJECT_NOT_FOUND);
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_DUP_OBJECT, &d) && !d.status && d.hObject && d.hObject != group->handle);
    TRUE(!slice(d.hObject, NVA06C_CTRL_CMD_SET_TIMESLICE, &us));
    us = 0;
    TRUE(!slice(group->handle, NVA06C_CTRL_CMD_GET_TIMESLICE, &us) && us == 500);
    f.hObjectOld = d.hObject;
    TRUE(!xm_sim_ioctl(rm_fd, XM_RM_FREE, &f) && !f.status);
    us = 2048;
    TRUE(!slice(group->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, &us));
}

int main(int argc, char **argv)
{
    void *first, *second;
    uint8_t uuid[16];
    uint64_t us = 0;

    CHECK(cuInit(0));
    TRUE(calls == 0); /* nothing of this before a context */
    CHECK(cuDevicePrimaryCtxRetain(&first, 0));
    CHECK(cuCtxSetCurrent(first));
    TRUE(count(NV01_ROOT_CLIENT) == 1 && count(NV01_DEVICE_0) == 1 && count(NV20_SUBDEVICE_0) == 1);
    TRUE(count(KEPLER_CHANNEL_GROUP_A) == 4 && count(HOPPER_CHANNEL_GPFIFO_A) == 20);
    CHECK(cuCtxCreate_v2(&second, 0, 0));
    TRUE(count(NV20_SUBDEVICE_0) == 1 && count(KEPLER_CHANNEL_GROUP_A) == 8 && count(HOPPER_CHANNEL_GPFIFO_A) == 40);
    for (unsigned i = 0; i < object_count; i++)
        TRUE(objects[i].class != KEPLER_CHANNEL_GROUP_A || objects[i].engine == 1 || (objects[i].engine >= 11 && objects[i].engine <= 13));
    CHECK(cuCtxDestroy_v2(second));
    TRUE(count(KEPLER_CHANNEL_GROUP_A) == 4 && count(HOPPER_CHANNEL_GPFIFO_A) == 20);

    struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS id = {.flags = NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY, .length = sizeof id.data};
    CHECK(cuDeviceGetUuid(uuid, 0));
    TRUE(!control(client, find(NV20_SUBDEVICE_0, 0, 0)->handle, NV2080_CTRL_CMD_GPU_GET_GID_INFO, &id, sizeof id));
    TRUE(id.length == 16 && !memcmp(id.data, uuid, 16));

    const struct object *group = find(KEPLER_CHANNEL_GROUP_A, 0, 1);
    TRUE(!slice(group->handle, NVA06C_CTRL_CMD_GET_TIMESLICE, &us) && us == XM_RM_DEFAULT_TIMESLICE_US);
    us = 1;
    TRUE(!slice(group->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, &us));
    TRUE(!slice(group->handle, NVA06C_CTRL_CMD_GET_TIMESLICE, &us) && us == 1);
    errors(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0x77);
    others();
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    TRUE(count(KEPLER_CHANNEL_GROUP_A) == 0 && count(HOPPER_CHANNEL_GPFIFO_A) == 0);
    puts("ok");
    return 0;
}
