#include "bound.h"

#include "mark.h"
#include "queue.h"
#include "sys.h"
#include "thread.h"

#define SWEEP 32u /* queues marked, or asked for their events, in one go */

/*
 * Brings what counts for the bound down to what is truly outstanding: takes in
 * completions, ends this thread's leases and takes those of the other threads
 * away. Rare: the process is at its limit.
 */
static void reclaim(struct xm_thread *me)
{
	struct xm_queue *q, *next_queue;
	struct xm_lease *l, *next;
	bool others = false;

	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		for (q = xm_state.devs[i].dirty; q; q = q->dirty_next)
			for (l = q->leases; l; l = next) {
				next = l->next;
				if (l->owner == me) {
					xm_lease_end(l);
				} else {
					others |= xm_lease_usable(l);
					xm_lease_revoke(l);
				}
			}
	if (others)
		(void)xm_fence_all();
	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		for (q = xm_state.devs[i].dirty; q; q = next_queue) {
			next_queue = q->dirty_next;
			xm_queue_refresh(q);
			for (l = q->leases; l; l = l->next)
				xm_lease_settle(l);
			if (!q->leases && q->counted == q->done)
				xm_queue_clean(q);
		}
}

/*
 * Commands of q that count for the bound: what is outstanding, and in *unused what
 * leases still allow. Their owners go on meanwhile, so each count is read once: a
 * command between two looks would be in neither sum.
 */
static uint64_t outstanding(const struct xm_queue *q, uint64_t *unused)
{
	uint64_t n = q->counted - q->done;

	*unused = 0;
	for (const struct xm_lease *l = q->leases; l; l = l->next) {
		uint32_t left = xm_lease_left(l);

		n += l->start - left;
		if (atomic_load_explicit(&l->key, memory_order_relaxed) != XM_KEY_NONE)
			*unused += left;
	}
	return n;
}

/* Commands that may still be given on q; takes other threads' unused ones away
 * when there would be none. */
static uint64_t room(const struct xm_queue *q, uint32_t limit)
{
	uint64_t unused, out = outstanding(q, &unused);

	if (out + unused >= limit && unused) {
		for (struct xm_lease *l = q->leases; l; l = l->next)
			xm_lease_revoke(l);
		(void)xm_fence_all();
		for (struct xm_lease *l = q->leases; l; l = l->next)
			xm_lease_settle(l);
		out = outstanding(q, &unused);
	}
	return out + unused >= limit ? 0 : limit - out - unused;
}

static unsigned sharers(const struct xm_queue *q)
{
	unsigned n = 1;

	for (const struct xm_lease *l = q->leases; l; l = l->next)
		n += xm_lease_usable(l);
	return n;
}

/* How many commands this thread gets on q; 0: it is over the bound. */
uint32_t xm_bound_measure(struct xm_thread *me, struct xm_queue *q, const struct xm_grant *g)
{
	uint64_t n = atomic_load_explicit(&xm_state.captures, memory_order_relaxed) ? 1 : g->batch;
	uint64_t free_here, free_in_task;
	unsigned threads = sharers(q);

	if (!g->governed || q->unmarkable)
		return (uint32_t)n;
	free_here = room(q, g->limit);
	if (threads > 1 && n > g->limit / (2 * threads)) /* so that they do not take from each other at every turn */
		n = g->limit / (2 * threads) ? g->limit / (2 * threads) : 1;
	if (n > free_here)
		n = free_here;
	if (xm_state.outstanding >= XM_TASK_LIMIT)
		reclaim(me);
	free_in_task = xm_state.outstanding >= XM_TASK_LIMIT ? 0 : XM_TASK_LIMIT - xm_state.outstanding;
	if (n > (free_in_task + 3) / 4)
		n = (free_in_task + 3) / 4;
	return (uint32_t)n;
}

bool xm_bound_mark_due(const struct xm_queue *q, struct xm_thread *me, const struct xm_grant *g, bool starved)
{
	uint64_t from = q->marked > q->done ? q->marked : q->done;
	uint64_t returned = xm_queue_returned(q, me);
	uint64_t unmarked = returned > from ? returned - from : 0;

	if (!unmarked || !g->governed || q->unmarkable || atomic_load_explicit(&xm_state.leaving, memory_order_relaxed))
		return false;
	if (starved) /* something must come that ends the wait */
		return q->marked <= q->done;
	return !g->open || unmarked >= g->batch || xm_state.outstanding > XM_TASK_LIMIT / 2;
}

/* Commands of q that no mark covers, with no mark under way that would tell
 * of the queue either; and q has a name on this thread. */
static bool silent(const struct xm_queue *q, const struct xm_thread *me)
{
	return !q->dead && !q->unmarkable && (!q->thread || q->thread == me) && q->marked <= q->done &&
	       xm_queue_returned(q, me) > q->done;
}

/* Marks of q are under way whose arrival nobody hears of who does not ask. */
static bool to_be_asked(const struct xm_queue *q)
{
	return !q->dead && q->events && q->marked > q->done;
}

/* Queues for one sweep. Those that are asked take turns: the first of the list
 * may be the last to complete. */
struct sweep {
	struct xm_queue *mark[SWEEP], *ask[SWEEP];
	unsigned marks, asks;
};

/* xm_lock held. */
static void choose(struct sweep *s, const struct xm_thread *me)
{
	static uint32_t turn = 1; /* protected by xm_lock */

	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		for (struct xm_queue *q = xm_state.devs[i].dirty; q && s->marks < SWEEP && s->asks < SWEEP; q = q->dirty_next) {
			if (silent(q, me)) {
				s->mark[s->marks++] = q;
			} else if (to_be_asked(q) && q->turn != turn) {
				q->turn = turn;
				s->ask[s->asks++] = q;
			}
		}
	if (s->marks < SWEEP && s->asks < SWEEP) /* that was the end of the lists */
		turn++;
}

bool xm_bound_sweep(struct xm_thread *me)
{
	struct sweep s = {.marks = 0};
	bool came = false;

	if (pthread_mutex_trylock(&xm_probe))
		return false;
	pthread_mutex_lock(&xm_lock);
	if (!atomic_load(&xm_state.captures))
		choose(&s, me);
	pthread_mutex_unlock(&xm_lock);
	for (unsigned i = 0; i < s.marks; i++)
		xm_queue_mark(me, s.mark[i]);
	for (unsigned i = 0; i < s.asks; i++)
		came |= xm_queue_poll(s.ask[i]);
	pthread_mutex_unlock(&xm_probe);
	return s.marks > 0 || came;
}
