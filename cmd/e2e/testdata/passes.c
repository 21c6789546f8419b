/*
 * A program with more memory than it may find on the device: it fills buffers, passes
 * over all of them again and again, each word counted up by one a pass, and looks at
 * every word at the end, where it says "right" or which one is wrong.
 *
 * Prints the number of passes made. After SIGUSR1 it makes no more of them.
 *
 *   passes PTX BUFFERS MIB PASSES VALUE
 *
 * At the start it prints what the driver says of the device's memory: total and free.
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
	size_t bytes, have, total;
	uint32_t passes, value, words, n, *copy;
	int device, buffers;
	dptr *at;

	if (argc != 6)
		return 2;
	buffers = atoi(argv[2]);
	bytes = (size_t)atoi(argv[3]) << 20;
	passes = (uint32_t)atoi(argv[4]);
	value = (uint32_t)atoi(argv[5]);
	words = (uint32_t)(bytes / 4);
	at = calloc((size_t)buffers, sizeof(*at));
	copy = malloc(bytes);
	if (!at || !copy)
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
	CHECK(cuMemGetInfo_v2(&have, &total));
	printf("total %zu free %zu\n", total, have);
	for (int i = 0; i < buffers; i++) {
		uint32_t with = value + (uint32_t)i;
		void *args[] = {&at[i], &with, &words};

		CHECK(cuMemAlloc_v2(&at[i], bytes));
		CHECK(launch(fill, stream, args));
	}
	CHECK(cuStreamSynchronize(stream));
	for (n = 0; n < passes && !enough; n++) {
		for (int i = 0; i < buffers; i++) {
			void *args[] = {&at[i], &words};

			CHECK(launch(increment, stream, args));
		}
		CHECK(cuStreamSynchronize(stream));
		printf("%u\n", n + 1);
		fflush(stdout);
	}
	for (int i = 0; i < buffers; i++) {
		CHECK(cuMemcpyDtoH_v2(copy, at[i], bytes));
		for (uint32_t w = 0; w < words; w++) {
			uint32_t want = value + (uint32_t)i + n;

			if (copy[w] != want) {
				printf("wrong: word %u of buffer %d is %u, not %u\n", w, i, copy[w], want);
				return 1;
			}
		}
		CHECK(cuMemFree_v2(at[i]));
	}
	printf("right\n");
	return 0;
}
