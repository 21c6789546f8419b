#define _GNU_SOURCE
#include "boardmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "queue.h"
#include "sys.h"
#include "tail.h"
#include "thread.h"
#include "watchdog.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define REGISTER_FLAGS 3u           /* CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP */
#define ALREADY_REGISTERED 712      /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
#define VIEW_GRACE_NS 10000000000u  /* a context that is gone for so long writes no more */

/* Views of contexts that are gone; the GPU may write until the driver is done
 * with the context, so they outlive it for a while. Protected by xm_lock. */
struct gone_view {
	struct gone_view *next;
	void *view;
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
	xm_wake_word(&xm_state.generation);
	return 0;
}

/*
 * A thread may stand between the look at its lease's key and the load of the
 * gate word, for as long as the kernel likes; so our view cannot be unmapped.
 * It is replaced in place by a page of zeros that is never written: the memory
 * is given back, the address stays, and a late reader finds another word.
 */
void xm_board_detach(void)
{
	const _Atomic uint32_t *gates[XM_BOARD_DEVICES];
	struct xm_board *b;
	uint32_t n;

	pthread_mutex_lock(&xm_lock);
	b = xm_state.board;
	if (!b || atomic_load(&xm_aside)) {
		pthread_mutex_unlock(&xm_lock);
		return;
	}
	xm_state.board = NULL;
	atomic_fetch_add(&xm_state.generation, 1);
	atomic_store(&xm_state.competitor, false);
	n = xm_state.dev_count;
	for (uint32_t i = 0; i < n; i++) {
		gates[i] = atomic_load(&xm_state.devs[i].gate);
		xm_dev_release(&xm_state.devs[i]);
	}
	xm_thread_revoke_all();
	close(xm_state.board_fd);
	close(xm_state.event_fd);
	xm_state.board_fd = xm_state.event_fd = -1;
	pthread_mutex_unlock(&xm_lock);

	for (uint32_t i = 0; i < n; i++)
		if (gates[i] != &xm_gate_absent)
			xm_wake_word(gates[i]);
	xm_watchdog_kick();
	xm_tail_kick();
	xm_blank(b, XM_BOARD_SIZE);
}

/* xm_lock held. */
static void keep_view(void *view)
{
	struct gone_view *g = free_views;

	if (!view)
		return;
	if (g)
		free_views = g->next;
	else if (!(g = xm_keep(sizeof *g)))
		return; /* the view stays mapped for good */
	*g = (struct gone_view){.next = gone_views, .view = view, .since = xm_now()};
	gone_views = g;
}

/* xm_lock held. */
static void drop_gone_views(uint64_t now)
{
	struct gone_view **at = &gone_views;

	while (*at) {
		struct gone_view *g = *at;

		if (now - g->since < VIEW_GRACE_NS) {
			at = &g->next;
			continue;
		}
		munmap(g->view, XM_BOARD_SIZE);
		*at = g->next;
		g->next = free_views;
		free_views = g;
	}
}

void xm_board_forget(struct xm_context *context)
{
	keep_view(context->view);
	context->view = NULL;
	context->base = 0;
	context->generation = 0;
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
	void *view = NULL;
	CUresult r;

	pthread_mutex_lock(&xm_lock);
	generation = atomic_load(&xm_state.generation);
	if (!xm_state.board || context->generation == generation) {
		pthread_mutex_unlock(&xm_lock);
		return;
	}
	context->generation = generation; /* others go on without marks meanwhile */
	context->base = 0;
	context->view = NULL; /* of an older board: pinned until the context goes */
	drop_gone_views(xm_now());
	if (context->views < XM_VIEWS && xm_real.cuMemHostRegister_v2 && xm_real.cuMemHostGetDevicePointer_v2) {
		view = mmap(NULL, XM_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, xm_state.board_fd, 0);
		if (view == MAP_FAILED)
			view = NULL;
	}
	pthread_mutex_unlock(&xm_lock);
	if (!view)
		return;

	r = xm_real.cuMemHostRegister_v2(view, XM_BOARD_SIZE, REGISTER_FLAGS);
	if (r == 0 || r == ALREADY_REGISTERED)
		r = xm_real.cuMemHostGetDevicePointer_v2(&base, view, 0);
	else {
		munmap(view, XM_BOARD_SIZE);
		return;
	}
	pthread_mutex_lock(&xm_lock);
	context->views++;
	if (r == 0 && context->generation == generation) {
		context->view = view;
		context->base = base;
	}
	pthread_mutex_unlock(&xm_lock);
}

bool xm_daemon_dead(uint64_t now)
{
	uint64_t beat;

	if (!xm_state.board)
		return false;
	beat = __atomic_load_n(&xm_state.board->daemon.heartbeat, __ATOMIC_RELAXED);
	if (!pulse.since || beat != pulse.beat) {
		pulse.beat = beat;
		pulse.since = now;
	}
	return now - pulse.since >= XM_LEASE_NS;
}
