/*
 * What admission adds to a command: bench THREADS MODE prints ns per command,
 * for an empty call alone and for the same call behind xm_admit and xm_done.
 * Marks are written at once, as by a GPU that is never late, and cost the call.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../sys.h"
#include "fake.h"

enum { ROUNDS = 9, COMMANDS = 2000000 };

static CUcontext context;
static int threads = 1;
static bool with;
static pthread_barrier_t start;

static CUresult __attribute__((noinline)) driver_call(CUstream s)
{
	__asm__ volatile("" ::"r"(s) : "memory");
	return 0;
}

static CUresult (*volatile call)(CUstream) = driver_call;

static CUresult instant_write(CUstream s, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	(void)s;
	(void)flags;
	__atomic_store_n((uint32_t *)(uintptr_t)(at - 0x100000000000ull), value, __ATOMIC_RELEASE);
	return 0;
}

/* The lookup and the call; the gate is open. */
static CUresult instant_wait(CUstream s, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	(void)s;
	(void)at;
	(void)value;
	(void)flags;
	return 0;
}

struct result {
	CUstream stream;
	double ns;
};

static void *loop(void *arg)
{
	struct result *r = arg;
	uint64_t t;

	fake_set_current(context);
	pthread_barrier_wait(&start);
	t = xm_now();
	if (with)
		for (int i = 0; i < COMMANDS; i++) {
			xm_admit(r->stream, 0);
			xm_done(call(r->stream));
		}
	else
		for (int i = 0; i < COMMANDS; i++)
			call(r->stream);
	r->ns = (double)(xm_now() - t) / COMMANDS;
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct result *r, bool how)
{
	double ns[ROUNDS];
	pthread_t t[8];

	with = how;
	for (int n = 0; n < ROUNDS; n++) {
		ns[n] = 0;
		for (int i = 0; i < threads; i++)
			CHECK(pthread_create(&t[i], NULL, loop, &r[i]) == 0);
		for (int i = 0; i < threads; i++) {
			CHECK(pthread_join(t[i], NULL) == 0);
			ns[n] += r[i].ns / threads;
		}
	}
	qsort(ns, ROUNDS, sizeof *ns, by_value);
	return ns[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	struct result r[8];
	const char *mode = argc > 2 ? argv[2] : "free";

	threads = argc > 1 ? atoi(argv[1]) : 1;
	CHECK(threads >= 1 && threads <= 8);
	pthread_barrier_init(&start, NULL, (unsigned)threads);
	fake_driver_init();
	xm_real.cuStreamWriteValue32_v2 = instant_write;
	xm_real.cuStreamWaitValue32_v2 = instant_wait;
	context = fake_context(0);
	fake_set_current(context);
	for (int i = 0; i < threads; i++)
		r[i].stream = fake_stream();
	if (strcmp(mode, "absent")) {
		daemon_start();
		daemon_level(strcmp(mode, "gated") ? 1 : 2);
		daemon_grant(0, true, strcmp(mode, "free") ? XM_MODE_BOUNDED : XM_MODE_FREE, 16, 8);
	}
	printf("%.2f %.2f\n", median(r, false), median(r, true));
	return 0;
}
