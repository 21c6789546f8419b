/* The move lock, and when the engine may have it. */
#include <errno.h>

#include "boardmap.h"
#include "edge.h"
#include "gate.h"
#include "mem.h"
#include "memory_ready.h"
#include "sys.h"

#define LOOK_NS 10000000u
#define BREAK_NS 1000000000u /* of wanting; a batch of 128 MiB takes 3 ms (h200.md) */
#define REST_NS 500000000u   /* of the engine, since it had anything in flight: to say so, and to let go */

/* xm_mem_lock held. The engine's calls that are under way end by themselves, and so does what it has in flight. */
static bool may_break(const struct xm_mem *m)
{
	uint64_t now = xm_now();

	return m->mover == XM_MOVER_ENGINE && !m->calls && now >= m->wanted_since + BREAK_NS && now >= m->left_at + REST_NS;
}

void xm_move_take(struct xm_mem *m)
{
	pthread_mutex_lock(&xm_mem_lock);
	if (!m->waiters++)
		m->wanted_since = xm_now();
	while (m->mover != XM_MOVER_NONE && !may_break(m)) {
		uint32_t turn = atomic_load(&m->turn);

		pthread_mutex_unlock(&xm_mem_lock);
		xm_wait_word(&m->turn, turn, LOOK_NS);
		pthread_mutex_lock(&xm_mem_lock);
	}
	m->mover = XM_MOVER_US;
	m->waiters--;
	pthread_mutex_unlock(&xm_mem_lock);
}

bool xm_move_try(struct xm_mem *m)
{
	bool free;

	pthread_mutex_lock(&xm_mem_lock);
	free = m->mover == XM_MOVER_NONE;
	if (free)
		m->mover = XM_MOVER_US;
	pthread_mutex_unlock(&xm_mem_lock);
	return free;
}

/* xm_mem_lock held. */
static void let_go(struct xm_mem *m)
{
	m->mover = XM_MOVER_NONE;
	if (!m->gone)
		xm_door_open(m);
	atomic_fetch_add(&m->turn, 1);
}

void xm_move_give(struct xm_mem *m)
{
	pthread_mutex_lock(&xm_mem_lock);
	let_go(m);
	pthread_mutex_unlock(&xm_mem_lock);
	xm_wake_word(&m->turn);
}

/*
 * Is nothing of the process running on the device? With everything held, yes, until
 * somebody comes to resume it. Else the daemon has allowed it while the gate is
 * closed (it will not open it before it has looked, see board.h), and there is nothing that
 * was let through before: once the gate's word is acknowledged every command that
 * did not see it is counted. Threads may wait at the gate; what they launch at level 2
 * waits on the device. xm_mem_lock held.
 */
static bool stopped(const struct xm_mem *m)
{
	struct xm_dev *dev = &xm_state.devs[xm_mem_index(m)];
	const struct xm_device *s;
	bool yes;

	if (m->opening)
		return false;
	pthread_mutex_lock(&xm_lock);
	s = dev->section;
	yes = s && !xm_state.leaving && !xm_daemon_dead();
	if (yes && !m->stopped)
		yes = __atomic_load_n(&s->daemon_memory.flags, __ATOMIC_SEQ_CST) & XM_MEMORY_DRAINED && xm_gate_closed(dev) &&
		      __atomic_load_n(&s->client.acked, __ATOMIC_ACQUIRE) == __atomic_load_n(&s->daemon.gate, __ATOMIC_ACQUIRE) &&
		      xm_dev_rests(dev);
	pthread_mutex_unlock(&xm_lock);
	return yes;
}

int xm_move_begin(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);
	int status = 0;

	if (!m || atomic_load(&xm_aside))
		return -ENODEV;
	pthread_mutex_lock(&xm_mem_lock);
	if (m->waiters || m->mover != XM_MOVER_NONE) {
		status = -ECANCELED;
	} else {
		m->mover = XM_MOVER_ENGINE;
		xm_door_close(m);
		xm_mem_tell(m); /* before the look at what the daemon allows */
		if (!stopped(m)) {
			status = -EAGAIN;
			let_go(m);
			xm_mem_tell(m);
		}
	}
	pthread_mutex_unlock(&xm_mem_lock);
	if (status)
		xm_wake_word(&m->turn);
	else
		(void)xm_cache_flush(m); /* others wait for room */
	return status;
}

/* xm_mem_lock held. Slots that were taken for copies out which came to nothing are free again. */
static void unreserve(struct xm_mem *m)
{
	for (struct xm_range *r = m->first; r; r = r->next)
		for (struct xm_seg *s = r->segs; s; s = s->next)
			if (s->state == XM_SEGMENT_DEVICE && s->slot && !s->kept) {
				xm_slot_put(m, s->slot);
				s->slot = NULL;
			}
}

int xm_move_end(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);
	int status;

	if (!m)
		return -ENODEV;
	pthread_mutex_lock(&xm_mem_lock);
	status = m->mover != XM_MOVER_ENGINE ? -EPERM : m->calls ? -EBUSY : 0;
	if (!status) {
		unreserve(m);
		let_go(m);
		xm_mem_tell(m);
	}
	pthread_mutex_unlock(&xm_mem_lock);
	xm_wake_word(&m->turn);
	return status;
}

int xm_move_wanted(uint32_t section)
{
	struct xm_mem *m = xm_mem_of(section);
	int wanted;

	if (!m)
		return -ENODEV;
	pthread_mutex_lock(&xm_mem_lock);
	wanted = m->waiters != 0 || m->mover != XM_MOVER_ENGINE;
	pthread_mutex_unlock(&xm_mem_lock);
	return wanted;
}

int xm_move_enter(struct xm_mem *m)
{
	int status;

	pthread_mutex_lock(&xm_mem_lock);
	status = m->mover == XM_MOVER_ENGINE ? 0 : -EPERM;
	m->calls += !status;
	pthread_mutex_unlock(&xm_mem_lock);
	return status;
}

void xm_move_leave(struct xm_mem *m)
{
	pthread_mutex_lock(&xm_mem_lock);
	m->calls--;
	m->left_at = xm_now();
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
}
