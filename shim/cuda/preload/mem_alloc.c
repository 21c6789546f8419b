/* What the program allocates and frees. */
#include "device.h"
#include "mem.h"
#include "thread.h"

/* Accounted before the memory is there, so that two threads cannot both have the last
 * of the limit. xm_mem_lock held. */
static void account(struct xm_mem *m, uint64_t asked, bool more)
{
	m->asked += more ? asked : -asked;
}

/* The block is the program's from here on. xm_mem_lock held. */
static void give_out(struct xm_block *b, uint64_t asked)
{
	b->asked = asked;
	xm_block_enter(b);
	account(b->range->mem, asked, true);
}

static CUresult large(struct xm_mem *m, CUcontext context, uint64_t asked, CUdeviceptr *out)
{
	struct xm_range *r;
	CUresult result = xm_range_make(m, context, xm_round_up(asked, XM_GRANULE), &r);

	if (result)
		return result;
	pthread_mutex_lock(&xm_mem_lock);
	r->blocks = xm_block_new(r, r->at, r->bytes);
	if (r->blocks) {
		xm_range_list(r);
		give_out(r->blocks, asked);
		*out = r->at;
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	if (result)
		(void)xm_range_end(r, false);
	return result;
}

static bool from_arena(struct xm_mem *m, CUcontext context, uint64_t asked, CUdeviceptr *out)
{
	struct xm_arena *a;
	struct xm_block *b;

	pthread_mutex_lock(&xm_mem_lock);
	a = xm_arena_of(m, context);
	b = a ? xm_arena_take(a, xm_round_up(asked, XM_UNIT)) : NULL;
	if (b) {
		give_out(b, asked);
		*out = b->at;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return b != NULL;
}

/* An arena grows by as much as it is, from 2 to 32 MiB. */
static CUresult grow(struct xm_mem *m, CUcontext context)
{
	struct xm_range *r;
	struct xm_arena *a;
	uint64_t bytes;
	CUresult result;
	bool added;

	pthread_mutex_lock(&xm_mem_lock);
	a = xm_arena_of(m, context);
	bytes = a ? xm_round_up(a->bytes, XM_GRANULE) : XM_GRANULE;
	pthread_mutex_unlock(&xm_mem_lock);
	bytes = bytes < XM_GRANULE ? XM_GRANULE : bytes > XM_PIECE ? XM_PIECE : bytes;
	result = xm_range_make(m, context, bytes, &r);
	if (result)
		return result;
	pthread_mutex_lock(&xm_mem_lock);
	a = xm_arena_of(m, context);
	added = a && xm_arena_add(a, r);
	if (added)
		xm_range_list(r);
	pthread_mutex_unlock(&xm_mem_lock);
	if (!added)
		(void)xm_range_end(r, false);
	return added ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult small(struct xm_mem *m, CUcontext context, uint64_t asked, CUdeviceptr *out)
{
	CUresult r = CUDA_SUCCESS;

	while (!r && !from_arena(m, context, asked, out))
		r = grow(m, context);
	return r;
}

CUresult xm_mem_allocate(struct xm_mem *m, CUcontext context, uint64_t asked, CUdeviceptr *out)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	bool beyond;

	pthread_mutex_lock(&xm_mem_lock);
	beyond = xm_mem_beyond(m, asked);
	pthread_mutex_unlock(&xm_mem_lock);
	if (!beyond && asked <= (uint64_t)1 << 47)
		r = asked <= XM_SMALL ? small(m, context, asked, out) : large(m, context, asked, out);
	pthread_mutex_lock(&xm_mem_lock);
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	return r;
}

/* The driver frees memory when the device has done what uses it: all of its context,
 * as far as anybody can see. What a capture has to say to that, and it is not the
 * same as to a synchronisation, the driver says of a little of its own. */
static CUresult free_token(void)
{
	CUdeviceptr token = 0;
	CUresult r = xm_real.cuMemAlloc_v2(&token, 1);

	return r ? r : xm_real.cuMemFree_v2(token);
}

CUresult xm_mem_wait(CUcontext context)
{
	CUcontext current = NULL;
	bool pushed = false;
	CUresult r;

	if (xm_real.cuCtxGetCurrent && !xm_real.cuCtxGetCurrent(&current) && current != context && xm_real.cuCtxPushCurrent_v2)
		pushed = xm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
	r = atomic_load(&xm_state.captures) || !xm_real.cuCtxSynchronize ? free_token() : xm_real.cuCtxSynchronize();
	if (pushed)
		xm_context_pop();
	return r;
}

/* The device and context of an allocation; false: it is none of ours. */
bool xm_mem_owner(CUdeviceptr at, struct xm_mem **m, CUcontext *context)
{
	struct xm_block *b;

	pthread_mutex_lock(&xm_mem_lock);
	b = xm_block_at(at);
	if (b) {
		*m = b->range->mem;
		*context = b->range->context;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return b != NULL;
}

struct xm_range *xm_block_give(struct xm_block *b)
{
	struct xm_range *r = b->range;

	if (r->arena && !xm_arena_give(b))
		return NULL;
	xm_range_unlist(r);
	return r;
}

/* Takes the allocation out of the table; *range: what is to be ended with it. xm_mem_lock held. */
static bool take(CUdeviceptr at, struct xm_range **range)
{
	struct xm_block *b = xm_block_at(at);

	*range = NULL;
	if (!b || b->at != at || b->range->pool)
		return false;
	xm_block_take(b);
	account(b->range->mem, b->asked, false);
	*range = xm_block_give(b);
	return true;
}

CUresult xm_mem_free(struct xm_mem *m, CUdeviceptr at)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct xm_range *range;
	uint64_t before;

	xm_move_take(m);
	pthread_mutex_lock(&xm_mem_lock);
	before = m->resident;
	if (take(at, &range))
		result = CUDA_SUCCESS;
	pthread_mutex_unlock(&xm_mem_lock);
	if (range)
		result = xm_range_end(range, true);
	pthread_mutex_lock(&xm_mem_lock);
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	xm_move_give(m);
	xm_mem_fell(m, before);
	return result;
}

/* One range of the context, out of the table. xm_mem_lock held. */
static struct xm_range *next_of(struct xm_mem *m, CUcontext context)
{
	struct xm_range *r = m->first;

	while (r && r->context != context)
		r = r->next;
	if (!r)
		return NULL;
	for (struct xm_block *b = r->blocks; b; b = b->behind)
		if (b->asked) {
			xm_block_take(b);
			account(m, b->asked, false);
		}
	r->arena = NULL;
	xm_range_unlist(r);
	return r;
}

void xm_mem_context_ended(CUcontext context)
{
	for (uint32_t i = 0; context && i < XM_BOARD_DEVICES; i++) {
		struct xm_mem *m = xm_mem_of(i);
		struct xm_range *r;
		uint64_t before;

		if (!m)
			continue;
		xm_move_take(m);
		before = m->resident; /* a little old is old enough */
		for (;;) {
			pthread_mutex_lock(&xm_mem_lock);
			xm_arena_forget(m, context); /* with all its pieces: every range of it goes */
			r = next_of(m, context);
			pthread_mutex_unlock(&xm_mem_lock);
			if (!r)
				break;
			(void)xm_range_end(r, true);
		}
		pthread_mutex_lock(&xm_mem_lock);
		xm_mem_tell(m);
		pthread_mutex_unlock(&xm_mem_lock);
		xm_move_give(m);
		xm_mem_fell(m, before);
	}
}
