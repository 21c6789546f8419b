/*
 * A program that keeps a GPU busy and knows nothing of xmsched: it launches
 * kernels, synchronises now and then, and prints how many are complete.
 *
 *   spinner PTX ITERATIONS BATCH [static]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	void *context, *module, *spin, *stream;
	uint64_t iterations, out = 0, complete = 0;
	unsigned long batch;
	int device;

	if (argc != 4)
		return 2;
	iterations = strtoull(argv[2], NULL, 10);
	batch = strtoul(argv[3], NULL, 10);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, read_file(argv[1])));
	CHECK(cuModuleGetFunction(&spin, module, "xm_spin"));
	CHECK(cuStreamCreate(&stream, 1));

	void *args[] = {&out, &iterations};
	double told = 0;

	for (;;) {
		for (unsigned long i = 0; i < batch; i++)
			CHECK(cuLaunchKernel(spin, 132, 1, 1, 128, 1, 1, 0, stream, args, NULL));
		CHECK(cuStreamSynchronize(stream));
		complete += batch;
		if (now() - told > 0.01) {
			told = now();
			printf("%llu\n", (unsigned long long)complete);
			if (fflush(stdout))
				return 0; /* nobody listens any more */
		}
	}
}
