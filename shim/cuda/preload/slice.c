#include <errno.h>

#include "control.h"
#include "gen/rm.h"
#include "hold.h"
#include "owned.h"
#include "sys.h"

#define PASSES 4096u /* as in hold.c */

/* Measured on the H200: two busy groups of 1 us each make no progress at all, of 50
 * little, of 300 two thirds. A process of several contexts is not cut that short. */
#define SEVERAL_US 1000u

/* A compute group there. One without channels is still being made. */
static bool sliceable(const struct xm_gpu *gpu, struct xm_rm_object *o)
{
	return o->kind == XM_RM_GROUP && o->engine == NV2080_ENGINE_TYPE_GRAPHICS && o->down && xm_rm_gpu_of(&xm_owned, o) == gpu &&
	       xm_rm_first_name(&xm_owned, o);
}

uint32_t xm_slices_due(const struct xm_gpu *gpu)
{
	unsigned n = 0;

	if (!gpu->slice || gpu->slice >= SEVERAL_US)
		return gpu->slice;
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o))
		n += sliceable(gpu, o);
	return n > 1 ? SEVERAL_US : gpu->slice;
}

/* One whose slice is not what is due. */
static struct xm_rm_object *unsliced(const struct xm_gpu *gpu, uint32_t due)
{
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o))
		if (o->slice != due && !o->failed && sliceable(gpu, o))
			return o;
	return NULL;
}

/* One group. What it had before is asked once; where the driver does not say it is the usual. */
static int slice_group(const struct xm_target *t, uint32_t us, uint32_t *usual)
{
	uint64_t now;
	int status;

	if (!*usual) {
		status = xm_ask_slice(t, &now);
		if (status == XM_LOST)
			return status;
		*usual = !status && now && now <= UINT32_MAX ? (uint32_t)now : XM_RM_DEFAULT_TIMESLICE_US;
	}
	return xm_set_slice(t, us ? us : *usual);
}

int xm_slices_carry_out(const struct xm_gpu *gpu)
{
	int status, refused = 0;

	for (unsigned i = 0; i < PASSES; i++) {
		struct xm_rm_object *o;
		struct xm_target t;
		uint32_t usual = 0, due;

		xm_owned_lock();
		due = xm_slices_due(gpu);
		o = unsliced(gpu, due);
		if (o) {
			t = xm_target_of(o);
			usual = o->usual;
		}
		xm_owned_unlock();
		if (!o)
			return refused;
		status = slice_group(&t, due, &usual);
		xm_owned_lock();
		o = xm_rm_find(&xm_owned, t.client, t.object);
		if (status == XM_LOST) {
			xm_rm_drop_file(&xm_owned, &t.file);
		} else if (o && status) {
			o->failed++;
		} else if (o) {
			o->usual = usual;
			o->slice = due;
		}
		xm_owned_unlock();
		if (status != XM_LOST && status && !refused)
			refused = status;
	}
	return refused ? refused : -EAGAIN;
}

void xm_slices_forgive(const struct xm_gpu *gpu)
{
	xm_owned_lock();
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o))
		if (o->kind == XM_RM_GROUP && xm_rm_gpu_of(&xm_owned, o) == gpu)
			o->failed = 0;
	xm_owned_unlock();
}

static void wish_slice(struct xm_gpu *gpu, uint32_t us)
{
	xm_owned_lock();
	gpu->slice = us;
	xm_owned_unlock();
}

int xm_hold_slice(const uint8_t uuid[16], uint32_t us, uint64_t *ns)
{
	struct xm_gpu *gpu;
	uint64_t began;
	uint32_t was;
	int status = -ENOSPC;

	pthread_mutex_lock(&xm_hold_lock);
	gpu = xm_owned_gpu(uuid);
	if (gpu) {
		began = xm_now();
		was = gpu->slice;
		xm_slices_forgive(gpu);
		wish_slice(gpu, us);
		status = xm_slices_carry_out(gpu);
		if (status && us) {
			xm_owned_refused(gpu, status);
			xm_slices_forgive(gpu);
			wish_slice(gpu, was);
			(void)xm_slices_carry_out(gpu);
		}
		if (ns)
			*ns = xm_now() - began;
	}
	pthread_mutex_unlock(&xm_hold_lock);
	return status;
}
