/* Giving back what pools do not need, and memory of cuMemAlloc that was freed in the order of a stream. */
#include "mem_pool.h"

_Atomic uint32_t xm_pool_due;

/* By `free_next`; protected by xm_mem_lock. */
static struct xm_block *deferred;

void xm_pool_defer(struct xm_block *b, struct xm_order *o, uint64_t place)
{
	xm_order_keep(o);
	b->order = o;
	b->place = place;
	b->free_next = deferred;
	deferred = b;
	atomic_fetch_add(&xm_pool_due, 1);
}

/* xm_mem_lock held. */
static void undefer(struct xm_block **at)
{
	struct xm_block *b = *at;

	*at = b->free_next;
	b->free_next = NULL;
	xm_order_let_go(b->order);
	b->order = NULL;
	atomic_fetch_sub(&xm_pool_due, 1);
}

/* One whose stream has passed; *range: what is to be ended with it. xm_mem_lock held. */
static bool give_deferred(struct xm_mem *m, struct xm_range **range)
{
	for (struct xm_block **at = &deferred, *b; (b = *at); at = &b->free_next) {
		if (b->range->mem != m || b->place > b->order->done)
			continue;
		undefer(at);
		*range = xm_block_give(b);
		return true;
	}
	return false;
}

/* Move lock held. */
static bool free_deferred(struct xm_mem *m)
{
	struct xm_range *r;
	bool any = false, more;

	do {
		r = NULL;
		pthread_mutex_lock(&xm_mem_lock);
		more = give_deferred(m, &r);
		pthread_mutex_unlock(&xm_mem_lock);
		if (r)
			(void)xm_range_end(r, true);
		any |= more;
	} while (more);
	return any;
}

/* The move lock is held. */
static bool trim(struct xm_pool *p, uint64_t keep, bool below)
{
	struct xm_range *r;
	bool any = false;

	for (;; any = true) {
		pthread_mutex_lock(&xm_mem_lock);
		r = p->reserved > keep ? xm_chunk_take(p, below ? UINT64_MAX : p->reserved - keep) : NULL;
		pthread_mutex_unlock(&xm_mem_lock);
		if (!r)
			return any;
		(void)xm_range_end(r, true);
	}
}

/* Brackets what is given back on one device. False: somebody moves there, and it can be done another time. */
static bool begin(struct xm_mem *m, bool wait, uint64_t *before)
{
	if (wait)
		xm_move_take(m);
	else if (!xm_move_try(m))
		return false;
	*before = m->resident; /* a little old is old enough */
	return true;
}

static void end(struct xm_mem *m, uint64_t before, bool any)
{
	if (any) {
		pthread_mutex_lock(&xm_mem_lock);
		xm_mem_tell(m);
		pthread_mutex_unlock(&xm_mem_lock);
	}
	xm_move_give(m);
	if (any)
		xm_mem_fell(m, before);
}

bool xm_pool_trim(struct xm_pool *p, uint64_t keep, bool below)
{
	uint64_t before;
	bool any;

	xm_orders_poll();
	pthread_mutex_lock(&xm_mem_lock);
	xm_pieces_pass(p);
	pthread_mutex_unlock(&xm_mem_lock);
	(void)begin(p->m, true, &before);
	any = trim(p, keep, below);
	end(p->m, before, any);
	return any;
}

/* xm_mem_lock held. */
static bool has_some(const struct xm_mem *m)
{
	for (struct xm_block *b = deferred; b; b = b->free_next)
		if (b->range->mem == m)
			return true;
	return false;
}

/* What streams have passed is everybody's, and goes where it is due; `all` of it, or what is beyond the thresholds. */
static bool give_back(struct xm_mem *m, bool all, bool wait)
{
	uint64_t before, keep;
	bool any;

	pthread_mutex_lock(&xm_mem_lock);
	any = has_some(m);
	pthread_mutex_unlock(&xm_mem_lock);

	for (struct xm_pool *p = xm_pool_next(NULL); p; p = xm_pool_next(p)) {
		pthread_mutex_lock(&xm_mem_lock);
		if (p->m == m) {
			xm_pieces_pass(p);
			any |= p->common.pieces != 0;
		}
		pthread_mutex_unlock(&xm_mem_lock);
	}
	if (!any || !begin(m, wait, &before))
		return false;
	any = free_deferred(m);
	for (struct xm_pool *p = xm_pool_next(NULL); p; p = xm_pool_next(p)) {
		keep = all || p->ended ? 0 : p->threshold;
		if (p->m == m)
			any |= trim(p, keep, true);
	}
	end(m, before, any);
	return any;
}

void xm_pools_settle(void)
{
	xm_orders_poll();
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++)
		if (xm_mem_of(i))
			(void)give_back(xm_mem_of(i), false, false);
}

bool xm_pools_release(struct xm_mem *m, bool wait)
{
	if (!atomic_load_explicit(&xm_pool_any, memory_order_relaxed) && !atomic_load_explicit(&xm_pool_due, memory_order_relaxed))
		return false;
	xm_orders_poll();
	return give_back(m, true, wait);
}

void xm_pool_context_ended(CUcontext context)
{
	xm_orders_context_ended(context);
	pthread_mutex_lock(&xm_mem_lock);
	for (struct xm_block **at = &deferred, *b; (b = *at);) {
		if (b->range->context != context) {
			at = &b->free_next;
			continue;
		}
		undefer(at);
		b->asked = 0; /* it goes with its range */
	}
	pthread_mutex_unlock(&xm_mem_lock);
}
