#define _GNU_SOURCE
#include "watchdog.h"

#include <limits.h>
#include <signal.h>

#include "boardmap.h"
#include "device.h"
#include "edge.h"
#include "queue.h"
#include "sys.h"

#define STACK (64u << 10)
#define CALM_NS 1000000000u  /* free run and open gates: it sleeps until the daemon stores a gate word */
#define CLOSED_NS 100000000u /* a gate is closed: the daemon's heartbeat is looked at this often */
#define RIVAL_NS 5000000u    /* a competitor exists, nothing outstanding */
#define TAIL_NS 1000000u     /* a competitor exists, something outstanding */

static bool running; /* protected by xm_lock */
static _Atomic uint32_t kicks;

/* What the next sleep is to be. */
struct round {
	struct xm_watch watches[XM_BOARD_DEVICES + 1];
	unsigned n;
	uint64_t sleep;
	bool competitor;
	uint64_t grants[XM_BOARD_DEVICES]; /* of the last round: a queue that still grows needs no looking after */
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
	bool rival, quiet, ready;

	if (word == &xm_gate_absent)
		return;
	r->watches[r->n++] = (struct xm_watch){.word = word, .seen = gate};
	if (gate)
		acknowledge(dev, gate);
	if (gate && !(gate & 1)) {
		xm_dev_expire(dev, xm_now());
		if (r->sleep > CLOSED_NS)
			r->sleep = CLOSED_NS;
	}
	pthread_mutex_lock(&xm_lock);
	rival = !xm_dev_free_run(dev);
	ready = dev->ready;
	quiet = dev->grants == r->grants[dev->index] && !dev->pending;
	r->grants[dev->index] = dev->grants;
	pthread_mutex_unlock(&xm_lock);
	if (!rival)
		return;
	r->competitor = true;
	if (ready && quiet)
		xm_settle_asking(dev, NULL);
	if (r->sleep > (ready ? TAIL_NS : RIVAL_NS))
		r->sleep = ready ? TAIL_NS : RIVAL_NS;
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
	attached = xm_state.board != NULL;
	if (!attached)
		running = false;
	n = xm_state.dev_count;
	pthread_mutex_unlock(&xm_lock);
	if (!attached)
		return false;
	for (uint32_t i = 0; i < n; i++)
		look_after(&xm_state.devs[i], r);
	atomic_store_explicit(&xm_state.competitor, r->competitor, memory_order_relaxed);
	return true;
}

static void *watch(void *unused)
{
	struct round r = {0};

	pthread_setname_np(pthread_self(), "xm-watchdog");
	while (go_round(&r))
		xm_wait_words(r.watches, r.n, r.sleep);
	return unused;
}

void xm_watchdog_start(void)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t t;

	if (running || pthread_attr_init(&attr))
		return;
	sigfillset(&all);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	running = pthread_create(&t, &attr, watch, NULL) == 0;
	if (!running) { /* a program with much static TLS needs more than STACK */
		pthread_attr_setstacksize(&attr, 16 * STACK);
		running = pthread_create(&t, &attr, watch, NULL) == 0;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

void xm_watchdog_kick(void)
{
	atomic_fetch_add(&kicks, 1);
	xm_wake_word(&kicks);
}
