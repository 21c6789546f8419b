#include <stdatomic.h>

#include "channels.h"
#include "hold.h"
#include "owned.h"

void xm_hold_strange(void)
{
	xm_owned_lock();
	if (xm_owned.clients) /* else it was another driver's request */
		xm_owned.strange++;
	xm_owned_unlock();
	xm_channels_news();
}

void xm_hold_missed(void)
{
	atomic_store(&xm_owned_missed, true);
}

/* Is a slice in force anywhere? The table's lock held. */
static bool sliced(void)
{
	for (uint32_t i = 0; i < xm_owned.gpu_count; i++)
		if (xm_owned.gpus[i].slice)
			return true;
	return false;
}

static _Thread_local bool spared;

void xm_hold_spare(bool on)
{
	spared = on;
}

void xm_hold_made(const struct xm_rm_made *m, uint32_t source_client, uint32_t source)
{
	struct xm_rm_object *o;
	enum xm_rm_kind kind = xm_rm_kind_of(m->class);
	bool slices;

	if (spared && (kind == XM_RM_GROUP || kind == XM_RM_CHANNEL))
		return;
	xm_owned_lock();
	o = source ? xm_rm_duplicate(&xm_owned, m, source_client, source) : xm_rm_add(&xm_owned, m);
	kind = o ? o->kind : 0;
	slices = sliced();
	xm_owned_unlock();
	if (kind == XM_RM_CHANNEL && xm_hold_any())
		xm_hold_settle(m->client, m->handle);
	if (kind == XM_RM_CHANNEL && slices)
		xm_channels_kick();
	if (kind == XM_RM_PROFILER || kind == XM_RM_INSTANCE)
		xm_channels_kick();
	else if (kind)
		xm_channels_news();
}

bool xm_hold_knows(uint32_t client, uint32_t handle)
{
	bool knows;

	xm_owned_lock();
	knows = xm_rm_find(&xm_owned, client, handle) != NULL;
	xm_owned_unlock();
	return knows;
}

void xm_hold_free_begin(void)
{
	pthread_mutex_lock(&xm_hold_lock);
}

void xm_hold_free_end(uint32_t client, uint32_t handle, bool freed)
{
	struct xm_rm_object *o;
	bool slices;

	xm_owned_lock();
	o = freed ? xm_rm_find(&xm_owned, client, handle) : NULL;
	if (o)
		xm_rm_drop(&xm_owned, o);
	slices = sliced();
	xm_owned_unlock();
	pthread_mutex_unlock(&xm_hold_lock);
	if (o && slices)
		xm_channels_kick();
	else if (o)
		xm_channels_news();
}

void xm_hold_touched(uint32_t client, uint32_t handle)
{
	struct xm_rm_object *o;
	bool channels = false;

	xm_owned_lock();
	o = xm_rm_find(&xm_owned, client, handle);
	if (o && o->kind == XM_RM_CHANNEL) {
		xm_rm_switched(&xm_owned, o, false);
		channels = true;
	} else if (o && o->kind == XM_RM_GROUP) {
		for (struct xm_rm_object *c = o->down; c; c = c->next)
			if (c->kind == XM_RM_CHANNEL) {
				xm_rm_switched(&xm_owned, c, false);
				channels = true;
			}
	}
	xm_owned_unlock();
	if (channels)
		xm_hold_settle(client, handle);
}
