#define _GNU_SOURCE
#include "tail.h"

#include "device.h"
#include "edge.h"
#include "sys.h"
#include "watchdog.h"

#define STACK (256u << 10)   /* the driver runs on it */
#define CALM_NS 3600000000000u
#define RIVAL_NS 5000000u    /* a competitor exists, nothing outstanding */
#define TAIL_NS 1000000u     /* a competitor exists, something outstanding */

static bool running; /* protected by xm_lock */
static _Atomic uint32_t kicks;

/* Asks about one device, when it has been left alone since the last round.
 * Returns how long to sleep for it. */
static uint64_t look_after(struct xm_dev *dev, uint64_t *grants)
{
	bool rival, quiet, ready;

	pthread_mutex_lock(&xm_lock);
	rival = !xm_dev_free_run(dev);
	ready = dev->ready;
	quiet = dev->grants == *grants && !dev->pending;
	*grants = dev->grants;
	pthread_mutex_unlock(&xm_lock);
	if (!rival)
		return CALM_NS;
	if (ready && quiet)
		xm_settle_asking(dev, NULL);
	return ready ? TAIL_NS : RIVAL_NS;
}

static void *ask(void *unused)
{
	uint64_t grants[XM_BOARD_DEVICES] = {0};

	pthread_setname_np(pthread_self(), "xm-tail");
	for (;;) {
		uint32_t seen = atomic_load(&kicks), n;
		uint64_t sleep = CALM_NS, s;
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
			if ((s = look_after(&xm_state.devs[i], &grants[i])) < sleep)
				sleep = s;
		xm_wait_word(&kicks, seen, sleep);
	}
}

void xm_tail_start(void)
{
	if (!running)
		running = xm_small_thread(ask, STACK);
}

void xm_tail_kick(void)
{
	atomic_fetch_add(&kicks, 1);
	xm_wake_word(&kicks);
}
