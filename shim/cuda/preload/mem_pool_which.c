/* The pools there are, and which of the driver's they stand for. */
#include "mem_pool.h"

#include "sys.h"

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

struct xm_pool *xm_pool_find(CUmemoryPool handle)
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
	int n = 0;

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

		if (i != m->device && xm_real.cuMemPoolGetAccess(&access, handle, &l) == CUDA_SUCCESS)
			t->shut |= access != 0;
	}
}

/* Held. NULL: no memory for its record. */
static struct xm_pool *enter(struct xm_mem *m, CUmemoryPool handle, uint64_t most, bool standard)
{
	struct told t = {.opportunistic = 1, .internal = 1};
	struct xm_pool *p;

	ask(m, handle, &t);
	pthread_mutex_lock(&xm_mem_lock);
	p = xm_pool_find(handle);
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
	p = xm_pool_find(handle);
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

struct xm_pool *xm_pool_known(CUmemoryPool handle)
{
	struct xm_pool *p;

	pthread_mutex_lock(&xm_mem_lock);
	p = xm_pool_find(handle);
	if (p)
		p->held++;
	pthread_mutex_unlock(&xm_mem_lock);
	return p;
}

struct xm_pool *xm_pool_of(CUmemoryPool handle)
{
	struct xm_pool *p = xm_pool_known(handle);
	struct xm_mem *m;

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

struct xm_pool *xm_pool_current_known(const struct xm_mem *m)
{
	uint32_t i = xm_mem_index(m);

	return devices[i].known ? devices[i].current : NULL;
}

void xm_pool_current_changed(void)
{
	pthread_mutex_lock(&xm_mem_lock);
	changes++;
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++)
		devices[i].known = false;
	pthread_mutex_unlock(&xm_mem_lock);
}

/* Its number may be another pool's by now. */
void xm_pool_ended(struct xm_pool *p)
{
	pthread_mutex_lock(&xm_mem_lock);
	if (!p->ended)
		end(p);
	pthread_mutex_unlock(&xm_mem_lock);
	(void)xm_pool_trim(p, 0, true);
}
