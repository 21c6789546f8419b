#define _GNU_SOURCE
#include "control.c"
#include "hold.c"
#include "judge.c"
#include "ioctl.c"
#include "learn.c"
#include "objects.c"
#include "owned.c"
#include "slice.c"
#include "sys.c"

#include "testdata/fake_kernel.h"

#include <signal.h>

_Atomic bool xm_aside;
static _Atomic unsigned kicks, news;

void xm_channels_kick(void)
{
	kicks++;
}

void xm_channels_news(void)
{
	news++;
}

/* --- what a program's driver does ----------------------------------------- */

enum { FD = 5 };
static const uint8_t gpu0[16], gpu1[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static uint32_t make_object(int fd, uint32_t client, uint32_t parent, uint32_t class, void *params, uint32_t size)
{
	struct NVOS64_PARAMETERS p = {
		.hRoot = client, .hObjectParent = parent, .hClass = class, .pAllocParms = (uintptr_t)params, .paramsSize = size};

	EQUAL(ioctl(fd, XM_RM_ALLOC64, &p), 0);
	EQUAL(p.status, NV_OK);
	return p.hObjectNew;
}

static uint32_t make_group(uint32_t client, uint32_t device, uint32_t engine)
{
	struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS p = {.engineType = engine};

	return make_object(FD, client, device, KEPLER_CHANNEL_GROUP_A, &p, sizeof p);
}

static uint32_t make_channel(uint32_t client, uint32_t group)
{
	return make_object(FD, client, group, HOPPER_CHANNEL_GPFIFO_A, NULL, 0);
}

/* A client with one device and subdevice. */
struct base {
	uint32_t client, device, subdevice;
};

static struct base make_base(uint32_t instance)
{
	struct NV0080_ALLOC_PARAMETERS device = {.deviceId = instance};
	struct base b;

	b.client = make_object(FD, 0, 0, NV01_ROOT_CLIENT, NULL, 0);
	b.device = make_object(FD, b.client, b.client, NV01_DEVICE_0, &device, sizeof device);
	b.subdevice = make_object(FD, b.client, b.device, NV20_SUBDEVICE_0, NULL, 0);
	return b;
}

/* A context's groups: compute first, then three of copy engines. */
struct made {
	uint32_t group[4];
	uint32_t channel[4][8];
};

static struct made make_context(struct base b)
{
	struct made m = {0};

	for (int g = 0; g < 4; g++) {
		m.group[g] = make_group(b.client, b.device, g ? 10u + (unsigned)g : 1);
		for (int i = 0; i < (g ? 4 : 8); i++)
			m.channel[g][i] = make_channel(b.client, m.group[g]);
	}
	return m;
}

static void free_object(uint32_t client, uint32_t handle)
{
	struct NVOS00_PARAMETERS p = {.hRoot = client, .hObjectOld = handle};

	EQUAL(ioctl(FD, XM_RM_FREE, &p), 0);
	EQUAL(p.status, NV_OK);
}

static void schedule(uint32_t client, uint32_t group)
{
	struct NVOS54_PARAMETERS p = {.hClient = client, .hObject = group, .cmd = SCHEDULE_GROUP};

	EQUAL(ioctl(FD, XM_RM_CONTROL, &p), 0);
	EQUAL(p.status, NV_OK);
}

static void anew(void)
{
	memset(&xm_owned, 0, sizeof xm_owned);
	memset(&calls, 0, sizeof calls);
	thing_count = 0;
	left = false;
	held_gpus = 0;
	xm_owned_missed = false;
	refuse_at = refuse_more = 0;
	mute_uuids = false;
	gone_fd = -1;
	kicks = news = 0;
	xm_context_begins(NULL);
}

static void refuse(uint32_t command, unsigned at, unsigned more, uint32_t status)
{
	refuse_command = command;
	refuse_at = at;
	refuse_more = more;
	refuse_status = status;
}

/* How many channels are off in truth, of compute and of the rest, on a device's instance. */
static void are_off(uint32_t instance, unsigned compute, unsigned rest)
{
	unsigned n[2] = {0};

	for (unsigned i = 0; i < thing_count; i++) {
		struct thing *t = &things[i], *group, *device;

		if (!XM_RM_IS_CHANNEL(t->class) || t->class == UINT32_MAX || t->same || !t->off)
			continue;
		group = thing(t->client, t->parent);
		device = group ? thing(t->client, group->parent) : NULL;
		if (device && device->instance == instance)
			n[group->engine != 1]++;
	}
	EQUAL(n[0], compute);
	EQUAL(n[1], rest);
}

/* --- holding ----------------------------------------------------------------- */

static void holds_what_it_is_told(void)
{
	uint32_t compute, groups, channels;
	struct xm_hold_now now;
	uint64_t ns = 0;

	anew();
	make_context(make_base(0));
	now = xm_hold_look(gpu0);
	compute = now.compute_groups, groups = now.groups, channels = now.channels;
	EQUAL(compute, 1);
	EQUAL(groups, 4);
	EQUAL(channels, 20);
	CHECK(now.subdevice);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, &ns), 0);
	CHECK(ns > 0);
	EQUAL(calls.switches, 1);
	are_off(0, 8, 0);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0); /* twice */
	EQUAL(calls.switches, 1);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), 0);
	EQUAL(calls.switches, 4); /* one runlist a call */
	are_off(0, 8, 12);
	EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_ALL);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	are_off(0, 8, 0);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	are_off(0, 0, 0);
	calls.switches = 0;
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0); /* what is not held */
	EQUAL(calls.switches, 0);
	EQUAL(xm_hold_set(gpu0, 3, NULL), -EINVAL);
	EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_NONE);
}

/* 64 channels a call, whatever the number of contexts. */
static void many_contexts(void)
{
	struct base b[3];

	anew();
	for (int i = 0; i < 3; i++) {
		b[i] = make_base(0);
		for (int k = 0; k < 7; k++)
			make_context(b[i]);
	}
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	are_off(0, 168, 0);
	EQUAL(calls.switches, 3);
	EQUAL(calls.widest, 64);
	free_object(b[0].client, b[0].client); /* a client goes with all it has */
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), 0);
	are_off(0, 112, 168);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	are_off(0, 0, 0);
	EQUAL(xm_hold_look(gpu0).channels, 280);
}

static void devices_apart(void)
{
	struct base b0, b1;

	anew();
	b0 = make_base(0);
	b1 = make_base(1);
	make_context(b0);
	make_context(b1);
	EQUAL(xm_hold_set(gpu1, XM_HOLD_ALL, NULL), 0);
	are_off(0, 0, 0);
	are_off(1, 8, 12);
	make_context(b0);
	are_off(0, 0, 0);
	make_context(b1);
	are_off(1, 16, 24);
	EQUAL(xm_hold_set(gpu1, XM_HOLD_NONE, NULL), 0);
	are_off(1, 0, 0);
	CHECK(!xm_hold_any());
}

/* A device object without a subdevice of its own is the GPU of that instance. */
static void subdevice_elsewhere(void)
{
	struct NV0080_ALLOC_PARAMETERS device = {.deviceId = 0};
	struct base b, other;

	anew();
	b = make_base(0);
	other = make_base(1);
	(void)other;
	b.device = make_object(FD, b.client, b.client, NV01_DEVICE_0, &device, sizeof device);
	make_context(b);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	are_off(0, 8, 0);
}

/* --- what comes while it is held --------------------------------------------- */

static void newcomers(void)
{
	struct base b;
	struct made m;

	anew();
	b = make_base(0);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0); /* no context yet */
	EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_COMPUTE);
	m = make_context(b);
	are_off(0, 8, 0); /* each before its call returned */
	schedule(b.client, m.group[0]);
	are_off(0, 8, 0); /* though the driver switched them on */
	schedule(b.client, m.group[1]);
	are_off(0, 8, 0);
	free_object(b.client, m.group[0]); /* the context is destroyed while held */
	are_off(0, 0, 0);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	make_context(b);
	are_off(0, 0, 0);
	schedule(b.client, m.group[1]);
}

static struct base race_base;
static struct made race_context;
static pthread_t race_thread;

static void *make_another(void *unused)
{
	race_context = make_context(race_base);
	return unused;
}

static void begin_race(void)
{
	CHECK(pthread_create(&race_thread, NULL, make_another, NULL) == 0);
	for (bool came = false; !came; sched_yield()) {
		xm_owned_lock();
		came = xm_owned.count[XM_RM_GROUP] == 5;
		xm_owned_unlock();
	}
}

/* A context is made while the suspension's call is under way. */
static void newcomer_during_suspension(void)
{
	for (int i = 0; i < 50; i++) {
		anew();
		race_base = make_base(0);
		make_context(race_base);
		during = begin_race;
		EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
		pthread_join(race_thread, NULL);
		are_off(0, 16, 0);
		during = NULL;
		EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
		are_off(0, 0, 0);
	}
}

static _Atomic bool stop;

static void *come_and_go(void *unused)
{
	unsigned seed = 7;

	while (!stop) {
		struct made m = make_context(race_base);

		if (rand_r(&seed) % 2)
			schedule(race_base.client, m.group[rand_r(&seed) % 4]);
		for (int g = 0; g < 4; g++)
			free_object(race_base.client, m.group[g]);
		pthread_mutex_lock(&kernel_lock);
		while (thing_count && things[thing_count - 1].class == UINT32_MAX)
			thing_count--;
		pthread_mutex_unlock(&kernel_lock);
	}
	return unused;
}

/* Contexts come and go on one thread while another suspends and resumes: no control
 * names what has gone, and what is there is off or on as told. */
static void storm(void)
{
	pthread_t t;

	anew();
	race_base = make_base(0);
	make_context(race_base);
	stop = false;
	CHECK(pthread_create(&t, NULL, come_and_go, NULL) == 0);
	for (unsigned i = 0; i < 2000; i++)
		CHECK(xm_hold_set(gpu0, i % 3, NULL) == 0);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), 0);
	stop = true;
	pthread_join(t, NULL);
	are_off(0, 8, 12);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	are_off(0, 0, 0);
}

/* --- refusals ------------------------------------------------------------------- */

static void refused_suspension_is_undone(void)
{
	struct base b;

	for (unsigned at = 1; at <= 4; at++) {
		anew();
		b = make_base(0);
		make_context(b);
		EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
		refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, at, 0, NV_ERR_INSUFFICIENT_PERMISSIONS);
		EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), NV_ERR_INSUFFICIENT_PERMISSIONS);
		are_off(0, 0, 0);
		EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_NONE);
		EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_REFUSED);
		CHECK(!xm_hold_any());
		make_context(b);
		are_off(0, 0, 0);
	}
	/* From compute to all: compute stays held. */
	anew();
	make_context(make_base(0));
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 2, 0, NV_ERR_TIMEOUT);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), NV_ERR_TIMEOUT);
	are_off(0, 8, 0);
	EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_COMPUTE);
}

static void refused_resumption_goes_on(void)
{
	int refused;

	anew();
	make_context(make_base(0));
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), 0);
	refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 1, 99, NV_ERR_INVALID_STATE);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), NV_ERR_INVALID_STATE);
	EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_ALL); /* of the channels themselves */
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_LATER);
	EQUAL(refused, 0);
	refuse_at = 0;
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_NONE);
	are_off(0, 0, 0);
	EQUAL(xm_hold_look(gpu0).hold, XM_HOLD_NONE);
}

static void busy_driver_is_asked_again(void)
{
	anew();
	make_context(make_base(0));
	refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 1, 1, NV_ERR_BUSY_RETRY);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	are_off(0, 8, 0);
	EQUAL(calls.switches, 3);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
}

/* A channel that cannot be switched off yet is tried again; one that never can ends the suspension. */
static void newcomer_refused(void)
{
	struct base b;
	int refused = 0;

	anew();
	b = make_base(0);
	make_context(b);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 1, 7, NV_ERR_INVALID_STATE);
	make_context(b);
	CHECK(kicks > 0);
	are_off(0, 8, 0);
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_NONE);
	are_off(0, 16, 0);
	refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 1, LATE + 7, NV_ERR_INVALID_STATE);
	make_context(b);
	for (unsigned i = 0; i < LATE - 1; i++)
		EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_SOON);
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_NONE);
	EQUAL(refused, NV_ERR_INVALID_STATE);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	are_off(0, 0, 0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_REFUSED);
}

static void dry_run_refused(void)
{
	anew();
	make_context(make_base(0));
	refuse(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 1, 0, NV_ERR_NOT_SUPPORTED);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_REFUSED);
	EQUAL(calls.off, 0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_REFUSED);
	EQUAL(calls.switches, 1); /* asked once */
}

/* --- slices ------------------------------------------------------------------------ */

static uint64_t slice_of(uint32_t client, uint32_t group)
{
	return itself(thing(client, group))->slice;
}

static void slices(void)
{
	struct base b;
	struct made m, n;
	int refused;

	anew();
	b = make_base(0);
	m = make_context(b);
	thing(b.client, m.group[0])->slice = 1500;
	EQUAL(xm_hold_slice(gpu0, 0, NULL), 0);
	EQUAL(calls.set_slices + calls.get_slices, 0);
	EQUAL(xm_hold_slice(gpu0, 1, NULL), 0);
	EQUAL(slice_of(b.client, m.group[0]), 1);
	EQUAL(slice_of(b.client, m.group[1]), XM_RM_DEFAULT_TIMESLICE_US); /* copy engines keep theirs */
	EQUAL(xm_hold_slice(gpu0, 300, NULL), 0);
	EQUAL(calls.get_slices, 1);
	EQUAL(xm_hold_look(gpu0).slice, 300);
	kicks = 0;
	n = make_context(b);
	CHECK(kicks > 0);
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_NONE);
	EQUAL(slice_of(b.client, n.group[0]), 1000); /* two short ones would stop each other */
	EQUAL(slice_of(b.client, m.group[0]), 1000);
	EQUAL(xm_hold_look(gpu0).slice, 1000);
	EQUAL(xm_hold_slice(gpu0, 1700, NULL), 0);
	EQUAL(slice_of(b.client, n.group[0]), 1700);
	EQUAL(xm_hold_slice(gpu0, 300, NULL), 0);
	free_object(b.client, n.group[0]);
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_NONE);
	EQUAL(slice_of(b.client, m.group[0]), 300);
	n = make_context(b);
	EQUAL(xm_hold_slice(gpu0, 0, NULL), 0);
	EQUAL(slice_of(b.client, m.group[0]), 1500); /* what it was */
	EQUAL(slice_of(b.client, n.group[0]), XM_RM_DEFAULT_TIMESLICE_US);

	/* The second of two is refused: the first is put back. */
	refuse(NVA06C_CTRL_CMD_SET_TIMESLICE, 2, 0, NV_ERR_INVALID_ARGUMENT);
	EQUAL(xm_hold_slice(gpu0, 7, NULL), NV_ERR_INVALID_ARGUMENT);
	EQUAL(slice_of(b.client, m.group[0]), 1500);
	EQUAL(slice_of(b.client, n.group[0]), XM_RM_DEFAULT_TIMESLICE_US);
	EQUAL(xm_hold_look(gpu0).slice, 0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_REFUSED);

	/* A driver that does not say what the slice was. */
	anew();
	b = make_base(0);
	m = make_context(b);
	refuse(NVA06C_CTRL_CMD_GET_TIMESLICE, 1, 0, NV_ERR_NOT_SUPPORTED);
	EQUAL(xm_hold_slice(gpu0, 1, NULL), 0);
	refuse(NVA06C_CTRL_CMD_SET_TIMESLICE, 1, 0, NV_ERR_INVALID_STATE);
	EQUAL(xm_hold_slice(gpu0, 0, NULL), NV_ERR_INVALID_STATE);
	EQUAL(xm_hold_again(gpu0, &refused), XM_HOLD_REST_NONE);
	EQUAL(slice_of(b.client, m.group[0]), XM_RM_DEFAULT_TIMESLICE_US);
}

/* --- the end ------------------------------------------------------------------------- */

static void leaving(void)
{
	struct base b;

	anew();
	b = make_base(0);
	make_context(b);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), 0);
	CHECK(xm_hold_leave());
	are_off(0, 0, 0);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_ALL, NULL), -ESHUTDOWN);
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	make_context(b);
	are_off(0, 0, 0);
	pthread_mutex_lock(&xm_hold_lock); /* below on this thread */
	CHECK(!xm_hold_leave());
	pthread_mutex_unlock(&xm_hold_lock);
}

/* The descriptor was closed, and is another file now: nothing goes there any more. */
static void descriptor_closed(void)
{
	anew();
	make_context(make_base(0));
	EQUAL(xm_hold_set(gpu0, XM_HOLD_COMPUTE, NULL), 0);
	gone_fd = FD;
	calls.raws = 0;
	EQUAL(xm_hold_set(gpu0, XM_HOLD_NONE, NULL), 0);
	EQUAL(calls.raws, 0);
	EQUAL(xm_hold_look(gpu0).channels, 0);
	EQUAL(xm_owned.count[XM_RM_CLIENT], 0);
}

/* --- why not ---------------------------------------------------------------------------- */

static void reasons(void)
{
	struct base b;
	uint32_t o;

	anew();
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_LAYOUT);
	b = make_base(0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_RM_LAYOUT);
	make_object(FD, b.client, b.device, MPS_COMPUTE, NULL, 0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_MPS); /* no channels of its own */
	make_context(b);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
	make_object(FD, b.client, b.client, GT200_DEBUGGER, NULL, 0); /* libcuda's own */
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
	o = make_object(FD, b.client, b.subdevice, MAXWELL_PROFILER_DEVICE, NULL, 0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_DEBUGGER);
	free_object(b.client, o);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
	o = make_object(FD, b.client, b.subdevice, AMPERE_SMC_PARTITION_REF, NULL, 0);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_MIG);
	free_object(b.client, o);
	EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
	EQUAL(xm_hold_why(gpu1), XM_LEVEL_WHY_MPS);
}

/* A driver that does not tell the UUID: the context that was being made does. */
static void hinted(void)
{
	struct base b;

	anew();
	mute_uuids = true;
	b = make_base(1);
	make_context(b);
	EQUAL(xm_hold_look(gpu1).channels, 0);
	xm_context_begins(gpu1);
	make_context(b);
	xm_context_begins(NULL);
	EQUAL(xm_hold_look(gpu1).channels, 40);
	EQUAL(xm_hold_set(gpu1, XM_HOLD_COMPUTE, NULL), 0);
	are_off(1, 16, 0);
	EQUAL(calls.uuids, 1);
}

int main(void)
{
	holds_what_it_is_told();
	many_contexts();
	devices_apart();
	subdevice_elsewhere();
	newcomers();
	newcomer_during_suspension();
	storm();
	refused_suspension_is_undone();
	refused_resumption_goes_on();
	busy_driver_is_asked_again();
	newcomer_refused();
	dry_run_refused();
	slices();
	leaving();
	descriptor_closed();
	reasons();
	hinted();
	return 0;
}
