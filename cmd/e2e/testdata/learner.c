/* Launches kernels whose accesses are known, on memory that it asks for as the device's, and
 * checks every word. learner PTX LAUNCHES: so many of each. Prints "right" and how long a
 * launch with its synchronisation takes in the end, in us. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long dptr;
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuCtxSynchronize(void);
int cuModuleLoad(void **, const char *);
int cuModuleGetFunction(void **, void *, const char *);
int cuStreamCreate(void **, unsigned);
int cuStreamSynchronize(void *);
int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **);
int cuMemAlloc_v2(dptr *, size_t);
int cuMemFree_v2(dptr);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemGetAddressRange_v2(dptr *, size_t *, dptr);
int cuPointerGetAttribute(void *, int, dptr);
int cuMemcpyDtoH_v2(void *, dptr, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

#define CHECK(call)                                                                \
	do {                                                                       \
		int r_ = (call);                                                   \
		if (r_) {                                                          \
			fprintf(stderr, "line %d: %s = %d\n", __LINE__, #call, r_); \
			exit(1);                                                   \
		}                                                                  \
	} while (0)
#define MIB ((size_t)1 << 20)

static void *module, *stream;

static void *kernel(const char *name)
{
	void *f;

	CHECK(cuModuleGetFunction(&f, module, name));
	return f;
}

static int launch(void *f, unsigned blocks, void **args)
{
	return cuLaunchKernel(f, blocks, 1, 1, 128, 1, 1, 0, stream, args, NULL);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static uint32_t word(dptr at)
{
	uint32_t w;

	CHECK(cuMemcpyDtoH_v2(&w, at, sizeof w));
	return w;
}

static void want(uint32_t have, uint32_t should, const char *what)
{
	if (have != should) {
		fprintf(stderr, "%s is %u, not %u\n", what, have, should);
		exit(1);
	}
}

/* What the driver refuses it refuses here: before a sample, and as one, also when it never came
 * to read the parameters. */
static void refused(void *fill, dptr a)
{
	uint32_t value = 1, n = 1;
	void *args[] = {&a, &value, &n}, *graph, *nowhere = (void *)(uintptr_t)16, *dangling[] = {&a, nowhere, &n};

	want((uint32_t)cuLaunchKernel(fill, 2, 1, 1, 4096, 1, 1, 0, stream, dangling, NULL), 1, "a launch whose parameters dangle");
	want((uint32_t)cuLaunchKernel(fill, 3, 1, 1, 4096, 1, 1, 0, stream, nowhere, NULL), 1, "one without a list of them");
	want((uint32_t)cuLaunchKernel(fill, 4, 1, 1, 4096, 1, 1, 0, stream, NULL, nowhere), 1, "one with a buffer that is nowhere");

	for (int i = 0; i < 3; i++)
		want((uint32_t)cuLaunchKernel(fill, 1, 1, 1, 4096, 1, 1, 0, stream, args, NULL), 1, "a launch of too large a block");
	CHECK(cuStreamBeginCapture_v2(stream, 0));
	CHECK(launch(fill, 3, args)); /* a shape of its own, which would be a sample */
	CHECK(cuStreamEndCapture(stream, &graph));
}

/* It is the device's memory, for all that a program can ask. */
static void attributes(dptr p, size_t n)
{
	unsigned type = 0;
	bool managed = true;
	size_t bytes;
	dptr base;

	CHECK(cuPointerGetAttribute(&type, 2, p + 5));
	CHECK(cuPointerGetAttribute(&managed, 8, p));
	CHECK(cuMemGetAddressRange_v2(&base, &bytes, p + 100));
	want(type == 2 && !managed && base == p && bytes == n, 1, "what the pointer is");
}

int main(int argc, char **argv)
{
	unsigned launches = argc > 2 ? (unsigned)atoi(argv[2]) : 20;
	size_t free_bytes, total, before;
	uint64_t last = 0;
	void *context;
	dptr a, b, c, small, rest;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoad(&module, argv[1]));
	CHECK(cuStreamCreate(&stream, 1));
	CHECK(cuMemGetInfo_v2(&before, &total));
	CHECK(cuMemAlloc_v2(&a, 24 * MIB));
	CHECK(cuMemAlloc_v2(&b, 16 * MIB + 4096));
	CHECK(cuMemAlloc_v2(&c, 3 * MIB));
	CHECK(cuMemAlloc_v2(&small, 4096));
	CHECK(cuMemGetInfo_v2(&free_bytes, &total));
	attributes(a, 24 * MIB);
	want(before - free_bytes >= 43 * MIB, 1, "memory taken is memory gone");
	CHECK(cuMemAlloc_v2(&rest, total / 2)); /* more than may be managed */
	void *fill = kernel("xm_fill"), *increment = kernel("xm_increment"), *add = kernel("xm_vector_add"), *copy = kernel("xm_copy");
	refused(fill, a);
	for (uint32_t i = 0; i < launches; i++) {
		uint64_t begun = now();
		uint32_t value = i, n = (uint32_t)(5 * MIB / 4), part = (uint32_t)(3 * MIB / 4), two = (uint32_t)((1 + i % 5) * MIB / 2);
		uint64_t words = 2 * MIB / 4;
		dptr far = a + 8 * MIB, late = b + 5 * MIB;
		void *fill_args[] = {&a, &value, &n}, *rest_args[] = {&rest, &value, &part}, *inc_args[] = {&far, &two};
		void *add_args[] = {&c, &a, &far, &part}, *copy_args[] = {&late, &a, &words};

		CHECK(launch(fill, 64, fill_args));
		CHECK(launch(fill, 65, rest_args));
		CHECK(launch(increment, 64, inc_args));
		CHECK(launch(add, 64, add_args));
		CHECK(launch(copy, 64, copy_args));
		CHECK(cuStreamSynchronize(stream));
		last = now() - begun;
		want(word(a + 4 * (n - 1)), i, "the last word filled");
		want(word(rest + 4 * (part - 1)), i, "the last word filled elsewhere");
		want(word(far), i + 1, "a word counted up");
		want(word(c), i + i + 1, "a sum");
		want(word(late + 4 * (words - 1)), i, "the last word copied");
	}
	for (dptr *p = (dptr[]){a, b, c, small, rest, 0}; *p; p++)
		CHECK(cuMemFree_v2(*p));
	printf("right\n%llu\n", (unsigned long long)(last / 5));
	return 0;
}
