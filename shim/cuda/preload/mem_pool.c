/* Allocating and freeing. */
#include "mem_pool.h"

#define MOST ((uint64_t)1 << 46) /* of one allocation */

/* --- allocating --------------------------------------------------------------------------------- */

/* The piece is the program's from here on. xm_mem_lock held. */
static void give_out(struct xm_pool *p, struct xm_block *b, uint64_t asked, CUdeviceptr *out)
{
	b->asked = asked;
	b->place = 0;
	xm_block_enter(b);
	p->m->asked += asked;
	p->used += asked;
	p->used_high = p->used > p->used_high ? p->used : p->used_high;
	*out = b->at;
}

/* xm_mem_lock held. */
static bool take_out(struct xm_pool *p, const struct xm_order *o, uint64_t asked, CUdeviceptr *out)
{
	struct xm_block *b = xm_piece_take(p, o, xm_round_up(asked, XM_UNIT));

	if (b)
		give_out(p, b, asked, out);
	return b != NULL;
}

bool xm_pool_allocate_kept(uintptr_t key, CUcontext current, const CUmemoryPool *named, uint64_t asked, CUdeviceptr *out)
{
	struct xm_pool *p = NULL;
	struct xm_order *o;
	bool taken;

	if (asked > MOST)
		return false;
	pthread_mutex_lock(&xm_mem_lock);
	o = xm_order_find(key, current);
	if (o && named)
		p = xm_pool_find(*named);
	else if (o && o->m)
		p = xm_pool_current_known(o->m);
	taken = p && !p->shut && !xm_mem_plain(p->m) && take_out(p, o, asked, out);
	pthread_mutex_unlock(&xm_mem_lock);
	return taken;
}

static bool from_shelves(struct xm_pool *p, const struct xm_order *o, uint64_t asked, CUdeviceptr *out)
{
	bool taken;

	pthread_mutex_lock(&xm_mem_lock);
	taken = take_out(p, o, asked, out);
	pthread_mutex_unlock(&xm_mem_lock);
	return taken;
}

/* The size of a chunk that holds so much, counted as the pool's: no larger than need be where there is little room. 0: it
 * is beyond a limit. */
static uint64_t reserve(struct xm_pool *p, uint64_t asked)
{
	uint64_t bytes = xm_round_up(asked, XM_CHUNK), target = xm_mem_bounds(p->m).target;

	pthread_mutex_lock(&xm_mem_lock);
	if (p->most && (bytes > p->most || p->reserved > p->most - bytes)) {
		bytes = 0;
	} else {
		if (xm_mem_beyond(p->m, bytes) || bytes > target || p->m->resident > target - bytes)
			bytes = xm_round_up(asked, XM_GRANULE);
		if (xm_mem_beyond(p->m, bytes))
			bytes = 0;
	}
	p->reserved += bytes;
	pthread_mutex_unlock(&xm_mem_lock);
	return bytes;
}

static CUresult grow(struct xm_pool *p, uint64_t asked)
{
	uint64_t bytes = reserve(p, asked);
	struct xm_range *r = NULL;
	CUresult result = bytes ? xm_range_make(p->m, NULL, bytes, &r) : CUDA_ERROR_OUT_OF_MEMORY;
	bool added;

	pthread_mutex_lock(&xm_mem_lock);
	added = !result && xm_chunk_add(p, r);
	if (!added)
		p->reserved -= bytes;
	p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
	xm_pool_due_again(p);
	xm_mem_tell(p->m);
	pthread_mutex_unlock(&xm_mem_lock);
	if (r && !added)
		(void)xm_range_end(r, false);
	return added ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* From chunks that are made for it; others may be quicker. */
static bool from_new(struct xm_pool *p, const struct xm_order *o, uint64_t asked, CUdeviceptr *out)
{
	while (grow(p, asked) == CUDA_SUCCESS)
		if (from_shelves(p, o, asked, out))
			return true;
	return false;
}

static bool from_passed(struct xm_pool *p, const struct xm_order *o, uint64_t asked, CUdeviceptr *out)
{
	xm_orders_poll();
	pthread_mutex_lock(&xm_mem_lock);
	xm_pieces_pass(p);
	pthread_mutex_unlock(&xm_mem_lock);
	return from_shelves(p, o, asked, out);
}

/* Of another stream that is not through with it: this one is made to wait. */
static bool from_behind(struct xm_pool *p, uintptr_t key, uint64_t asked, CUdeviceptr *out)
{
	struct xm_order *other = NULL;
	struct xm_block *b;
	CUresult r;

	pthread_mutex_lock(&xm_mem_lock);
	b = xm_piece_take_behind(p, xm_round_up(asked, XM_UNIT), &other);
	pthread_mutex_unlock(&xm_mem_lock);
	if (!b)
		return false;
	r = xm_order_wait(other, b->place, key);
	pthread_mutex_lock(&xm_mem_lock);
	if (r)
		xm_piece_give(p, b, other);
	else
		give_out(p, b, asked, out);
	xm_order_let_go(other);
	pthread_mutex_unlock(&xm_mem_lock);
	return r == CUDA_SUCCESS;
}

CUresult xm_pool_allocate(struct xm_pool *p, struct xm_order *o, uintptr_t key, uint64_t asked, CUdeviceptr *out)
{
	*out = 0;
	if (asked > MOST)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (from_shelves(p, o, asked, out) || (p->opportunistic && from_passed(p, o, asked, out)) || from_new(p, o, asked, out))
		return CUDA_SUCCESS;
	if (xm_pools_release(p->m, true) && from_new(p, o, asked, out))
		return CUDA_SUCCESS;
	if (from_passed(p, o, asked, out) || (p->internal && from_behind(p, key, asked, out)))
		return CUDA_SUCCESS;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- freeing --------------------------------------------------------------------------------------- */

bool xm_pool_holds(CUdeviceptr at, uintptr_t key, CUcontext current, struct xm_order **order)
{
	bool ours;

	pthread_mutex_lock(&xm_mem_lock);
	ours = xm_block_at(at) != NULL;
	*order = ours ? xm_order_find(key, current) : NULL;
	if (*order)
		xm_order_keep(*order);
	pthread_mutex_unlock(&xm_mem_lock);
	return ours;
}

/* xm_mem_lock held. */
static struct xm_block *take(CUdeviceptr at)
{
	struct xm_block *b = xm_block_at(at);

	if (!b || b->at != at)
		return NULL;
	xm_block_take(b);
	b->range->mem->asked -= b->asked;
	if (b->range->pool)
		b->range->pool->used -= b->asked;
	return b;
}

CUresult xm_pool_free_behind(CUdeviceptr at, struct xm_order *o, uint64_t place)
{
	struct xm_block *b;

	pthread_mutex_lock(&xm_mem_lock);
	b = take(at);
	if (b && b->range->pool) {
		b->place = place;
		xm_piece_give(b->range->pool, b, o);
	} else if (b) {
		xm_pool_defer(b, o, place);
	}
	xm_order_let_go(o);
	pthread_mutex_unlock(&xm_mem_lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult xm_pool_free_now(CUdeviceptr at)
{
	struct xm_block *b;

	pthread_mutex_lock(&xm_mem_lock);
	b = xm_block_at(at);
	b = b && b->range->pool ? take(at) : NULL;
	if (b) {
		b->place = 0;
		xm_piece_give(b->range->pool, b, NULL);
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
