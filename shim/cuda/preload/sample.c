#include "sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_start.h"
#include "kernels.h"
#include "resolve.h"
#include "state.h"
#include "sys.h"

#ifndef STEP_NS
#define STEP_NS 1000000000u /* the agent's time for a step */
#endif
/* Of them until it has seen a launch's end: each block that this touches is a fault, and 360 MiB of them took 5 s on
 * an H200. The agent waits for the launch itself. */
#define RUN_STEPS 8u

_Atomic int xm_learning;

/*
 * The turn of a sample. The word holds its number and where it is; whoever gives up does so by
 * exchange, so that both sides agree. TAKEN, SKIPPED, READY and SEEN are the agent's to write.
 *
 *   FREE -> OFFERED -> TAKEN -> READY -> RAN -> SEEN -> the next one's FREE
 *
 * SKIPPED comes instead of READY, REFUSED instead of RAN; late is who finds the next one's FREE.
 */
enum phase { FREE, OFFERED, TAKEN, SKIPPED, READY, RAN, REFUSED, SEEN };
#define PHASES 8u
#define TURN(number, phase) ((number) * PHASES + (phase))

static _Atomic uint32_t turn;      /* futex word */
static _Atomic uint32_t listening; /* 1: the agent has asked for samples. Futex word */
static _Atomic uint32_t over;      /* XM_SAMPLES_* */
static _Atomic uint32_t busy;      /* 1: some thread has the turn. Futex word */
static _Thread_local bool mine __attribute__((tls_model("initial-exec"))); /* the thread is in here, or has the turn: its handlers' launches pass */

/* Of the thread that has the turn. */
static struct xm_sample head;
static struct xm_record record;
static struct xm_shape *chosen;
static uint64_t begun;

bool xm_learns_now(void)
{
	const char *text = getenv("XMSCHED_LEARN");
	bool yes = text && strcmp(text, "1") == 0;

	atomic_store_explicit(&xm_learning, yes ? XM_LEARNS : XM_LEARNS_NOT, memory_order_relaxed);
	return yes;
}

bool xm_samples_over(void)
{
	return atomic_load_explicit(&over, memory_order_relaxed) != 0;
}

static void end_for(uint32_t why)
{
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong(&over, &none, why))
		return;
	if (why == XM_SAMPLES_MISSED)
		xm_warn_once(XM_WARN_LEARNING, "the agent has not answered three times in a row: nothing more is learnt of this program, which goes on");
	xm_wake_word(&turn);
}

static bool out_of_the_question(void)
{
	return mine || xm_samples_over() || atomic_load(&xm_aside) || atomic_load(&xm_state.leaving);
}

/* Somebody else's sample: its faults are to be its own. One whose thread does not come back (it
 * may have ended, or jumped out of a handler) is waited for once. */
static void let_pass(void)
{
	static _Atomic uint32_t lost; /* number of such a turn, plus 1 */
	uint64_t until = 0;

	while (atomic_load(&busy)) {
		uint32_t number = atomic_load(&turn) / PHASES + 1;
		uint64_t now = xm_now();

		if (!until)
			until = now + (1 + RUN_STEPS) * (uint64_t)STEP_NS;
		if (now >= until)
			atomic_store(&lost, number);
		if (atomic_load(&lost) == number || xm_samples_over())
			return;
		xm_wait_word(&busy, 1, until - now);
	}
}

/* A program that has just begun is faster than its agent. */
static bool agent_listens(void)
{
	static _Atomic bool waited;
	uint64_t until;

	if (atomic_load(&listening) || atomic_exchange(&waited, true))
		return atomic_load(&listening);
	until = xm_now() + STEP_NS;
	for (uint64_t now; !atomic_load(&listening) && (now = xm_now()) < until;)
		xm_wait_word(&listening, 0, until - now);
	return atomic_load(&listening);
}

/* ---- the turn ------------------------------------------------------------------------ */

/* Waits until the word has left `from` (and what comes before it of the same turn). */
static uint32_t await(uint32_t last, uint32_t steps)
{
	uint64_t until = xm_now() + steps * (uint64_t)STEP_NS, now;
	uint32_t at;

	while ((at = atomic_load(&turn)) <= last && !xm_samples_over() && (now = xm_now()) < until)
		xm_wait_word(&turn, at, until - now);
	return at;
}

/* The sample is over for this thread. `missed`: the agent did not come in time. */
static void settle(bool taken, bool missed)
{
	uint32_t why = xm_sample_took(chosen, xm_now() - begun, taken, missed);

	if (why)
		end_for(why);
	atomic_store(&turn, TURN(head.number, PHASES));
	atomic_store(&busy, 0);
	xm_wake_word(&busy);
}

static bool offer(const struct xm_launch *l)
{
	CUcontext context = NULL;
	CUdevice device = 0;

	if (!xm_real.cuCtxGetCurrent || !xm_real.cuCtxGetDevice || xm_real.cuCtxGetCurrent(&context) || !context || xm_real.cuCtxGetDevice(&device))
		return false;
	xm_record_build(&record, l);
	record.head.bytes = ((uint32_t)sizeof record.head + record.head.payload + 7) & ~7u;
	record.head.section = XM_COMMAND_NO_SECTION;
	record.head.queue = XM_COMMAND_NO_QUEUE;
	record.head.ns = begun;
	head.number = atomic_load(&turn) / PHASES;
	head.bytes = record.head.bytes;
	head.context = (uint64_t)(uintptr_t)context;
	head.device = device;
	atomic_store(&turn, TURN(head.number, OFFERED));
	xm_wake_word(&turn);
	return true;
}

static bool wait_until_ready(void)
{
	uint32_t at = await(TURN(head.number, TAKEN), 1);

	while (at <= TURN(head.number, TAKEN)) /* late, unless the answer comes at this very moment */
		if (atomic_compare_exchange_strong(&turn, &at, TURN(head.number, PHASES))) {
			settle(false, true);
			return false;
		}
	if (at == TURN(head.number, READY))
		return true;
	settle(false, false);
	return false;
}

/* A kernel whose parameters are known, that is to be a sample. */
static bool begin(const struct xm_launch *l)
{
	const struct xm_known *k;
	struct xm_shape *shape;
	uint32_t no = 0;

	let_pass();
	/* Where others compete the device is not to be had quiet for as long as it takes. */
	if (atomic_load(&xm_state.captures) || atomic_load(&xm_state.competitor) || !agent_listens())
		return false;
	k = xm_kernel_known(l->f);
	shape = k && k->flags & XM_KERNEL_LAYOUT ? xm_sample_choose(l, k->id) : NULL;
	if (!shape || !xm_sample_readable(l, k) || !atomic_compare_exchange_strong(&busy, &no, 1))
		return false;
	chosen = shape;
	begun = xm_now();
	if (offer(l))
		return wait_until_ready();
	settle(false, false);
	return false;
}

bool xm_sample_begin(const struct xm_launch *l)
{
	int was = errno;

	if (out_of_the_question())
		return false;
	mine = true;
	mine = begin(l);
	errno = was;
	return mine;
}

bool xm_sample_begin_config(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	struct xm_launch l;

	if (!config)
		return false; /* the driver refuses it */
	l = (struct xm_launch){.f = f,
			       .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
			       .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
			       .shared = config->sharedMemBytes,
			       .params = params,
			       .extra = extra};
	return xm_sample_begin(&l);
}

void xm_sample_end(CUresult result)
{
	uint32_t ran = TURN(head.number, RAN);
	int was = errno;
	bool seen = false;

	atomic_store(&turn, result ? TURN(head.number, REFUSED) : ran);
	xm_wake_word(&turn);
	if (!result) /* late, unless the answer comes at this very moment */
		seen = await(ran, RUN_STEPS) > ran || !atomic_compare_exchange_strong(&turn, &ran, TURN(head.number, PHASES));
	settle(seen, !result && !seen);
	mine = false;
	errno = was;
}

void xm_sample_quiet(void)
{
	if (!out_of_the_question())
		let_pass();
}

void xm_sample_report(void)
{
	struct xm_sample_figures f;
	char text[256];

	xm_samples.figures(&f);
	snprintf(text, sizeof text,
		 "learning: %llu launches were looked at, %llu not in time, which took %.1f s; of memory %llu MiB could be looked at, %llu MiB could not",
		 (unsigned long long)f.taken, (unsigned long long)f.missed, (double)f.ns / 1e9, (unsigned long long)(f.managed_most >> 20),
		 (unsigned long long)(f.plain >> 20));
	xm_warn_once(XM_WARN_LEARNT, text);
}

/* ---- the agent's side ------------------------------------------------------------------ */

static int learns(void)
{
	return xm_learns() && !xm_samples_over();
}

static bool ended(void)
{
	return xm_samples_over() || !xm_learns() || atomic_load(&xm_aside) || atomic_load(&xm_state.leaving);
}

/* What is copied belongs to the turn when that is still the same afterwards. */
static bool take(uint32_t at, struct xm_sample *to, void *into)
{
	uint32_t bytes = head.bytes;

	if (bytes > XM_COMMAND_MOST)
		return false;
	*to = head;
	memcpy(into, &record, bytes);
	return atomic_compare_exchange_strong(&turn, &at, at - OFFERED + TAKEN);
}

static int next(int timeout_ms, struct xm_sample *to, void *into)
{
	uint64_t until = xm_now() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000u : 0), now;

	if (!atomic_exchange(&listening, 1))
		xm_wake_word(&listening);
	while (!ended()) {
		uint32_t at = atomic_load(&turn);

		if (at % PHASES == OFFERED && take(at, to, into))
			return 1;
		now = xm_now();
		if (now >= until)
			return 0;
		if (at % PHASES != OFFERED)
			xm_wait_word(&turn, at, until - now);
	}
	return -ECANCELED;
}

static int step(uint32_t number, uint32_t from, uint32_t to)
{
	uint32_t at = TURN(number, from);
	bool yes = atomic_compare_exchange_strong(&turn, &at, TURN(number, to));

	if (yes)
		xm_wake_word(&turn);
	return yes;
}

static int skip(uint32_t number)
{
	return step(number, TAKEN, SKIPPED);
}

static int ready(uint32_t number)
{
	return step(number, TAKEN, READY);
}

static int ran(uint32_t number, int timeout_ms)
{
	uint64_t until = xm_now() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000u : 0), now;
	uint32_t at;

	while ((at = atomic_load(&turn)) == TURN(number, READY) && (now = xm_now()) < until)
		xm_wait_word(&turn, at, until - now);
	return at == TURN(number, RAN) ? 1 : at == TURN(number, READY) ? 0 : -ECANCELED;
}

static int done(uint32_t number)
{
	return step(number, RAN, SEEN);
}

static void stop(void)
{
	end_for(XM_SAMPLES_STOPPED);
}

static void tell(struct xm_sample_figures *out)
{
	memset(out, 0, sizeof *out);
	xm_sample_figures(out);
	xm_sample_memory_figures(out);
	out->over = atomic_load(&over);
}

const struct xm_samples xm_samples = {
	.version = XM_SAMPLES_VERSION,
	.size = sizeof xm_samples,
	.learns = learns,
	.next = next,
	.skip = skip,
	.ready = ready,
	.ran = ran,
	.done = done,
	.stop = stop,
	.ranges = xm_sample_ranges,
	.figures = tell,
};
