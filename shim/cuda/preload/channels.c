#define _GNU_SOURCE
#include "channels.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boardmap.h"
#include "device.h"
#include "gate.h"
#include "gen/rm.h"
#include "hold.h"
#include "memory_ready.h"
#include "sys.h"
#include "watchdog.h"

#define RELAXED __ATOMIC_RELAXED
#define STACK (512u << 10) /* the driver maps memory on it */
#define CALM_NS 3600000000000u
#define HEART_NS 100000000u /* the daemon's heartbeat is looked at so often while something is held, and when its lease ends */
#define SOON_NS 1000000u    /* a newcomer could not be switched off */
#define LATER_NS 100000000u /* a channel could not be switched on */
_Static_assert(HEART_NS + XM_LEASE_NS < 1000000000u, "whoever is stopped goes on within a second of the daemon's death");

/* What is in force on a device for the board. On the thread alone. */
struct carried {
	uint32_t generation; /* of the board; 0: of none */
	uint32_t want;
	uint32_t hold, slice; /* as the board wants them, or nothing */
	uint32_t holds;       /* suspensions carried out on this board */
	uint32_t slice_told;  /* what is in force */
	uint32_t why;         /* XM_LEVEL_WHY_*, as last found; NONE too before that */
	uint64_t judged;      /* what had changed by then; 0: nothing was found yet */
	enum xm_hold_rest rest;
	bool undone;          /* memory could not be made good, so nothing was let run: tried again */
};

static bool running; /* protected by xm_lock */
static _Atomic uint32_t kicks;
static _Atomic bool curious; /* some device has no level 3 that it may yet get */
static struct carried carried[XM_BOARD_DEVICES];

/* What a device's section says, read under xm_lock. */
struct view {
	struct xm_device *section; /* NULL: there is none, or the process is leaving */
	uint32_t generation, want, hold, slice;
	uint32_t memory; /* its daemon's want for memory */
	bool drained;    /* memory may be taken away while the gate is closed */
	uint64_t left;   /* ns until the daemon counts as dead; 0: it does */
	bool reached, shared;
	uint8_t uuid[16];
};

static struct view view_of(struct xm_dev *dev)
{
	struct view v = {.section = NULL};

	pthread_mutex_lock(&xm_lock);
	memcpy(v.uuid, dev->uuid, sizeof v.uuid);
	v.reached = dev->reached;
	v.shared = dev->shared;
	if (dev->section && !atomic_load(&xm_state.leaving)) {
		const struct xm_daemon_line *d = &dev->section->daemon;

		v.section = dev->section;
		v.generation = atomic_load(&xm_state.generation);
		v.want = __atomic_load_n(&d->want, __ATOMIC_ACQUIRE);
		v.hold = __atomic_load_n(&d->hold, RELAXED);
		v.slice = __atomic_load_n(&d->slice_us, RELAXED);
		v.memory = __atomic_load_n(&dev->section->daemon_memory.want, __ATOMIC_ACQUIRE);
		v.drained = __atomic_load_n(&dev->section->daemon_memory.flags, RELAXED) & XM_MEMORY_DRAINED;
		v.left = xm_daemon_left();
	}
	pthread_mutex_unlock(&xm_lock);
	return v;
}

/* Times and results of one want. */
struct result {
	int status;
	uint64_t hold_ns, release_ns;
};

/* The device's section, and its memory's. */
static uint32_t section_of(const struct carried *c)
{
	return (uint32_t)(c - carried);
}

/* Everything is to run again, or part of it: first its memory is where it is looked for. */
static int release_gpu(struct carried *c, const uint8_t uuid[16], uint32_t wanted, uint64_t *ns)
{
	int status = xm_memory_ready(section_of(c));

	c->undone = status != 0;
	if (!status)
		status = xm_hold_set(uuid, wanted, ns);
	xm_memory_opened(section_of(c));
	return status;
}

static void hold(struct carried *c, const uint8_t uuid[16], uint32_t wanted, struct result *r)
{
	bool release = wanted < c->hold;
	uint64_t ns = 0;
	int status;

	if (wanted == c->hold && c->undone) { /* it is wanted as it still is */
		c->undone = false;
		if (wanted == XM_HOLD_ALL)
			xm_memory_stopped(section_of(c));
	}
	if (wanted == c->hold || (r->status && !release))
		return;
	status = release ? release_gpu(c, uuid, wanted, &ns) : xm_hold_set(uuid, wanted, &ns);
	if (c->undone) {
		r->status = r->status ? r->status : status;
		return;
	}
	if (!status && wanted == XM_HOLD_ALL)
		xm_memory_stopped(section_of(c));
	r->status = r->status ? r->status : status;
	*(release ? &r->release_ns : &r->hold_ns) = ns;
	if (!status && !release)
		c->holds++;
	if (!status || release)
		c->hold = wanted;
	if (status && release)
		c->rest = XM_HOLD_REST_LATER;
}

static void slice(struct carried *c, const uint8_t uuid[16], uint32_t wanted, struct result *r)
{
	int status;

	if (wanted == c->slice || (r->status && wanted))
		return;
	status = xm_hold_slice(uuid, wanted, NULL);
	r->status = r->status ? r->status : status;
	if (!status || !wanted)
		c->slice = wanted;
	if (status && !wanted)
		c->rest = XM_HOLD_REST_LATER;
}

static struct result carry_out(struct carried *c, const uint8_t uuid[16], uint32_t wanted, uint32_t wanted_slice)
{
	struct result r = {.status = wanted > XM_HOLD_ALL ? (int)NV_ERR_INVALID_ARGUMENT : 0};

	if (r.status)
		return r;
	if (wanted < c->hold)
		hold(c, uuid, wanted, &r);
	slice(c, uuid, wanted_slice, &r);
	hold(c, uuid, wanted, &r);
	return r;
}

static uint32_t fits(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* Where the section of that board still is: what was done. did_too: and that it is the answer to c->want. */
static void tell(struct xm_dev *dev, struct carried *c, const struct result *r, bool did_too)
{
	struct xm_hold_now now = xm_hold_look(dev->uuid);
	struct xm_client_line *line;

	c->slice_told = now.slice;
	pthread_mutex_lock(&xm_lock);
	if (dev->section && c->generation == atomic_load(&xm_state.generation)) {
		line = &dev->section->client;
		__atomic_store_n(&line->held, now.hold, RELAXED);
		__atomic_store_n(&line->slice_now, now.slice, RELAXED);
		__atomic_store_n(&line->holds, c->holds, RELAXED);
		if (r) {
			__atomic_store_n(&line->hold_error, r->status < 0 ? NV_ERR_NOT_SUPPORTED : (uint32_t)r->status, RELAXED);
			if (r->hold_ns)
				__atomic_store_n(&line->hold_ns, fits(r->hold_ns), RELAXED);
			if (r->release_ns)
				__atomic_store_n(&line->release_ns, fits(r->release_ns), RELAXED);
		}
		if (did_too) {
			__atomic_store_n(&line->did, c->want, __ATOMIC_RELEASE);
			xm_wake_word((const _Atomic uint32_t *)&line->did);
		} else {
			xm_signal_fd(xm_state.event_fd);
		}
	}
	pthread_mutex_unlock(&xm_lock);
}

/* A debugger or tracer is on the process: it may stop the GPU itself. */
static bool traced(void)
{
	char text[2048];
	const char *at;
	ssize_t n;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "TracerPid:");
	return at && atoi(at + sizeof "TracerPid:" - 1) != 0;
}

/* How far this process can go on the device, as soon as a context of it has the
 * board; anew when objects came or went, or `again`. */
static void judge(struct xm_dev *dev, struct carried *c, const struct view *v, bool again)
{
	struct xm_hold_now now = xm_hold_look(v->uuid);
	uint32_t why;

	if (!v->reached || (c->judged == now.changes + 1 && !again))
		return;
	if (v->shared)
		why = XM_LEVEL_WHY_MPS;
	else if (traced())
		why = XM_LEVEL_WHY_DEBUGGER;
	else
		why = xm_hold_why(v->uuid);
	if (!now.channels && c->judged)
		return; /* its contexts have gone; the next one will tell */
	c->judged = now.changes + 1;
	c->why = why;
	pthread_mutex_lock(&xm_lock);
	if (dev->level3 != (why == XM_LEVEL_WHY_NONE) || dev->level3_why != why) {
		dev->level3 = why == XM_LEVEL_WHY_NONE;
		dev->level3_why = why;
		xm_level_tell(dev);
	}
	pthread_mutex_unlock(&xm_lock);
}

static void give_up(struct xm_dev *dev, struct carried *c, bool say)
{
	struct result r;

	if (!c->hold && !c->slice)
		return;
	r = carry_out(c, dev->uuid, XM_HOLD_NONE, 0);
	if (say)
		tell(dev, c, &r, false);
}

static uint64_t look_again(struct xm_dev *dev, struct carried *c)
{
	struct result r = {0};
	int refused;

	if (!c->hold && !c->slice && c->rest == XM_HOLD_REST_NONE)
		return CALM_NS;
	c->rest = xm_hold_again(dev->uuid, &refused);
	if (refused) {
		hold(c, dev->uuid, XM_HOLD_NONE, &r);
		r.status = refused;
		tell(dev, c, &r, false);
		c->judged = 0;
		return c->undone ? LATER_NS : 0;
	}
	if (c->undone)
		return LATER_NS;
	if (c->slice && xm_hold_look(dev->uuid).slice != c->slice_told)
		tell(dev, c, NULL, false); /* a context came or went: see slice.c */
	return c->rest == XM_HOLD_REST_SOON ? SOON_NS : c->rest == XM_HOLD_REST_LATER ? LATER_NS : HEART_NS;
}

/* What the next sleep is to be. */
struct round {
	struct xm_watch watches[1 + 2 * XM_BOARD_DEVICES];
	unsigned n;
	uint64_t sleep;
	bool busy; /* something is held for a board */
};

/* A drained process's memory is made good when the daemon wants it to run again. */
static void look_after_memory(const struct view *v, uint32_t section, struct round *r)
{
	r->watches[r->n++] = (struct xm_watch){.word = (const _Atomic uint32_t *)&v->section->daemon_memory.want, .seen = v->memory};
	if (!v->drained && xm_memory_recall(section) && r->sleep > LATER_NS)
		r->sleep = LATER_NS;
}

static void look_after(struct xm_dev *dev, struct carried *c, struct round *r)
{
	struct view v = view_of(dev);
	struct result done = {.status = 0};
	uint64_t sleep;

	if (!v.section) {
		give_up(dev, c, false);
		c->generation = 0;
	} else {
		if (c->generation != v.generation) { /* a new board wants nothing to begin with */
			c->generation = v.generation;
			c->want = c->holds = 0;
			c->judged = 0;
		}
		r->watches[r->n++] = (struct xm_watch){.word = (const _Atomic uint32_t *)&v.section->daemon.want, .seen = v.want};
		look_after_memory(&v, section_of(c), r);
		if (!v.left) {
			give_up(dev, c, true);
		} else if (v.want != c->want || c->undone) {
			c->want = v.want;
			done = carry_out(c, dev->uuid, v.hold, v.slice);
			tell(dev, c, &done, true);
		}
		judge(dev, c, &v, done.status != 0);
		if (c->why != XM_LEVEL_WHY_NONE)
			atomic_store(&curious, true);
		if (!v.left && v.want != c->want && r->sleep > HEART_NS)
			r->sleep = HEART_NS;
	}
	sleep = look_again(dev, c);
	if (sleep > v.left && v.left && (c->hold || c->slice))
		sleep = v.left;
	if (r->sleep > sleep)
		r->sleep = sleep;
	r->busy |= c->hold || c->slice || c->rest != XM_HOLD_REST_NONE;
}

/* False: nothing holds the thread any more. */
static bool go_round(struct round *r)
{
	uint32_t n;

	*r = (struct round){.watches = {{.word = &kicks, .seen = atomic_load(&kicks)}}, .n = 1, .sleep = CALM_NS};
	atomic_store(&curious, false);
	pthread_mutex_lock(&xm_lock);
	n = xm_state.dev_count;
	pthread_mutex_unlock(&xm_lock);
	for (uint32_t i = 0; i < n; i++)
		look_after(&xm_state.devs[i], &carried[i], r);
	pthread_mutex_lock(&xm_lock);
	if (!xm_state.board && !r->busy && atomic_load(&kicks) == r->watches[0].seen)
		running = false;
	else
		r->busy = true;
	pthread_mutex_unlock(&xm_lock);
	return r->busy;
}

static void *carry(void *unused)
{
	struct round r;

	pthread_setname_np(pthread_self(), "xm-channels");
	while (go_round(&r))
		if (r.sleep)
			xm_wait_words(r.watches, r.n, r.sleep);
	return unused;
}

void xm_channels_start(void)
{
	if (!running && xm_state.board && xm_state.dev_count)
		running = xm_small_thread(carry, STACK) == 0;
}

void xm_channels_kick(void)
{
	atomic_fetch_add(&kicks, 1);
	xm_wake_word(&kicks);
}

void xm_channels_news(void)
{
	if (atomic_load_explicit(&curious, memory_order_relaxed))
		xm_channels_kick();
}

__attribute__((visibility("default"))) int xm_channels_count(const uint8_t uuid[16], uint32_t *compute_groups, uint32_t *groups,
							     uint32_t *channels)
{
	struct xm_hold_now now;

	if (atomic_load(&xm_aside))
		return -ECHILD;
	now = xm_hold_look(uuid);
	if (compute_groups)
		*compute_groups = now.compute_groups;
	if (groups)
		*groups = now.groups;
	if (channels)
		*channels = now.channels;
	return now.subdevice && now.channels ? 0 : -ENODEV;
}

__attribute__((visibility("default"))) int xm_channels_hold(const uint8_t uuid[16], uint32_t hold_now, uint64_t *ns)
{
	int status = xm_channels_count(uuid, NULL, NULL, NULL);

	return status ? status : xm_hold_set(uuid, hold_now, ns);
}

__attribute__((visibility("default"))) int xm_channels_slice(const uint8_t uuid[16], uint32_t us, uint64_t *ns)
{
	int status = xm_channels_count(uuid, NULL, NULL, NULL);

	return status ? status : xm_hold_slice(uuid, us, ns);
}
