#define _GNU_SOURCE
#include "owned.h"

#include <string.h>

#include "control.h"
#include "sys.h"

pthread_mutex_t xm_hold_lock = PTHREAD_MUTEX_INITIALIZER;
struct xm_rm_table xm_owned;
_Atomic bool xm_owned_missed;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

void xm_owned_lock(void)
{
	pthread_mutex_lock(&table_lock);
}

void xm_owned_unlock(void)
{
	pthread_mutex_unlock(&table_lock);
}

/* The child of a process owns nothing of it. It may have been made in the middle of
 * what another thread did here, which nobody ends there. */
static void in_child(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	xm_hold_lock = table_lock = unlocked;
	memset(&xm_owned, 0, sizeof xm_owned);
	atomic_store(&xm_owned_missed, false);
	xm_keep_anew();
}

void xm_owned_begin(void)
{
	static _Atomic bool begun;

	if (!atomic_exchange(&begun, true))
		(void)pthread_atfork(NULL, NULL, in_child); /* without memory for it there is most likely no child either */
}

/* A subdevice that has not been asked which GPU it is. */
static bool unasked(struct xm_target *t)
{
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o))
		if (o->kind == XM_RM_SUBDEVICE && !o->gpu && !o->mute) {
			*t = xm_target_of(o);
			return true;
		}
	return false;
}

/* Its device object remembers, in case the subdevice goes first. */
static void place(struct xm_rm_object *subdevice, struct xm_gpu *gpu)
{
	subdevice->gpu = gpu;
	if (subdevice->up->kind == XM_RM_DEVICE)
		subdevice->up->gpu = gpu;
}

/* Subdevices that would not tell: the context that was made on their device does. */
static void take_hints(void)
{
	for (struct xm_rm_object *o = xm_rm_next(&xm_owned, NULL); o; o = xm_rm_next(&xm_owned, o)) {
		if (o->kind != XM_RM_SUBDEVICE || o->gpu || !o->mute || o->up->kind != XM_RM_DEVICE)
			continue;
		for (struct xm_rm_object *g = o->up->down; g && !o->gpu; g = g->next)
			if (g->kind == XM_RM_GROUP && g->hinted)
				place(o, xm_rm_gpu(&xm_owned, g->hint, true));
	}
}

/* xm_hold_lock held. */
void xm_owned_identify(void)
{
	struct xm_target t;
	uint8_t uuid[16];

	for (;;) {
		struct xm_rm_object *o;
		bool any;
		int status;

		xm_owned_lock();
		any = unasked(&t);
		if (!any)
			take_hints();
		xm_owned_unlock();
		if (!any)
			return;
		status = xm_ask_uuid(&t, uuid);
		xm_owned_lock();
		o = xm_rm_find(&xm_owned, t.client, t.object);
		if (status == XM_LOST)
			xm_rm_drop_file(&xm_owned, &t.file);
		else if (o && !status)
			place(o, xm_rm_gpu(&xm_owned, uuid, true));
		if (o && status != XM_LOST && !o->gpu)
			o->mute = true;
		xm_owned_unlock();
	}
}

struct xm_gpu *xm_owned_gpu(const uint8_t uuid[16])
{
	struct xm_gpu *gpu;

	xm_owned_identify();
	xm_owned_lock();
	gpu = xm_rm_gpu(&xm_owned, uuid, true);
	xm_owned_unlock();
	return gpu;
}

void xm_owned_refused(struct xm_gpu *gpu, int status)
{
	gpu->refused = status < 0 ? NV_ERR_NOT_SUPPORTED : (uint32_t)status;
}
