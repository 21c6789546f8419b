#include <errno.h>

#include "control.h"
#include "hold.h"
#include "gen/rm.h"
#include "owned.h"

/* Whether it is a group or channel on that GPU, under its first name. */
static bool counts(const struct xm_gpu *gpu, struct xm_rm_object *o)
{
	return (o->kind == XM_RM_GROUP || o->kind == XM_RM_CHANNEL) && xm_rm_gpu_of(&xm_owned, o) == gpu &&
	       xm_rm_first_name(&xm_owned, o);
}

static bool computes(struct xm_rm_object *o)
{
	return xm_rm_engine(o) == NV2080_ENGINE_TYPE_GRAPHICS;
}

static void count(struct xm_hold_now *now, struct xm_rm_object *o)
{
	uint32_t hold = computes(o) ? XM_HOLD_COMPUTE : XM_HOLD_ALL;

	if (o->kind == XM_RM_GROUP) {
		now->groups++;
		now->compute_groups += computes(o);
		return;
	}
	now->channels++;
	now->compute_channels += computes(o);
	if (o->off && hold > now->hold)
		now->hold = hold;
}

struct xm_hold_now xm_hold_look(const uint8_t uuid[16])
{
	struct xm_hold_now now = {0};
	struct xm_gpu *gpu;

	pthread_mutex_lock(&xm_hold_lock);
	gpu = xm_owned_gpu(uuid);
	xm_owned_lock();
	if (gpu) {
		now.hold = gpu->hold;
		now.slice = xm_slices_due(gpu);
		now.subdevice = xm_rm_subdevice(&xm_owned, gpu) != NULL;
	}
	now.changes = xm_owned.changes;
	for (struct xm_rm_object *o = gpu ? xm_rm_next(&xm_owned, NULL) : NULL; o; o = xm_rm_next(&xm_owned, o))
		if (counts(gpu, o))
			count(&now, o);
	xm_owned_unlock();
	pthread_mutex_unlock(&xm_hold_lock);
	return now;
}

/* Switching channels on that are on already: whether the driver would let us.
 * xm_hold_lock held. */
static int dry_run(const struct xm_gpu *gpu)
{
	struct xm_switch s = {.off = false};
	struct xm_rm_object *subdevice;
	int status;

	xm_owned_lock();
	subdevice = xm_rm_subdevice(&xm_owned, gpu);
	if (subdevice)
		s.target = xm_target_of(subdevice);
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o && s.n < XM_SWITCH_MAX; o = xm_rm_next(&xm_owned, o))
		if (o->kind == XM_RM_CHANNEL && !o->off && counts(gpu, o) && computes(o)) {
			s.client[s.n] = o->client;
			s.channel[s.n++] = o->handle;
		}
	xm_owned_unlock();
	if (!subdevice || !s.n)
		return -ENODEV;
	status = xm_switch_channels(&s);
	if (status == XM_LOST) {
		xm_owned_lock();
		xm_rm_drop_file(&xm_owned, &s.target.file);
		xm_owned_unlock();
		return -ENODEV;
	}
	return status;
}

/* What speaks against it before the driver is asked. xm_hold_lock held. */
static uint32_t known_why(const struct xm_gpu *gpu, const struct xm_hold_now *now)
{
	uint32_t why = XM_LEVEL_WHY_NONE;

	xm_owned_lock();
	if (xm_owned.count[XM_RM_INSTANCE])
		why = XM_LEVEL_WHY_MIG;
	else if (xm_owned.count[XM_RM_PROFILER])
		why = XM_LEVEL_WHY_DEBUGGER;
	else if (gpu->refused)
		why = XM_LEVEL_WHY_RM_REFUSED;
	else if (!now->compute_channels)
		why = xm_owned.count[XM_RM_MPS] ? XM_LEVEL_WHY_MPS : XM_LEVEL_WHY_RM_LAYOUT;
	else if (xm_owned.strange || atomic_load(&xm_owned_missed) || !now->subdevice)
		why = XM_LEVEL_WHY_RM_LAYOUT;
	xm_owned_unlock();
	return why;
}

uint32_t xm_hold_why(const uint8_t uuid[16])
{
	struct xm_hold_now now = xm_hold_look(uuid);
	struct xm_gpu *gpu;
	uint32_t why;
	int status;

	pthread_mutex_lock(&xm_hold_lock);
	gpu = xm_owned_gpu(uuid);
	why = gpu ? known_why(gpu, &now) : XM_LEVEL_WHY_RM_LAYOUT;
	if (!why && !gpu->asked && gpu->hold == XM_HOLD_NONE) {
		status = dry_run(gpu);
		gpu->asked = status != -ENODEV;
		if (status == -ENODEV) {
			why = XM_LEVEL_WHY_RM_LAYOUT;
		} else if (status) {
			xm_owned_refused(gpu, status);
			why = XM_LEVEL_WHY_RM_REFUSED;
		}
	}
	pthread_mutex_unlock(&xm_hold_lock);
	return why;
}
