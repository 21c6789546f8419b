/* A resource manager of our own in the place of raw.c, for the unit tests: it
 * keeps objects, knows of every channel whether it is on, records controls, and
 * refuses on demand. A control that names an object which is not there ends the
 * test: nothing of ours may ever do that. */
#ifndef FAKE_KERNEL_H
#define FAKE_KERNEL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../control.h"
#include "../gen/rm.h"
#include "../raw.h"

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #x); \
			abort();                                               \
		}                                                              \
	} while (0)
#define EQUAL(got, want)                                                                                              \
	do {                                                                                                          \
		long long got_ = (long long)(got), want_ = (long long)(want);                                        \
		if (got_ != want_) {                                                                                  \
			fprintf(stderr, "%s:%d: %s = %lld, want %lld\n", __FILE__, __LINE__, #got, got_, want_); \
			abort();                                                                                      \
		}                                                                                                     \
	} while (0)

/* Commands that schedule a group: no name of ours, the program's driver issues them. */
#define SCHEDULE_GROUP 0xA06C0101u

struct thing {
	uint32_t client, handle, parent, class, engine, instance;
	int fd;
	bool off;
	uint64_t slice;
	struct thing *same; /* what it is another name of */
};

#define THINGS 20000
static struct thing things[THINGS];
static unsigned thing_count;
static uint32_t next_handle = 0x5c000001;

static struct {
	unsigned switches, on, off; /* calls that switched channels */
	unsigned widest;            /* most channels of one call */
	unsigned set_slices, get_slices, uuids, raws;
} calls;

/* The n-th control of that command from now on, counted from 1, is refused, and `refuse_more` after it. */
static uint32_t refuse_command, refuse_status;
static unsigned refuse_at, refuse_more;
static bool mute_uuids;
static bool answer_all, fault_all;   /* every request succeeds / faults, whatever it is */
static int gone_fd = -1;             /* closed by the program */
static void (*during)(void);         /* runs inside the next call that switches channels */

static struct thing *thing(uint32_t client, uint32_t handle)
{
	for (unsigned i = 0; i < thing_count; i++)
		if (things[i].client == client && things[i].handle == handle && things[i].class != UINT32_MAX)
			return &things[i];
	return NULL;
}

static struct thing *itself(struct thing *t)
{
	while (t->same)
		t = t->same;
	return t;
}

static void gone(struct thing *t)
{
	uint32_t client = t->client, handle = t->handle;
	bool all = client == handle;

	t->class = UINT32_MAX;
	for (unsigned i = 0; i < thing_count; i++)
		if (things[i].class != UINT32_MAX && things[i].client == client && (all || things[i].parent == handle))
			gone(&things[i]);
}

static struct thing *put(void)
{
	CHECK(thing_count < THINGS);
	things[thing_count] = (struct thing){.slice = XM_RM_DEFAULT_TIMESLICE_US};
	return &things[thing_count++];
}

static uint32_t kernel_alloc(int fd, struct NVOS64_PARAMETERS *p, uint32_t size)
{
	const struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *group = (void *)(uintptr_t)p->pAllocParms;
	const struct NV0080_ALLOC_PARAMETERS *device = (void *)(uintptr_t)p->pAllocParms;
	struct thing *t;

	(void)size;
	if (p->hClass == NV01_ROOT_CLIENT)
		p->hObjectNew = p->hObjectNew ? p->hObjectNew : 0xc1d00000 + ++next_handle;
	else if (!p->hObjectNew)
		p->hObjectNew = ++next_handle;
	t = thing(p->hClass == NV01_ROOT_CLIENT ? p->hObjectNew : p->hRoot, p->hObjectNew);
	if (t)
		gone(t);
	t = put();
	t->client = p->hClass == NV01_ROOT_CLIENT ? p->hObjectNew : p->hRoot;
	t->handle = p->hObjectNew;
	t->parent = p->hObjectParent;
	t->class = p->hClass;
	t->fd = fd;
	if (p->hClass == KEPLER_CHANNEL_GROUP_A && group)
		t->engine = group->engineType;
	if (p->hClass == NV01_DEVICE_0 && device)
		t->instance = device->deviceId;
	return NV_OK;
}

static uint32_t kernel_dup(int fd, struct NVOS55_PARAMETERS *p)
{
	struct thing *from = thing(p->hClientSrc, p->hObjectSrc), *t;

	if (!from)
		return NV_ERR_OBJECT_NOT_FOUND;
	p->hObject = p->hObject ? p->hObject : ++next_handle;
	t = put();
	from = thing(p->hClientSrc, p->hObjectSrc);
	*t = *from;
	t->client = p->hClient;
	t->parent = p->hParent;
	t->handle = p->hObject;
	t->fd = fd;
	t->same = from;
	return NV_OK;
}

static bool refuses(uint32_t command)
{
	if (!refuse_at || command != refuse_command)
		return false;
	if (refuse_at > 1) {
		refuse_at--;
		return false;
	}
	if (refuse_more)
		refuse_more--;
	else
		refuse_at = 0;
	return true;
}

static void switch_one(uint32_t client, uint32_t channel, bool off)
{
	struct thing *t = thing(client, channel);

	CHECK(t && XM_RM_IS_CHANNEL(t->class));
	itself(t)->off = off;
}

static uint32_t kernel_switch(const struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *p)
{
	CHECK(p->numChannels && p->numChannels <= XM_SWITCH_MAX && !p->bRewindGpPut && !p->bOnlyDisableScheduling && !p->pRunlistPreemptEvent);
	calls.switches++;
	*(p->bDisable ? &calls.off : &calls.on) += 1;
	if (p->numChannels > calls.widest)
		calls.widest = p->numChannels;
	if (refuses(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS))
		return refuse_status;
	for (uint32_t i = 0; i < p->numChannels; i++)
		switch_one(p->hClientList[i], p->hChannelList[i], p->bDisable);
	return NV_OK;
}

/* A subdevice's UUID is its device's instance, 16 times. */
static uint32_t kernel_uuid(struct thing *subdevice, struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *p)
{
	struct thing *device = thing(subdevice->client, subdevice->parent);

	calls.uuids++;
	if (mute_uuids)
		return NV_ERR_NOT_SUPPORTED;
	CHECK(p->flags == NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY && device);
	p->length = 16;
	memset(p->data, (int)device->instance, 16);
	return NV_OK;
}

static uint32_t kernel_control(int fd, struct NVOS54_PARAMETERS *p)
{
	struct thing *t = thing(p->hClient, p->hObject);
	struct NVA06C_CTRL_TIMESLICE_PARAMS *slice = (void *)(uintptr_t)p->params;

	CHECK(t && t->fd == fd && fd != gone_fd);
	switch (p->cmd) {
	case NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS:
		CHECK(t->class == NV20_SUBDEVICE_0 && p->paramsSize == sizeof(struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS));
		return kernel_switch((void *)(uintptr_t)p->params);
	case NV2080_CTRL_CMD_GPU_GET_GID_INFO:
		CHECK(t->class == NV20_SUBDEVICE_0);
		return kernel_uuid(t, (void *)(uintptr_t)p->params);
	case NVA06C_CTRL_CMD_GET_TIMESLICE:
		calls.get_slices++;
		if (refuses(p->cmd))
			return refuse_status;
		slice->timesliceUs = itself(t)->slice;
		return NV_OK;
	case NVA06C_CTRL_CMD_SET_TIMESLICE:
		calls.set_slices++;
		CHECK(t->class == KEPLER_CHANNEL_GROUP_A);
		if (refuses(p->cmd))
			return refuse_status;
		itself(t)->slice = slice->timesliceUs;
		return NV_OK;
	case SCHEDULE_GROUP:
		for (unsigned i = 0; i < thing_count; i++)
			if (things[i].client == t->client && things[i].parent == t->handle && things[i].class != UINT32_MAX)
				itself(&things[i])->off = false;
		return NV_OK;
	}
	return NV_ERR_NOT_SUPPORTED;
}

static pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;

static int kernel(int fd, unsigned long request, void *arg)
{
	struct NVOS21_PARAMETERS *old = arg;
	struct NVOS64_PARAMETERS *p = arg, like;
	struct NVOS00_PARAMETERS *freed = arg;
	struct NVOS55_PARAMETERS *dup = arg;
	struct nv_ioctl_xfer_t *wrapper = arg;

	if (answer_all)
		return 0;
	if (fault_all) {
		errno = EFAULT;
		return -1;
	}
	switch (request) {
	case XM_RM_ALLOC64:
		p->status = refuses(NV_ESC_RM_ALLOC) ? refuse_status : kernel_alloc(fd, p, sizeof *p);
		return 0;
	case XM_RM_ALLOC21:
		memcpy(&like, old, offsetof(struct NVOS64_PARAMETERS, pRightsRequested));
		old->status = kernel_alloc(fd, &like, sizeof *old);
		old->hObjectNew = like.hObjectNew;
		return 0;
	case XM_RM_FREE:
		freed->status = thing(freed->hRoot, freed->hObjectOld) ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
		if (refuses(NV_ESC_RM_FREE))
			freed->status = refuse_status;
		else if (!freed->status)
			gone(thing(freed->hRoot, freed->hObjectOld));
		return 0;
	case XM_RM_DUP_OBJECT:
		dup->status = kernel_dup(fd, dup);
		return 0;
	case XM_RM_CONTROL:
		((struct NVOS54_PARAMETERS *)arg)->status = kernel_control(fd, arg);
		return 0;
	case 0xC01046D3u: /* the wrapper */
		return kernel(fd, 3u << 30 | wrapper->size << 16 | NV_IOCTL_MAGIC << 8 | wrapper->cmd, (void *)(uintptr_t)wrapper->ptr);
	}
	errno = ENOTTY;
	return -1;
}

int xm_rm_raw(int fd, unsigned long request, void *arg)
{
	int r;

	if (during && request == XM_RM_CONTROL && ((struct NVOS54_PARAMETERS *)arg)->cmd == NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS) {
		void (*now)(void) = during; /* what it does needs the kernel */

		during = NULL;
		now();
	}
	pthread_mutex_lock(&kernel_lock);
	calls.raws++;
	r = kernel(fd, request, arg);
	pthread_mutex_unlock(&kernel_lock);
	return r;
}

int xm_ioctl_next(int fd, unsigned long request, void *arg)
{
	(void)arg;
	errno = ENOTTY;
	return -(int)(request % 100) - fd;
}

bool xm_rm_file(int fd, struct xm_rm_file *f)
{
	*f = (struct xm_rm_file){.fd = fd, .device = 195, .inode = 1};
	return fd >= 0 && fd != gone_fd;
}

bool xm_rm_file_is(const struct xm_rm_file *f)
{
	return f->fd != gone_fd;
}

#endif
