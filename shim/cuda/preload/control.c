#include "control.h"

#include <errno.h>
#include <string.h>

#include "raw.h"
#include "sys.h"

#define TRIES 4
#define TRY_NS 200000u

static int once(const struct xm_target *t, uint32_t command, void *params, uint32_t size)
{
	struct NVOS54_PARAMETERS p = {.hClient = t->client,
				      .hObject = t->object,
				      .cmd = command,
				      .params = (uintptr_t)params,
				      .paramsSize = size};

	/* A number that the program has given to another file since must not see our request. */
	if (!xm_rm_file_is(&t->file))
		return XM_LOST;
	if (xm_rm_raw(t->file.fd, XM_RM_CONTROL, &p) < 0)
		return errno == EBADF ? XM_LOST : -errno;
	return p.status <= INT32_MAX ? (int)p.status : -EPROTO;
}

static int control(const struct xm_target *t, uint32_t command, void *params, uint32_t size)
{
	static const _Atomic uint32_t never;
	int was = errno, status = once(t, command, params, size);

	for (int i = 1; i < TRIES && (status == NV_ERR_BUSY_RETRY || status == -EINTR || status == -EAGAIN); i++) {
		xm_wait_word(&never, 0, TRY_NS);
		status = once(t, command, params, size);
	}
	errno = was;
	return status;
}

int xm_switch_channels(const struct xm_switch *s)
{
	struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS p = {.bDisable = s->off, .numChannels = s->n};

	memcpy(p.hClientList, s->client, s->n * sizeof *s->client);
	memcpy(p.hChannelList, s->channel, s->n * sizeof *s->channel);
	return control(&s->target, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &p, sizeof p);
}

int xm_ask_uuid(const struct xm_target *subdevice, uint8_t uuid[16])
{
	struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS p = {.flags = NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY, .length = 16};
	int status = control(subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, &p, sizeof p);

	if (!status && p.length != 16)
		return -EPROTO;
	if (!status)
		memcpy(uuid, p.data, 16);
	return status;
}

int xm_ask_slice(const struct xm_target *group, uint64_t *us)
{
	struct NVA06C_CTRL_TIMESLICE_PARAMS p = {0};
	int status = control(group, NVA06C_CTRL_CMD_GET_TIMESLICE, &p, sizeof p);

	*us = p.timesliceUs;
	return status;
}

int xm_set_slice(const struct xm_target *group, uint64_t us)
{
	struct NVA06C_CTRL_TIMESLICE_PARAMS p = {.timesliceUs = us};

	return control(group, NVA06C_CTRL_CMD_SET_TIMESLICE, &p, sizeof p);
}
