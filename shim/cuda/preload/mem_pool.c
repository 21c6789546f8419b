#include "mem_pool.h"

#include "sys.h"

#define MOST ((uint64_t)1 << 46) /* of one allocation */

_Atomic bool xm_pool_any;

/* Protected by xm_mem_lock. */
static struct xm_pool *pools, *free_pools;
static struct {
	CUmemoryPool standard; /* the driver's name of it; NULL: not asked yet */
	struct xm_pool *current;
	bool known; /* `current` is what the driver would say; NULL: one that is not ours */
} devices[XM_BOARD_DEVICES];
static uint32_t changes; /* of current pools */

/* --- records. xm_mem_lock held ----------------------------------------------------------- */

static struct xm_pool *find(CUmemoryPool handle)
{
	struct xm_pool *p = pools;

	while (p && (p->handle != handle || p->ended))
		p = p->next;
	return p;
}

static void bury(struct xm_pool *p)
{
	struct xm_pool **at = &pools;

	if (!p->ended || p->held || p->reserved)
		return;
	xm_pieces_pass(p); /* empty shelves go */
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->next = free_pools;
	free_pools = p;
}

static void let_go(struct xm_pool *p)
{
	p->held--;
	bury(p);
}

static void end(struct xm_pool *p)
{
	p->ended = true;
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++)
		if (devices[i].current == p)
			devices[i].known = false;
	changes++;
	xm_pool_due_again(p);
	bury(p);
}

void xm_pool_let_go(struct xm_pool *p)
{
	pthread_mutex_lock(&xm_mem_lock);
	let_go(p);
	pthread_mutex_unlock(&xm_mem_lock);
}

struct xm_pool *xm_pool_next(struct xm_pool *p)
{
	struct xm_pool *next;

	pthread_mutex_lock(&xm_mem_lock);
	next = p ? p->next : pools;
	if (next)
		next->held++;
	if (p)
		let_go(p);
	pthread_mutex_unlock(&xm_mem_lock);
	return next;
}

/* --- which are ours ------------------------------------------------------------------------- */

/* What the driver's pool of that name has been told. */
struct told {
	uint64_t threshold;
	int opportunistic, internal;
	bool shut;
};

static void ask(const struct xm_mem *m, CUmemoryPool handle, struct told *t)
{
	int n = 0, flags;

	if (xm_real.cuMemPoolGetAttribute) {
		(void)xm_real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &t->threshold);
		(void)xm_real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &t->opportunistic);
		(void)xm_real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &t->internal);
	}
	if (!xm_real.cuMemPoolGetAccess || !xm_real.cuDeviceGetCount || xm_real.cuDeviceGetCount(&n))
		return;
	for (int i = 0; i < n; i++) {
		CUmemLocation l = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i};
		CUmemAccess_flags access = 0;

		flags = xm_real.cuMemPoolGetAccess(&access, handle, &l) == CUDA_SUCCESS ? (int)access : 0;
		t->shut |= i != m->device && flags;
	}
}

/* Held. NULL: no memory for its record. */
static struct xm_pool *enter(struct xm_mem *m, CUmemoryPool handle, uint64_t most, bool standard)
{
	struct told t = {.opportunistic = 1, .internal = 1};
	struct xm_pool *p;

	ask(m, handle, &t);
	pthread_mutex_lock(&xm_mem_lock);
	p = find(handle);
	if (!p && (p = free_pools))
		free_pools = p->next;
	else if (!p)
		p = xm_keep(sizeof *p);
	if (p && (p->handle != handle || p->ended)) {
		*p = (struct xm_pool){.next = pools, .handle = handle, .m = m, .standard = standard, .shut = t.shut,
				      .opportunistic = t.opportunistic, .internal = t.internal, .threshold = t.threshold,
				      .most = xm_round_up(most, XM_CHUNK)};
		p->common.pool = p;
		pools = p;
		atomic_store(&xm_pool_any, true);
	}
	if (p)
		p->held++;
	pthread_mutex_unlock(&xm_mem_lock);
	return p;
}

void xm_pool_made(struct xm_mem *m, CUmemoryPool handle, uint64_t most)
{
	struct xm_pool *p;

	pthread_mutex_lock(&xm_mem_lock);
	p = find(handle);
	if (p)
		end(p); /* its number was given anew before we heard of its end */
	pthread_mutex_unlock(&xm_mem_lock);
	p = enter(m, handle, most, false);
	if (p)
		xm_pool_let_go(p);
}

/* The device whose default pool it is, of those whose memory is managed. */
static struct xm_mem *standard_of(CUmemoryPool handle)
{
	for (uint32_t i = 0; handle && i < XM_BOARD_DEVICES; i++) {
		struct xm_mem *m = xm_mem_of(i);
		CUmemoryPool standard;

		if (!m)
			continue;
		pthread_mutex_lock(&xm_mem_lock);
		standard = devices[i].standard;
		pthread_mutex_unlock(&xm_mem_lock);
		if (!standard && (!xm_real.cuDeviceGetDefaultMemPool || xm_real.cuDeviceGetDefaultMemPool(&standard, m->device)))
			continue;
		pthread_mutex_lock(&xm_mem_lock);
		devices[i].standard = standard;
		pthread_mutex_unlock(&xm_mem_lock);
		if (standard == handle)
			return m;
	}
	return NULL;
}

struct xm_pool *xm_pool_of(CUmemoryPool handle)
{
	struct xm_pool *p;
	struct xm_mem *m;

	pthread_mutex_lock(&xm_mem_lock);
	p = find(handle);
	if (p)
		p->held++;
	pthread_mutex_unlock(&xm_mem_lock);
	if (p)
		return p;
	m = standard_of(handle);
	return m ? enter(m, handle, 0, true) : NULL;
}

struct xm_pool *xm_pool_current(struct xm_mem *m)
{
	uint32_t i = xm_mem_index(m), seen;
	CUmemoryPool handle = NULL;
	struct xm_pool *p = NULL;
	bool known;

	pthread_mutex_lock(&xm_mem_lock);
	known = devices[i].known;
	if (known && (p = devices[i].current))
		p->held++;
	seen = changes;
	pthread_mutex_unlock(&xm_mem_lock);
	if (known)
		return p;
	if (!xm_real.cuDeviceGetMemPool || xm_real.cuDeviceGetMemPool(&handle, m->device))
		return NULL;
	p = xm_pool_of(handle);
	pthread_mutex_lock(&xm_mem_lock);
	devices[i].known = seen == changes;
	devices[i].current = p;
	pthread_mutex_unlock(&xm_mem_lock);
	return p;
}

void xm_pool_current_changed(void)
{
	pthread_mutex_lock(&xm_mem_lock);
	changes++;
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++)
		devices[i].known = false;
	pthread_mutex_unlock(&xm_mem_lock);
}

void xm_pool_ended(CUmemoryPool handle)
{
	struct xm_pool *p;

	pthread_mutex_lock(&xm_mem_lock);
	p = find(handle);
	if (p) {
		p->held++;
		end(p);
	}
	pthread_mutex_unlock(&xm_mem_lock);
	if (!p)
		return;
	(void)xm_pool_trim(p, 0, true);
	xm_pool_let_go(p);
}

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
		p = find(*named);
	else if (o && o->m && devices[xm_mem_index(o->m)].known)
		p = devices[xm_mem_index(o->m)].current;
	taken = p && !p->shut && !p->m->peers && take_out(p, o, asked, out);
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
	if (b)
		xm_order_keep(other);
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
