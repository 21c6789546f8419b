#include "memory_ready.h"

#include <errno.h>

#include "mem.h"
#include "state.h"

static void opening(struct xm_mem *m, int more)
{
	pthread_mutex_lock(&xm_mem_lock);
	m->opening += (uint32_t)more;
	if (more > 0)
		m->stopped = false;
	pthread_mutex_unlock(&xm_mem_lock);
}

static int make_good(struct xm_mem *m)
{
	int status;

	xm_move_take(m);
	status = xm_move_home(m);
	pthread_mutex_lock(&xm_mem_lock);
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	xm_move_give(m);
	return status;
}

int xm_memory_ready(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m || atomic_load(&xm_aside))
		return 0;
	opening(m, 1);
	return make_good(m);
}

void xm_memory_opened(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);

	if (m && !atomic_load(&xm_aside))
		opening(m, -1);
}

void xm_memory_stopped(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);

	if (!m)
		return;
	pthread_mutex_lock(&xm_mem_lock);
	m->stopped = m->opening == 0;
	pthread_mutex_unlock(&xm_mem_lock);
}

void xm_memory_announce(void)
{
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++) {
		if (atomic_load(&xm_mems[i].verdict) == XM_MEM_UNKNOWN)
			continue;
		pthread_mutex_lock(&xm_mem_lock);
		xm_mem_tell(&xm_mems[i]);
		pthread_mutex_unlock(&xm_mem_lock);
	}
}

bool xm_memory_gone(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);
	bool gone;

	if (!m)
		return false;
	pthread_mutex_lock(&xm_mem_lock);
	gone = m->gone || m->mover == XM_MOVER_ENGINE;
	pthread_mutex_unlock(&xm_mem_lock);
	return gone;
}

bool xm_memory_recall(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);
	bool held;

	if (!m || !xm_memory_gone(section))
		return false;
	pthread_mutex_lock(&xm_mem_lock);
	held = m->stopped;
	pthread_mutex_unlock(&xm_mem_lock);
	return !held && make_good(m) != 0;
}
