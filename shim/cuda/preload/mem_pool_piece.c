/* What is free of a pool, and for whom. Everything under xm_mem_lock. */
#include "mem_pool.h"

#include "sys.h"

static struct xm_shelf *free_shelves;

/* --- shelves --------------------------------------------------------------------- */

static struct xm_shelf *shelf_of(struct xm_pool *p, const struct xm_order *o)
{
	for (struct xm_shelf **at = &p->shelves, *s; (s = *at); at = &s->next)
		if (s->order == o) {
			*at = s->next; /* to the front: a thread mostly comes back to its stream */
			s->next = p->shelves;
			p->shelves = s;
			return s;
		}
	return NULL;
}

static struct xm_shelf *shelf_for(struct xm_pool *p, struct xm_order *o)
{
	struct xm_shelf *s = shelf_of(p, o);

	if (s)
		return s;
	s = free_shelves;
	if (s)
		free_shelves = s->next;
	else if (!(s = xm_keep(sizeof *s)))
		return NULL;
	*s = (struct xm_shelf){.next = p->shelves, .pool = p, .order = o};
	p->shelves = s;
	return s;
}

static void lay(struct xm_shelf *s, struct xm_block *b)
{
	b->shelf = s;
	s->pieces++;
	s->pool->idle += b->room;
	if (s->order)
		xm_order_keep(s->order);
	xm_bins_put(&s->bins, b);
}

static void lift(struct xm_block *b)
{
	struct xm_shelf *s = b->shelf;

	xm_bins_take(&s->bins, b);
	b->shelf = NULL;
	s->pieces--;
	s->pool->idle -= b->room;
	if (s->order)
		xm_order_let_go(s->order);
}

/* With the neighbours that lie there too: behind the last of their places all of it is free. */
static void lay_together(struct xm_shelf *s, struct xm_block *b)
{
	struct xm_block *other = b->behind;

	if (other && other->shelf == s) {
		lift(other);
		b->place = b->place > other->place ? b->place : other->place;
		xm_block_merge(b);
	}
	other = b->before;
	if (other && other->shelf == s) {
		lift(other);
		other->place = b->place > other->place ? b->place : other->place;
		xm_block_merge(other);
		b = other;
	}
	lay(s, b);
}

/* --- pieces ------------------------------------------------------------------------ */

static struct xm_block *take(struct xm_shelf *s, uint64_t room)
{
	struct xm_block *b = s && s->pieces ? xm_bins_find(&s->bins, room) : NULL, *rest;

	if (!b)
		return NULL;
	lift(b);
	rest = xm_block_cut(b, room);
	if (rest) {
		rest->place = b->place;
		lay(s, rest);
	}
	xm_pool_due_again(s->pool);
	return b;
}

struct xm_block *xm_piece_take(struct xm_pool *p, const struct xm_order *o, uint64_t room)
{
	struct xm_block *b = take(shelf_of(p, o), room);

	return b ? b : take(&p->common, room);
}

/* Of streams whose context goes, or of the others. */
static struct xm_block *take_behind(struct xm_pool *p, bool goes, uint64_t room, struct xm_order **order)
{
	for (struct xm_shelf *s = p->shelves; s; s = s->next) {
		struct xm_block *b;

		if (!s->pieces || xm_context_goes(s->order->context) != goes)
			continue;
		xm_order_keep(s->order); /* that of a stream that is gone would go with its last piece */
		b = take(s, room);
		*order = s->order;
		if (b)
			return b;
		xm_order_let_go(s->order);
	}
	return NULL;
}

struct xm_block *xm_piece_take_behind(struct xm_pool *p, uint64_t room, struct xm_order **order)
{
	struct xm_block *b = take_behind(p, false, room, order);

	return b ? b : take_behind(p, true, room, order);
}

/* Without memory for a shelf of its own the piece is nobody's until the pool goes: it is lost, but not given to two. */
void xm_piece_give(struct xm_pool *p, struct xm_block *b, struct xm_order *o)
{
	struct xm_shelf *s = o ? shelf_for(p, o) : &p->common;

	b->asked = 0;
	if (s)
		lay_together(s, b);
	xm_pool_due_again(p);
}

static void pass(struct xm_shelf *s)
{
	uint64_t done = s->order->done;

	for (unsigned i = 0; s->pieces && i < XM_BINS; i++)
		for (struct xm_block *b = s->bins.of[i], *next; b; b = next) {
			next = b->free_next;
			if (b->place > done)
				continue;
			lift(b);
			b->place = 0;
			lay_together(&s->pool->common, b);
		}
}

void xm_pieces_pass(struct xm_pool *p)
{
	for (struct xm_shelf **at = &p->shelves, *s; (s = *at);) {
		if (s->pieces) {
			xm_order_keep(s->order); /* until its shelf is done with */
			pass(s);
			xm_order_let_go(s->order);
		}
		if (s->pieces) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		s->next = free_shelves;
		free_shelves = s;
	}
	xm_pool_due_again(p);
}

/* --- chunks ------------------------------------------------------------------------- */

bool xm_chunk_add(struct xm_pool *p, struct xm_range *r)
{
	r->blocks = xm_block_new(r, r->at, r->bytes);
	if (!r->blocks)
		return false;
	r->pool = p;
	r->sibling = p->chunks;
	p->chunks = r;
	xm_range_list(r);
	lay(&p->common, r->blocks);
	xm_pool_due_again(p);
	return true;
}

struct xm_range *xm_chunk_take(struct xm_pool *p, uint64_t most)
{
	for (struct xm_range **at = &p->chunks, *r; (r = *at); at = &r->sibling) {
		if (r->bytes > most || r->blocks->shelf != &p->common || r->blocks->room != r->bytes)
			continue;
		lift(r->blocks);
		*at = r->sibling;
		r->sibling = NULL;
		r->pool = NULL;
		xm_range_unlist(r);
		p->reserved -= r->bytes;
		xm_pool_due_again(p);
		return r;
	}
	return NULL;
}

/* Nothing is free of what it holds, or it may hold that: then no synchronisation is to look. */
void xm_pool_due_again(struct xm_pool *p)
{
	bool due = p->idle && p->reserved > (p->ended ? 0 : p->threshold);

	if (due == p->due)
		return;
	p->due = due;
	if (due)
		atomic_fetch_add(&xm_pool_due, 1);
	else
		atomic_fetch_sub(&xm_pool_due, 1);
}
