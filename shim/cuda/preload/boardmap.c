#define _GNU_SOURCE
#include "boardmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "channels.h"
#include "device.h"
#include "gate.h"
#include "guard.h"
#include "mark.h"
#include "memory_ready.h"
#include "queue.h"
#include "sys.h"
#include "tail.h"
#include "thread.h"
#include "watchdog.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define REGISTER_FLAGS 3u           /* CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP */
#define ALREADY_REGISTERED 712      /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
#define NOT_INITIALISED 709         /* CUDA_ERROR_CONTEXT_IS_DESTROYED: a primary context too that nobody has retained yet */
#define MEMORY_TRIES 20
#define MEMORY_TRY_NS 100000000u
#define VIEW_GRACE_NS 10000000000u  /* a context that is gone for so long writes no more */

/* Views of contexts that are gone; the GPU may write until the driver is done
 * with the context, so they outlive it for a while. Protected by xm_lock. */
struct gone_view {
	struct gone_view *next;
	void *view;
	uint32_t generation;  /* of its board */
	struct xm_thread *by; /* on which the context is going; NULL: it has gone */
	uint64_t since;
};
static struct gone_view *gone_views, *free_views;

static struct {
	uint64_t beat;
	uint64_t since; /* ns; 0: not looked at yet */
} pulse;

static bool is_eventfd(int fd)
{
	char path[32], target[64];
	ssize_t n;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof target - 1);
	if (n < 0)
		return false;
	target[n] = 0;
	return strcmp(target, "anon_inode:[eventfd]") == 0;
}

/* Our view of the board behind fd, or NULL with errno. A board that could
 * shrink under us would kill the program at the next touch. */
static struct xm_board *view_of(int fd)
{
	struct xm_board *b;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || lseek(fd, 0, SEEK_END) != XM_BOARD_SIZE) {
		errno = EPROTO;
		return NULL;
	}
	b = mmap(NULL, XM_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		return NULL;
	if (b->daemon.magic != XM_BOARD_MAGIC || b->daemon.version != XM_BOARD_VERSION || b->daemon.size != XM_BOARD_SIZE ||
	    b->daemon.slots != XM_BOARD_SLOTS || b->daemon.devices != XM_BOARD_DEVICES) {
		munmap(b, XM_BOARD_SIZE);
		errno = EPROTO;
		return NULL;
	}
	return b;
}

int xm_board_attach(int board_fd, int event_fd)
{
	struct xm_board *b = NULL;
	int error = 0;

	if (atomic_load(&xm_aside))
		error = ECHILD;
	else if (!is_eventfd(event_fd))
		error = EPROTO;
	else if (fcntl(board_fd, F_SETFD, FD_CLOEXEC) || fcntl(event_fd, F_SETFD, FD_CLOEXEC) ||
		 fcntl(event_fd, F_SETFL, O_NONBLOCK) || !(b = view_of(board_fd)))
		error = errno ? errno : EPROTO;
	if (!error) {
		xm_fence_prepare();
		pthread_mutex_lock(&xm_lock);
		if (xm_state.board) {
			error = EBUSY;
		} else {
			xm_state.board = b;
			xm_state.board_fd = board_fd;
			xm_state.event_fd = event_fd;
			xm_state.queues_over = 0;
			pulse.since = 0;
			atomic_fetch_add(&xm_state.generation, 1);
			xm_slots_reset();
			xm_thread_revoke_all();
			for (uint32_t i = 0; i < xm_state.dev_count; i++)
				xm_dev_claim(&xm_state.devs[i]);
			xm_watchdog_start();
			xm_tail_start();
			xm_channels_start();
		}
		pthread_mutex_unlock(&xm_lock);
	}
	if (error) {
		if (b)
			munmap(b, XM_BOARD_SIZE);
		close(board_fd);
		close(event_fd);
		return -error;
	}
	xm_memory_announce();
	xm_wake_word(&xm_state.generation);
	xm_channels_kick();
	return 0;
}

/*
 * A thread may stand between the look at its lease's key and the load of the
 * gate word, for as long as the kernel likes; so our view cannot be unmapped.
 * guard.c replaces it in place: the memory is given back, the address stays, and
 * a late reader finds another word.
 *
 * Gates are opened first of all: a thread of the program may hold the driver's
 * locks, and whatever else, until its work goes on.
 */
static void let_go(void)
{
	struct xm_board *b;
	uint32_t generation;

	pthread_mutex_lock(&xm_lock);
	b = xm_state.board;
	if (!b || atomic_load(&xm_aside)) {
		pthread_mutex_unlock(&xm_lock);
		return;
	}
	for (uint32_t i = 0; i < xm_state.dev_count; i++)
		xm_gate_open(&b->devices[i]);
	xm_state.board = NULL;
	generation = atomic_fetch_add(&xm_state.generation, 1);
	atomic_store(&xm_state.competitor, false);
	for (uint32_t i = 0; i < xm_state.dev_count; i++) {
		xm_dev_release(&xm_state.devs[i]);
		xm_wake_word((const _Atomic uint32_t *)&b->devices[i].daemon.gate);
	}
	xm_thread_revoke_all();
	(void)xm_fence_all();
	close(xm_state.board_fd);
	close(xm_state.event_fd);
	xm_state.board_fd = xm_state.event_fd = -1;
	xm_guard_take(b, generation, xm_state.dev_count);
	pthread_mutex_unlock(&xm_lock);
	xm_watchdog_kick();
	xm_tail_kick();
	xm_channels_kick(); /* it switches on what it had switched off for this board */
}

/* Memory that cannot be mapped in all that time is not waited for: the device then
 * tells the program of an error, which is better than to stand still for ever. */
void xm_board_detach(void)
{
	static const _Atomic uint32_t never;
	bool good = false;

	for (int i = 0; !good && i < MEMORY_TRIES; i++) {
		good = true;
		for (uint32_t k = 0; k < XM_BOARD_DEVICES; k++)
			good &= xm_memory_ready(k) == 0;
		if (!good && i + 1 < MEMORY_TRIES) {
			for (uint32_t k = 0; k < XM_BOARD_DEVICES; k++)
				xm_memory_opened(k);
			xm_wait_word(&never, 0, MEMORY_TRY_NS);
		}
	}
	let_go();
	for (uint32_t k = 0; k < XM_BOARD_DEVICES; k++)
		xm_memory_opened(k);
}

/* xm_lock held. */
static void keep_view(struct xm_thread *by, void *view, uint32_t generation)
{
	struct gone_view *g = free_views;

	if (!view)
		return;
	if (g)
		free_views = g->next;
	else if (!(g = xm_keep(sizeof *g)))
		return; /* the view stays mapped for good */
	*g = (struct gone_view){.next = gone_views, .view = view, .generation = generation, .by = by};
	gone_views = g;
}

/* One that a context of long ago has left, to be registered anew; NULL: there is none. They are not unmapped: whether
 * the driver forgets with a context what was registered in it is not known, and what came to lie at such an address
 * would be taken for registered. So those of older boards stay for good. xm_lock held. */
static void *gone_view(uint32_t generation, uint64_t now)
{
	struct gone_view **at = &gone_views;

	while (*at) {
		struct gone_view *g = *at;

		if (g->by || now - g->since < VIEW_GRACE_NS) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		g->next = free_views;
		free_views = g;
		if (g->generation == generation)
			return g->view;
	}
	return NULL;
}

void xm_board_forget(struct xm_thread *me, struct xm_context *context)
{
	keep_view(me, context->view, context->generation);
	context->view = NULL;
	context->base = 0;
	context->generation = 0;
}

void xm_board_forgotten(struct xm_thread *me)
{
	for (struct gone_view *g = gone_views; g; g = g->next)
		if (g->by == me) {
			g->by = NULL;
			g->since = xm_now();
		}
}

/* A view of the attached board for `context` to register; NULL: it has one, or
 * can have none, and then its device says so. xm_lock held. */
static void *begin_view(struct xm_context *context, uint32_t generation)
{
	void *view = MAP_FAILED;

	if (!xm_state.board || context->generation == generation)
		return NULL;
	context->generation = generation; /* others go on without marks and waits meanwhile */
	context->base = 0;
	context->view = NULL; /* of an older board: pinned until the context goes */
	if (context->views < XM_VIEWS && xm_real.cuMemHostRegister_v2 && xm_real.cuMemHostGetDevicePointer_v2) {
		view = gone_view(generation, xm_now());
		if (!view)
			view = mmap(NULL, XM_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, xm_state.board_fd, 0);
	}
	if (view != MAP_FAILED) {
		context->asking = true;
		return view;
	}
	context->dev->unreached = true;
	xm_level_tell(context->dev);
	return NULL;
}

/* xm_lock held. */
static void end_view(struct xm_context *context, uint32_t generation, void *view, CUdeviceptr base)
{
	context->asking = false;
	if (context->generation != generation)
		return; /* of a board that has gone meanwhile */
	context->view = view;
	context->base = base;
	if (generation != atomic_load(&xm_state.generation))
		return;
	if (base)
		context->dev->reached = true;
	else
		context->dev->unreached = true;
	if (!xm_real.cuStreamWaitValue32_v2 && !xm_real.cuStreamWaitValue32)
		context->dev->no_waits = true;
	xm_level_tell(context->dev);
}

/* CUDA's runtime makes the primary context current before it retains it, and
 * nothing can be registered until it has. The next call asks again. */
static void forget_view(struct xm_context *context, uint32_t generation, void *view)
{
	pthread_mutex_lock(&xm_lock);
	keep_view(NULL, view, generation);
	context->asking = false;
	if (context->generation == generation)
		context->generation = 0;
	pthread_mutex_unlock(&xm_lock);
}

/*
 * Each context registers a view of its own: a registration ends with the
 * context that made it, and marks of other contexts may be under way then.
 * A view of an older board stays registered while the context lives, since
 * unregistering waits for the device.
 */
void xm_board_register(struct xm_context *context)
{
	uint32_t generation;
	CUdeviceptr base = 0;
	bool good;
	void *view;
	CUresult r;

	pthread_mutex_lock(&xm_lock);
	generation = atomic_load(&xm_state.generation);
	view = begin_view(context, generation);
	pthread_mutex_unlock(&xm_lock);
	if (!view)
		return;
	r = xm_real.cuMemHostRegister_v2(view, XM_BOARD_SIZE, REGISTER_FLAGS);
	if (r == NOT_INITIALISED) {
		forget_view(context, generation, view);
		return;
	}
	good = !r || r == ALREADY_REGISTERED;
	if (good && xm_real.cuMemHostGetDevicePointer_v2(&base, view, 0))
		base = 0;
	pthread_mutex_lock(&xm_lock);
	context->views += good;
	if (!good) {
		keep_view(NULL, view, generation);
		view = NULL;
	}
	end_view(context, generation, view, base);
	pthread_mutex_unlock(&xm_lock);
	xm_channels_kick();
}

void xm_board_reach(struct xm_thread *me, struct xm_context *context)
{
	uint32_t generation = atomic_load_explicit(&xm_state.generation, memory_order_relaxed);
	struct xm_quiet quiet;
	bool pushed;

	if (!(generation & 1) || atomic_load_explicit(&context->generation, memory_order_relaxed) == generation ||
	    atomic_load_explicit(&xm_state.leaving, memory_order_relaxed))
		return;
	pushed = xm_context_push(me, context);
	quiet = xm_quiet_begin();
	xm_board_register(context);
	xm_quiet_end(quiet);
	if (pushed)
		xm_context_pop();
}

/* The clock is read under the lock too: a time from before another thread saw a
 * newer beat would lie before that beat, and not "longer ago than the lease". */
uint64_t xm_daemon_left(void)
{
	uint64_t beat, now;

	if (!xm_state.board)
		return UINT64_MAX;
	now = xm_now();
	beat = __atomic_load_n(&xm_state.board->daemon.heartbeat, __ATOMIC_RELAXED);
	if (!pulse.since || beat != pulse.beat) {
		pulse.beat = beat;
		pulse.since = now;
	}
	return now - pulse.since < XM_LEASE_NS ? XM_LEASE_NS - (now - pulse.since) : 0;
}

bool xm_daemon_dead(void)
{
	return xm_daemon_left() == 0;
}
