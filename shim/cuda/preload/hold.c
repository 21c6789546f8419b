#define _GNU_SOURCE
#include "hold.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "channels.h"
#include "control.h"
#include "gen/rm.h"
#include "sys.h"

#define PASSES 4096u        /* more calls than that for one change: something makes channels faster than they can be switched */
#define LATE 50u            /* tries to switch off a newcomer, by xm_hold_again */
#define LEAVE_TRIES 100
#define LEAVE_TRY_NS 500000u

static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct xm_rm_table table;      /* protected by table_lock */
static _Atomic uint32_t held_gpus;    /* with a hold in force */
static _Atomic bool missed;           /* an allocation passed unseen */
static bool left;                     /* the process is leaving; protected by hold_lock */

static void lock_table(void)
{
	pthread_mutex_lock(&table_lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&table_lock);
}

/* --- what is to be done --------------------------------------------------- */

static bool to_be_off(const struct xm_gpu *gpu, struct xm_rm_object *channel)
{
	return gpu->hold == XM_HOLD_ALL || (gpu->hold == XM_HOLD_COMPUTE && xm_rm_engine(channel) == NV2080_ENGINE_TYPE_GRAPHICS);
}

/* Is it a channel there that differs from the wish, and was not refused? */
static bool differs(const struct xm_gpu *gpu, struct xm_rm_object *o)
{
	return o->kind == XM_RM_CHANNEL && !o->failed && xm_rm_gpu_of(&table, o) == gpu && o->off != to_be_off(gpu, o) &&
	       xm_rm_first_name(&table, o);
}

/* The first channel of the next call: compute is stopped first and goes on last. */
static struct xm_rm_object *first(const struct xm_gpu *gpu)
{
	struct xm_rm_object *found = NULL;

	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o; o = xm_rm_next(&table, o)) {
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
 * own, and all switched the same way. False: none is left. */
static bool gather(const struct xm_gpu *gpu, struct xm_switch *s)
{
	struct xm_rm_object *from = first(gpu), *subdevice;
	uint32_t engine;

	if (!from)
		return false;
	subdevice = xm_rm_subdevice(&table, gpu);
	if (!subdevice)
		return false;
	engine = xm_rm_engine(from);
	*s = (struct xm_switch){.target = xm_target_of(subdevice), .off = !from->off};
	for (struct xm_rm_object *o = from; o && s->n < XM_SWITCH_MAX; o = xm_rm_next(&table, o))
		if (differs(gpu, o) && xm_rm_engine(o) == engine && o->off == from->off) {
			s->client[s->n] = o->client;
			s->channel[s->n++] = o->handle;
		}
	return true;
}

static void note(const struct xm_switch *s, int status)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct xm_rm_object *o = xm_rm_find(&table, s->client[i], s->channel[i]);

		if (!o)
			continue;
		if (status)
			o->failed++;
		else
			xm_rm_switched(&table, o, s->off);
	}
}

/* Makes channels as is wished; those that were refused before are left alone.
 * Returns the first refusal. hold_lock held. */
static int carry_out(const struct xm_gpu *gpu)
{
	struct xm_switch s;
	int status, refused = 0;

	for (unsigned i = 0; i < PASSES; i++) {
		bool any;

		lock_table();
		any = gather(gpu, &s);
		unlock_table();
		if (!any)
			return refused;
		status = xm_switch_channels(&s);
		lock_table();
		if (status == XM_LOST)
			xm_rm_drop_file(&table, &s.target.file);
		else
			note(&s, status);
		unlock_table();
		if (status != XM_LOST && status && !refused)
			refused = status;
	}
	return refused ? refused : -EAGAIN;
}

static void forgive(const struct xm_gpu *gpu)
{
	lock_table();
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o; o = xm_rm_next(&table, o))
		if (o->kind == XM_RM_CHANNEL && xm_rm_gpu_of(&table, o) == gpu)
			o->failed = 0;
	unlock_table();
}

static void wish(struct xm_gpu *gpu, uint32_t hold)
{
	uint32_t on = 0;

	lock_table();
	gpu->hold = hold;
	for (uint32_t i = 0; i < table.gpu_count; i++)
		on += table.gpus[i].hold != XM_HOLD_NONE;
	atomic_store(&held_gpus, on);
	unlock_table();
}

/* --- which GPU ------------------------------------------------------------ */

/* A subdevice that has not been asked which GPU it is. */
static bool unasked(struct xm_target *t)
{
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o; o = xm_rm_next(&table, o))
		if (o->kind == XM_RM_SUBDEVICE && !o->gpu && !o->mute) {
			*t = xm_target_of(o);
			return true;
		}
	return false;
}

/* Subdevices that would not tell: the context that was made on their device does. */
static void take_hints(void)
{
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o; o = xm_rm_next(&table, o)) {
		if (o->kind != XM_RM_SUBDEVICE || o->gpu || !o->mute || o->up->kind != XM_RM_DEVICE)
			continue;
		for (struct xm_rm_object *g = o->up->down; g && !o->gpu; g = g->next)
			if (g->kind == XM_RM_GROUP && g->hinted)
				o->gpu = xm_rm_gpu(&table, g->hint, true);
	}
}

/* hold_lock held. */
static void identify(void)
{
	struct xm_target t;
	uint8_t uuid[16];

	for (;;) {
		struct xm_rm_object *o;
		bool any;
		int status;

		lock_table();
		any = unasked(&t);
		if (!any)
			take_hints();
		unlock_table();
		if (!any)
			return;
		status = xm_ask_uuid(&t, uuid);
		lock_table();
		o = xm_rm_find(&table, t.client, t.object);
		if (status == XM_LOST)
			xm_rm_drop_file(&table, &t.file);
		else if (o && !status)
			o->gpu = xm_rm_gpu(&table, uuid, true);
		if (o && status != XM_LOST && !o->gpu)
			o->mute = true;
		unlock_table();
	}
}

static struct xm_gpu *gpu_named(const uint8_t uuid[16])
{
	struct xm_gpu *gpu;

	identify();
	lock_table();
	gpu = xm_rm_gpu(&table, uuid, true);
	unlock_table();
	return gpu;
}

/* --- holding --------------------------------------------------------------- */

/* More of the GPU stands still under the first than under the second. */
static bool harder(uint32_t hold, uint32_t than)
{
	return hold > than;
}

/* hold_lock held. */
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
	gpu->refused = status < 0 ? NV_ERR_NOT_SUPPORTED : (uint32_t)status;
	if (harder(hold, was)) {
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
	pthread_mutex_lock(&hold_lock);
	if (left && hold != XM_HOLD_NONE) {
		status = -ESHUTDOWN;
	} else if (!(gpu = gpu_named(uuid))) {
		status = -ENOSPC;
	} else {
		began = xm_now();
		status = hold_gpu(gpu, hold);
		if (ns)
			*ns = xm_now() - began;
	}
	pthread_mutex_unlock(&hold_lock);
	return status;
}

/* --- time slices ------------------------------------------------------------- */

/* A compute group there whose slice differs from the wish. One without channels
 * is still being made. */
static struct xm_rm_object *unsliced(const struct xm_gpu *gpu)
{
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o; o = xm_rm_next(&table, o))
		if (o->kind == XM_RM_GROUP && o->engine == NV2080_ENGINE_TYPE_GRAPHICS && o->slice != gpu->slice && !o->failed &&
		    o->down && xm_rm_gpu_of(&table, o) == gpu && xm_rm_first_name(&table, o))
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

/* hold_lock held. */
static int carry_out_slices(const struct xm_gpu *gpu)
{
	int status, refused = 0;

	for (unsigned i = 0; i < PASSES; i++) {
		struct xm_rm_object *o;
		struct xm_target t;
		uint32_t usual = 0;

		lock_table();
		o = unsliced(gpu);
		if (o) {
			t = xm_target_of(o);
			usual = o->usual;
		}
		unlock_table();
		if (!o)
			return refused;
		status = slice_group(&t, gpu->slice, &usual);
		lock_table();
		o = xm_rm_find(&table, t.client, t.object);
		if (status == XM_LOST) {
			xm_rm_drop_file(&table, &t.file);
		} else if (o && status) {
			o->failed++;
		} else if (o) {
			o->usual = usual;
			o->slice = gpu->slice;
		}
		unlock_table();
		if (status != XM_LOST && status && !refused)
			refused = status;
	}
	return refused ? refused : -EAGAIN;
}

static void forgive_groups(const struct xm_gpu *gpu)
{
	lock_table();
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o; o = xm_rm_next(&table, o))
		if (o->kind == XM_RM_GROUP && xm_rm_gpu_of(&table, o) == gpu)
			o->failed = 0;
	unlock_table();
}

int xm_hold_slice(const uint8_t uuid[16], uint32_t us, uint64_t *ns)
{
	struct xm_gpu *gpu;
	uint64_t began;
	uint32_t was;
	int status = -ENOSPC;

	pthread_mutex_lock(&hold_lock);
	gpu = gpu_named(uuid);
	if (gpu) {
		began = xm_now();
		was = gpu->slice;
		forgive_groups(gpu);
		gpu->slice = us;
		status = carry_out_slices(gpu);
		if (status && us) {
			gpu->refused = status < 0 ? NV_ERR_NOT_SUPPORTED : (uint32_t)status;
			forgive_groups(gpu);
			gpu->slice = was;
			(void)carry_out_slices(gpu);
		}
		if (ns)
			*ns = xm_now() - began;
	}
	pthread_mutex_unlock(&hold_lock);
	return status;
}

/* --- what is left --------------------------------------------------------------- */

/* Is there a channel that is to be switched `off` (on), or a slice to be set? */
static bool rests(const struct xm_gpu *gpu, bool off)
{
	bool any = false;

	lock_table();
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o && !any; o = xm_rm_next(&table, o))
		any = o->kind == XM_RM_CHANNEL && o->off == !off && xm_rm_gpu_of(&table, o) == gpu && to_be_off(gpu, o) == off;
	unlock_table();
	return any;
}

enum xm_hold_rest xm_hold_again(const uint8_t uuid[16], int *refused)
{
	enum xm_hold_rest rest = XM_HOLD_REST_NONE;
	struct xm_gpu *gpu;
	int status;

	*refused = 0;
	pthread_mutex_lock(&hold_lock);
	gpu = gpu_named(uuid);
	if (!gpu) {
		pthread_mutex_unlock(&hold_lock);
		return rest;
	}
	forgive(gpu);
	status = carry_out(gpu);
	forgive_groups(gpu);
	if (carry_out_slices(gpu))
		rest = XM_HOLD_REST_LATER;
	if (rests(gpu, true)) {
		rest = XM_HOLD_REST_SOON;
		if (++gpu->late >= LATE) {
			*refused = status ? status : (int)NV_ERR_INVALID_STATE;
			gpu->refused = *refused < 0 ? NV_ERR_NOT_SUPPORTED : (uint32_t)*refused;
			forgive(gpu);
			wish(gpu, XM_HOLD_NONE);
			(void)carry_out(gpu);
			rest = XM_HOLD_REST_NONE;
		}
	} else {
		gpu->late = 0;
	}
	if (rest == XM_HOLD_REST_NONE && rests(gpu, false))
		rest = XM_HOLD_REST_LATER;
	pthread_mutex_unlock(&hold_lock);
	return rest;
}

bool xm_hold_leave(void)
{
	static _Atomic uint32_t never;

	for (int i = 0; i < LEAVE_TRIES; i++) {
		if (pthread_mutex_trylock(&hold_lock)) {
			xm_wait_word(&never, 0, LEAVE_TRY_NS);
			continue;
		}
		left = true;
		for (uint32_t k = 0; k < table.gpu_count; k++) {
			forgive(&table.gpus[k]);
			wish(&table.gpus[k], XM_HOLD_NONE);
			(void)carry_out(&table.gpus[k]);
		}
		pthread_mutex_unlock(&hold_lock);
		return true;
	}
	return false;
}

/* --- questions ------------------------------------------------------------------ */

struct xm_hold_now xm_hold_look(const uint8_t uuid[16])
{
	struct xm_hold_now now = {0};
	struct xm_gpu *gpu;

	pthread_mutex_lock(&hold_lock);
	gpu = gpu_named(uuid);
	lock_table();
	if (gpu) {
		now.hold = gpu->hold;
		now.slice = gpu->slice;
		now.subdevice = xm_rm_subdevice(&table, gpu) != NULL;
	}
	for (struct xm_rm_object *o = gpu ? xm_rm_next(&table, NULL) : NULL; o; o = xm_rm_next(&table, o)) {
		bool compute;

		if ((o->kind != XM_RM_GROUP && o->kind != XM_RM_CHANNEL) || xm_rm_gpu_of(&table, o) != gpu || !xm_rm_first_name(&table, o))
			continue;
		compute = (o->kind == XM_RM_GROUP ? o->engine : xm_rm_engine(o)) == NV2080_ENGINE_TYPE_GRAPHICS;
		if (o->kind == XM_RM_GROUP) {
			now.groups++;
			now.compute_groups += compute;
			continue;
		}
		now.channels++;
		now.compute_channels += compute;
		if (o->off && harder(compute ? XM_HOLD_COMPUTE : XM_HOLD_ALL, now.hold))
			now.hold = compute ? XM_HOLD_COMPUTE : XM_HOLD_ALL;
	}
	unlock_table();
	pthread_mutex_unlock(&hold_lock);
	return now;
}

/* Switching channels on that are on already: whether the driver would let us.
 * hold_lock held. */
static int dry_run(const struct xm_gpu *gpu)
{
	struct xm_switch s = {.off = false};
	struct xm_rm_object *subdevice;
	int status;

	lock_table();
	subdevice = xm_rm_subdevice(&table, gpu);
	if (subdevice)
		s.target = xm_target_of(subdevice);
	for (struct xm_rm_object *o = xm_rm_next(&table, NULL); o && s.n < XM_SWITCH_MAX; o = xm_rm_next(&table, o))
		if (o->kind == XM_RM_CHANNEL && !o->off && xm_rm_gpu_of(&table, o) == gpu && xm_rm_first_name(&table, o) &&
		    xm_rm_engine(o) == NV2080_ENGINE_TYPE_GRAPHICS) {
			s.client[s.n] = o->client;
			s.channel[s.n++] = o->handle;
		}
	unlock_table();
	if (!subdevice || !s.n)
		return -ENODEV;
	status = xm_switch_channels(&s);
	if (status == XM_LOST) {
		lock_table();
		xm_rm_drop_file(&table, &s.target.file);
		unlock_table();
		return -ENODEV;
	}
	return status;
}

uint32_t xm_hold_why(const uint8_t uuid[16])
{
	struct xm_hold_now now = xm_hold_look(uuid);
	bool profiler, instance, strange, mps;
	struct xm_gpu *gpu;
	uint32_t why = XM_LEVEL_WHY_NONE;
	int status;

	pthread_mutex_lock(&hold_lock);
	gpu = gpu_named(uuid);
	lock_table();
	profiler = table.count[XM_RM_PROFILER] != 0;
	instance = table.count[XM_RM_INSTANCE] != 0;
	mps = table.count[XM_RM_MPS] != 0;
	strange = table.strange != 0 || atomic_load(&missed);
	unlock_table();
	if (instance)
		why = XM_LEVEL_WHY_MIG;
	else if (profiler)
		why = XM_LEVEL_WHY_DEBUGGER;
	else if (gpu && gpu->refused)
		why = XM_LEVEL_WHY_RM_REFUSED;
	else if (!gpu || !now.compute_channels)
		why = mps ? XM_LEVEL_WHY_MPS : XM_LEVEL_WHY_RM_LAYOUT;
	else if (strange || !now.subdevice)
		why = XM_LEVEL_WHY_RM_LAYOUT;
	if (!why && !gpu->asked && gpu->hold == XM_HOLD_NONE) {
		status = dry_run(gpu);
		gpu->asked = status != -ENODEV;
		if (status == -ENODEV) {
			why = XM_LEVEL_WHY_RM_LAYOUT;
		} else if (status) {
			gpu->refused = status < 0 ? NV_ERR_NOT_SUPPORTED : (uint32_t)status;
			why = XM_LEVEL_WHY_RM_REFUSED;
		}
	}
	pthread_mutex_unlock(&hold_lock);
	return why;
}

/* --- what the program's driver does ------------------------------------------------ */

void xm_hold_strange(void)
{
	lock_table();
	if (table.clients) /* else it was another driver's request */
		table.strange++;
	unlock_table();
	xm_channels_news();
}

void xm_hold_missed(void)
{
	atomic_store(&missed, true);
}

/* A channel came, or may have been switched on behind our back. */
static void settle(uint32_t client, uint32_t handle)
{
	struct xm_rm_object *o;
	struct xm_gpu *gpu = NULL;
	int status = 0;

	pthread_mutex_lock(&hold_lock);
	identify();
	lock_table();
	o = xm_rm_find(&table, client, handle);
	if (o)
		gpu = xm_rm_gpu_of(&table, o);
	unlock_table();
	if (gpu && gpu->hold != XM_HOLD_NONE)
		status = carry_out(gpu);
	pthread_mutex_unlock(&hold_lock);
	if (status)
		xm_channels_kick();
}

void xm_hold_made(const struct xm_rm_made *m, uint32_t source_client, uint32_t source)
{
	struct xm_rm_object *o;
	enum xm_rm_kind kind;
	bool sliced;

	lock_table();
	o = source ? xm_rm_duplicate(&table, m, source_client, source) : xm_rm_add(&table, m);
	kind = o ? o->kind : 0;
	sliced = false;
	for (uint32_t i = 0; i < table.gpu_count; i++)
		sliced |= table.gpus[i].slice != 0;
	unlock_table();
	if (kind == XM_RM_CHANNEL && xm_hold_any())
		settle(m->client, m->handle);
	if (kind == XM_RM_CHANNEL && sliced)
		xm_channels_kick();
	if (kind)
		xm_channels_news();
}

bool xm_hold_knows(uint32_t client, uint32_t handle)
{
	bool knows;

	lock_table();
	knows = xm_rm_find(&table, client, handle) != NULL;
	unlock_table();
	return knows;
}

void xm_hold_free_begin(void)
{
	pthread_mutex_lock(&hold_lock);
}

void xm_hold_free_end(uint32_t client, uint32_t handle, bool freed)
{
	struct xm_rm_object *o;

	lock_table();
	o = freed ? xm_rm_find(&table, client, handle) : NULL;
	if (o)
		xm_rm_drop(&table, o);
	unlock_table();
	pthread_mutex_unlock(&hold_lock);
	if (o)
		xm_channels_news();
}

bool xm_hold_any(void)
{
	return atomic_load_explicit(&held_gpus, memory_order_relaxed) != 0;
}

void xm_hold_touched(uint32_t client, uint32_t handle)
{
	struct xm_rm_object *o;
	bool channels = false;

	lock_table();
	o = xm_rm_find(&table, client, handle);
	if (o && o->kind == XM_RM_CHANNEL) {
		xm_rm_switched(&table, o, false);
		channels = true;
	} else if (o && o->kind == XM_RM_GROUP) {
		for (struct xm_rm_object *c = o->down; c; c = c->next)
			if (c->kind == XM_RM_CHANNEL) {
				xm_rm_switched(&table, c, false);
				channels = true;
			}
	}
	unlock_table();
	if (channels)
		settle(client, handle);
}
