#define _GNU_SOURCE
#include "agent_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "boardmap.h"
#include "channels.h"
#include "gate.h"
#include "hold.h"
#include "mem.h"
#include "memory_ready.h"
#include "record.h"
#include "sample.h"
#include "resolve.h"
#include "state.h"
#include "sys.h"
#include "uncovered.h"
#include "watchdog.h"

#define EXIT_TRIES 100
#define EXIT_TRY_NS 500000u
#define STACK (256u << 10) /* the agent's runtime makes threads of its own; this one only loads it */

/* Codes of our own warnings; the agent's begin above. */
enum { WARN_NO_AGENT = 1, WARN_AGENT_REFUSED = 2, WARN_NO_THREAD = 3, WARN_LAST = 63 }; /* and XM_WARN_IPC, XM_WARN_LEARNING, XM_WARN_LEARNT */

static _Atomic uint32_t news; /* adds 1 with every piece of news; futex word */
static _Atomic uint32_t uncovered_told;
static _Atomic uint64_t warned;

/* One write, so that lines of several processes do not mix. */
void xm_warn_once(int code, const char *text)
{
	char line[512];
	int n;

	if (code < 1 || code > WARN_LAST || atomic_fetch_or(&warned, (uint64_t)1 << code) >> code & 1)
		return;
	n = snprintf(line, sizeof line, "xmsched: %s\n", text);
	if (n >= (int)sizeof line) {
		n = sizeof line - 1;
		line[n - 1] = '\n';
	}
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* a program without stderr is told nothing */
}

static int collect(void)
{
	int set = 0;

	if (atomic_load(&uncovered_told) != __atomic_load_n(&xm_uncovered_total, __ATOMIC_ACQUIRE))
		set |= XM_NEWS_UNCOVERED;
	if (atomic_load(&xm_state.leaving))
		set |= XM_NEWS_LEAVING;
	return set;
}

static _Atomic bool agent_hears;

static int wait_news(int timeout_ms)
{
	uint64_t end = xm_now() + (timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * 1000000u);

	atomic_store_explicit(&agent_hears, true, memory_order_relaxed);
	for (;;) {
		uint32_t seen = atomic_load(&news);
		uint64_t now = xm_now();
		int set = collect();

		if (set || (timeout_ms >= 0 && now >= end))
			return set;
		xm_wait_word(&news, seen, timeout_ms < 0 ? 3600000000000u : end - now);
	}
}

static int uncovered(char *buf, int n)
{
	atomic_store(&uncovered_told, __atomic_load_n(&xm_uncovered_total, __ATOMIC_ACQUIRE));
	return xm_uncovered_names(buf, n);
}

/* Set once the agent has nothing more to keep; a futex. */
static _Atomic uint32_t agent_left;

#define LEFT_LIMIT 1000000000u

static void left(void)
{
	atomic_store(&agent_left, 1);
	xm_wake_word(&agent_left);
}

static void await_left(void)
{
	uint64_t end = xm_now() + LEFT_LIMIT;

	for (uint64_t now = xm_now(); !atomic_load(&agent_left) && now < end; now = xm_now())
		xm_wait_word(&agent_left, 0, end - now);
}

static const struct xm_host host = {
	.version = XM_HOST_VERSION,
	.size = sizeof host,
	.attach = xm_board_attach,
	.detach = xm_board_detach,
	.wait_news = wait_news,
	.uncovered = uncovered,
	.warn_once = xm_warn_once,
	.memory = &xm_memory,
	.commands = &xm_commands,
	.samples = &xm_samples,
	.left = left,
};

/* Where libxagent.so lies: $XMSCHED_LIB, else beside this library. */
static bool agent_path(char *path, size_t n)
{
	const char *dir = getenv("XMSCHED_LIB");
	const char *slash;
	Dl_info self;
	int len;

	if (dir && *dir) {
		len = snprintf(path, n, "%s/libxagent.so", dir);
	} else {
		if (!dladdr((void *)&xm_agent_spawn, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
			return false;
		len = snprintf(path, n, "%.*s/libxagent.so", (int)(slash - self.dli_fname), self.dli_fname);
	}
	return len > 0 && (size_t)len < n;
}

static bool daemon_listens(void)
{
	const char *dir = getenv("XMSCHED_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	int len;

	if (dir && *dir)
		len = snprintf(path, sizeof path, "%s/board.sock", dir);
	else if (runtime && *runtime)
		len = snprintf(path, sizeof path, "%s/xmsched/board.sock", runtime);
	else
		len = snprintf(path, sizeof path, "/run/xmsched/board.sock");
	return len > 0 && (size_t)len < sizeof path && access(path, F_OK) == 0;
}

static void give_up(int code, const char *what, const char *why)
{
	char text[400];

	atomic_store(&xm_state.expecting, false);
	snprintf(text, sizeof text, "%.180s: %.180s; this program runs unscheduled", what, why ? why : "no reason given");
	xm_warn_once(code, text);
}

static void *start(void *unused)
{
	int (*agent)(const struct xm_host *);
	char path[PATH_MAX];
	void *lib;

	pthread_setname_np(pthread_self(), "xm-agent");
	if (!agent_path(path, sizeof path)) {
		give_up(WARN_NO_AGENT, "the agent cannot be found", "set XMSCHED_LIB to the folder of libxagent.so");
		return unused;
	}
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		give_up(WARN_NO_AGENT, "the agent cannot be loaded", dlerror());
		return unused;
	}
	*(void **)&agent = dlsym(lib, "xm_agent_start");
	if (!agent)
		give_up(WARN_NO_AGENT, path, "it has no xm_agent_start");
	else if (agent(&host) < 0)
		give_up(WARN_AGENT_REFUSED, path, "the agent did not start");
	return unused;
}

/* A lock for a moment at exit. The program may call exit in a handler that
 * interrupted this very thread inside, so nobody waits for long. */
static bool lock_soon(pthread_mutex_t *m)
{
	static _Atomic uint32_t never;

	for (int i = 0; i < EXIT_TRIES; i++) {
		if (pthread_mutex_trylock(m) == 0)
			return true;
		xm_wait_word(&never, 0, EXIT_TRY_NS);
	}
	return false;
}

/* Before anything may run again (memory_ready.h). False: our threads do it, and what
 * follows, as soon as it can be done. */
static bool memory_made_good(bool *tried)
{
	bool good = *tried = lock_soon(&xm_mem_lock);

	if (good)
		pthread_mutex_unlock(&xm_mem_lock);
	for (uint32_t i = 0; *tried && i < XM_BOARD_DEVICES; i++)
		good &= xm_memory_ready(i) == 0;
	return good;
}

/* At exit the driver tears itself down; our threads ask it nothing from then
 * on, and who is asking now is waited for. It may wait for work that a closed
 * gate holds back, so the gates of a leaving process are opened and stay open. */
static void leaving(void)
{
	bool good, tried;

	if (atomic_load(&xm_aside) || atomic_exchange(&xm_state.leaving, true))
		return;
	if (xm_learns())
		xm_sample_report();
	good = memory_made_good(&tried);
	if (good)
		(void)xm_hold_leave(); /* first: who holds the next lock may be waiting for suspended work */
	if (lock_soon(&xm_probe))
		pthread_mutex_unlock(&xm_probe);
	if (lock_soon(&xm_lock)) {
		if (xm_state.board)
			__atomic_store_n(&xm_state.board->client.state, XM_CLIENT_LEAVING, __ATOMIC_RELEASE);
		for (uint32_t i = 0; good && xm_state.board && i < xm_state.dev_count; i++)
			xm_gate_open(&xm_state.board->devices[i]);
		pthread_mutex_unlock(&xm_lock);
	}
	for (uint32_t i = 0; tried && i < XM_BOARD_DEVICES; i++)
		xm_memory_opened(i);
	xm_watchdog_kick(); /* it opens what the daemon closes from now on, or what could not be opened here */
	xm_channels_kick();
	xm_agent_news();
	if (xm_learns() && atomic_load(&agent_hears))
		await_left();
}

void xm_agent_leaving(void)
{
	leaving();
}

/* Handlers run in the reverse order of their registration, so this one has to
 * be registered after the driver's. */
void xm_agent_watch_exit(void)
{
	static _Atomic bool watching;

	if (!atomic_exchange(&watching, true))
		atexit(leaving);
}

void xm_agent_news(void)
{
	atomic_fetch_add(&news, 1);
	xm_wake_word(&news);
}

/*
 * The thread starts with all signals blocked, and every thread that the
 * agent's runtime makes inherits that: no signal of the program is ever
 * delivered on a stack of theirs.
 */
void xm_agent_spawn(void)
{
	static _Atomic bool spawned;
	int was = errno, failed;

	if (atomic_load(&xm_aside) || atomic_exchange(&spawned, true))
		return;
	atomic_store(&xm_state.expecting, daemon_listens());
	failed = xm_small_thread(start, STACK);
	if (failed)
		give_up(WARN_NO_THREAD, "the agent's thread cannot be made", strerror(failed));
	errno = was;
}
