#include "objects.h"

#include <string.h>

#include "gen/rm.h"
#include "sys.h"

enum xm_rm_kind xm_rm_kind_of(uint32_t class)
{
	switch (class) {
	case NV01_ROOT:
	case NV01_ROOT_NON_PRIV:
	case NV01_ROOT_CLIENT:
		return XM_RM_CLIENT;
	case NV01_DEVICE_0:
		return XM_RM_DEVICE;
	case NV20_SUBDEVICE_0:
		return XM_RM_SUBDEVICE;
	case KEPLER_CHANNEL_GROUP_A:
		return XM_RM_GROUP;
	case GF100_PROFILER:
	case MAXWELL_PROFILER:
	case MAXWELL_PROFILER_DEVICE:
		return XM_RM_PROFILER;
	case AMPERE_SMC_PARTITION_REF:
	case AMPERE_SMC_EXEC_PARTITION_REF:
		return XM_RM_INSTANCE;
	case GT200_DEBUGGER:
		return XM_RM_DEBUGGER;
	case MPS_COMPUTE:
		return XM_RM_MPS;
	}
	/* A new generation's channels have a class that nobody has listed yet. */
	return class >= KEPLER_CHANNEL_GPFIFO_A && class <= 0xFFFF && XM_RM_IS_CHANNEL(class) ? XM_RM_CHANNEL : 0;
}

static struct xm_rm_object **bucket(struct xm_rm_table *t, uint32_t client, uint32_t handle)
{
	uint64_t key = (uint64_t)client << 32 | handle;

	return &t->buckets[key * 0x9e3779b97f4a7c15u >> 56 & (XM_RM_BUCKETS - 1)];
}

struct xm_rm_object *xm_rm_find(struct xm_rm_table *t, uint32_t client, uint32_t handle)
{
	for (struct xm_rm_object *o = *bucket(t, client, handle); o; o = o->chain)
		if (o->client == client && o->handle == handle)
			return o;
	return NULL;
}

static struct xm_rm_object **siblings(struct xm_rm_table *t, struct xm_rm_object *o)
{
	return o->up ? &o->up->down : &t->clients;
}

static void forget(struct xm_rm_table *t, struct xm_rm_object *o)
{
	struct xm_rm_object **at = bucket(t, o->client, o->handle);

	while (*at != o)
		at = &(*at)->chain;
	*at = o->chain;
	if (o->prev)
		o->prev->next = o->next;
	else
		*siblings(t, o) = o->next;
	if (o->next)
		o->next->prev = o->prev;
	t->count[o->kind]--;
	t->changes++;
	o->chain = t->free;
	t->free = o;
}

/* From the leaves up, without recursion: how deep a tree is says who makes it. */
void xm_rm_drop(struct xm_rm_table *t, struct xm_rm_object *o)
{
	struct xm_rm_object *leaf = o, *up;

	for (;;) {
		while (leaf->down)
			leaf = leaf->down;
		up = leaf->up;
		forget(t, leaf);
		if (leaf == o)
			return;
		leaf = up;
	}
}

/* NULL, and grown `strange`, without memory. */
static struct xm_rm_object *make(struct xm_rm_table *t, const struct xm_rm_made *m, struct xm_rm_object *up)
{
	struct xm_rm_object *o = t->free, **at;

	if (o)
		t->free = o->chain;
	else if (!(o = xm_keep(sizeof *o))) {
		t->strange++;
		return NULL;
	}
	*o = (struct xm_rm_object){.client = m->client, .handle = m->handle, .file = m->file, .up = up};
	at = siblings(t, o);
	o->next = *at;
	if (o->next)
		o->next->prev = o;
	*at = o;
	at = bucket(t, m->client, m->handle);
	o->chain = *at;
	*at = o;
	t->changes++;
	return o;
}

/* What the new object goes below; NULL: its client is not ours. One whose own
 * parent is of no kind that is kept goes below the client. */
static struct xm_rm_object *above(struct xm_rm_table *t, const struct xm_rm_made *m)
{
	struct xm_rm_object *up = xm_rm_find(t, m->client, m->parent);

	return up ? up : xm_rm_find(t, m->client, m->client);
}

struct xm_rm_object *xm_rm_add(struct xm_rm_table *t, const struct xm_rm_made *m)
{
	enum xm_rm_kind kind = xm_rm_kind_of(m->class);
	struct xm_rm_object *old, *o, *up = NULL;

	if (!kind)
		return NULL;
	old = xm_rm_find(t, m->client, m->handle);
	if (old)
		xm_rm_drop(t, old);
	if (kind != XM_RM_CLIENT && !(up = above(t, m)))
		return NULL;
	o = make(t, m, up);
	if (!o)
		return NULL;
	o->class = m->class;
	o->kind = kind;
	o->engine = m->engine;
	o->instance = m->instance;
	o->identity = ++t->identities;
	if (m->hint) {
		memcpy(o->hint, m->hint, sizeof o->hint);
		o->hinted = true;
	}
	t->count[kind]++;
	if (kind == XM_RM_GROUP && !m->engine)
		t->strange++;
	return o;
}

struct xm_rm_object *xm_rm_duplicate(struct xm_rm_table *t, const struct xm_rm_made *m, uint32_t source_client,
				     uint32_t source)
{
	struct xm_rm_object *from = xm_rm_find(t, source_client, source), *old, *up, *o;
	struct xm_rm_object copy;

	if (!from || from->kind == XM_RM_CLIENT)
		return NULL;
	old = xm_rm_find(t, m->client, m->handle);
	if (old == from)
		return from;
	from->many = true;
	copy = *from;
	if (old)
		xm_rm_drop(t, old);
	up = above(t, m);
	if (!up)
		return NULL;
	o = make(t, m, up);
	if (!o)
		return NULL;
	o->class = copy.class;
	o->kind = copy.kind;
	o->engine = copy.engine;
	o->instance = copy.instance;
	o->identity = copy.identity;
	o->many = true;
	o->gpu = copy.gpu;
	o->usual = copy.usual;
	o->slice = copy.slice;
	o->off = copy.off;
	t->count[o->kind]++;
	return o;
}

/* From the start again after each: what goes takes others along. */
void xm_rm_drop_file(struct xm_rm_table *t, const struct xm_rm_file *f)
{
	struct xm_rm_object *o = xm_rm_next(t, NULL);

	while (o) {
		if (o->file.fd != f->fd || o->file.device != f->device || o->file.inode != f->inode) {
			o = xm_rm_next(t, o);
			continue;
		}
		xm_rm_drop(t, o);
		o = xm_rm_next(t, NULL);
	}
}

struct xm_gpu *xm_rm_gpu(struct xm_rm_table *t, const uint8_t uuid[16], bool make_it)
{
	struct xm_gpu *g;

	for (uint32_t i = 0; i < t->gpu_count; i++)
		if (memcmp(t->gpus[i].uuid, uuid, sizeof t->gpus[i].uuid) == 0)
			return &t->gpus[i];
	if (!make_it || t->gpu_count == XM_RM_GPUS)
		return NULL;
	g = &t->gpus[t->gpu_count++];
	memcpy(g->uuid, uuid, sizeof g->uuid);
	return g;
}

struct xm_rm_object *xm_rm_above(struct xm_rm_object *o, enum xm_rm_kind kind)
{
	while (o && o->kind != kind)
		o = o->up;
	return o;
}

/* Of one device object: its own subdevice tells, or that of another device
 * object for the same GPU. */
static struct xm_gpu *gpu_of_device(struct xm_rm_table *t, struct xm_rm_object *device)
{
	struct xm_gpu *other = NULL;

	if (device->gpu)
		return device->gpu;
	for (struct xm_rm_object *o = device->down; o; o = o->next)
		if (o->kind == XM_RM_SUBDEVICE && o->gpu)
			return o->gpu;
	if (device->instance == XM_RM_NO_INSTANCE)
		return NULL;
	for (struct xm_rm_object *o = xm_rm_next(t, NULL); o && !other; o = xm_rm_next(t, o))
		if (o->kind == XM_RM_SUBDEVICE && o->gpu && o->up->kind == XM_RM_DEVICE && o->up->instance == device->instance)
			other = o->gpu;
	return other;
}

struct xm_gpu *xm_rm_gpu_of(struct xm_rm_table *t, struct xm_rm_object *o)
{
	struct xm_rm_object *device;

	if (o->kind == XM_RM_SUBDEVICE)
		return o->gpu;
	device = xm_rm_above(o, XM_RM_DEVICE);
	return device ? gpu_of_device(t, device) : NULL;
}

struct xm_rm_object *xm_rm_subdevice(struct xm_rm_table *t, const struct xm_gpu *gpu)
{
	for (struct xm_rm_object *o = xm_rm_next(t, NULL); o; o = xm_rm_next(t, o))
		if (o->kind == XM_RM_SUBDEVICE && o->gpu == gpu)
			return o;
	return NULL;
}

uint32_t xm_rm_engine(struct xm_rm_object *channel)
{
	struct xm_rm_object *group = xm_rm_above(channel, XM_RM_GROUP);

	return group ? group->engine : 0;
}

struct xm_rm_object *xm_rm_next(struct xm_rm_table *t, struct xm_rm_object *o)
{
	if (!o)
		return t->clients;
	if (o->down)
		return o->down;
	while (o && !o->next)
		o = o->up;
	return o ? o->next : NULL;
}

bool xm_rm_first_name(struct xm_rm_table *t, struct xm_rm_object *o)
{
	if (!o->many)
		return true;
	for (struct xm_rm_object *p = xm_rm_next(t, NULL); p != o; p = xm_rm_next(t, p))
		if (p->identity == o->identity)
			return false;
	return true;
}

void xm_rm_switched(struct xm_rm_table *t, struct xm_rm_object *o, bool off)
{
	uint64_t identity = o->identity;

	o->off = off;
	for (struct xm_rm_object *p = o->many ? xm_rm_next(t, NULL) : NULL; p; p = xm_rm_next(t, p))
		if (p->identity == identity)
			p->off = off;
}
