/* How much of the device a process may have: the daemon's target and the limit. */
#include "mem.h"
#include "mem_pool.h"
#include "state.h"
#include "sys.h"

#define ASK_NS 20000000u /* an allocation waits so long for room, then it is the host's */
#define ASKS 3           /* answers that bring no room before it gives up */

static uint64_t get(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

struct xm_mem_bounds xm_mem_bounds(const struct xm_mem *m)
{
	struct xm_mem_bounds b = {.target = UINT64_MAX};
	const struct xm_device *s;

	pthread_mutex_lock(&xm_lock);
	s = xm_state.devs[xm_mem_index(m)].section;
	if (s) {
		bool managed = __atomic_load_n(&s->daemon_memory.want, __ATOMIC_ACQUIRE) != 0 &&
			       __atomic_load_n(&s->daemon_memory.flags, __ATOMIC_RELAXED) & XM_MEMORY_MANAGED;

		if (managed) {
			b.target = get(&s->daemon_memory.target);
			b.host = get(&s->daemon_memory.host);
		}
		b.limit = get(&s->daemon_memory.limit);
		b.total = get(&s->daemon_memory.total);
	}
	pthread_mutex_unlock(&xm_lock);
	return b;
}

uint64_t xm_mem_used(const struct xm_mem *m)
{
	return m->resident + m->host - m->promised - m->cached + m->pinned;
}

bool xm_mem_beyond(const struct xm_mem *m, uint64_t bytes)
{
	struct xm_mem_bounds b = xm_mem_bounds(m);
	uint64_t used = xm_mem_used(m);

	return b.limit && (bytes > b.limit || used > b.limit - bytes);
}

/* xm_mem_lock held. */
static bool fits(const struct xm_mem *m, uint64_t bytes)
{
	uint64_t target = xm_mem_bounds(m).target;

	return bytes <= target && m->resident <= target - bytes;
}

/*
 * True: it is counted. What the daemon takes back by a lower target it gives to others
 * once the engine has acknowledged that, beyond what the board then shows as resident. So
 * all that an older target allowed has to be on the board by then, and nothing may be
 * added afterwards. The daemon stores the target, then the word; the engine reads word
 * and target, then the resident bytes, and acknowledges; we store the resident bytes,
 * fence, and read the target again. Either the engine's reading saw our bytes, and so
 * does the daemon's, which comes after the acknowledgement. Or it came before our store,
 * and the engine's reading of the target came before that: then the lower target was
 * there when we stored, our second reading, which the fence keeps behind the store, finds
 * it or one that is newer still, and we step back. (An engine that moved memory between
 * reading the target and acknowledging it has held xm_mem_lock meanwhile: whoever
 * counted before is on the board, whoever comes later finds the target that it read.)
 * What the board shows for the moment in which we step back is too much; at worst that
 * delays an acknowledgement.
 */
static bool reserve(struct xm_mem *m, uint64_t bytes)
{
	bool yes;

	pthread_mutex_lock(&xm_mem_lock);
	yes = fits(m, bytes);
	if (yes) {
		m->resident += bytes;
		xm_mem_tell(m);
		atomic_thread_fence(memory_order_seq_cst);
		yes = fits(m, 0);
		if (!yes) {
			m->resident -= bytes;
			xm_mem_tell(m);
		}
	}
	pthread_mutex_unlock(&xm_mem_lock);
	return yes;
}

static CUmemGenericAllocationHandle create(struct xm_mem *m, uint64_t bytes)
{
	CUmemGenericAllocationHandle h = 0;

	if (!reserve(m, bytes))
		return 0;
	if (xm_vmm_device(m, bytes, &h) == CUDA_SUCCESS)
		return h;
	pthread_mutex_lock(&xm_mem_lock);
	m->resident -= bytes;
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	return 0;
}

CUmemGenericAllocationHandle xm_room_piece(struct xm_mem *m, uint64_t bytes, uint64_t all, bool *patient)
{
	CUmemGenericAllocationHandle h = create(m, bytes);

	if (!h && xm_cache_flush(m) | xm_pools_release(m, false))
		h = create(m, bytes);
	for (int i = 0; !h && *patient && i < ASKS; i++) {
		*patient = xm_room_ask(m, all);
		if (*patient)
			h = create(m, bytes);
	}
	*patient = *patient && h;
	return h;
}

uint64_t xm_room_left(struct xm_mem *m)
{
	uint64_t device, host, used;
	struct xm_mem_bounds b;

	pthread_mutex_lock(&xm_mem_lock);
	b = xm_mem_bounds(m);
	used = m->slots_all - m->slots_free - m->slots_kept;
	device = b.target > m->resident ? b.target - m->resident : 0;
	host = b.host > used ? b.host - used : 0;
	pthread_mutex_unlock(&xm_mem_lock);
	return b.target == UINT64_MAX || !b.host ? UINT64_MAX : device + host;
}

static uint32_t wants(uint32_t section, const uint32_t **word)
{
	const struct xm_device *s;
	uint32_t seen = 0;

	*word = NULL;
	pthread_mutex_lock(&xm_lock);
	s = xm_state.devs[section].section;
	if (s && !xm_state.leaving) {
		*word = &s->daemon_memory.want;
		seen = __atomic_load_n(*word, __ATOMIC_ACQUIRE);
	}
	pthread_mutex_unlock(&xm_lock);
	return seen;
}

static void wish(struct xm_mem *m, uint64_t bytes, bool on)
{
	pthread_mutex_lock(&xm_mem_lock);
	m->want_room += on ? bytes : -bytes;
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	pthread_mutex_lock(&xm_lock);
	if (on && xm_state.board)
		xm_signal_fd(xm_state.event_fd);
	pthread_mutex_unlock(&xm_lock);
}

static bool anywhere(struct xm_mem *m, uint64_t bytes)
{
	return xm_room_left(m) >= bytes;
}

/* Slots that a move has taken and not filled: of these the daemon does not know. */
static uint64_t taken(struct xm_mem *m)
{
	uint64_t used, full;

	pthread_mutex_lock(&xm_mem_lock);
	used = m->slots_all - m->slots_free - m->slots_kept;
	full = m->host + m->loading;
	pthread_mutex_unlock(&xm_mem_lock);
	return used > full ? used - full : 0;
}

/* Until an answer comes after which there is enough, at most 20 ms; NULL: any answer. True: one came. */
static bool ask(struct xm_mem *m, uint64_t bytes, bool (*is_enough)(struct xm_mem *m, uint64_t bytes), uint64_t enough)
{
	uint64_t end = xm_now() + ASK_NS, now;
	const uint32_t *word;
	uint32_t seen = wants(xm_mem_index(m), &word), is;
	bool answered = false;

	if (!word)
		return false;
	bytes += taken(m);
	wish(m, bytes, true);
	while (!(answered && (!is_enough || is_enough(m, enough))) && (now = xm_now()) < end) {
		xm_wait_word((const _Atomic uint32_t *)word, seen, end - now);
		is = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		answered = answered || is != seen;
		seen = is;
	}
	wish(m, bytes, false);
	return answered;
}

bool xm_room_ask(struct xm_mem *m, uint64_t bytes)
{
	return ask(m, bytes, NULL, 0);
}

void xm_room_await(struct xm_mem *m, uint64_t bytes, uint64_t enough)
{
	(void)ask(m, bytes, anywhere, enough);
}

void xm_room_await_slot(struct xm_mem *m, uint64_t bytes, uint64_t enough)
{
	(void)ask(m, bytes, xm_slot_likely, enough);
}
