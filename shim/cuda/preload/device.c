#include "device.h"

#include <string.h>

#include "agent_start.h"
#include "boardmap.h"
#include "channels.h"
#include "edge.h"
#include "gate.h"
#include "memory_ready.h"
#include "queue.h"
#include "sys.h"
#include "thread.h"
#include "watchdog.h"

#define RELAXED __ATOMIC_RELAXED
#define RELEASE __ATOMIC_RELEASE

const _Atomic uint32_t xm_gate_absent = 1;

static struct xm_context *free_contexts;

/* What the driver says of a device; asked without a lock. */
struct facts {
	CUdevice handle;
	CUuuid uuid;
	char name[64];
	bool shared;
};

static bool ask(struct facts *f)
{
	int shared = 0;

	*f = (struct facts){0};
	if (!xm_real.cuCtxGetDevice || xm_real.cuCtxGetDevice(&f->handle))
		return false;
	if (!(xm_real.cuDeviceGetUuid_v2 && xm_real.cuDeviceGetUuid_v2(&f->uuid, f->handle) == 0) && xm_real.cuDeviceGetUuid)
		xm_real.cuDeviceGetUuid(&f->uuid, f->handle);
	if (xm_real.cuDeviceGetName && xm_real.cuDeviceGetName(f->name, sizeof f->name, f->handle) == 0)
		f->name[sizeof f->name - 1] = 0;
	if (xm_real.cuDeviceGetAttribute && xm_real.cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, f->handle) == 0)
		f->shared = shared != 0;
	return true;
}

/* xm_lock held. NULL: the board has no section left. */
static struct xm_dev *dev_of(const struct facts *f)
{
	struct xm_dev *d;

	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		if (xm_state.devs[i].handle == f->handle)
			return &xm_state.devs[i];
	if (xm_state.dev_count == XM_BOARD_DEVICES)
		return NULL;
	d = &xm_state.devs[xm_state.dev_count];
	d->index = xm_state.dev_count;
	d->handle = f->handle;
	d->shared = f->shared;
	atomic_store(&d->gate, &xm_gate_absent);
	memcpy(d->uuid, &f->uuid, sizeof d->uuid);
	memcpy(d->name, f->name, sizeof d->name);
	xm_state.dev_count++;
	if (xm_state.board) {
		xm_dev_claim(d);
		xm_watchdog_kick();
		xm_channels_start();
		xm_channels_kick();
	}
	return d;
}

struct xm_context *xm_context_known(CUcontext handle)
{
	for (struct xm_context *c = xm_state.contexts; c; c = c->next)
		if (c->handle == handle)
			return c;
	return NULL;
}

/* xm_lock held. */
static struct xm_context *add_context(CUcontext handle, const struct facts *f)
{
	struct xm_context *c = xm_context_known(handle); /* another thread may have been faster */

	if (c)
		return c;
	c = free_contexts;
	if (c)
		free_contexts = c->next;
	else if (!(c = xm_keep(sizeof *c)))
		return NULL;
	*c = (struct xm_context){.handle = handle, .dev = dev_of(f), .next = xm_state.contexts};
	xm_state.contexts = c;
	return c;
}

struct xm_context *xm_context_current(struct xm_thread *me)
{
	uint32_t epoch = atomic_load(&xm_state.context_epoch);
	CUcontext handle = NULL;
	struct facts f;
	struct xm_context *c;

	if (me->context_epoch == epoch)
		return me->context;
	me->context = NULL;
	if (!xm_real.cuCtxGetCurrent || xm_real.cuCtxGetCurrent(&handle) || !handle)
		return NULL;
	pthread_mutex_lock(&xm_lock);
	c = xm_context_known(handle);
	pthread_mutex_unlock(&xm_lock);
	if (!c) {
		if (!ask(&f))
			return NULL;
		pthread_mutex_lock(&xm_lock);
		c = add_context(handle, &f);
		pthread_mutex_unlock(&xm_lock);
		xm_agent_watch_exit();
	}
	me->context = c && c->dev ? c : NULL;
	me->context_epoch = epoch;
	return me->context;
}

bool xm_context_push(struct xm_thread *me, struct xm_context *context)
{
	if (me && xm_context_current(me) == context)
		return false;
	return xm_real.cuCtxPushCurrent_v2 && xm_real.cuCtxPushCurrent_v2(context->handle) == 0;
}

void xm_context_pop(void)
{
	CUcontext was;

	if (xm_real.cuCtxPopCurrent_v2)
		xm_real.cuCtxPopCurrent_v2(&was);
}

void xm_context_made(CUdevice device)
{
	struct xm_thread *me = xm_enter();
	struct xm_context *c;

	(void)device; /* learnt from the context, when it is current */
	if (!me)
		return;
	me->context_epoch = 0;
	c = xm_context_current(me);
	if (c)
		xm_board_reach(me, c);
	xm_leave(me);
}

void xm_context_changed(void)
{
	struct xm_thread *me = xm_thread_known();

	if (me)
		xm_thread_forget_context(me);
}

/*
 * Its queues are taken as complete: whatever the driver does with their work,
 * nobody will hear of it any more. Questions to these queues
 * are excluded by xm_probe, marks of other threads by each queue's order.
 *
 * The driver waits for what is queued there, at a closed gate too. So the device
 * counts as busy, and the thread as waiting, until it returned: who is idle may never
 * get a turn, and by its queues, which are empty now, it would be taken for idle.
 */
void xm_context_gone(CUcontext handle)
{
	struct xm_thread *me = xm_enter();
	struct xm_context *c, **at;

	if (!me)
		return;
	pthread_mutex_lock(&xm_probe);
	pthread_mutex_lock(&xm_lock);
	c = xm_context_known(handle);
	pthread_mutex_unlock(&xm_lock);
	if (c) {
		xm_queue_context_gone(c);
		pthread_mutex_lock(&xm_lock);
		for (at = &xm_state.contexts; *at && *at != c; at = &(*at)->next)
			;
		if (*at) {
			*at = c->next;
			xm_board_forget(me, c);
			c->handle = NULL;
			c->next = free_contexts;
			free_contexts = c;
			if (atomic_fetch_add(&xm_state.context_epoch, 1) + 1 == 0)
				atomic_store(&xm_state.context_epoch, 1);
		}
		if (c->dev && !me->ending) {
			me->ending = c->dev;
			c->dev->pending++;
			c->dev->waiting++;
			xm_dev_publish(c->dev);
		}
		pthread_mutex_unlock(&xm_lock);
	}
	pthread_mutex_unlock(&xm_probe);
	xm_thread_forget_context(me);
	xm_leave(me);
}

void xm_context_ended(void)
{
	struct xm_thread *me = xm_enter();
	struct xm_dev *dev;

	if (!me)
		return;
	pthread_mutex_lock(&xm_lock);
	dev = me->ending;
	if (dev) {
		me->ending = NULL;
		dev->pending--;
		dev->waiting--;
		xm_dev_publish(dev);
		xm_board_forgotten(me);
		xm_settle(dev, me, !xm_dev_free_run(dev));
	}
	pthread_mutex_unlock(&xm_lock);
	xm_thread_forget_context(me);
	xm_leave(me);
}

void xm_dev_claim(struct xm_dev *dev)
{
	struct xm_device *s = &xm_state.board->devices[dev->index];

	memcpy(s->identity.uuid, dev->uuid, sizeof dev->uuid);
	memcpy(s->identity.name, dev->name, sizeof s->identity.name);
	s->identity.ordinal = (uint32_t)dev->handle;
	dev->section = s;
	dev->reached = dev->unreached = false;
	atomic_store(&dev->gate, (const _Atomic uint32_t *)&s->daemon.gate);
	__atomic_store_n(&s->client.ready, dev->ready, RELAXED);
	__atomic_store_n(&s->client.edge, ++dev->edge, RELAXED);
	atomic_store_explicit(&dev->ready_at, xm_now(), memory_order_relaxed);
	__atomic_store_n(&s->client.ready_at, dev->ready_at, RELAXED);
	for (struct xm_queue *q = dev->dirty; q; q = q->dirty_next)
		xm_queue_announce(q);
	xm_dev_publish(dev);
	xm_level_tell(dev);
	__atomic_store_n(&s->client.present, 1, RELEASE);
	xm_signal_fd(xm_state.event_fd);
}

void xm_dev_release(struct xm_dev *dev)
{
	dev->section = NULL;
	dev->greeted = true; /* later boards find the program running already */
	atomic_store(&dev->gate, &xm_gate_absent);
}

bool xm_dev_free_run(const struct xm_dev *dev)
{
	return !dev->section || __atomic_load_n(&dev->section->daemon.mode, RELAXED) == XM_MODE_FREE;
}

static struct xm_grant free_run(uint32_t gate, bool governed)
{
	return (struct xm_grant){.gate = gate,
				 .open = gate == 0 || gate & 1,
				 .answered = governed && gate != 0,
				 .governed = governed,
				 .limit = XM_FREE_LIMIT,
				 .batch = XM_FREE_LEASE};
}

/* The daemon stores the numbers before the gate word, so numbers read between
 * two equal gate words belong to it. */
struct xm_grant xm_dev_grant(struct xm_dev *dev)
{
	struct xm_daemon_line *d;
	struct xm_grant g;
	uint32_t gate, again, mode, threshold, batch, level;
	int tries = 4;

	if (!dev->section)
		return free_run(1, false);
	d = &dev->section->daemon;
	again = __atomic_load_n(&d->gate, __ATOMIC_ACQUIRE);
	do {
		gate = again;
		mode = __atomic_load_n(&d->mode, RELAXED);
		threshold = __atomic_load_n(&d->threshold, RELAXED);
		batch = __atomic_load_n(&d->batch, RELAXED);
		level = __atomic_load_n(&d->level, RELAXED);
		atomic_thread_fence(memory_order_acquire);
		again = __atomic_load_n(&d->gate, RELAXED);
	} while (gate != again && --tries);
	g = free_run(gate, true);
	if (atomic_load_explicit(&xm_state.leaving, memory_order_relaxed)) { /* see xm_dev_expire */
		g.open = true;
		return g;
	}
	if (mode == XM_MODE_FREE)
		return g;
	atomic_store_explicit(&xm_state.competitor, true, memory_order_relaxed);
	if ((mode == XM_MODE_BOUNDED || mode == XM_MODE_LOOSE) && !xm_daemon_dead()) {
		g.limit = threshold < 1 ? 1 : threshold > XM_FREE_LIMIT ? XM_FREE_LIMIT : threshold;
		g.batch = batch < 1 ? 1 : batch > g.limit ? g.limit : batch;
		if (g.batch > XM_FREE_LEASE)
			g.batch = XM_FREE_LEASE;
		g.gated = mode == XM_MODE_BOUNDED && level >= 2 && gate && !dev->no_waits;
	}
	return g;
}

void xm_dev_publish(struct xm_dev *dev)
{
	if (!dev->section)
		return;
	__atomic_store_n(&dev->section->client.waiting, dev->waiting, RELAXED);
	__atomic_store_n(&dev->section->client.launches, dev->launches, RELAXED);
}

/* Where nobody waited since the device became ready, it was found idle on the way:
 * the program was slower than the device all that time. */
static uint64_t waited_from(const struct xm_dev *dev)
{
	uint64_t ready = atomic_load_explicit(&dev->ready_at, memory_order_relaxed);
	uint64_t from = atomic_load_explicit(&dev->wait_from, memory_order_relaxed);

	return from < ready ? xm_now() : from;
}

/* Told through the eventfd only when there is somebody to yield to, or when the
 * daemon may not know that there is not; and not while the daemon waits out an
 * idle edge, since it looks at ready and edge itself before it acts on that. The
 * fence orders our edge before the look at `watching`, as the daemon's end of
 * watching is ordered before its look at the edge: one of the two sees the other. */
void xm_dev_tell(struct xm_dev *dev, bool ready)
{
	struct xm_device *s = dev->section;
	uint32_t gate;

	if (dev->ready == ready)
		return;
	dev->ready = ready;
	dev->edge++;
	if (!s)
		return;
	if (ready) {
		atomic_store_explicit(&dev->ready_at, xm_now(), memory_order_relaxed);
		__atomic_store_n(&s->client.ready_at, dev->ready_at, RELAXED);
	} else {
		__atomic_store_n(&s->client.waited_from, waited_from(dev), RELAXED);
		__atomic_store_n(&s->client.idle_us, (uint32_t)(xm_now() / 1000), RELAXED);
	}
	xm_dev_publish(dev);
	__atomic_store_n(&s->client.ready, ready, RELAXED);
	__atomic_store_n(&s->client.edge, dev->edge, RELEASE);
	atomic_thread_fence(memory_order_seq_cst);
	if (__atomic_load_n(&s->daemon.watching, RELAXED) == 1)
		return;
	gate = __atomic_load_n(&s->daemon.gate, RELAXED);
	if (!xm_dev_free_run(dev) || !(gate & 1))
		xm_signal_fd(xm_state.event_fd);
}

static bool expired(struct xm_dev *dev, bool leaving)
{
	bool yes;

	pthread_mutex_lock(&xm_lock);
	yes = xm_gate_closed(dev) && (leaving || xm_daemon_dead());
	pthread_mutex_unlock(&xm_lock);
	return yes;
}

/*
 * A process that is leaving is held back by nobody: the driver's own teardown
 * waits for what is queued, on a thread that will launch no more, and the daemon
 * may not have heard of it yet. What that lets through is bounded: what was
 * queued when exit was called.
 */
void xm_dev_expire(struct xm_dev *dev)
{
	bool leaving = atomic_load(&xm_state.leaving);

	if (!expired(dev, leaving))
		return;
	if (xm_memory_ready(dev->index) == 0) {
		pthread_mutex_lock(&xm_lock);
		if (xm_gate_closed(dev) && (leaving || xm_daemon_dead()) && xm_gate_open(dev->section) && !leaving)
			__atomic_fetch_add(&dev->section->client.opened_by_lease, 1, RELAXED);
		pthread_mutex_unlock(&xm_lock);
	}
	xm_memory_opened(dev->index);
}
