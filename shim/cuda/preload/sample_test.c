/* The turn of a sample, between threads of a program and an agent that is quick, absent, late or dead. Each
 * case runs in a process of its own. */
#define _GNU_SOURCE
static unsigned long long step_ns;
#define STEP_NS step_ns
#define BUDGET_NS 3000000000u
#include "sample.c"

#include "sample_choice.c"
#include "sample_read.c"
#include "sys.c"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP 40u /* ms, where somebody is late */
#define HARDLY (50 * STEP)

struct xm_state xm_state;
struct xm_real xm_real;
_Atomic bool xm_aside;
static _Atomic int warned, sampling, sampled_so_far;
static bool handler;

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "sample_test: %s\n", what);
	_exit(1);
}

void xm_warn_once(int code, const char *text)
{
	atomic_fetch_add(&warned, code == XM_WARN_LEARNING && text != NULL);
	if (code == XM_WARN_LEARNT)
		check(strstr(text, "8 launches were looked at, 0 not in time") != NULL, text);
}

/* ---- what is behind it -------------------------------------------------------------- */

static const struct xm_known known[2] = {{.id = 1, .flags = XM_KERNEL_LAYOUT}, {.id = 2, .flags = XM_KERNEL_LAYOUT}};
static const struct xm_known strange = {.id = 3};
static const struct xm_parameter layout[2] = {{0, 8}, {8, 4}};
static const struct xm_known with_parameters = {.id = 5, .flags = XM_KERNEL_LAYOUT, .parameters = 2, .bytes = 12, .parameter = layout};

const struct xm_known *xm_kernel_known(CUfunction f)
{
	uintptr_t n = (uintptr_t)f;

	return n == 1 || n == 2 ? &known[n - 1] : n == 3 ? &strange : n == 5 ? &with_parameters : NULL;
}

void xm_record_build(struct xm_record *r, const struct xm_launch *l)
{
	/* The program's handler, on this very thread. */
	if (handler)
		check(!xm_sample_begin(l), "a handler's launch passes");
	memset(&r->head, 0, sizeof r->head);
	r->head.kind = XM_COMMAND_KERNEL;
	r->head.kernel = xm_kernel_known(l->f)->id;
	r->head.payload = 16;
	memset(r->payload, 7, 16);
}

int xm_sample_ranges(struct xm_sample_range *views, int n)
{
	(void)views;
	return n;
}

void xm_sample_memory_figures(struct xm_sample_figures *f)
{
	f->managed = 5;
}

static CUresult current(CUcontext *c)
{
	*c = (CUcontext)(uintptr_t)0x1234;
	return 0;
}

static CUresult current_device(CUdevice *d)
{
	*d = 3;
	return 0;
}

/* ---- the program ---------------------------------------------------------------------- */

/* One launch; true: it was a sample. */
static bool launch(uintptr_t kernel, uint32_t blocks, CUresult result)
{
	struct xm_launch l = {.f = (CUfunction)kernel, .grid = {blocks, 1, 1}, .block = {32, 1, 1}};
	bool sampled;

	errno = 77;
	sampled = xm_sample_begin(&l);
	if (sampled) {
		check(atomic_fetch_add(&sampling, 1) == 0, "one sample at a time");
		usleep(1000);
		atomic_fetch_sub(&sampling, 1);
		atomic_fetch_add(&sampled_so_far, 1);
		xm_sample_end(result);
	}
	check(errno == 77, "errno is the program's");
	return sampled;
}

static uint64_t ms_of(uintptr_t kernel, uint32_t blocks)
{
	uint64_t from = xm_now();

	launch(kernel, blocks, 0);
	return (xm_now() - from) / 1000000u;
}

static struct xm_sample_figures now_figures(void)
{
	struct xm_sample_figures f;

	xm_samples.figures(&f);
	return f;
}

/* One launch of the kernel that has parameters, in a shape of its own. */
static bool gives(void **params, void **extra)
{
	static uint32_t blocks;
	struct xm_launch l = {.f = (CUfunction)(uintptr_t)5, .grid = {++blocks, 1, 1}, .block = {32, 1, 1}, .params = params, .extra = extra};
	bool sampled = xm_sample_begin(&l);

	if (sampled)
		xm_sample_end(0);
	return sampled;
}

/* ---- the agent ------------------------------------------------------------------------- */

enum how { QUICK, SKIPS, LATE_READY, SLOW_DONE, LATE_DONE, ENDS, DEAD };
static _Atomic enum how how;
static _Atomic int refusals, gone;

static void *agent(void *unused)
{
	static uint64_t buffer[XM_COMMAND_MOST / 8];
	struct xm_sample s;
	int r;

	while ((r = xm_samples.next(20, &s, buffer)) >= 0) {
		struct xm_command *c = (struct xm_command *)(void *)buffer;
		if (!r)
			continue;
		check(s.context == 0x1234 && s.device == 3 && c->kind == XM_COMMAND_KERNEL && c->kernel && c->payload == 16 && s.bytes == c->bytes && c->bytes == 88,
		      "the agent is told of the launch");
		if (how == DEAD)
			return unused;
		if (how == SKIPS) {
			check(xm_samples.skip(s.number) == 1, "a launch can be let go");
			continue;
		}
		usleep(how == LATE_READY ? 3 * STEP * 1000 : 0);
		if (!xm_samples.ready(s.number)) {
			atomic_fetch_add(&gone, 1);
			check(how == LATE_READY, "ready comes in time");
			continue;
		}
		while ((r = xm_samples.ran(s.number, 5)) == 0)
			;
		if (r < 0) {
			atomic_fetch_add(&refusals, 1);
			continue;
		}
		if (how == ENDS) {
			xm_samples.stop();
			return unused;
		}
		usleep(how == LATE_DONE ? (RUN_STEPS + 2) * STEP * 1000 : how == SLOW_DONE ? 3 * STEP * 1000 : 0);
		if (!xm_samples.done(s.number))
			atomic_fetch_add(&gone, 1);
	}
	return unused;
}

static pthread_t run_agent(enum how h)
{
	pthread_t t;

	how = h;
	check(!pthread_create(&t, NULL, agent, NULL), "a thread");
	while (!atomic_load(&listening))
		xm_pause();
	return t;
}

static void until(const _Atomic int *word, int value)
{
	for (int i = 0; i < 2000 && atomic_load(word) < value; i++)
		usleep(5000);
}

/* ---- cases --------------------------------------------------------------------------------- */

static void absent(void)
{
	uint64_t first = ms_of(1, 1);

	check(first >= STEP - 1 && first < HARDLY, "who is absent is waited for");
	step_ns *= 1000;
	check(ms_of(1, 1) < HARDLY, "once");
	check(now_figures().asked == 0 && now_figures().missed == 0 && !warned, "and nothing is counted");
}

static void quick(void)
{
	int samples = 0, others = 0;

	run_agent(QUICK);
	handler = true;
	for (int i = 0; i < 300; i++)
		samples += launch(1, 1, 0);
	check(samples == 8 && now_figures().taken == 8, "eight of a kernel in one shape");
	xm_sample_report();
	for (int i = 0; i < 300; i++)
		others += launch(1, 2, 0) + launch(2, 1, 0) + launch(3, 1, 0) + launch(4, 1, 0);
	check(others == 16, "another shape and another kernel are others; what has no layout is none");
	check(now_figures().missed == 0 && now_figures().over == 0 && now_figures().managed == 5 && gone == 0, "all in time");
}

static void skipped(void)
{
	run_agent(SKIPS);
	for (int i = 0; i < 1000; i++)
		check(!launch(1, 1, 0), "a launch that is let go is no sample");
	check(now_figures().asked == 10 && now_figures().taken == 0 && now_figures().missed == 0, "it is asked for at doubling distances");
}

static void refused(void)
{
	run_agent(QUICK);
	for (int i = 0; i < 64; i++)
		(void)launch(1, 1, 701);
	check(now_figures().taken == 0 && now_figures().asked == 7 && now_figures().missed == 0, "what the driver refuses is no observation");
	until(&refusals, 7);
	check(refusals == 7, "the agent is told");
}

static void late(void)
{
	run_agent(LATE_READY);
	check(ms_of(1, 1) < HARDLY && now_figures().missed == 1, "a launch goes on without the agent");
	until(&gone, 1);
	check(gone == 1, "who is late finds it gone");
	how = QUICK;
	step_ns *= 1000;
	check(!launch(1, 1, 0) && launch(2, 1, 0), "what took so long is not tried again, others are");
	how = SLOW_DONE;
	step_ns /= 1000;
	check(launch(2, 3, 0) && now_figures().missed == 1, "a launch may take longer, of which each touch is a fault");
	how = LATE_DONE;
	check(launch(2, 2, 0), "a sample");
	until(&gone, 2);
	check(gone == 2 && now_figures().missed == 2 && now_figures().taken == 2, "late in the end counts as well");
	for (uint32_t i = 3; i < 9; i += 2) {
		how = QUICK;
		step_ns *= 1000;
		check(launch(1, 10 + i, 0), "a sample between");
		how = LATE_READY;
		step_ns /= 1000;
		check(!launch(1, 11 + i, 0), "and one that is late");
		until(&gone, (int)(i + 1) / 2 + 1);
	}
	check(now_figures().missed == 5 && now_figures().taken == 5 && now_figures().over == 0 && !warned, "some that are late end nothing");
}

static void dead(void)
{
	pthread_t t = run_agent(DEAD);
	uint64_t from = xm_now();
	struct xm_sample s;
	uint64_t buffer[XM_COMMAND_MOST / 8];

	for (uint32_t i = 1; i < 50; i++)
		check(!launch(1, i, 0), "no sample without an agent");
	check((xm_now() - from) / 1000000u < HARDLY, "a dead agent costs three steps");
	check(now_figures().over == XM_SAMPLES_MISSED && now_figures().missed == 3 && warned == 1 && xm_samples_over(), "then it is over, and said");
	check(xm_samples.next(1000, &s, buffer) == -ECANCELED && !xm_samples.learns(), "for the agent too");
	pthread_join(t, NULL);
}

static void ended_meanwhile(void)
{
	run_agent(ENDS);
	check(ms_of(1, 1) < STEP, "a launch's end is not waited for once the agent has ended");
	check(now_figures().over == XM_SAMPLES_STOPPED && !warned, "it is over");
}

static void forbidden(void)
{
	run_agent(QUICK);
	atomic_store(&xm_state.captures, 1);
	check(!launch(1, 1, 0), "not while anything captures");
	atomic_store(&xm_state.captures, 0);
	atomic_store(&xm_state.competitor, true);
	check(!launch(1, 1, 0), "not while others compete");
	atomic_store(&xm_state.competitor, false);
	check(launch(1, 1, 0), "else");
	xm_samples.stop();
	check(!launch(1, 1, 0) && !launch(2, 1, 0) && now_figures().over == XM_SAMPLES_STOPPED && !warned, "not when the agent has stopped it");
}

/* The driver may refuse a launch without having read a parameter. */
static void dangling(void)
{
	char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = page + PAGE;
	size_t n = 12, more = 2 * PAGE;
	void *nowhere = (void *)0x18, *size = &n;
	void **p = (void **)(void *)page, **last = (void **)(void *)end;

	check(page != MAP_FAILED && !mprotect(end, PAGE, PROT_NONE), "a page that cannot be read");
	run_agent(QUICK);
	check(!gives((void *[]){page, nowhere}, NULL) && !gives((void *[]){nowhere, page}, NULL), "a parameter that is nowhere");
	check(!gives((void *[]){page, end - 2}, NULL) && !gives((void *[]){end, page}, NULL), "one that is not there to its end");
	check(!gives(nowhere, NULL) && !gives(last - 1, NULL) && !gives(NULL, nowhere), "no list of them");
	check(!gives(NULL, (void *[]){XM_EXTRA_POINTER, nowhere, XM_EXTRA_SIZE, size, XM_EXTRA_END}), "a buffer that is nowhere");
	check(!gives(NULL, (void *[]){XM_EXTRA_POINTER, page, XM_EXTRA_SIZE, nowhere, XM_EXTRA_END}), "its size");
	check(!gives(NULL, (void *[]){XM_EXTRA_POINTER, end - 11, XM_EXTRA_SIZE, size, XM_EXTRA_END}), "the end of it");
	check(!gives(NULL, (void *[]){XM_EXTRA_POINTER, page + 8, XM_EXTRA_SIZE, &more, XM_EXTRA_END}), "what is not there of more than there can be");
	check(!gives(NULL, (void *[]){XM_EXTRA_POINTER, (void *)(UINTPTR_MAX - 4), XM_EXTRA_SIZE, size, XM_EXTRA_END}), "the end of all addresses");
	last[-1] = XM_EXTRA_POINTER;
	check(!gives(NULL, last - 1), "pairs that end in the middle");
	check(now_figures().asked == 0, "of all these none was offered, and nothing broke");

	last[-1] = XM_EXTRA_END;
	p[0] = p[1] = page;
	check(gives(p, NULL) && gives((void *[]){end - 8, end - 4}, NULL) && gives((void *[]){page, NULL}, NULL), "what is there");
	check(gives(NULL, (void *[]){XM_EXTRA_POINTER, end - 12, XM_EXTRA_SIZE, size, XM_EXTRA_END}) && gives(NULL, last - 1) && gives(NULL, NULL), "in every form");
}

static void budget(void)
{
	run_agent(QUICK);
	check(xm_sample_took(xm_sample_choose(&(struct xm_launch){.f = NULL}, 9), (uint64_t)BUDGET_NS + 1, true, false) == XM_SAMPLES_LONG, "the budget");
	check(launch(1, 1, 0) && !launch(2, 1, 0) && now_figures().over == XM_SAMPLES_LONG, "it ends learning");
}

static void *launches(void *shape)
{
	for (int i = 0; i < 200; i++)
		(void)launch(1 + (uintptr_t)shape % 2, (uint32_t)(uintptr_t)shape, 0);
	return NULL;
}

static void threads(void)
{
	pthread_t t[4];

	run_agent(QUICK);
	for (uintptr_t i = 0; i < 4; i++)
		check(!pthread_create(&t[i], NULL, launches, (void *)(i + 10)), "a thread");
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	check(now_figures().missed == 0 && now_figures().taken > 8 && now_figures().taken <= 32, "several threads");
}

static void *another(void *unused)
{
	while (!atomic_load(&sampling))
		xm_pause();
	(void)launch(2, 1, 0);
	check(atomic_load(&sampled_so_far) >= 1, "a launch waits for another's sample");
	return unused;
}

static void waits(void)
{
	pthread_t t;

	run_agent(QUICK);
	check(!pthread_create(&t, NULL, another, NULL), "a thread");
	check(launch(1, 1, 0), "a sample");
	pthread_join(t, NULL);
	xm_sample_quiet();
}

static void *leaves(void *unused)
{
	struct xm_launch l = {.f = (CUfunction)(uintptr_t)1, .grid = {1, 1, 1}, .block = {32, 1, 1}};

	check(xm_sample_begin(&l), "a sample that never ends");
	return unused;
}

static void lost(void)
{
	pthread_t t;
	uint64_t from;

	step_ns *= 100;
	run_agent(QUICK);
	check(!pthread_create(&t, NULL, leaves, NULL), "a thread");
	pthread_join(t, NULL);
	step_ns /= 100;
	check(ms_of(2, 1) >= 2 * STEP - 1, "its sample is waited for");
	from = xm_now();
	for (int i = 0; i < 1000; i++)
		(void)launch(2, 1, 0);
	check((xm_now() - from) / 1000000u < 1000 * STEP, "once, not at every launch");
}

static void in_steps(void (*f)(void), const char *name, uint64_t ms, bool learns)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (learns)
			setenv("XMSCHED_LEARN", "1", 1);
		xm_real.cuCtxGetCurrent = current;
		xm_real.cuCtxGetDevice = current_device;
		step_ns = ms * 1000000u;
		check(xm_learns() == learns && xm_learns() == learns, "the environment says whether");
		f();
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status) {
		fprintf(stderr, "sample_test: %s: status %d\n", name, status);
		exit(1);
	}
}

static void without(void)
{
	uint64_t buffer[XM_COMMAND_MOST / 8];
	struct xm_sample s;

	check(xm_samples.next(1000, &s, buffer) == -ECANCELED && !xm_samples.learns(), "nothing is learnt");
}

int main(void)
{
	const unsigned quickly = 10000; /* on a busy machine too */

	in_steps(without, "without", quickly, false);
	in_steps(absent, "absent", STEP, true);
	in_steps(quick, "quick", quickly, true);
	in_steps(skipped, "skipped", quickly, true);
	in_steps(refused, "refused", quickly, true);
	in_steps(late, "late", STEP, true);
	in_steps(dead, "dead", STEP, true);
	in_steps(ended_meanwhile, "ended meanwhile", STEP, true);
	in_steps(forbidden, "forbidden", quickly, true);
	in_steps(dangling, "dangling", quickly, true);
	in_steps(budget, "budget", quickly, true);
	in_steps(threads, "threads", quickly, true);
	in_steps(waits, "waits", quickly, true);
	in_steps(lost, "lost", STEP, true);
	puts("sample_test: ok");
	return 0;
}
