/*
 * A program that allocates much and uses part of it: it fills one buffer, then counts
 * up the first TOUCHED MiB of it again and again, and looks at every word at the end,
 * where it says "right" or which one is wrong.
 *
 * Prints the number of passes made. After SIGUSR1 it makes no more of them.
 *
 *   part PTX MIB TOUCHED PASSES VALUE
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

static volatile sig_atomic_t enough;

static void stop(int signal)
{
	(void)signal;
	enough = 1;
}

static int launch(void *function, void *stream, void **args)
{
	return cuLaunchKernel(function, 132, 1, 1, 128, 1, 1, 0, stream, args, NULL);
}

int main(int argc, char **argv)
{
	void *context, *module, *fill, *increment, *stream;
	uint32_t passes, value, words, touched, n, *copy;
	size_t bytes;
	int device;
	dptr at;

	if (argc != 6)
		return 2;
	bytes = (size_t)atoi(argv[2]) << 20;
	words = (uint32_t)(bytes / 4);
	touched = (uint32_t)atoi(argv[3]) << 18;
	passes = (uint32_t)atoi(argv[4]);
	value = (uint32_t)atoi(argv[5]);
	copy = malloc(bytes);
	if (!copy || touched > words)
		return 2;
	signal(SIGUSR1, stop);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, read_file(argv[1])));
	CHECK(cuModuleGetFunction(&fill, module, "xm_fill"));
	CHECK(cuModuleGetFunction(&increment, module, "xm_increment"));
	CHECK(cuStreamCreate(&stream, 1));
	CHECK(cuMemAlloc_v2(&at, bytes));
	{
		void *args[] = {&at, &value, &words};

		CHECK(launch(fill, stream, args));
	}
	CHECK(cuStreamSynchronize(stream));
	for (n = 0; n < passes && !enough; n++) {
		void *args[] = {&at, &touched};

		CHECK(launch(increment, stream, args));
		CHECK(cuStreamSynchronize(stream));
		printf("%u\n", n + 1);
		fflush(stdout);
	}
	CHECK(cuMemcpyDtoH_v2(copy, at, bytes));
	for (uint32_t w = 0; w < words; w++) {
		uint32_t want = w < touched ? value + n : value;

		if (copy[w] != want) {
			printf("wrong: word %u is %u, not %u\n", w, copy[w], want);
			return 1;
		}
	}
	CHECK(cuMemFree_v2(at));
	printf("right\n");
	return 0;
}
