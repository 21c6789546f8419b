/*
 * Single controls on objects of the driver's resource manager, in its own
 * layouts (gen/rm.h). Each is one call; a driver that asks to try again is
 * asked again a few times.
 */
#ifndef XMSCHED_CONTROL_H
#define XMSCHED_CONTROL_H

#include "gen/rm.h"
#include "objects.h"

#define XM_SWITCH_MAX NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES

/* Besides 0, a negative errno and the driver's positive status: the file is not the one that the object was made on. */
#define XM_LOST INT32_MIN

/* Whom a control is for. */
struct xm_target {
	struct xm_rm_file file;
	uint32_t client, object;
};

static inline struct xm_target xm_target_of(const struct xm_rm_object *o)
{
	return (struct xm_target){.file = o->file, .client = o->client, .object = o->handle};
}

/* Channels to be switched off, or on. */
struct xm_switch {
	struct xm_target target; /* a subdevice */
	bool off;
	uint32_t n;
	uint32_t client[XM_SWITCH_MAX], channel[XM_SWITCH_MAX];
};

XM_INTERNAL int xm_switch_channels(const struct xm_switch *s);
XM_INTERNAL int xm_ask_uuid(const struct xm_target *subdevice, uint8_t uuid[16]);
XM_INTERNAL int xm_ask_slice(const struct xm_target *group, uint64_t *us);
XM_INTERNAL int xm_set_slice(const struct xm_target *group, uint64_t us);

#endif
