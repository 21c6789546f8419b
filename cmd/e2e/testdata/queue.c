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

/* The driver's interface, as far as it is used here. */
typedef unsigned long long dptr;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuStreamCreate(void **stream, unsigned flags);
int cuMemHostRegister_v2(void *p, size_t n, unsigned flags);
int cuMemHostGetDevicePointer_v2(dptr *out, void *p, unsigned flags);
int cuStreamWriteValue32_v2(void *stream, dptr at, uint32_t value, unsigned flags);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *stream, void **args, void **extra);

#define CHECK(call)                                                              \
	do {                                                                     \
		int r_ = (call);                                                 \
		if (r_) {                                                        \
			fprintf(stderr, "%s: error %d\n", #call, r_);            \
			return 1;                                                \
		}                                                                \
	} while (0)

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	if (!f || !text || !fread(text, 1, (1 << 20) - 1, f))
		exit(2);
	fclose(f);
	return text;
}

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
