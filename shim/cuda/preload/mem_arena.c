/* Small allocations: pieces of ranges, each a segment of its own, so that a
 * thousand of them are not a thousand segments of 2 MiB. Free pieces lie in bins by
 * size, four to each power of two; neighbours that are free become one. */
#include "mem.h"

#include "sys.h"

static struct xm_arena *free_arenas;

struct xm_arena *xm_arena_of(struct xm_mem *m, CUcontext context)
{
	struct xm_arena *a = m->arenas;

	while (a && a->context != context)
		a = a->next;
	if (a)
		return a;
	a = free_arenas;
	if (a)
		free_arenas = a->next;
	else if (!(a = xm_keep(sizeof *a)))
		return NULL;
	*a = (struct xm_arena){.next = m->arenas, .context = context};
	m->arenas = a;
	return a;
}

/* The bin of pieces at least so large as the smallest of it. */
static unsigned bin_of(uint64_t room)
{
	uint64_t units = room / XM_UNIT;
	unsigned log = 63u - (unsigned)__builtin_clzll(units);

	return log < 2 ? (unsigned)units - 1 : 4 * (log - 1) - 1 + (unsigned)(units >> (log - 2) & 3);
}

void xm_bins_put(struct xm_bins *bins, struct xm_block *b)
{
	struct xm_block **bin = &bins->of[bin_of(b->room)];

	b->asked = 0;
	b->free_prev = NULL;
	b->free_next = *bin;
	if (*bin)
		(*bin)->free_prev = b;
	*bin = b;
}

void xm_bins_take(struct xm_bins *bins, struct xm_block *b)
{
	*(b->free_prev ? &b->free_prev->free_next : &bins->of[bin_of(b->room)]) = b->free_next;
	if (b->free_next)
		b->free_next->free_prev = b->free_prev;
	b->free_prev = b->free_next = NULL;
}

/* Pieces of the bin itself may be too small; those of any later one are not. */
struct xm_block *xm_bins_find(const struct xm_bins *bins, uint64_t room)
{
	unsigned bin = bin_of(room);

	for (struct xm_block *b = bins->of[bin]; b; b = b->free_next)
		if (b->room >= room)
			return b;
	for (bin++; bin < XM_BINS; bin++)
		if (bins->of[bin])
			return bins->of[bin];
	return NULL;
}

struct xm_block *xm_block_cut(struct xm_block *b, uint64_t room)
{
	struct xm_block *rest = b->room > room ? xm_block_new(b->range, b->at + room, b->room - room) : NULL;

	if (!rest)
		return NULL;
	rest->before = b;
	rest->behind = b->behind;
	if (rest->behind)
		rest->behind->before = rest;
	b->behind = rest;
	b->room = room;
	return rest;
}

struct xm_block *xm_arena_take(struct xm_arena *a, uint64_t room)
{
	struct xm_block *b = xm_bins_find(&a->bins, room), *rest;

	if (!b)
		return NULL;
	xm_bins_take(&a->bins, b);
	rest = xm_block_cut(b, room);
	if (rest) /* without memory for the record the block is larger than need be */
		xm_bins_put(&a->bins, rest);
	return b;
}

bool xm_arena_add(struct xm_arena *a, struct xm_range *r)
{
	r->blocks = xm_block_new(r, r->at, r->bytes);
	if (!r->blocks)
		return false;
	r->arena = a;
	a->bytes += r->bytes;
	xm_bins_put(&a->bins, r->blocks);
	return true;
}

void xm_block_merge(struct xm_block *b)
{
	struct xm_block *gone = b->behind;

	b->room += gone->room;
	b->behind = gone->behind;
	if (b->behind)
		b->behind->before = b;
	xm_block_free(gone);
}

void xm_arena_forget(struct xm_mem *m, CUcontext context)
{
	struct xm_arena **at = &m->arenas, *a;

	while (*at && (*at)->context != context)
		at = &(*at)->next;
	a = *at;
	if (!a)
		return;
	*at = a->next;
	a->next = free_arenas;
	free_arenas = a;
}

bool xm_arena_give(struct xm_block *b)
{
	struct xm_range *r = b->range;
	struct xm_arena *a = r->arena;

	b->asked = 0;
	if (b->behind && !b->behind->asked) {
		xm_bins_take(&a->bins, b->behind);
		xm_block_merge(b);
	}
	if (b->before && !b->before->asked) {
		b = b->before;
		xm_bins_take(&a->bins, b);
		xm_block_merge(b);
	}
	if (b->room < r->bytes) {
		xm_bins_put(&a->bins, b);
		return false;
	}
	a->bytes -= r->bytes;
	r->arena = NULL;
	if (!a->bytes)
		xm_arena_forget(r->mem, a->context);
	return true;
}
