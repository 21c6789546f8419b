#define _GNU_SOURCE
#include "tail.h"

#include "device.h"
#include "edge.h"
#include "gate.h"
#include "sys.h"
#include "watchdog.h"

#define STACK (256u << 10)   /* the driver runs on it */
#define CALM_NS 3600000000000u
#define RIVAL_NS 5000000u    /* a competitor exists, nothing outstanding */
#define TAIL_NS 1000000u     /* a competitor exists, something outstanding */
#define CLOSED_NS 100000000u /* the gate is closed */

static bool running; /* protected by xm_lock */
static _Atomic uint32_t kicks;

/* What the next sleep is to be. */
struct round {
	struct xm_watch watches[1 + XM_BOARD_DEVICES];
	unsigned n;
	uint64_t sleep;
};

/*
 * Asks about one device, when it has been left alone since the last round. While
 * its gate is closed little can come to an end, so it is asked seldom, until the
 * gate word moves.
 */
static void look_after(struct xm_dev *dev, uint64_t *grants, struct round *r)
{
	const _Atomic uint32_t *word = atomic_load(&dev->gate);
	uint32_t gate = atomic_load_explicit(word, memory_order_acquire);
	bool rival, quiet, ready, closed;
	uint64_t sleep;

	pthread_mutex_lock(&xm_lock);
	rival = !xm_dev_free_run(dev);
	ready = dev->ready;
	closed = xm_gate_closed(dev);
	quiet = dev->grants == *grants && !dev->pending;
	*grants = dev->grants;
	pthread_mutex_unlock(&xm_lock);
	if (!rival)
		return;
	if (ready && quiet)
		xm_settle_asking(dev, NULL);
	if (closed)
		r->watches[r->n++] = (struct xm_watch){.word = word, .seen = gate};
	sleep = closed ? CLOSED_NS : ready ? TAIL_NS : RIVAL_NS;
	if (r->sleep > sleep)
		r->sleep = sleep;
}

static void *ask(void *unused)
{
	uint64_t grants[XM_BOARD_DEVICES] = {0};

	pthread_setname_np(pthread_self(), "xm-tail");
	for (;;) {
		struct round r = {.watches = {{.word = &kicks, .seen = atomic_load(&kicks)}}, .n = 1, .sleep = CALM_NS};
		uint32_t n;
		bool attached;

		pthread_mutex_lock(&xm_lock);
		attached = xm_state.board != NULL;
		if (!attached)
			running = false;
		n = xm_state.dev_count;
		pthread_mutex_unlock(&xm_lock);
		if (!attached)
			return unused;
		for (uint32_t i = 0; i < n; i++)
			look_after(&xm_state.devs[i], &grants[i], &r);
		xm_wait_words(r.watches, r.n, r.sleep);
	}
}

void xm_tail_start(void)
{
	if (!running)
		running = xm_small_thread(ask, STACK) == 0;
}

void xm_tail_kick(void)
{
	atomic_fetch_add(&kicks, 1);
	xm_wake_word(&kicks);
}
