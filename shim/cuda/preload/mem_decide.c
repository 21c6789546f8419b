/* Whether memory is managed: asked once a device, when a program first allocates there. */
#include "memory_here.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "fork.h"
#include "mem.h"
#include "sys.h"
#include "thread.h"

#define ANSWER_MS 1000u /* the agent attaches the board beside the program's start, on a busy machine late; then the daemon answers */
#define ANSWER_MOST_MS 60000u

/* $XMSCHED_MEMORY_WAIT: how many milliseconds an answer may take, on machines so busy that the agent starts later. */
static uint64_t patience(void)
{
	const char *text = getenv("XMSCHED_MEMORY_WAIT");
	unsigned long ms = text ? strtoul(text, NULL, 10) : ANSWER_MS;

	return (uint64_t)(ms < ANSWER_MOST_MS ? ms : ANSWER_MOST_MS) * 1000000;
}

/* xrun says so when the daemon manages memory: nothing is waited for otherwise. */
static bool expected(void)
{
	static _Atomic int answer; /* 1 no, 2 yes */
	int a = atomic_load_explicit(&answer, memory_order_relaxed);

	if (!a) {
		const char *text = getenv("XMSCHED_MEMORY");

		a = text && strcmp(text, "1") == 0 ? 2 : 1;
		atomic_store_explicit(&answer, a, memory_order_relaxed);
	}
	return a == 2;
}

/* $XMSCHED_PIN_MEMORY: xrun --pin-memory. */
static bool stays(void)
{
	const char *text = getenv("XMSCHED_PIN_MEMORY");

	return text && strcmp(text, "1") == 0;
}

enum answer { NOT_YET, NO, YES };

/* *watch: what changes when there is more to know. */
static enum answer ask(uint32_t section, struct xm_watch watch[2], unsigned *n)
{
	const struct xm_device *s;
	enum answer a = NOT_YET;
	uint32_t want = 0;

	*n = 0;
	pthread_mutex_lock(&xm_lock);
	watch[(*n)++] = (struct xm_watch){.word = &xm_state.generation, .seen = atomic_load(&xm_state.generation)};
	s = xm_state.devs[section].section;
	if (s) {
		want = __atomic_load_n(&s->daemon_memory.want, __ATOMIC_ACQUIRE);
		watch[(*n)++] = (struct xm_watch){.word = (const _Atomic uint32_t *)&s->daemon_memory.want, .seen = want};
	}
	if (want)
		a = __atomic_load_n(&s->daemon_memory.flags, __ATOMIC_RELAXED) & XM_MEMORY_MANAGED ? YES : NO;
	else if (!s && !atomic_load(&xm_state.expecting))
		a = NO; /* nobody is coming */
	pthread_mutex_unlock(&xm_lock);
	return a;
}

static enum answer wait_for_answer(uint32_t section)
{
	uint64_t end = xm_now() + patience(), now;
	struct xm_watch watch[2];
	enum answer a;
	unsigned n;

	while ((a = ask(section, watch, &n)) == NOT_YET && (now = xm_now()) < end)
		xm_wait_words(watch, n, end - now);
	return a;
}

static void decide(struct xm_mem *m, CUdevice device)
{
	static pthread_mutex_t deciding = PTHREAD_MUTEX_INITIALIZER;
	enum answer a;

	pthread_mutex_lock(&deciding);
	if (atomic_load(&m->verdict) == XM_MEM_UNKNOWN) {
		a = wait_for_answer(xm_mem_index(m));
		m->device = device;
		m->stays = stays();
		if (a == YES && xm_vmm_usable(m)) {
			atomic_store(&m->verdict, XM_MEM_ON);
			atomic_store(&xm_mem_any, true);
		} else {
			m->why_off = a == YES ? XM_MEMORY_UNABLE : a == NOT_YET ? XM_MEMORY_LATE : 0;
			atomic_store(&m->verdict, XM_MEM_OFF);
		}
		pthread_mutex_lock(&xm_mem_lock);
		xm_mem_tell(m);
		pthread_mutex_unlock(&xm_mem_lock);
	}
	pthread_mutex_unlock(&deciding);
}

struct xm_mem *xm_memory_here(CUcontext *context)
{
	struct xm_thread *me;
	struct xm_context *c;
	struct xm_mem *m = NULL;
	CUdevice device = 0;
	uint32_t verdict;

	if (!expected() || !(me = xm_enter()))
		return NULL;
	c = xm_context_current(me);
	if (c) {
		m = &xm_mems[c->dev->index];
		device = c->dev->handle;
		*context = c->handle;
	}
	verdict = m ? atomic_load(&m->verdict) : XM_MEM_OFF;
	if (verdict == XM_MEM_UNKNOWN) {
		decide(m, device);
		verdict = atomic_load(&m->verdict);
	}
	xm_leave(me);
	return verdict == XM_MEM_ON ? m : NULL;
}

struct xm_mem *xm_memory_known(void)
{
	struct xm_thread *me;
	struct xm_context *c;
	struct xm_mem *m = NULL;

	if (!atomic_load_explicit(&xm_mem_any, memory_order_relaxed) || !(me = xm_enter()))
		return NULL;
	c = xm_context_current(me);
	if (c)
		m = xm_mem_of(c->dev->index);
	xm_leave(me);
	return m;
}

struct xm_mem *xm_memory_on(CUdevice device)
{
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++) {
		struct xm_mem *m = xm_mem_of(i);

		if (m && m->device == device)
			return m;
	}
	return NULL;
}
