/*
 * A program that uses the driver and knows nothing of us. Each line on its input
 * is an order; it answers "ok" when the order is carried out, so that a test knows
 * what must have been counted. argv[1] is a file with kernels.
 *
 *   launch N      N kernels into the legacy stream
 *   thread N      the same through the per-thread variant
 *   got N         the same through the address that cuGetProcAddress gives
 *   extended N    cuLaunchKernelEx into a stream of its own
 *   spin N        one kernel that works N iterations, in a stream of its own
 *   copy N BYTES  to the device, waiting       acopy N BYTES  in a stream
 *   box N         cuMemcpy2D of 64 x 8 bytes   fill N WORDS   memsets
 *   alloc BYTES   free the last one: free      create BYTES   release
 *   pitch W H     cuMemAllocPitch              refused        an allocation that is too large
 *   sync          the context                  ssync          the stream
 *   event         record in the stream         esync          wait for it
 *   crowd T N     T threads at once, each N times: a kernel in a stream of its own,
 *                 memory for a moment, and a wait for the stream
 *   sleep MS
 *   filter        from here on system calls that nobody knows end the process
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef int result;
typedef uint64_t address;
typedef void *handle;

#define FUNCTION(name, ...) static result (*name)(__VA_ARGS__)
FUNCTION(cuInit, unsigned);
FUNCTION(cuDeviceGet, int *, int);
FUNCTION(cuDevicePrimaryCtxRetain, handle *, int);
FUNCTION(cuCtxSetCurrent, handle);
FUNCTION(cuModuleLoadData, handle *, const void *);
FUNCTION(cuModuleGetFunction, handle *, handle, const char *);
FUNCTION(cuStreamCreate, handle *, unsigned);
FUNCTION(cuEventCreate, handle *, unsigned);
FUNCTION(cuLaunchKernel, handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);
FUNCTION(cuLaunchKernel_ptsz, handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);
FUNCTION(cuLaunchKernelEx, const void *, handle, void **, void **);
FUNCTION(cuGetProcAddress_v2, const char *, void **, int, uint64_t, int *);
FUNCTION(cuMemAlloc_v2, address *, size_t);
FUNCTION(cuMemAllocPitch_v2, address *, size_t *, size_t, size_t, unsigned);
FUNCTION(cuMemFree_v2, address);
FUNCTION(cuMemCreate, uint64_t *, size_t, const void *, unsigned long long);
FUNCTION(cuMemRelease, uint64_t);
FUNCTION(cuMemcpyHtoD_v2, address, const void *, size_t);
FUNCTION(cuMemcpyHtoDAsync_v2, address, const void *, size_t, handle);
FUNCTION(cuMemcpy2D_v2, const void *);
FUNCTION(cuMemsetD32_v2, address, unsigned, size_t);
FUNCTION(cuCtxSynchronize, void);
FUNCTION(cuStreamSynchronize, handle);
FUNCTION(cuEventRecord, handle, handle);
FUNCTION(cuEventSynchronize, handle);
static result (*got_launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);

static void must(result r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: error %d\n", what, r);
		exit(1);
	}
}
#define MUST(call) must(call, #call)

static void find(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
#define FIND(name)                                                                 \
	do {                                                                       \
		*(void **)&name = dlsym(driver, #name);                            \
		if (!name) {                                                       \
			fprintf(stderr, "no %s\n", #name);                         \
			exit(1);                                                   \
		}                                                                  \
	} while (0)
	FIND(cuInit);
	FIND(cuDeviceGet);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuCtxSetCurrent);
	FIND(cuModuleLoadData);
	FIND(cuModuleGetFunction);
	FIND(cuStreamCreate);
	FIND(cuEventCreate);
	FIND(cuLaunchKernel);
	FIND(cuLaunchKernel_ptsz);
	FIND(cuLaunchKernelEx);
	FIND(cuGetProcAddress_v2);
	FIND(cuMemAlloc_v2);
	FIND(cuMemAllocPitch_v2);
	FIND(cuMemFree_v2);
	FIND(cuMemCreate);
	FIND(cuMemRelease);
	FIND(cuMemcpyHtoD_v2);
	FIND(cuMemcpyHtoDAsync_v2);
	FIND(cuMemcpy2D_v2);
	FIND(cuMemsetD32_v2);
	FIND(cuCtxSynchronize);
	FIND(cuStreamSynchronize);
	FIND(cuEventRecord);
	FIND(cuEventSynchronize);
}

static handle context, empty, spin, stream, event;
static address scratch, last;
static uint64_t created;
static char bytes[1 << 20];

static void prepare(const char *kernels)
{
	FILE *f = fopen(kernels, "r");
	char *text = calloc(1, 1 << 20);
	handle module;
	int device;

	if (!f || !text || fread(text, 1, (1 << 20) - 1, f) == 0) {
		perror(kernels);
		exit(1);
	}
	fclose(f);
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, text));
	MUST(cuModuleGetFunction(&empty, module, "xm_empty"));
	MUST(cuModuleGetFunction(&spin, module, "xm_spin"));
	MUST(cuStreamCreate(&stream, 1));
	MUST(cuEventCreate(&event, 0));
	MUST(cuGetProcAddress_v2("cuLaunchKernel", (void **)&got_launch, 12000, 0, NULL));
	MUST(cuMemAlloc_v2(&scratch, sizeof(bytes)));
}

struct config {
	unsigned grid[3], block[3], shared;
	handle stream;
	void *attributes;
	unsigned n;
};

static void spin_once(uint64_t iterations)
{
	address none = 0;
	void *params[] = {&none, &iterations};

	MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void copy_box(void)
{
	/* CUDA_MEMCPY2D: x, y, type, host, device, array, pitch, twice; then the shape */
	uint64_t box[16] = {0, 0, 1, (uint64_t)bytes, 0, 0, 64, 0, 0, 2, 0, scratch, 0, 64, 64, 8};

	MUST(cuMemcpy2D_v2(box));
}

static void *one_of_many(void *times)
{
	handle own;
	address at;

	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&own, 1));
	for (unsigned long i = 0; i < (unsigned long)times; i++) {
		MUST(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, own, NULL, NULL));
		MUST(cuMemAlloc_v2(&at, 4096));
		MUST(cuStreamSynchronize(own));
		MUST(cuMemFree_v2(at));
	}
	return NULL;
}

static void crowd(unsigned long threads, unsigned long times)
{
	pthread_t id[16];

	for (unsigned long i = 0; i < threads && i < 16; i++)
		must(pthread_create(&id[i], NULL, one_of_many, (void *)times), "thread");
	for (unsigned long i = 0; i < threads && i < 16; i++)
		pthread_join(id[i], NULL);
}

/* As a container's filter does with what is newer than itself: on amd64 the
 * calls that the kernel makes for its own hooks have such numbers. */
static void filter(void)
{
	struct sock_filter rules[] = {
		{0x20, 0, 0, 0},                        /* the number of the call */
		{0x35, 0, 1, 335},                      /* that or more? */
		{0x06, 0, 0, SECCOMP_RET_KILL_PROCESS},
		{0x06, 0, 0, SECCOMP_RET_ALLOW},
	};
	struct sock_fprog all = {4, rules};

	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all), "filter");
}

static void carry_out(const char *what, unsigned long a, unsigned long b)
{
	struct config config = {{1, 1, 1}, {1, 1, 1}, 0, stream, NULL, 0};
	unsigned property[8] = {1, 0, 1, 0}; /* pinned, no handle type, on device 0 */
	size_t pitch;
	address none;

#define IS(name) (!strcmp(what, name))
#define TIMES for (unsigned long i = 0; i < a; i++)
	if (IS("launch")) {
		TIMES MUST(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	} else if (IS("thread")) {
		TIMES MUST(cuLaunchKernel_ptsz(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	} else if (IS("got")) {
		TIMES MUST(got_launch(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	} else if (IS("extended")) {
		TIMES MUST(cuLaunchKernelEx(&config, empty, NULL, NULL));
	} else if (IS("spin")) {
		spin_once(a);
	} else if (IS("copy")) {
		TIMES MUST(cuMemcpyHtoD_v2(scratch, bytes, b));
	} else if (IS("acopy")) {
		TIMES MUST(cuMemcpyHtoDAsync_v2(scratch, bytes, b, stream));
	} else if (IS("box")) {
		TIMES copy_box();
	} else if (IS("fill")) {
		TIMES MUST(cuMemsetD32_v2(scratch, 7, b));
	} else if (IS("alloc")) {
		MUST(cuMemAlloc_v2(&last, a));
	} else if (IS("free")) {
		MUST(cuMemFree_v2(last));
	} else if (IS("early")) {
		MUST(cuMemFree_v2(scratch));
	} else if (IS("pitch")) {
		MUST(cuMemAllocPitch_v2(&last, &pitch, a, b, 4));
		printf("%zu ", pitch);
	} else if (IS("refused")) {
		if (!cuMemAlloc_v2(&none, (size_t)1 << 50))
			exit(1);
	} else if (IS("create")) {
		MUST(cuMemCreate(&created, a, property, 0));
	} else if (IS("release")) {
		MUST(cuMemRelease(created));
	} else if (IS("sync")) {
		MUST(cuCtxSynchronize());
	} else if (IS("ssync")) {
		MUST(cuStreamSynchronize(stream));
	} else if (IS("event")) {
		MUST(cuEventRecord(event, stream));
	} else if (IS("esync")) {
		MUST(cuEventSynchronize(event));
	} else if (IS("crowd")) {
		crowd(a, b);
	} else if (IS("filter")) {
		filter();
	} else if (IS("sleep")) {
		usleep(a * 1000);
	} else {
		fprintf(stderr, "no order %s\n", what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char line[128], what[32];
	unsigned long a, b;

	if (argc != 2)
		return 2;
	find();
	prepare(argv[1]);
	puts("ok");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		a = b = 0;
		if (sscanf(line, "%31s %lu %lu", what, &a, &b) < 1)
			continue;
		carry_out(what, a, b);
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
