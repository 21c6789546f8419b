#define _GNU_SOURCE
#include "hold.h"

#include <errno.h>

#include "channels.h"
#include "control.h"
#include "gen/rm.h"
#include "owned.h"
#include "sys.h"

#define PASSES 4096u        /* more calls than that for one change: something makes channels faster than they can be switched */
#define LATE 50u            /* tries to switch off a newcomer, by xm_hold_again */
#define LEAVE_TRIES 100
#define LEAVE_TRY_NS 500000u

static _Atomic uint32_t held_gpus; /* with a hold in force */
static bool left;                  /* the process is leaving; protected by xm_hold_lock */

static bool to_be_off(const struct xm_gpu *gpu, struct xm_rm_object *channel)
{
	return gpu->hold == XM_HOLD_ALL || (gpu->hold == XM_HOLD_COMPUTE && xm_rm_engine(channel) == NV2080_ENGINE_TYPE_GRAPHICS);
}

/* Is it a channel there that differs from the wish, and was not refused? */
static bool differs(const struct xm_gpu *gpu, struct xm_rm_object *o)
{
	return o->kind == XM_RM_CHANNEL && !o->failed && xm_rm_gpu_of(&xm_owned, o) == gpu && o->off != to_be_off(gpu, o) &&
	       xm_rm_first_name(&xm_owned, o);
}

/* The first channel of the next call: compute is stopped first and goes on last. */
static struct xm_rm_object *first(const struct xm_gpu *gpu)
{
	struct xm_rm_object *found = NULL;

	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o)) {
		bool compute;

		if (!differs(gpu, o))
			continue;
		compute = xm_rm_engine(o) == NV2080_ENGINE_TYPE_GRAPHICS;
		if (compute != o->off)
			return o;
		if (!found)
			found = o;
	}
	return found;
}

/* The next call's channels: one engine's, since each engine has a runlist of its
 * own, and all switched the same way. s->n is 0 when there is no subdevice to ask.
 * False: none is left. */
static bool gather(const struct xm_gpu *gpu, struct xm_switch *s)
{
	struct xm_rm_object *from = first(gpu), *subdevice;
	uint32_t engine;

	if (!from)
		return false;
	subdevice = xm_rm_subdevice(&xm_owned, gpu);
	*s = (struct xm_switch){.off = !from->off};
	if (!subdevice)
		return true;
	s->target = xm_target_of(subdevice);
	engine = xm_rm_engine(from);
	for (struct xm_rm_object *o = from; o && s->n < XM_SWITCH_MAX; o = xm_rm_next(&xm_owned, o))
		if (differs(gpu, o) && xm_rm_engine(o) == engine && o->off == from->off) {
			s->client[s->n] = o->client;
			s->channel[s->n++] = o->handle;
		}
	return true;
}

static void note(const struct xm_switch *s, int status)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct xm_rm_object *o = xm_rm_find(&xm_owned, s->client[i], s->channel[i]);

		if (!o)
			continue;
		if (status)
			o->failed++;
		else
			xm_rm_switched(&xm_owned, o, s->off);
	}
}

/* Makes channels as is wished; those that were refused before are left alone.
 * Returns the first refusal. xm_hold_lock held. */
static int carry_out(const struct xm_gpu *gpu)
{
	struct xm_switch s;
	int status, refused = 0;

	for (unsigned i = 0; i < PASSES; i++) {
		bool any;

		xm_owned_lock();
		any = gather(gpu, &s);
		xm_owned_unlock();
		if (!any)
			return refused;
		if (!s.n)
			return -ENODEV;
		status = xm_switch_channels(&s);
		xm_owned_lock();
		if (status == XM_LOST)
			xm_rm_drop_file(&xm_owned, &s.target.file);
		else
			note(&s, status);
		xm_owned_unlock();
		if (status != XM_LOST && status && !refused)
			refused = status;
	}
	return refused ? refused : -EAGAIN;
}

static void forgive(const struct xm_gpu *gpu)
{
	xm_owned_lock();
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o))
		if (o->kind == XM_RM_CHANNEL && xm_rm_gpu_of(&xm_owned, o) == gpu)
			o->failed = 0;
	xm_owned_unlock();
}

static void wish(struct xm_gpu *gpu, uint32_t hold)
{
	uint32_t on = 0;

	xm_owned_lock();
	gpu->hold = hold;
	for (uint32_t i = 0; i < xm_owned.gpu_count; i++)
		on += xm_owned.gpus[i].hold != XM_HOLD_NONE;
	atomic_store(&held_gpus, on);
	xm_owned_unlock();
}

/* xm_hold_lock held. */
static int hold_gpu(struct xm_gpu *gpu, uint32_t hold)
{
	uint32_t was = gpu->hold;
	int status;

	forgive(gpu);
	gpu->late = 0;
	wish(gpu, hold);
	status = carry_out(gpu);
	if (!status)
		return 0;
	xm_owned_refused(gpu, status);
	if (hold > was) { /* more was to stand still */
		forgive(gpu);
		wish(gpu, was);
		(void)carry_out(gpu);
	}
	return status;
}

int xm_hold_set(const uint8_t uuid[16], uint32_t hold, uint64_t *ns)
{
	struct xm_gpu *gpu;
	uint64_t began;
	int status;

	if (hold > XM_HOLD_ALL)
		return -EINVAL;
	pthread_mutex_lock(&xm_hold_lock);
	if (left && hold != XM_HOLD_NONE) {
		status = -ESHUTDOWN;
	} else if (!(gpu = xm_owned_gpu(uuid))) {
		status = -ENOSPC;
	} else {
		began = xm_now();
		status = hold_gpu(gpu, hold);
		if (ns)
			*ns = xm_now() - began;
	}
	pthread_mutex_unlock(&xm_hold_lock);
	return status;
}

/* Is there a channel that is to be switched `off` (on), or a slice to be set? */
static bool rests(const struct xm_gpu *gpu, bool off)
{
	bool any = false;

	xm_owned_lock();
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o && !any; o = xm_rm_next(&xm_owned, o))
		any = o->kind == XM_RM_CHANNEL && o->off == !off && xm_rm_gpu_of(&xm_owned, o) == gpu && to_be_off(gpu, o) == off;
	xm_owned_unlock();
	return any;
}

enum xm_hold_rest xm_hold_again(const uint8_t uuid[16], int *refused)
{
	enum xm_hold_rest rest = XM_HOLD_REST_NONE;
	struct xm_gpu *gpu;
	int status;

	*refused = 0;
	pthread_mutex_lock(&xm_hold_lock);
	gpu = xm_owned_gpu(uuid);
	if (!gpu) {
		pthread_mutex_unlock(&xm_hold_lock);
		return rest;
	}
	forgive(gpu);
	status = carry_out(gpu);
	xm_slices_forgive(gpu);
	if (xm_slices_carry_out(gpu))
		rest = XM_HOLD_REST_LATER;
	if (rests(gpu, true)) {
		rest = XM_HOLD_REST_SOON;
		if (++gpu->late >= LATE) {
			*refused = status ? status : (int)NV_ERR_INVALID_STATE;
			xm_owned_refused(gpu, *refused);
			rest = XM_HOLD_REST_NONE;
		}
	} else {
		gpu->late = 0;
	}
	if (rest == XM_HOLD_REST_NONE && rests(gpu, false))
		rest = XM_HOLD_REST_LATER;
	pthread_mutex_unlock(&xm_hold_lock);
	return rest;
}

bool xm_hold_leave(void)
{
	static const _Atomic uint32_t never;
	uint32_t gpus;

	for (int i = 0; i < LEAVE_TRIES; i++) {
		if (pthread_mutex_trylock(&xm_hold_lock)) {
			xm_wait_word(&never, 0, LEAVE_TRY_NS);
			continue;
		}
		left = true;
		xm_owned_lock();
		gpus = xm_owned.gpu_count;
		xm_owned_unlock();
		for (uint32_t k = 0; k < gpus; k++) {
			forgive(&xm_owned.gpus[k]);
			wish(&xm_owned.gpus[k], XM_HOLD_NONE);
			(void)carry_out(&xm_owned.gpus[k]);
		}
		pthread_mutex_unlock(&xm_hold_lock);
		return true;
	}
	return false;
}

void xm_hold_settle(uint32_t client, uint32_t handle)
{
	struct xm_rm_object *o;
	struct xm_gpu *gpu = NULL;
	int status = 0;

	pthread_mutex_lock(&xm_hold_lock);
	xm_owned_identify();
	xm_owned_lock();
	o = xm_rm_find(&xm_owned, client, handle);
	if (o)
		gpu = xm_rm_gpu_of(&xm_owned, o);
	xm_owned_unlock();
	if (gpu && gpu->hold != XM_HOLD_NONE)
		status = carry_out(gpu);
	pthread_mutex_unlock(&xm_hold_lock);
	if (status)
		xm_channels_kick();
}

bool xm_hold_any(void)
{
	return atomic_load_explicit(&held_gpus, memory_order_relaxed) != 0;
}
