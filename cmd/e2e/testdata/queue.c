/*
 * A program that keeps its queue full and never waits for the GPU: behind each
 * kernel the GPU itself writes the kernel's number into a file, where others see
 * how far it has got while no thread of the program runs.
 *
 * Prints how many kernels it has launched.
 *
 *   queue PTX ITERATIONS FILE
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

int main(int argc, char **argv)
{
	void *context, *module, *spin, *stream;
	uint64_t iterations, out = 0;
	volatile uint32_t *word;
	int device, fd;
	dptr at;

	if (argc != 4)
		return 2;
	iterations = strtoull(argv[2], NULL, 10);
	fd = open(argv[3], O_RDWR);
	if (fd < 0)
		return 2;
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (word == MAP_FAILED)
		return 2;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, read_file(argv[1])));
	CHECK(cuModuleGetFunction(&spin, module, "xm_spin"));
	CHECK(cuStreamCreate(&stream, 1));
	CHECK(cuMemHostRegister_v2((void *)word, 4096, 3)); /* portable, device-mapped */
	CHECK(cuMemHostGetDevicePointer_v2(&at, (void *)word, 0));

	void *args[] = {&out, &iterations};

	for (uint32_t n = 1;; n++) {
		CHECK(cuLaunchKernel(spin, 132, 1, 1, 128, 1, 1, 0, stream, args, NULL));
		CHECK(cuStreamWriteValue32_v2(stream, at, n, 0));
		if (printf("%u\n", n) < 0 || fflush(stdout))
			return 0; /* nobody listens any more */
	}
}
