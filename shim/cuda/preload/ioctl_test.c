/* The door before ioctl: what it learns, what it leaves alone, and what it makes of
 * requests that no driver knows. */
#define _GNU_SOURCE
#include "control.c"
#include "hold.c"
#include "ioctl.c"
#include "judge.c"
#include "learn.c"
#include "objects.c"
#include "owned.c"
#include "slice.c"
#include "sys.c"

#include "testdata/fake_kernel.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

_Atomic bool xm_aside;
static _Atomic unsigned kicks;

void xm_channels_kick(void)
{
	kicks++;
}

void xm_channels_news(void)
{
}

static const uint8_t gpu0[16];

#define WRAPPED 0xC01046D3u
#define SIZED(size) (3u << 30 | (size) << 16 | NV_IOCTL_MAGIC << 8 | NV_ESC_RM_ALLOC)

static struct NVOS64_PARAMETERS request(uint32_t client, uint32_t parent, uint32_t class)
{
	return (struct NVOS64_PARAMETERS){.hRoot = client, .hObjectParent = parent, .hClass = class};
}

static uint32_t alloc(struct NVOS64_PARAMETERS p)
{
	errno = 17;
	EQUAL(ioctl(3, XM_RM_ALLOC64, &p), 0);
	EQUAL(errno, 17);
	EQUAL(p.status, NV_OK);
	return p.hObjectNew;
}

/* The elder layout has another length and its status elsewhere. */
static uint32_t alloc_old(uint32_t client, uint32_t parent, uint32_t class, void *params)
{
	struct NVOS21_PARAMETERS p = {
		.hRoot = client, .hObjectParent = parent, .hClass = class, .pAllocParms = (uintptr_t)params, .status = 99};

	EQUAL(ioctl(3, XM_RM_ALLOC21, &p), 0);
	EQUAL(p.status, NV_OK);
	return p.hObjectNew;
}

static uint32_t alloc_wrapped(struct NVOS64_PARAMETERS p)
{
	struct nv_ioctl_xfer_t wrapper = {.cmd = NV_ESC_RM_ALLOC, .size = sizeof p, .ptr = (uintptr_t)&p};

	EQUAL(ioctl(3, WRAPPED, &wrapper), 0);
	return p.hObjectNew;
}

static void anew(void)
{
	memset(&xm_owned, 0, sizeof xm_owned);
	memset(&calls, 0, sizeof calls);
	thing_count = 0;
	xm_owned_missed = false;
	atomic_store(&held_gpus, 0);
	refuse_at = refuse_more = 0;
}

static void layouts(void)
{
	struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group = {.engineType = 1};
	struct NV0080_ALLOC_PARAMETERS device = {.deviceId = 0};
	uint32_t client, dev, g;

	for (int how = 0; how < 3; how++) {
		anew();
		if (how == 0) {
			struct NVOS64_PARAMETERS p;

			client = alloc(request(0, 0, NV01_ROOT_CLIENT));
			p = request(client, client, NV01_DEVICE_0);
			p.pAllocParms = (uintptr_t)&device;
			dev = alloc(p);
			alloc(request(client, dev, NV20_SUBDEVICE_0));
			p = request(client, dev, KEPLER_CHANNEL_GROUP_A);
			p.pAllocParms = (uintptr_t)&group;
			p.paramsSize = sizeof group;
			g = alloc(p);
			alloc(request(client, g, HOPPER_CHANNEL_GPFIFO_A));
		} else if (how == 1) {
			client = alloc_old(0, 0, NV01_ROOT_CLIENT, NULL);
			dev = alloc_old(client, client, NV01_DEVICE_0, &device);
			alloc_old(client, dev, NV20_SUBDEVICE_0, NULL);
			g = alloc_old(client, dev, KEPLER_CHANNEL_GROUP_A, &group);
			alloc_old(client, g, HOPPER_CHANNEL_GPFIFO_A, NULL);
		} else {
			struct NVOS64_PARAMETERS p;

			client = alloc_wrapped(request(0, 0, NV01_ROOT_CLIENT));
			p = request(client, client, NV01_DEVICE_0);
			p.pAllocParms = (uintptr_t)&device;
			dev = alloc_wrapped(p);
			alloc_wrapped(request(client, dev, NV20_SUBDEVICE_0));
			p = request(client, dev, KEPLER_CHANNEL_GROUP_A);
			p.pAllocParms = (uintptr_t)&group;
			g = alloc_wrapped(p);
			alloc_wrapped(request(client, g, HOPPER_CHANNEL_GPFIFO_A));
		}
		EQUAL(xm_hold_look(gpu0).compute_channels, 1);
		EQUAL(xm_hold_why(gpu0), XM_LEVEL_WHY_NONE);
	}
}

/* Allocations of which the parameters cannot be read: nobody knows what engine it is. */
static void unreadable_groups(void)
{
	struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group = {.engineType = 1};

	for (int how = 0; how < 4; how++) {
		struct NVOS64_PARAMETERS p;
		uint32_t client, dev;

		anew();
		client = alloc(request(0, 0, NV01_ROOT_CLIENT));
		dev = alloc(request(client, client, NV01_DEVICE_0));
		p = request(client, dev, KEPLER_CHANNEL_GROUP_A);
		if (how > 0)
			p.pAllocParms = (uintptr_t)&group;
		if (how == 1)
			p.paramsSize = 12; /* shorter than we know it */
		if (how == 2)
			p.flags = NVOS64_FLAGS_FINN_SERIALIZED;
		alloc(p);
		EQUAL(xm_owned.strange, how < 3);
	}
}

static void unknown_sizes(void)
{
	uint32_t client, strange;
	char room[128] = {0};

	anew();
	EQUAL(ioctl(3, SIZED(56), room), -1); /* before there is any client: somebody else's request */
	EQUAL(xm_owned.strange, 0);
	client = alloc(request(0, 0, NV01_ROOT_CLIENT));
	EQUAL(ioctl(3, SIZED(56), room), -1); /* the kernel did not know it either */
	EQUAL(xm_owned.strange, 0);
	answer_all = true;
	EQUAL(ioctl(3, SIZED(56), room), 0);
	answer_all = false;
	EQUAL(xm_owned.strange, 1);
	strange = xm_hold_why(gpu0);
	EQUAL(strange, XM_LEVEL_WHY_RM_LAYOUT);
	CHECK(xm_hold_knows(client, client));
}

/* Requests that point nowhere get the kernel's answer. */
static void nowhere(void)
{
	static const unsigned long all[] = {XM_RM_ALLOC64, XM_RM_ALLOC21, XM_RM_FREE, XM_RM_DUP_OBJECT, XM_RM_CONTROL, WRAPPED};

	anew();
	fault_all = true;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (uintptr_t p = 0; p < 3; p++) {
			errno = 0;
			EQUAL(ioctl(3, all[i], (void *)(p * 4095)), -1);
			EQUAL(errno, EFAULT);
		}
	fault_all = false;
	EQUAL(xm_owned.changes, 0);
}

static void refusals(void)
{
	struct NVOS00_PARAMETERS freed;
	struct NVOS64_PARAMETERS p;
	uint32_t client;

	anew();
	client = alloc(request(0, 0, NV01_ROOT_CLIENT));
	refuse_command = NV_ESC_RM_FREE, refuse_at = 1, refuse_status = NV_ERR_INVALID_STATE;
	freed = (struct NVOS00_PARAMETERS){.hRoot = client, .hObjectOld = client};
	EQUAL(ioctl(3, XM_RM_FREE, &freed), 0);
	EQUAL(freed.status, NV_ERR_INVALID_STATE);
	CHECK(xm_hold_knows(client, client)); /* it is still there */
	EQUAL(ioctl(3, XM_RM_FREE, &freed), 0);
	EQUAL(freed.status, NV_OK);
	CHECK(!xm_hold_knows(client, client));
	EQUAL(ioctl(3, XM_RM_FREE, &freed), 0);
	EQUAL(freed.status, NV_ERR_OBJECT_NOT_FOUND);

	client = alloc(request(0, 0, NV01_ROOT_CLIENT));
	refuse_command = NV_ESC_RM_ALLOC, refuse_at = 1, refuse_status = NV_ERR_INVALID_ARGUMENT;
	p = request(client, client, NV01_DEVICE_0);
	p.hObjectNew = 0x1234;
	EQUAL(ioctl(3, XM_RM_ALLOC64, &p), 0);
	EQUAL(p.status, NV_ERR_INVALID_ARGUMENT);
	CHECK(!xm_hold_knows(client, 0x1234));
}

/* A handler that interrupts its own thread inside: it learns nothing, waits for
 * nothing, and that something was missed is remembered. */
static void handler(int unused)
{
	struct NVOS64_PARAMETERS p = request(0, 0, NV01_ROOT_CLIENT);

	(void)unused;
	EQUAL(ioctl(3, XM_RM_ALLOC64, &p), 0);
	EQUAL(p.status, NV_OK);
}

static void interrupted(void)
{
	struct stay s;

	anew();
	signal(SIGUSR1, handler);
	CHECK(enter(&s));
	raise(SIGUSR1);
	leave(&s);
	EQUAL(xm_owned.changes, 0);
	CHECK(xm_owned_missed);
	raise(SIGUSR1);
	EQUAL(xm_owned.count[XM_RM_CLIENT], 1);
}

/* The child of a process that used the device: everything passes, nothing is touched. */
static void aside(void)
{
	struct NVOS00_PARAMETERS freed;
	uint32_t client;

	anew();
	client = alloc(request(0, 0, NV01_ROOT_CLIENT));
	xm_aside = true;
	pthread_mutex_lock(&xm_hold_lock); /* as a fork may leave it */
	xm_owned_lock();
	alloc(request(0, 0, NV01_ROOT_CLIENT));
	freed = (struct NVOS00_PARAMETERS){.hRoot = client, .hObjectOld = client};
	EQUAL(ioctl(3, XM_RM_FREE, &freed), 0);
	EQUAL(freed.status, NV_OK);
	xm_owned_unlock();
	pthread_mutex_unlock(&xm_hold_lock);
	xm_aside = false;
	EQUAL(xm_owned.count[XM_RM_CLIENT], 1);
}

/* Another thread is anywhere inside when the process forks. */
static void *stays(void *fork_now)
{
	pthread_mutex_lock(&xm_hold_lock);
	xm_owned_lock();
	atomic_store((_Atomic bool *)fork_now, true);
	pause();
	return NULL;
}

/* A child made before CUDA was used, by a program that asked the driver otherwise,
 * such as by NVML: it owns nothing of its parent's, and waits for none of its threads. */
static void forked(void)
{
	_Atomic bool fork_now = false;
	uint32_t client;
	pthread_t other;
	int status;
	pid_t child;

	anew();
	client = alloc(request(0, 0, NV01_ROOT_CLIENT));
	EQUAL(pthread_create(&other, NULL, stays, &fork_now), 0);
	while (!atomic_load(&fork_now))
		usleep(1000);
	child = fork();
	if (!child) {
		struct NVOS00_PARAMETERS freed = {.hRoot = client, .hObjectOld = client};

		alarm(10);
		CHECK(!xm_hold_knows(client, client));
		EQUAL(ioctl(3, XM_RM_FREE, &freed), 0);
		client = alloc(request(0, 0, NV01_ROOT_CLIENT));
		CHECK(xm_hold_knows(client, client));
		_exit(0);
	}
	EQUAL(waitpid(child, &status, 0), child);
	EQUAL(status, 0);
	pthread_cancel(other);
	pthread_join(other, NULL);
	xm_owned_unlock(); /* of a thread that has ended */
	pthread_mutex_unlock(&xm_hold_lock);
	CHECK(xm_hold_knows(client, client));
}

static void others(void)
{
	anew();
	errno = 0;
	EQUAL(ioctl(7, 0x5413, NULL), -(0x5413 % 100) - 7); /* the next one's answer */
	EQUAL(errno, ENOTTY);
	EQUAL(calls.raws, 0);
	errno = 0;
	EQUAL(ioctl(7, 0x4600, NULL), -1); /* a frame buffer's: of the same type */
	EQUAL(errno, ENOTTY);
	EQUAL(calls.raws, 1);
	EQUAL(xm_owned.changes, 0);
}

int main(void)
{
	layouts();
	unreadable_groups();
	unknown_sizes();
	nowhere();
	refusals();
	interrupted();
	aside();
	forked();
	others();
	return 0;
}
