/* Address ranges and what is behind them. */
#include "mark.h"
#include "mem.h"
#include "mem_pool.h"

/* --- the cache: freed ranges, mapped as they are. What they hold is the program's
 * own, as what the driver gives back to a process is. ------------------------- */

/* xm_mem_lock held. */
static struct xm_range *cached(struct xm_mem *m, uint64_t bytes)
{
	struct xm_range **at = &m->cache, *r;

	while (*at && bytes && (*at)->bytes != bytes)
		at = &(*at)->next;
	r = *at;
	if (r) {
		*at = r->next;
		m->cached -= r->bytes;
	}
	return r;
}

/* xm_mem_lock held. */
static bool keep(struct xm_range *r)
{
	struct xm_mem *m = r->mem;
	struct xm_seg *s = r->segs;

	if (!s || s->next || s->state != XM_SEGMENT_DEVICE || !s->mapped || m->peers || m->cached + r->bytes > XM_CACHE)
		return false;
	while (r->blocks) {
		struct xm_block *b = r->blocks;

		r->blocks = b->behind;
		xm_block_free(b);
	}
	xm_seg_forget(s);
	if (s->slot)
		xm_slot_put(m, s->slot);
	s->slot = NULL;
	r->context = NULL;
	r->arena = NULL;
	r->next = m->cache;
	m->cache = r;
	m->cached += r->bytes;
	return true;
}

bool xm_cache_flush(struct xm_mem *m)
{
	struct xm_range *r;
	bool any = false;

	for (;; any = true) {
		pthread_mutex_lock(&xm_mem_lock);
		r = cached(m, 0);
		if (!r && any)
			xm_mem_tell(m);
		pthread_mutex_unlock(&xm_mem_lock);
		if (!r)
			return any;
		(void)xm_range_end(r, false);
	}
}

/* --- making ------------------------------------------------------------------- */

static struct xm_range *records(struct xm_mem *m, CUcontext context, uint64_t bytes)
{
	struct xm_range *r;
	struct xm_seg **end;

	pthread_mutex_lock(&xm_mem_lock);
	r = xm_range_new(m);
	end = r ? &r->segs : NULL;
	for (uint64_t at = 0; r && at < bytes; at += XM_PIECE) {
		struct xm_seg *s = xm_seg_new(r);

		if (!s) {
			xm_range_free(r);
			r = NULL;
			break;
		}
		s->at = at; /* of the range, as yet */
		s->bytes = bytes - at < XM_PIECE ? bytes - at : XM_PIECE;
		*end = s;
		end = &s->next;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	if (r) {
		r->context = context;
		r->bytes = bytes;
	}
	return r;
}

#define HOST_ASKS 25 /* of 20 ms: others may have to give up theirs, and to unmake 32 MiB takes some ms */

/* Physical memory for a segment, on the device where there is room. A part of the host grows as it is asked for. */
static CUresult back(struct xm_seg *s, uint64_t rest, bool *patient)
{
	struct xm_mem *m = s->range->mem;
	CUresult r;

	s->device = xm_room_piece(m, s->bytes, rest, patient);
	if (s->device)
		return CUDA_SUCCESS;
	r = xm_slot_get(m, s->bytes, true, &s->slot);
	for (int i = 0; r == CUDA_ERROR_OUT_OF_MEMORY && xm_slot_bounded(m, s->bytes) && i < HOST_ASKS; i++) {
		bool at_once = false;

		xm_room_await_slot(m, rest, s->bytes);
		s->device = xm_room_piece(m, s->bytes, rest, &at_once);
		if (s->device)
			return CUDA_SUCCESS;
		r = xm_slot_get(m, s->bytes, true, &s->slot);
	}
	if (r)
		return r;
	pthread_mutex_lock(&xm_mem_lock);
	s->state = XM_SEGMENT_HOST;
	m->host += s->bytes;
	pthread_mutex_unlock(&xm_mem_lock);
	return CUDA_SUCCESS;
}

/* Asks for what a large range lacks until it may come, and gives up when no more does: to make host memory for a part
 * of it would take seconds, and keep others from that. */
static bool hopeless(struct xm_mem *m, uint64_t bytes)
{
	uint64_t left = xm_room_left(m), before = left;

	if (bytes <= XM_PIECE || left >= bytes)
		return false;
	if (xm_cache_flush(m) | xm_pools_release(m, false))
		left = before = xm_room_left(m);
	for (int i = 0; left < bytes && i < HOST_ASKS; i++) {
		xm_room_await(m, bytes, bytes);
		left = xm_room_left(m);
		if (left >= before + XM_PIECE) {
			before = left;
			i = -1;
		}
	}
	return left < bytes;
}

/* Access for each stretch of segments that are backed alike. */
static CUresult open_up(struct xm_range *r)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t n;

	for (struct xm_seg *s = r->segs, *from; s && !result;) {
		for (from = s, n = 0; s && s->state == from->state; s = s->next)
			n += s->bytes;
		result = xm_vmm_access(r->mem, from->at, n);
	}
	return result;
}

static CUresult fill(struct xm_range *r)
{
	uint64_t rest = r->bytes;
	bool patient = true;
	CUresult result;

	if (hopeless(r->mem, r->bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = xm_vmm_reserve(r->bytes, &r->at);
	if (result)
		return result;
	for (struct xm_seg *s = r->segs; s && !result; s = s->next) {
		s->at += r->at;
		result = back(s, rest, &patient);
		rest -= s->bytes;
	}
	for (struct xm_seg *s = r->segs; s && !result; s = s->next) {
		result = xm_vmm_map(s->at, s->bytes, s->device ? s->device : s->slot->handle);
		s->mapped = !result;
	}
	return result ? result : open_up(r);
}

CUresult xm_range_make(struct xm_mem *m, CUcontext context, uint64_t bytes, struct xm_range **made)
{
	struct xm_range *r;
	struct xm_quiet quiet;
	CUresult result;

	*made = NULL;
	pthread_mutex_lock(&xm_mem_lock);
	r = bytes <= XM_PIECE ? cached(m, bytes) : NULL;
	pthread_mutex_unlock(&xm_mem_lock);
	if (r) {
		r->context = context;
		*made = r;
		return CUDA_SUCCESS;
	}
	r = records(m, context, bytes);
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	quiet = xm_quiet_begin();
	result = fill(r);
	if (result)
		(void)xm_range_end(r, false);
	else
		*made = r;
	xm_quiet_end(quiet);
	return result;
}

/* --- ending ------------------------------------------------------------------- */

/* Unmaps the stretches that are mapped. */
static CUresult unmap(struct xm_range *r)
{
	CUresult result = CUDA_SUCCESS, one;
	struct xm_seg *from;
	uint64_t n;

	for (struct xm_seg *s = r->segs; s;) {
		if (!s->mapped) {
			s = s->next;
			continue;
		}
		for (from = s, n = 0; s && s->mapped; s = s->next)
			n += s->bytes;
		one = xm_vmm_unmap(from->at, n);
		for (; !one && from != s; from = from->next)
			from->mapped = false;
		result = result ? result : one;
	}
	return result;
}

/* Handles that a failed unmapping leaves mapped keep their memory until the process ends, and slots are never another
 * process's: the program reaches them. */
static void release(struct xm_seg *s)
{
	struct xm_mem *m = s->range->mem;
	bool on_device = s->device != 0;

	if (on_device)
		xm_vmm_release(s->device);
	pthread_mutex_lock(&xm_mem_lock);
	if (on_device)
		m->resident -= s->bytes;
	else if (s->slot)
		m->host -= s->bytes;
	m->gone -= s->state == XM_SEGMENT_AWAY || s->state == XM_SEGMENT_LOADING;
	m->loading -= s->state == XM_SEGMENT_LOADING ? s->bytes : 0;
	xm_seg_forget(s);
	if (s->slot) {
		s->slot->shown |= s->mapped;
		xm_slot_put(m, s->slot);
	}
	s->slot = NULL;
	s->device = 0;
	s->state = XM_SEGMENT_DEVICE;
	pthread_mutex_unlock(&xm_mem_lock);
}

CUresult xm_range_end(struct xm_range *r, bool cache)
{
	struct xm_mem *m = r->mem;
	struct xm_quiet quiet;
	CUresult result;
	bool kept, idle;

	pthread_mutex_lock(&xm_mem_lock);
	kept = cache && keep(r);
	pthread_mutex_unlock(&xm_mem_lock);
	if (kept)
		return CUDA_SUCCESS;
	quiet = xm_quiet_begin();
	result = unmap(r);
	for (struct xm_seg *s = r->segs; s; s = s->next)
		release(s);
	if (r->at && !result)
		xm_vmm_unreserve(r->at, r->bytes);
	pthread_mutex_lock(&xm_mem_lock);
	xm_range_free(r);
	idle = m->slots_free > XM_SLOTS_IDLE;
	pthread_mutex_unlock(&xm_mem_lock);
	xm_quiet_end(quiet);
	if (idle)
		xm_slot_trim(m, XM_SLOTS_IDLE);
	return result;
}
