/* What the examples share: a device, and models that are chains of kernels on a stream of their own. */
#ifndef GPU_H
#define GPU_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "xmsched.h"

/* The few functions of the driver that are needed, in place of cuda.h. */
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuStreamSynchronize(CUstream stream);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, CUstream stream, void **arguments, void **extra);

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        int r_ = (call);                                                                                               \
        if (r_) {                                                                                                      \
            fprintf(stderr, "%s: the driver's error %d\n", #call, r_);                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define XSCHED(call)                                                                                                   \
    do {                                                                                                               \
        if ((call) != kXSchedSuccess) {                                                                                \
            fprintf(stderr, "%s: %s\n", #call, XLastError());                                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { THREADS = 64, BLOCKS = 4 };

struct model {
    CUstream stream;
    uint64_t out, iterations;
    int layers;
};

static void *spin_kernel;

/* Opens the first device; the kernels' text is in the file that XM_PTX names. */
static inline void gpu_open(void)
{
    int device;
    void *context, *module;
    CUDA(cuInit(0));
    CUDA(cuDeviceGet(&device, 0));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    const char *path = getenv("XM_PTX");
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f) {
        fprintf(stderr, "XM_PTX does not name hal/kernels/kernels.ptx\n");
        exit(2);
    }
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    text[n] = 0;
    CUDA(cuModuleLoadData(&module, text));
    free(text);
    CUDA(cuModuleGetFunction(&spin_kernel, module, "xm_spin"));
}

static inline struct model model_new(int layers, uint64_t iterations)
{
    struct model m = {.iterations = iterations, .layers = layers};
    CUDA(cuStreamCreate(&m.stream, 1));
    CUDA(cuMemAlloc_v2(&m.out, 4 * THREADS * BLOCKS));
    return m;
}

/* Launches one layer: the callback of a command. */
static inline XResult model_layer(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    struct model *m = data;
    void *arguments[] = {&m->out, &m->iterations};
    return cuLaunchKernel(spin_kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, m->stream, arguments, NULL) ? kXSchedErrorHardware
                                                                                                   : kXSchedSuccess;
}

/* Ends the program if a word is not what the kernel must write: its steps one by one. */
static inline void model_verify(const struct model *m)
{
    uint32_t got[THREADS * BLOCKS];
    CUDA(cuMemcpyDtoH_v2(got, m->out, sizeof got));
    for (uint32_t i = 0; i < THREADS * BLOCKS; i++) {
        uint32_t x = i;
        for (uint64_t k = 0; k < m->iterations; k++)
            x = 1664525 * x + 1013904223;
        if (got[i] != x) {
            fprintf(stderr, "word %u is %#x, must be %#x\n", i, got[i], x);
            exit(1);
        }
    }
}

#endif
