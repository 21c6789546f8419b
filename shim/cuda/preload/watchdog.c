#define _GNU_SOURCE
#include "watchdog.h"

#include <errno.h>
#include <signal.h>

#include "boardmap.h"
#include "device.h"
#include "gate.h"
#include "guard.h"
#include "sys.h"
#include "tail.h"

#define STACK (512u << 10) /* the driver maps memory on it, when the daemon is dead */
#define CALM_NS 1000000000u  /* open gates: it sleeps until the daemon stores a gate word */
#define CLOSED_NS 100000000u /* a gate is closed: the daemon's heartbeat is looked at this often, and when its lease ends */
_Static_assert(CLOSED_NS + XM_LEASE_NS < 1000000000u, "whoever is stopped goes on within a second of the daemon's death");

static bool running; /* protected by xm_lock */
static _Atomic uint32_t kicks;

/* What the next sleep is to be. */
struct round {
	struct xm_watch watches[1 + XM_GUARD_WATCHES + XM_BOARD_DEVICES];
	unsigned n;
	uint64_t sleep;
	bool competitor, told; /* what the tail's thread was told last */
};

/*
 * The gate word may be acknowledged after a fence on every thread: whoever had
 * looked at the gate before has counted its command already (admission.h), and
 * whoever looks later finds this word or a newer one, and goes the slow path.
 * Commands counted before are work that is queued, as far as the daemon is
 * concerned, and the bound covers them.
 */
static void acknowledge(struct xm_dev *dev, uint32_t gate)
{
	struct xm_device *s;
	bool told;

	pthread_mutex_lock(&xm_lock);
	s = dev->section;
	told = !s || __atomic_load_n(&s->client.acked, __ATOMIC_RELAXED) == gate;
	pthread_mutex_unlock(&xm_lock);
	if (told)
		return;
	(void)xm_fence_all();
	pthread_mutex_lock(&xm_lock);
	if (dev->section == s)
		__atomic_store_n(&s->client.acked, gate, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&xm_lock);
}

/* Looks after one device. Holds no lock between its steps: the board may be let
 * go of in between, and each step looks for itself. */
static void look_after(struct xm_dev *dev, struct round *r)
{
	const _Atomic uint32_t *word = atomic_load(&dev->gate);
	uint32_t gate = atomic_load_explicit(word, memory_order_acquire);
	uint64_t left;

	if (word == &xm_gate_absent)
		return;
	r->watches[r->n++] = (struct xm_watch){.word = word, .seen = gate};
	if (gate)
		acknowledge(dev, gate);
	if (gate && !(gate & 1)) {
		xm_dev_expire(dev);
		if (r->sleep > CLOSED_NS)
			r->sleep = CLOSED_NS;
	}
	pthread_mutex_lock(&xm_lock);
	left = xm_gate_closed(dev) ? xm_daemon_left() : 0;
	if (left && r->sleep > left)
		r->sleep = left;
	r->competitor |= !xm_dev_free_run(dev);
	pthread_mutex_unlock(&xm_lock);
}

/* False: there is no board any more, and the thread may end. */
static bool go_round(struct round *r)
{
	uint32_t n;
	bool attached;

	r->n = 0;
	r->sleep = CALM_NS;
	r->competitor = false;
	r->watches[r->n++] = (struct xm_watch){.word = &kicks, .seen = atomic_load(&kicks)};
	pthread_mutex_lock(&xm_lock);
	attached = xm_state.board || xm_guard_busy();
	if (!attached)
		running = false;
	n = xm_state.dev_count;
	pthread_mutex_unlock(&xm_lock);
	if (!attached)
		return false;
	r->n += xm_guard_round(r->watches + r->n, XM_GUARD_WATCHES);
	for (uint32_t i = 0; i < n; i++)
		look_after(&xm_state.devs[i], r);
	atomic_store_explicit(&xm_state.competitor, r->competitor, memory_order_relaxed);
	if (r->told != r->competitor)
		xm_tail_kick();
	r->told = r->competitor;
	return true;
}

static void *watch(void *unused)
{
	struct round r = {.told = false};

	pthread_setname_np(pthread_self(), "xm-watchdog");
	while (go_round(&r))
		xm_wait_words(r.watches, r.n, r.sleep);
	return unused;
}

int xm_small_thread(void *(*body)(void *), size_t stack)
{
	pthread_attr_t attr;
	size_t usual;
	sigset_t all, before;
	pthread_t t;
	int failed = pthread_attr_init(&attr);

	if (failed)
		return failed;
	pthread_attr_getstacksize(&attr, &usual);
	sigfillset(&all);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, stack);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&t, &attr, body, NULL);
	if (failed == EINVAL && usual > stack) { /* a program with much static TLS needs more */
		pthread_attr_setstacksize(&attr, usual);
		failed = pthread_create(&t, &attr, body, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return failed;
}

void xm_watchdog_start(void)
{
	if (!running)
		running = xm_small_thread(watch, STACK) == 0;
}

void xm_watchdog_kick(void)
{
	atomic_fetch_add(&kicks, 1);
	xm_wake_word(&kicks);
}
