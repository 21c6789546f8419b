#define _GNU_SOURCE
#include "objects.c"
#include "sys.c"

#include "gen/board.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                                    \
	do {                                                                        \
		if (!(x)) {                                                         \
			fprintf(stderr, "objects_test.c:%d: not %s\n", __LINE__, #x); \
			abort();                                                    \
		}                                                                   \
	} while (0)

static struct xm_rm_table t;

static struct xm_rm_object *add(uint32_t client, uint32_t parent, uint32_t handle, uint32_t class)
{
	return xm_rm_add(&t, &(struct xm_rm_made){.client = client,
						  .parent = parent,
						  .handle = handle,
						  .class = class,
						  .engine = 1,
						  .instance = XM_RM_NO_INSTANCE,
						  .file = {.fd = (int)client % 7}});
}

static void kinds(void)
{
	CHECK(xm_rm_kind_of(HOPPER_CHANNEL_GPFIFO_A) == XM_RM_CHANNEL);
	CHECK(xm_rm_kind_of(0xCF6F) == XM_RM_CHANNEL);      /* of a generation to come */
	CHECK(xm_rm_kind_of(0x906F) == 0);                  /* of one too old to have groups */
	CHECK(xm_rm_kind_of(0x1C86F) == 0);
	CHECK(xm_rm_kind_of(KEPLER_CHANNEL_GROUP_A) == XM_RM_GROUP);
	CHECK(xm_rm_kind_of(0x3E) == 0);                    /* memory */
}

static void families(void)
{
	struct xm_rm_object *o;

	memset(&t, 0, sizeof t);
	CHECK(!add(9, 9, 10, NV01_DEVICE_0)); /* of nobody's client */
	CHECK(add(1, 0, 1, NV01_ROOT_CLIENT));
	CHECK(add(1, 1, 2, NV01_DEVICE_0));
	CHECK(add(1, 2, 3, KEPLER_CHANNEL_GROUP_A));
	o = add(1, 3, 4, HOPPER_CHANNEL_GPFIFO_A);
	CHECK(xm_rm_above(o, XM_RM_GROUP)->handle == 3 && xm_rm_above(o, XM_RM_DEVICE)->handle == 2 && xm_rm_engine(o) == 1);
	o = add(1, 77, 5, HOPPER_CHANNEL_GPFIFO_A); /* below what is not kept */
	CHECK(o->up->handle == 1 && xm_rm_engine(o) == 0);
	CHECK(!add(1, 3, 6, 0x3E));
	CHECK(t.count[XM_RM_CHANNEL] == 2);
	xm_rm_drop(&t, xm_rm_find(&t, 1, 3));
	CHECK(!xm_rm_find(&t, 1, 4) && xm_rm_find(&t, 1, 5) && t.count[XM_RM_CHANNEL] == 1 && t.count[XM_RM_GROUP] == 0);
	add(1, 2, 5, KEPLER_CHANNEL_GROUP_A); /* the name is given anew, though nobody freed it */
	CHECK(t.count[XM_RM_CHANNEL] == 0 && t.count[XM_RM_GROUP] == 1);
	xm_rm_drop(&t, xm_rm_find(&t, 1, 1));
	for (int i = 0; i < XM_RM_KINDS; i++)
		CHECK(t.count[i] == 0);
	CHECK(!t.clients && !t.strange);
}

static void names(void)
{
	struct xm_rm_made m = {.client = 2, .parent = 2, .handle = 50};
	struct xm_rm_object *o, *p;

	memset(&t, 0, sizeof t);
	add(1, 0, 1, NV01_ROOT_CLIENT);
	add(2, 0, 2, NV01_ROOT_CLIENT);
	add(1, 1, 10, KEPLER_CHANNEL_GROUP_A);
	o = add(1, 10, 11, HOPPER_CHANNEL_GPFIFO_A);
	CHECK(!xm_rm_duplicate(&t, &m, 3, 11)); /* somebody else's */
	CHECK(!xm_rm_duplicate(&t, &m, 1, 1));  /* a client has one name */
	CHECK(!xm_rm_duplicate(&t, &(struct xm_rm_made){.client = 8, .handle = 9}, 1, 11));
	p = xm_rm_duplicate(&t, &m, 1, 11);
	CHECK(p && p != o && p->kind == XM_RM_CHANNEL && p->identity == o->identity && p->up->handle == 2);
	CHECK(xm_rm_first_name(&t, o) != xm_rm_first_name(&t, p));
	xm_rm_switched(&t, o, true);
	CHECK(p->off);
	m.client = 1, m.parent = 10, m.handle = 11;
	CHECK(xm_rm_duplicate(&t, &m, 1, 11) == o); /* onto itself */
	xm_rm_drop(&t, o);
	CHECK(xm_rm_first_name(&t, p) && p->off);
	/* Onto the object that it is below: what goes with it is gone, no more. */
	m = (struct xm_rm_made){.client = 1, .parent = 1, .handle = 10};
	o = add(1, 10, 12, HOPPER_CHANNEL_GPFIFO_A);
	p = xm_rm_duplicate(&t, &m, 1, 12);
	CHECK(p && p->kind == XM_RM_CHANNEL && !xm_rm_find(&t, 1, 12) && t.count[XM_RM_GROUP] == 0);
}

/* A client of nobody's making: a chain as deep as it likes. */
static void deep(void)
{
	memset(&t, 0, sizeof t);
	add(1, 0, 1, NV01_ROOT_CLIENT);
	for (uint32_t i = 2; i < 100000; i++)
		CHECK(add(1, i - 1, i, KEPLER_CHANNEL_GROUP_A));
	CHECK(t.count[XM_RM_GROUP] == 99998);
	xm_rm_drop(&t, xm_rm_find(&t, 1, 2));
	CHECK(t.count[XM_RM_GROUP] == 0 && !xm_rm_find(&t, 1, 50000));
}

/* --- random histories against a list that is searched from end to end --------- */

enum { MODEL = 4000 };
static struct {
	uint32_t client, parent, handle, class;
} model[MODEL];
static unsigned models;

static int in_model(uint32_t client, uint32_t handle)
{
	for (unsigned i = 0; i < models; i++)
		if (model[i].client == client && model[i].handle == handle)
			return (int)i;
	return -1;
}

static void drop_from_model(uint32_t client, uint32_t handle)
{
	int i = in_model(client, handle);

	if (i < 0)
		return;
	model[i] = model[--models];
	for (unsigned k = 0; k < models;)
		if (model[k].client == client && model[k].parent == handle && model[k].handle != handle) {
			drop_from_model(client, model[k].handle);
			k = 0;
		} else {
			k++;
		}
}

static void same(void)
{
	unsigned n = 0;

	for (struct xm_rm_object *o = xm_rm_next(&t, NULL); o; o = xm_rm_next(&t, o), n++) {
		int i = in_model(o->client, o->handle);

		CHECK(i >= 0 && model[i].class == o->class);
		CHECK(xm_rm_find(&t, o->client, o->handle) == o);
		CHECK(!o->up || (o->up->client == o->client && o->up->handle == model[i].parent));
	}
	CHECK(n == models);
}

static void histories(void)
{
	static const uint32_t classes[] = {NV01_DEVICE_0, NV20_SUBDEVICE_0, KEPLER_CHANNEL_GROUP_A, HOPPER_CHANNEL_GPFIFO_A};

	for (unsigned seed = 1; seed <= 30; seed++) {
		unsigned r = seed;

		memset(&t, 0, sizeof t);
		models = 0;
		for (int step = 0; step < 3000; step++) {
			uint32_t client = 1 + (uint32_t)rand_r(&r) % 4, handle = 10 + (uint32_t)rand_r(&r) % 60;
			uint32_t parent = 10 + (uint32_t)rand_r(&r) % 60, class = classes[rand_r(&r) % 4];
			unsigned what = (unsigned)rand_r(&r) % 100;

			if (what < 3)
				handle = parent = client, class = NV01_ROOT_CLIENT;
			if (what < 70) {
				drop_from_model(client, handle);
				if (class != NV01_ROOT_CLIENT && in_model(client, client) < 0) {
					CHECK(!add(client, parent, handle, class));
					continue;
				}
				CHECK(add(client, parent, handle, class));
				if (in_model(client, parent) < 0)
					parent = client;
				model[models].client = client, model[models].parent = parent;
				model[models].handle = handle, model[models++].class = class;
			} else {
				struct xm_rm_object *o = xm_rm_find(&t, client, handle);

				CHECK(!o == (in_model(client, handle) < 0));
				if (o)
					xm_rm_drop(&t, o);
				drop_from_model(client, handle);
			}
			if (step % 50 == 0)
				same();
		}
		same();
		xm_rm_drop_file(&t, &(struct xm_rm_file){.fd = 2});
		CHECK(!xm_rm_find(&t, 2, 2));
		for (uint32_t client = 1; client <= 4; client++)
			if (xm_rm_find(&t, client, client))
				xm_rm_drop(&t, xm_rm_find(&t, client, client));
		CHECK(!xm_rm_next(&t, NULL));
	}
}

static void gpus(void)
{
	uint8_t uuid[16] = {0};

	memset(&t, 0, sizeof t);
	CHECK(!xm_rm_gpu(&t, uuid, false));
	for (unsigned i = 0; i < XM_RM_GPUS; i++) {
		uuid[15] = (uint8_t)i;
		CHECK(xm_rm_gpu(&t, uuid, true) == xm_rm_gpu(&t, uuid, false));
	}
	uuid[15] = 200;
	CHECK(!xm_rm_gpu(&t, uuid, true)); /* one too many */
}

int main(void)
{
	kinds();
	families();
	names();
	deep();
	histories();
	gpus();
	return 0;
}
