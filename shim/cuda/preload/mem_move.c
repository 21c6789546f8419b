/* What the engine asks for (memory.h), and the way home. */
#include <errno.h>
#include <stdlib.h>

#include "hold.h"
#include "mark.h"
#include "mem.h"
#include "state.h"

/* The segments of a call, by address. */
struct batch {
	struct xm_mem *m;
	bool spared; /* what goes out was not copied */
	struct xm_seg *segs[XM_MEMORY_BATCH];
	int n;
	uint64_t promised; /* of what comes in: counted as resident, and not by a state yet */
};

static int by_address(const void *a, const void *b)
{
	const struct xm_seg *x = *(struct xm_seg *const *)a, *y = *(struct xm_seg *const *)b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static bool movable(const struct xm_seg *s)
{
	return !s->range->mem->peers && !xm_touched(s->range);
}

/* Finds the segments. `states`: bits of those that they may be in. -EBUSY: one that is mapped must stay. */
static int gather(struct batch *b, const uint64_t *ids, int n, uint32_t states)
{
	int status = 0;

	if (n < 0 || n > XM_MEMORY_BATCH)
		return -E2BIG;
	pthread_mutex_lock(&xm_mem_lock);
	for (b->n = 0; b->n < n && !status; b->n++) {
		struct xm_seg *s = xm_seg_find(b->m, ids[b->n]);

		b->segs[b->n] = s;
		if (!s || !(states >> s->state & 1))
			status = -EINVAL;
		else if (s->state != XM_SEGMENT_AWAY && s->state != XM_SEGMENT_LOADING && !movable(s))
			status = -EBUSY;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	if (status)
		return status;
	qsort(b->segs, (size_t)b->n, sizeof *b->segs, by_address);
	for (int i = 1; i < n; i++)
		if (b->segs[i] == b->segs[i - 1])
			return -EINVAL;
	return 0;
}

/* The end of the stretch that begins at i: neighbours of one range. */
static int stretch(const struct batch *b, int i, uint64_t *bytes)
{
	int end = i + 1;

	*bytes = b->segs[i]->bytes;
	while (end < b->n && b->segs[end]->range == b->segs[i]->range && b->segs[end - 1]->next == b->segs[end])
		*bytes += b->segs[end++]->bytes;
	return end;
}

static void state_of(struct batch *b, int from, int end, uint32_t state)
{
	pthread_mutex_lock(&xm_mem_lock);
	for (int i = from; i < end; i++)
		xm_seg_state(b->segs[i], state);
	pthread_mutex_unlock(&xm_mem_lock);
}

/* --- list, slots ------------------------------------------------------------------ */

static uint32_t flags_of(const struct xm_seg *s, bool busy)
{
	return (s->range->mem->peers ? XM_SEGMENT_PINNED : 0) | (s->range->arena ? XM_SEGMENT_ARENA : 0) | (busy ? XM_SEGMENT_BUSY : 0) |
	       (s->kept ? XM_SEGMENT_KEPT : 0);
}

static int list(uint32_t section, struct xm_segment *views, int n)
{
	struct xm_mem *m = xm_mem_of(section);
	int count = 0;

	if (!m)
		return -ENODEV;
	pthread_mutex_lock(&xm_mem_lock);
	for (struct xm_range *r = m->first; r; r = r->next) {
		bool busy = xm_touched(r);

		for (struct xm_seg *s = r->segs; s; s = s->next, count++)
			if (count < n)
				views[count] = (struct xm_segment){.id = s->id,
								   .address = s->at,
								   .bytes = s->bytes,
								   .state = s->state,
								   .flags = flags_of(s, busy),
								   .allocation = r->number,
								   .used = r->used_at,
								   .version = s->version};
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return count;
}

static int device(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);

	return m ? m->device : -ENODEV;
}

/* Host memory that is not to be had is no lack of the device's. */
static int of_host(CUresult r)
{
	return r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : (int)r;
}

static int slots(uint32_t section, uint32_t count, uint64_t bytes)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	if (!bytes || bytes > XM_PIECE || bytes % XM_GRANULE)
		return -EINVAL;
	return of_host(xm_slot_ahead(m, count, bytes));
}

static int trim(uint32_t section, uint64_t bytes)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	xm_slot_trim(m, bytes);
	return 0;
}

static int give(uint32_t section, int *fd, uint64_t *bytes)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	(void)xm_slot_give(m, fd, bytes);
	return 0;
}

static int given(uint32_t section, uint64_t bytes)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	xm_slot_given(m, bytes);
	return 0;
}

static int accept_slot(uint32_t section, int fd, uint64_t bytes)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	if (fd < 0 || !bytes || bytes > XM_PIECE || bytes % XM_GRANULE)
		return -EINVAL;
	return of_host(xm_slot_accept(m, fd, bytes));
}

static int with_slot(struct xm_mem *m, uint64_t id, uint64_t *pool_address)
{
	struct batch b = {.m = m};
	int status = gather(&b, &id, 1, 1u << XM_SEGMENT_DEVICE | 1u << XM_SEGMENT_HOST | 1u << XM_SEGMENT_AWAY | 1u << XM_SEGMENT_LOADING);
	struct xm_host_slot *slot;

	struct xm_seg *s = b.segs[0];

	if (status && status != -EBUSY)
		return status;
	pthread_mutex_lock(&xm_mem_lock);
	if (s->state == XM_SEGMENT_DEVICE)
		xm_seg_forget(s); /* and nobody else takes the slot from here on */
	slot = s->slot;
	pthread_mutex_unlock(&xm_mem_lock);
	if (!slot) {
		status = of_host(xm_slot_get(m, s->bytes, false, &slot));
		if (status)
			return status;
		pthread_mutex_lock(&xm_mem_lock);
		s->slot = slot;
		pthread_mutex_unlock(&xm_mem_lock);
	}
	*pool_address = slot->at;
	return 0;
}

static int slot(uint32_t section, uint64_t id, uint64_t *pool_address)
{
	struct xm_mem *m = xm_mem_of(section);
	int status;

	if (!m)
		return -ENODEV;
	status = xm_move_enter(m);
	if (status)
		return status;
	status = with_slot(m, id, pool_address);
	xm_move_leave(m);
	return status;
}

/* --- away ------------------------------------------------------------------------- */

/* What is LOADING goes back to where it came from: nothing of it has moved out. */
static void let_device_go(struct batch *b, int from, int end)
{
	uint64_t out = 0;

	for (int i = from; i < end; i++) {
		out += b->segs[i]->state == XM_SEGMENT_DEVICE && !b->spared ? b->segs[i]->bytes : 0;
		xm_vmm_release(b->segs[i]->device);
		b->segs[i]->device = 0;
		b->segs[i]->mapped = false;
		b->segs[i]->slot->foreign = false; /* all of it was overwritten */
	}
	state_of(b, from, end, XM_SEGMENT_AWAY);
	pthread_mutex_lock(&xm_mem_lock);
	b->m->out += out;
	pthread_mutex_unlock(&xm_mem_lock);
}

/* *done: how many went. */
static int unmap_all(struct batch *b, int *done)
{
	uint64_t bytes;
	CUresult r;

	for (int end; *done < b->n; *done = end) {
		end = stretch(b, *done, &bytes);
		r = xm_vmm_unmap(b->segs[*done]->at, bytes);
		if (r)
			return (int)r;
		let_device_go(b, *done, end);
	}
	return 0;
}

static int take_away(struct batch *b)
{
	int done = 0;

	for (int i = 0; i < b->n; i++)
		if (!b->segs[i]->slot || b->segs[i]->kept)
			return -EINVAL;
	return unmap_all(b, &done);
}

/* xm_mem_lock held. A slot of a segment that is not kept is nobody else's to take. */
static void keep(struct xm_seg *s, bool on)
{
	s->range->mem->slots_kept += on ? s->bytes : -s->bytes;
	s->kept = on;
}

static int take_clean(struct batch *b)
{
	int status = 0, done = 0;

	pthread_mutex_lock(&xm_mem_lock);
	for (int i = 0; i < b->n; i++)
		status = b->segs[i]->kept ? status : -ESTALE;
	for (int i = 0; i < b->n && !status; i++)
		keep(b->segs[i], false);
	pthread_mutex_unlock(&xm_mem_lock);
	if (status)
		return status;
	b->spared = true;
	status = unmap_all(b, &done);
	pthread_mutex_lock(&xm_mem_lock);
	for (; done < b->n; done++)
		keep(b->segs[done], true);
	pthread_mutex_unlock(&xm_mem_lock);
	return status;
}

/* One call of the engine on a batch. */
static int on_batch(uint32_t section, const uint64_t *ids, int n, uint32_t states, int (*act)(struct batch *))
{
	struct batch b = {.m = xm_mem_of(section)};
	struct xm_quiet quiet;
	int status;

	if (!b.m)
		return -ENODEV;
	status = xm_move_enter(b.m);
	if (status)
		return status;
	status = gather(&b, ids, n, states);
	if (!status) {
		quiet = xm_quiet_begin();
		status = act(&b);
		xm_quiet_end(quiet);
	}
	xm_move_leave(b.m);
	return status;
}

static int away(uint32_t section, const uint64_t *ids, int n)
{
	return on_batch(section, ids, n, 1u << XM_SEGMENT_DEVICE | 1u << XM_SEGMENT_LOADING, take_away);
}

static int spare(uint32_t section, const uint64_t *ids, int n)
{
	return on_batch(section, ids, n, 1u << XM_SEGMENT_DEVICE, take_clean);
}

static int forgo(uint32_t section, uint64_t bytes, uint64_t *kept)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	*kept = xm_slot_forgo(m, bytes);
	return 0;
}

/* --- load ------------------------------------------------------------------------- */

/* The target is looked at once (cf. mem_room.c): who acknowledges a lower one is the engine, which is in here. */
static bool reserve(struct batch *b, uint64_t bytes)
{
	uint64_t target = xm_mem_bounds(b->m).target;
	bool fits;

	pthread_mutex_lock(&xm_mem_lock);
	fits = bytes <= target && b->m->resident <= target - bytes;
	if (fits) {
		b->m->resident += bytes; /* until the states count it */
		b->m->promised += bytes;
		b->promised = bytes;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return fits;
}

/* xm_mem_lock held. */
static void unreserve(struct batch *b, uint64_t bytes)
{
	b->m->resident -= bytes;
	b->m->promised -= bytes;
	b->promised -= bytes;
}

/* A stretch that has its memory: its states count it from here on, so that a batch that is loaded at the same time finds
 * no byte counted twice. */
static void now_loading(struct batch *b, int from, int end, uint64_t bytes)
{
	pthread_mutex_lock(&xm_mem_lock);
	for (int i = from; i < end; i++)
		xm_seg_state(b->segs[i], XM_SEGMENT_LOADING);
	unreserve(b, bytes);
	pthread_mutex_unlock(&xm_mem_lock);
}

static void drop_handles(struct batch *b, int from, int end)
{
	for (int i = from; i < end; i++) {
		xm_vmm_release(b->segs[i]->device);
		b->segs[i]->device = 0;
	}
}

/* Takes the address of a HOST segment from its slot; and of an AWAY one what a mapping
 * that failed may have left there. */
static CUresult leave_slot(struct batch *b, int i)
{
	struct xm_seg *s = b->segs[i];
	CUresult r = CUDA_SUCCESS;

	if (s->mapped)
		r = xm_vmm_unmap(s->at, s->bytes);
	if (r)
		return r;
	s->mapped = false;
	if (s->state == XM_SEGMENT_HOST)
		state_of(b, i, i + 1, XM_SEGMENT_AWAY);
	return r;
}

/* Maps a stretch to its new memory; a failure leaves it mapped to nothing. */
static CUresult map_stretch(struct batch *b, int from, int end, uint64_t bytes)
{
	CUresult r = CUDA_SUCCESS;
	int i = from;

	for (; i < end && !r; i++) {
		r = leave_slot(b, i);
		if (!r)
			r = xm_vmm_map(b->segs[i]->at, b->segs[i]->bytes, b->segs[i]->device);
		b->segs[i]->mapped = b->segs[i]->mapped || !r;
	}
	if (!r)
		r = xm_vmm_access(b->m, b->segs[from]->at, bytes);
	if (!r) {
		now_loading(b, from, end, bytes);
		return r;
	}
	for (i = from; i < end; i++)
		if (b->segs[i]->mapped && b->segs[i]->state == XM_SEGMENT_AWAY && xm_vmm_unmap(b->segs[i]->at, b->segs[i]->bytes) == CUDA_SUCCESS)
			b->segs[i]->mapped = false;
	return r;
}

static CUresult map_all(struct batch *b)
{
	uint64_t bytes;
	CUresult r = CUDA_SUCCESS;
	int i = 0, end;

	for (; i < b->n && !r; i = end) {
		end = stretch(b, i, &bytes);
		r = map_stretch(b, i, end, bytes);
		if (r)
			break;
	}
	if (!r)
		return r;
	for (int k = 0; k < i; k = end) { /* those that went well go back */
		end = stretch(b, k, &bytes);
		if (xm_vmm_unmap(b->segs[k]->at, bytes))
			continue; /* they stay LOADING, which is a good state too */
		for (int j = k; j < end; j++)
			b->segs[j]->mapped = false;
		state_of(b, k, end, XM_SEGMENT_AWAY);
		drop_handles(b, k, end);
	}
	drop_handles(b, i, b->n);
	return r;
}

static int take_in(struct batch *b)
{
	uint64_t bytes = 0;
	CUresult r = CUDA_SUCCESS;

	for (int i = 0; i < b->n; i++)
		bytes += b->segs[i]->bytes;
	if (!reserve(b, bytes))
		return -ENOSPC;
	for (int i = 0; i < b->n && !r; i++) {
		r = xm_vmm_device(b->m, b->segs[i]->bytes, &b->segs[i]->device);
		if (r)
			drop_handles(b, 0, i);
	}
	if (!r)
		r = map_all(b);
	pthread_mutex_lock(&xm_mem_lock);
	unreserve(b, b->promised);
	pthread_mutex_unlock(&xm_mem_lock);
	return (int)r;
}

static int load(uint32_t section, const uint64_t *ids, int n)
{
	return on_batch(section, ids, n, 1u << XM_SEGMENT_AWAY | 1u << XM_SEGMENT_HOST, take_in);
}

static int settle(struct batch *b)
{
	pthread_mutex_lock(&xm_mem_lock);
	for (int i = 0; i < b->n; i++) {
		xm_seg_state(b->segs[i], XM_SEGMENT_DEVICE);
		keep(b->segs[i], true);
		b->m->in += b->segs[i]->bytes;
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return 0;
}

static int loaded(uint32_t section, const uint64_t *ids, int n)
{
	return on_batch(section, ids, n, 1u << XM_SEGMENT_LOADING, settle);
}

/* --- home --------------------------------------------------------------------------- */

static CUresult to_slot(struct xm_seg *s)
{
	CUresult r = CUDA_SUCCESS;

	if (s->mapped)
		r = xm_vmm_unmap(s->at, s->bytes);
	if (r)
		return r;
	s->mapped = false;
	if (s->device)
		xm_vmm_release(s->device);
	s->device = 0;
	pthread_mutex_lock(&xm_mem_lock);
	xm_seg_state(s, XM_SEGMENT_AWAY);
	pthread_mutex_unlock(&xm_mem_lock);
	r = xm_vmm_map(s->at, s->bytes, s->slot->handle);
	s->mapped = !r;
	return r;
}

static bool is_gone(const struct xm_seg *s)
{
	return s->state == XM_SEGMENT_AWAY || s->state == XM_SEGMENT_LOADING;
}

/* A stretch of segments that are gone, up to `end`. */
static CUresult bring_home(struct xm_seg *from, const struct xm_seg *end)
{
	CUresult r = CUDA_SUCCESS;
	uint64_t bytes = 0;

	for (struct xm_seg *s = from; s != end && !r; s = s->next) {
		r = to_slot(s);
		bytes += s->bytes;
	}
	if (!r)
		r = xm_vmm_access(from->range->mem, from->at, bytes);
	if (r)
		return r;
	pthread_mutex_lock(&xm_mem_lock);
	for (struct xm_seg *s = from; s != end; s = s->next) {
		xm_seg_state(s, XM_SEGMENT_HOST);
		xm_seg_forget(s); /* the program may write to it */
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return r;
}

static int all_home(struct batch *b)
{
	uint64_t bytes;
	CUresult r = CUDA_SUCCESS;

	for (int i = 0, end; i < b->n && !r; i = end) {
		end = stretch(b, i, &bytes);
		r = bring_home(b->segs[i], b->segs[end - 1]->next);
	}
	return (int)r;
}

static int home(uint32_t section, const uint64_t *ids, int n)
{
	return on_batch(section, ids, n, 1u << XM_SEGMENT_AWAY, all_home);
}

int xm_move_home(struct xm_mem *m)
{
	struct xm_quiet quiet;
	CUresult r = CUDA_SUCCESS;

	if (!m->gone)
		return 0;
	quiet = xm_quiet_begin();
	for (struct xm_range *range = m->first; range && !r; range = range->next)
		for (struct xm_seg *s = range->segs, *end; s && !r; s = end) {
			for (end = s; end && is_gone(end);)
				end = end->next;
			if (end == s)
				end = s->next;
			else
				r = bring_home(s, end);
		}
	xm_quiet_end(quiet);
	return (int)r;
}

/* --- what is lent -------------------------------------------------------------------- */

static int unheld(uint32_t section, int begin)
{
	if (section >= XM_BOARD_DEVICES)
		return -EINVAL;
	xm_hold_spare(begin != 0);
	return 0;
}

static int flight(uint32_t section, int begin)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	if (begin)
		return xm_move_enter(m);
	xm_move_leave(m);
	return 0;
}

static int pool(uint32_t section, uint64_t *all, uint64_t *idle)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return -ENODEV;
	xm_slot_pool(m, all, idle);
	return 0;
}

static void *driver(const char *name)
{
	return xm_resolve() ? xm_driver_symbol(name) : NULL;
}

const struct xm_memory xm_memory = {
	.version = XM_MEMORY_VERSION,
	.size = sizeof xm_memory,
	.list = list,
	.device = device,
	.begin = xm_move_begin,
	.end = xm_move_end,
	.wanted = xm_move_wanted,
	.slots = slots,
	.trim = trim,
	.slot = slot,
	.away = away,
	.load = load,
	.loaded = loaded,
	.unheld = unheld,
	.driver = driver,
	.pool = pool,
	.spare = spare,
	.forgo = forgo,
	.flight = flight,
	.home = home,
	.give = give,
	.given = given,
	.accept = accept_slot,
};
