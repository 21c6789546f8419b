/*
 * The driver's interface as far as the programs here use it, and how they end when it
 * fails. They are built without its headers.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long dptr;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxSynchronize(void);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamWriteValue32_v2(void *stream, dptr at, uint32_t value, unsigned flags);
int cuMemAlloc_v2(dptr *out, size_t bytes);
int cuMemFree_v2(dptr at);
int cuMemcpyDtoH_v2(void *to, dptr from, size_t bytes);
int cuMemGetInfo_v2(size_t *free, size_t *total);
int cuMemHostRegister_v2(void *p, size_t n, unsigned flags);
int cuMemHostGetDevicePointer_v2(dptr *out, void *p, unsigned flags);
int cuMemsetD32_v2(dptr at, unsigned value, size_t words);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *stream, void **args, void **extra);

#define CHECK(call)                                                    \
	do {                                                           \
		int r_ = (call);                                       \
		if (r_) {                                              \
			fprintf(stderr, "%s: error %d\n", #call, r_);  \
			exit(1);                                       \
		}                                                      \
	} while (0)

/* A text of less than 1 MiB. */
static inline char *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	if (!f || !text || !fread(text, 1, (1 << 20) - 1, f))
		exit(2);
	fclose(f);
	return text;
}

#endif
