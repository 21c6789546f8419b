#include "mem_touch.h"

#include <errno.h>

#include "mem.h"
#include "state.h"
#include "sys.h"
#include "thread.h"

#define SLOTS 512 /* threads in the driver with such commands; further ones count as naming everything */
#define WAIT_NS 100000000u

/* Free while a is 0. */
static struct {
	_Atomic uint64_t a, b;
} slots[SLOTS];
static _Atomic uint32_t uncounted;
static _Atomic uint32_t doors; /* that are closed */

/*
 * The addresses are stored before the door is looked at; who closes it does so before
 * he looks for addresses (both sequentially consistent): one of the two sees the
 * other. A thread that finds it closed takes its addresses back before it waits.
 */
static int enter(uint64_t a, uint64_t b)
{
	uint32_t from = (uint32_t)((uintptr_t)__builtin_frame_address(0) >> 12); /* another one on another thread's stack */

	for (uint32_t i = 0; i < SLOTS; i++) {
		uint64_t none = 0;
		int k = (int)((from + i) % SLOTS);

		if (atomic_load_explicit(&slots[k].a, memory_order_relaxed) || !atomic_compare_exchange_strong(&slots[k].a, &none, a))
			continue;
		atomic_store(&slots[k].b, b);
		return k;
	}
	atomic_fetch_add(&uncounted, 1);
	return SLOTS;
}

void xm_untouch_slow(int touched)
{
	if (touched == SLOTS) {
		atomic_fetch_sub(&uncounted, 1);
		return;
	}
	atomic_store(&slots[touched].b, 0);
	atomic_store(&slots[touched].a, 0);
}

/* The memory that is gone and that the address may mean. */
static struct xm_mem *gone(uint64_t address)
{
	struct xm_block *b = xm_block_at(address);

	if (address != XM_TOUCH_ALL)
		return b && atomic_load(&b->range->mem->door) ? b->range->mem : NULL;
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++)
		if (atomic_load(&xm_mems[i].door))
			return &xm_mems[i];
	return NULL;
}

static void note(uint64_t address, uint64_t now)
{
	struct xm_block *b = xm_block_at(address);

	if (b)
		b->range->used_at = now;
}

/* NULL: the way is free. *turn: of the memory, before it was found closed. */
static struct xm_mem *closed(uint64_t a, uint64_t b, uint32_t *turn)
{
	struct xm_mem *m = NULL;
	uint64_t now;

	if (atomic_load(&doors))
		pthread_mutex_lock(&xm_mem_lock);
	else if (pthread_mutex_trylock(&xm_mem_lock))
		return NULL; /* when it was used is a hint, and nobody waits for that */
	m = gone(a);
	if (!m)
		m = gone(b);
	if (m) {
		*turn = atomic_load(&m->turn);
	} else {
		now = xm_now();
		note(a, now);
		note(b, now);
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return m;
}

int xm_touch_slow(uint64_t a, uint64_t b)
{
	struct xm_thread *me;
	struct xm_mem *m;
	uint32_t turn = 0;
	int touched = -1;
	int was = errno;

	if (!a) {
		a = b;
		b = 0;
	}
	if (!a)
		return -1;
	for (;;) {
		touched = enter(a, b);
		me = xm_enter();
		if (!me)
			break; /* a handler that interrupted its own thread in here, or a forked child */
		m = closed(a, b, &turn);
		xm_leave(me);
		if (!m)
			break;
		xm_untouch_slow(touched);
		xm_wait_word(&m->turn, turn, WAIT_NS);
	}
	errno = was;
	return touched;
}

static bool inside(const struct xm_range *r, uint64_t address)
{
	return address == XM_TOUCH_ALL || address - r->at < r->bytes;
}

bool xm_touched(const struct xm_range *r)
{
	if (atomic_load(&uncounted))
		return true;
	for (int i = 0; i < SLOTS; i++) {
		uint64_t a = atomic_load(&slots[i].a);

		if (a && (inside(r, a) || inside(r, atomic_load(&slots[i].b))))
			return true;
	}
	return false;
}

void xm_door_close(struct xm_mem *m)
{
	if (!atomic_exchange(&m->door, true))
		atomic_fetch_add(&doors, 1);
}

void xm_door_open(struct xm_mem *m)
{
	if (atomic_exchange(&m->door, false))
		atomic_fetch_sub(&doors, 1);
}
