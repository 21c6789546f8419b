/* The part of the driver's ABI that deals with graphs, captures and host functions. */
#ifndef GRAPH_H
#define GRAPH_H

#include "host.h"

int cuLaunchHostFunc(void *, void (*)(void *), void *);
int cuStreamAddCallback(void *, void (*)(void *, int, void *), void *, unsigned);
int cuStreamBatchMemOp_v2(void *, unsigned, void *, unsigned);
int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **);
int cuThreadExchangeStreamCaptureMode(int *);
int cuGraphCreate(void **, unsigned);
int cuGraphDestroy(void *);
int cuGraphGetNodes(void *, void **, size_t *);
int cuGraphAddEmptyNode(void **, void *, void *const *, size_t);
int cuGraphAddKernelNode_v2(void **, void *, void *const *, size_t, const void *);
int cuGraphAddHostNode(void **, void *, void *const *, size_t, const void *);
int cuGraphAddBatchMemOpNode(void **, void *, void *const *, size_t, const void *);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphExecKernelNodeSetParams_v2(void *, void *, const void *);
int cuGraphExecUpdate_v2(void *, void *, void *);
int cuGraphExecDestroy(void *);
int cuGraphLaunch(void *, void *);

struct kernel_node {
    void *func;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    void *kern, *ctx;
};

struct host_node {
    void (*fn)(void *);
    void *data;
};

/* A stream memory operation: 1 waits for a word, 2 writes one. */
struct mem_op {
    unsigned operation, pad;
    dptr address;
    uint64_t value;
    unsigned flags, pad2;
    dptr alias;
    uint64_t pad3;
};

struct batch_node {
    void *ctx;
    unsigned count;
    struct mem_op *ops;
    unsigned flags;
};

enum { ACTIVE = 1, INVALIDATED = 2, GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

static inline uint32_t *words(size_t bytes)
{
    uint32_t *p;
    CHECK(cuMemHostAlloc((void **)&p, bytes, 0));
    memset(p, 0, bytes);
    return p;
}

static inline dptr address_of(uint32_t *p) { return (dptr)(uintptr_t)p; }

#endif
