/* Contexts that the driver is about to end, and who asks it of their events meanwhile: nobody. */
#include "mem_pool.h"
#include "sys.h"

#define LOOK_NS 1000000u

struct going {
	struct going *next;
	CUcontext context;
};

/* Protected by xm_mem_lock. One for each call that may end the context: of a primary one there can be several. */
static struct going *all, *free_records;
static struct xm_asker *askers;
static uint32_t waiters;

static _Atomic uint32_t turn; /* another value whenever a wait below may be over */

/* xm_mem_lock held. */
static void changed(void)
{
	if (!waiters)
		return;
	atomic_fetch_add(&turn, 1);
	xm_wake_word(&turn);
}

/* The lock is let go meanwhile. */
static void wait_turn(void)
{
	uint32_t seen = atomic_load(&turn);

	waiters++;
	pthread_mutex_unlock(&xm_mem_lock);
	xm_wait_word(&turn, seen, LOOK_NS);
	pthread_mutex_lock(&xm_mem_lock);
	waiters--;
}

/* --- who asks ------------------------------------------------------------------------- */

bool xm_context_goes(CUcontext context)
{
	for (const struct going *g = all; g; g = g->next)
		if (g->context == context)
			return true;
	return false;
}

bool xm_ask_begin(struct xm_asker *me, CUcontext context)
{
	if (xm_context_goes(context))
		return false;
	*me = (struct xm_asker){.next = askers, .context = context};
	askers = me;
	return true;
}

bool xm_ask_begin_late(struct xm_asker *me, const CUcontext *context, uint64_t ns)
{
	uint64_t until;

	if (xm_ask_begin(me, *context))
		return true;
	until = xm_now() + ns;
	do
		wait_turn();
	while (xm_context_goes(*context) && xm_now() < until);
	return xm_ask_begin(me, *context);
}

void xm_ask_end(const struct xm_asker *me)
{
	struct xm_asker **at = &askers;

	while (*at != me)
		at = &(*at)->next;
	*at = me->next;
	changed();
}

static bool asked(CUcontext context)
{
	for (const struct xm_asker *a = askers; a; a = a->next)
		if (a->context == context)
			return true;
	return false;
}

/* --- what goes --------------------------------------------------------------------------- */

/* What has been done until now need not wait for the context's end. */
void xm_orders_context_goes(CUcontext context)
{
	struct going *g;

	if (!context)
		return;
	xm_orders_poll();
	pthread_mutex_lock(&xm_mem_lock);
	g = free_records;
	if (g)
		free_records = g->next;
	else
		g = xm_keep(sizeof *g);
	if (g) {
		*g = (struct going){.next = all, .context = context};
		all = g;
	}
	while (g && asked(context))
		wait_turn();
	pthread_mutex_unlock(&xm_mem_lock);
}

void xm_orders_context_answered(CUcontext context)
{
	struct going *g;

	pthread_mutex_lock(&xm_mem_lock);
	for (struct going **at = &all; (g = *at); at = &g->next) {
		if (g->context != context)
			continue;
		*at = g->next;
		g->next = free_records;
		free_records = g;
		break;
	}
	changed();
	pthread_mutex_unlock(&xm_mem_lock);
}
