/*
 * A program with a thread on each of two devices: each launches kernels there,
 * synchronises after each few, and counts those that are complete. With "one" a
 * single thread uses both in turn. Prints both counts every 10 ms.
 *
 *   twodevices PTX ITERATIONS BATCH [one]
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

static char text[1 << 20];
static uint64_t iterations;
static unsigned long batch;

struct user {
	int device;
	void *context, *spin, *stream;
	uint64_t done;
};

static struct user users[2] = {{.device = 0}, {.device = 1}};

static void begin(struct user *u)
{
	void *module;

	CHECK(cuDevicePrimaryCtxRetain(&u->context, u->device));
	CHECK(cuCtxSetCurrent(u->context));
	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&u->spin, module, "xm_spin"));
	CHECK(cuStreamCreate(&u->stream, 1));
}

static void work(struct user *u)
{
	dptr out = 0;
	void *args[] = {&out, &iterations};

	CHECK(cuCtxSetCurrent(u->context));
	for (unsigned long i = 0; i < batch; i++)
		CHECK(cuLaunchKernel(u->spin, 132, 1, 1, 128, 1, 1, 0, u->stream, args, NULL));
	CHECK(cuStreamSynchronize(u->stream));
	__atomic_add_fetch(&u->done, batch, __ATOMIC_RELAXED);
}

static void *run(void *arg)
{
	begin(arg);
	for (;;)
		work(arg);
	return NULL;
}

static void *run_both(void *arg)
{
	(void)arg;
	begin(&users[0]);
	begin(&users[1]);
	for (unsigned long n = 0;; n++)
		work(&users[n % 2]);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	FILE *f;

	if (argc < 4)
		return 2;
	iterations = strtoull(argv[2], NULL, 10);
	batch = strtoul(argv[3], NULL, 10);
	f = fopen(argv[1], "rb");
	if (!f || !fread(text, 1, sizeof text - 1, f))
		return 2;
	fclose(f);
	CHECK(cuInit(0));
	if (argc > 4) {
		pthread_create(&thread, NULL, run_both, NULL);
	} else {
		pthread_create(&thread, NULL, run, &users[0]);
		pthread_create(&thread, NULL, run, &users[1]);
	}
	for (;;) {
		usleep(10000);
		if (printf("%llu %llu\n", (unsigned long long)__atomic_load_n(&users[0].done, __ATOMIC_RELAXED),
			   (unsigned long long)__atomic_load_n(&users[1].done, __ATOMIC_RELAXED)) < 0 ||
		    fflush(stdout))
			return 0; /* nobody listens any more */
	}
}
