#include "mem.h"

#include "device.h"
#include "state.h"
#include "sys.h"

#define PAGE 1024u
#define PAGES 1024u
#define INDEX_BITS 20u

struct xm_mem xm_mems[XM_BOARD_DEVICES];
pthread_mutex_t xm_mem_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic bool xm_mem_any;

static struct xm_seg *free_segs;
static struct xm_range *free_ranges;
static struct xm_block *free_blocks, *root;
static struct xm_host_slot *free_slots;

/* Segments by the low bits of their ids; the high bits tell a later one from an earlier. */
static struct xm_seg **pages[PAGES];
static uint32_t indices;
static uint64_t serial;

struct xm_mem *xm_mem_of(uint32_t section)
{
	if (section >= XM_BOARD_DEVICES || atomic_load(&xm_mems[section].verdict) != XM_MEM_ON)
		return NULL;
	return &xm_mems[section];
}

struct xm_mem *xm_mem_of_context(CUcontext context)
{
	struct xm_context *c;
	struct xm_mem *m = NULL;

	pthread_mutex_lock(&xm_lock);
	c = xm_context_known(context);
	if (c && c->dev)
		m = xm_mem_of(c->dev->index);
	pthread_mutex_unlock(&xm_lock);
	return m;
}

/* --- segments --------------------------------------------------------------- */

static struct xm_seg *fresh_seg(void)
{
	struct xm_seg *s;

	if (indices == PAGE * PAGES || (!pages[indices / PAGE] && !(pages[indices / PAGE] = xm_keep(PAGE * sizeof(void *)))))
		return NULL;
	s = xm_keep(sizeof *s);
	if (!s)
		return NULL;
	s->id = indices;
	pages[indices / PAGE][indices % PAGE] = s;
	indices++;
	return s;
}

struct xm_seg *xm_seg_new(struct xm_range *r)
{
	struct xm_seg *s = free_segs;
	uint64_t index;

	if (s)
		free_segs = s->next;
	else if (!(s = fresh_seg()))
		return NULL;
	index = s->id & ((1u << INDEX_BITS) - 1);
	*s = (struct xm_seg){.range = r, .id = ++serial << INDEX_BITS | index};
	return s;
}

void xm_seg_free(struct xm_seg *s)
{
	s->range = NULL;
	s->next = free_segs;
	free_segs = s;
}

struct xm_seg *xm_seg_find(const struct xm_mem *m, uint64_t id)
{
	uint64_t index = id & ((1u << INDEX_BITS) - 1);
	struct xm_seg *s = index < indices ? pages[index / PAGE][index % PAGE] : NULL;

	return s && s->id == id && s->range && s->range->mem == m ? s : NULL;
}

static uint64_t *sum_of(struct xm_seg *s)
{
	return s->state == XM_SEGMENT_DEVICE || s->state == XM_SEGMENT_LOADING ? &s->range->mem->resident : &s->range->mem->host;
}

static bool is_gone(const struct xm_seg *s)
{
	return s->state == XM_SEGMENT_AWAY || s->state == XM_SEGMENT_LOADING;
}

void xm_seg_state(struct xm_seg *s, uint32_t state)
{
	struct xm_mem *m = s->range->mem;

	*sum_of(s) -= s->bytes;
	m->gone -= is_gone(s);
	m->loading -= s->state == XM_SEGMENT_LOADING ? s->bytes : 0;
	s->state = state;
	*sum_of(s) += s->bytes;
	m->gone += is_gone(s);
	m->loading += s->state == XM_SEGMENT_LOADING ? s->bytes : 0;
}

void xm_seg_forget(struct xm_seg *s)
{
	s->version++;
	if (s->kept)
		s->range->mem->slots_kept -= s->bytes;
	s->kept = false;
}

/* --- ranges ------------------------------------------------------------------ */

struct xm_range *xm_range_new(struct xm_mem *m)
{
	static uint64_t number;
	struct xm_range *r = free_ranges;

	if (r)
		free_ranges = r->next;
	else if (!(r = xm_keep(sizeof *r)))
		return NULL;
	*r = (struct xm_range){.mem = m, .number = ++number};
	return r;
}

void xm_range_free(struct xm_range *r)
{
	while (r->segs) {
		struct xm_seg *s = r->segs;

		r->segs = s->next;
		xm_seg_free(s);
	}
	while (r->blocks) {
		struct xm_block *b = r->blocks;

		r->blocks = b->behind;
		xm_block_free(b);
	}
	r->mem = NULL;
	r->next = free_ranges;
	free_ranges = r;
}

void xm_range_list(struct xm_range *r)
{
	r->prev = r->mem->last;
	r->next = NULL;
	*(r->prev ? &r->prev->next : &r->mem->first) = r;
	r->mem->last = r;
}

void xm_range_unlist(struct xm_range *r)
{
	*(r->prev ? &r->prev->next : &r->mem->first) = r->next;
	*(r->next ? &r->next->prev : &r->mem->last) = r->prev;
	r->prev = r->next = NULL;
}

/* --- blocks: a treap by address ----------------------------------------------- */

struct xm_block *xm_block_new(struct xm_range *r, CUdeviceptr at, uint64_t room)
{
	static uint64_t ids;
	struct xm_block *b = free_blocks;

	if (b)
		free_blocks = b->free_next;
	else if (!(b = xm_keep(sizeof *b)))
		return NULL;
	*b = (struct xm_block){.at = at, .room = room, .range = r, .id = (uint64_t)1 << 48 | ++ids};
	return b;
}

void xm_block_free(struct xm_block *b)
{
	b->free_next = free_blocks;
	free_blocks = b;
}

static uint32_t rank(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

/* Splits t at an address: below it, and from it on. */
static void split(struct xm_block *t, CUdeviceptr at, struct xm_block **below, struct xm_block **above)
{
	while (t) {
		if (t->at < at) {
			*below = t;
			below = &t->right;
			t = t->right;
		} else {
			*above = t;
			above = &t->left;
			t = t->left;
		}
	}
	*below = *above = NULL;
}

static struct xm_block *join(struct xm_block *below, struct xm_block *above)
{
	struct xm_block *top = NULL, **at = &top;

	while (below && above) {
		if (below->rank > above->rank) {
			*at = below;
			at = &below->right;
			below = below->right;
		} else {
			*at = above;
			at = &above->left;
			above = above->left;
		}
	}
	*at = below ? below : above;
	return top;
}

void xm_block_enter(struct xm_block *b)
{
	struct xm_block **at = &root;

	b->rank = rank();
	while (*at && (*at)->rank >= b->rank)
		at = (*at)->at < b->at ? &(*at)->right : &(*at)->left;
	split(*at, b->at, &b->left, &b->right);
	*at = b;
}

void xm_block_take(struct xm_block *b)
{
	struct xm_block **at = &root;

	while (*at && *at != b)
		at = (*at)->at < b->at ? &(*at)->right : &(*at)->left;
	if (*at)
		*at = join(b->left, b->right);
	b->left = b->right = NULL;
}

struct xm_block *xm_block_at(CUdeviceptr address)
{
	struct xm_block *best = NULL;

	for (struct xm_block *b = root; b; b = b->at <= address ? b->right : b->left)
		if (b->at <= address)
			best = b;
	return best && address - best->at < best->asked ? best : NULL;
}

/* --- slots' records ------------------------------------------------------------ */

struct xm_host_slot *xm_slot_record(void)
{
	struct xm_host_slot *slot = free_slots;

	if (slot)
		free_slots = slot->next;
	else
		slot = xm_keep(sizeof *slot);
	return slot;
}

void xm_slot_forget(struct xm_host_slot *slot)
{
	slot->next = free_slots;
	free_slots = slot;
}

/* --- the board ------------------------------------------------------------------ */

static void set(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static uint32_t flags_of(const struct xm_mem *m)
{
	static const uint32_t of_kind[XM_COUNT_KINDS] = {XM_MEMORY_POOLS, XM_MEMORY_MAPPED, XM_MEMORY_ARRAYS, XM_MEMORY_UNIFIED, XM_MEMORY_PEERS};
	uint32_t flags = atomic_load(&m->verdict) == XM_MEM_OFF ? m->why_off : XM_MEMORY_ACTIVE;

	flags |= (m->gone || m->mover == XM_MOVER_ENGINE ? XM_MEMORY_GONE : 0) | (m->peers ? XM_MEMORY_PEERS : 0);

	for (int i = 0; i < XM_COUNT_KINDS; i++)
		flags |= m->pinned_by[i] ? of_kind[i] : 0;
	return flags;
}

static void tell_more(const struct xm_mem *m, struct xm_library_memory *l)
{
	set(&l->kept, m->slots_kept);
	set(&l->slots, m->slots_all);
	for (int i = 0; i < XM_COUNT_KINDS; i++)
		set(&l->pinned_by[i], m->pinned_by[i]);
}

_Static_assert(XM_COUNT_KINDS == XM_MEMORY_PINS, "kinds of pinned memory");

void xm_mem_tell(struct xm_mem *m)
{
	struct xm_device *s;

	pthread_mutex_lock(&xm_lock);
	s = xm_state.devs[xm_mem_index(m)].section;
	if (s) {
		uint64_t all = m->resident + m->host - m->promised;

		set(&s->client_memory.allocated, all);
		set(&s->client_memory.resident, m->resident);
		set(&s->client_memory.host, m->host);
		set(&s->client_memory.pinned, m->pinned);
		set(&s->client_memory.in, m->in);
		set(&s->client_memory.out, m->out);
		set(&s->client_memory.asked, m->want_room);
		set(&s->client.mem_loading, m->loading);
		set(&s->client.mem_waste, all > m->asked ? all - m->asked : 0);
		__atomic_store_n(&s->client_memory.flags, flags_of(m), __ATOMIC_SEQ_CST);
		if (xm_state.board)
			tell_more(m, &xm_state.board->more[xm_mem_index(m)].library_memory);
	}
	pthread_mutex_unlock(&xm_lock);
}

void xm_mem_fell(struct xm_mem *m, uint64_t before)
{
	bool fell;

	pthread_mutex_lock(&xm_mem_lock);
	fell = m->resident < before;
	pthread_mutex_unlock(&xm_mem_lock);
	if (!fell)
		return;
	pthread_mutex_lock(&xm_lock);
	if (xm_state.board && xm_state.devs[xm_mem_index(m)].section && !xm_state.leaving)
		xm_signal_fd(xm_state.event_fd);
	pthread_mutex_unlock(&xm_lock);
}
