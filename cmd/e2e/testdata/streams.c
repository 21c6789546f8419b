/*
 * A program with more streams than anybody expects: it makes them all, launches a
 * few empty kernels on each in turn, waits for the context, and prints how many
 * microseconds the launches and the wait took.
 *
 *   streams PTX STREAMS LAUNCHES
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"

static char text[1 << 20];

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int main(int argc, char **argv)
{
	void *context, *module, *empty, **streams;
	unsigned long count, launches;
	double start;
	int device;
	FILE *f;

	if (argc != 4)
		return 2;
	count = strtoul(argv[2], NULL, 10);
	launches = strtoul(argv[3], NULL, 10);
	streams = calloc(count, sizeof *streams);
	f = fopen(argv[1], "rb");
	if (!streams || !f || !fread(text, 1, sizeof text - 1, f))
		return 2;
	fclose(f);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&empty, module, "xm_empty"));
	for (unsigned long i = 0; i < count; i++)
		CHECK(cuStreamCreate(&streams[i], 1));
	for (unsigned round = 0; round < 3; round++) {
		start = now_us();
		for (unsigned long n = 0; n < launches; n++)
			for (unsigned long i = 0; i < count; i++)
				CHECK(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, streams[i], NULL, NULL));
		CHECK(cuCtxSynchronize());
		printf("%.0f\n", now_us() - start);
		fflush(stdout);
	}
	getchar(); /* stay until somebody has looked */
	return 0;
}
