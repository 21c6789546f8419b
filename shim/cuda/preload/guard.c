#include "guard.h"

#include "gate.h"
#include "queue.h"
#include "sys.h"

struct guarded {
	struct guarded *next;
	struct xm_board *board;
	uint32_t generation, devices;
};
static struct guarded *guards, *free_guards; /* protected by xm_lock */

static void fill(void *page)
{
	struct xm_board *b = page;

	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++)
		b->devices[i].daemon.gate = 1; /* no daemon gives epoch 0 with an answer: no lease names this word */
}

/* Not after the last command that waits there; a queue of a later board may have
 * waits of this one before those of its own. */
static bool waited_for(uint32_t generation)
{
	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		for (struct xm_queue *q = xm_state.devs[i].dirty; q; q = q->dirty_next) {
			uint64_t total = xm_queue_total(q);

			if ((int32_t)(q->wait_generation - generation) >= 0 && q->done < (q->waited < total ? q->waited : total))
				return true;
		}
	return false;
}

void xm_guard_take(struct xm_board *board, uint32_t generation, uint32_t devices)
{
	struct guarded *g = free_guards;

	for (uint32_t i = 0; i < devices; i++)
		xm_gate_open(&board->devices[i]);
	if (!waited_for(generation)) {
		xm_blank(board, XM_BOARD_SIZE, fill);
		return;
	}
	if (g)
		free_guards = g->next;
	else if (!(g = xm_keep(sizeof *g)))
		return; /* it stays open as far as the daemon lets it */
	*g = (struct guarded){.next = guards, .board = board, .generation = generation, .devices = devices};
	guards = g;
}

bool xm_guard_busy(void)
{
	return guards != NULL;
}

static unsigned keep_open(struct guarded *g, struct xm_watch *watches, unsigned room)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < g->devices; i++) {
		uint32_t *gate = &g->board->devices[i].daemon.gate;

		xm_gate_open(&g->board->devices[i]);
		if (n < room)
			watches[n++] = (struct xm_watch){.word = (const _Atomic uint32_t *)gate,
							 .seen = __atomic_load_n(gate, __ATOMIC_RELAXED) | 1};
	}
	return n;
}

unsigned xm_guard_round(struct xm_watch *watches, unsigned room)
{
	unsigned n = 0;

	pthread_mutex_lock(&xm_lock);
	for (struct guarded **at = &guards; *at;) {
		struct guarded *g = *at;

		if (waited_for(g->generation)) {
			n += keep_open(g, watches + n, room - n);
			at = &g->next;
			continue;
		}
		xm_blank(g->board, XM_BOARD_SIZE, fill);
		*at = g->next;
		g->next = free_guards;
		free_guards = g;
	}
	pthread_mutex_unlock(&xm_lock);
	return n;
}
