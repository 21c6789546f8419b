/* The structures of the driver's graph, launch and batch calls. Names and layouts
 * are the vendor's (CUDA 13.0), checked here by size and by a test against
 * hal/cuda/abi/facts. */
#ifndef XM_SIM_CU_GRAPH_H
#define XM_SIM_CU_GRAPH_H

#include "cu_memory.h"

typedef struct sim_graph *CUgraph;
typedef struct sim_node *CUgraphNode;
typedef struct sim_exec *CUgraphExec;
typedef struct sim_library *CUlibrary;
typedef struct sim_kernel *CUkernel;
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);

enum {
    CU_GRAPH_NODE_TYPE_KERNEL,
    CU_GRAPH_NODE_TYPE_MEMCPY,
    CU_GRAPH_NODE_TYPE_MEMSET,
    CU_GRAPH_NODE_TYPE_HOST,
    CU_GRAPH_NODE_TYPE_GRAPH,
    CU_GRAPH_NODE_TYPE_EMPTY,
    CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    CU_GRAPH_NODE_TYPE_EVENT_RECORD,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12
};

enum {
    CU_GRAPH_EXEC_UPDATE_SUCCESS,
    CU_GRAPH_EXEC_UPDATE_ERROR,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED,
    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
};

enum {
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1
};

enum {
    CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
    CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
    CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
    CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
    CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
    CU_STREAM_MEM_OP_BARRIER = 6
};

/* Version 1 of the parameters ends before kern. */
typedef struct {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

#define CU_KERNEL_NODE_PARAMS_V1_BYTES 56

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct {
    int result;
    CUgraphNode errorNode;
    CUgraphNode errorFromNode;
} CUgraphExecUpdateResultInfo;

typedef struct {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

/* One operation: a flush or barrier has its flags beside the kind. */
typedef struct {
    unsigned operation, whole_flags;
    CUdeviceptr address;
    cuuint64_t value;
    unsigned flags, pad;
    CUdeviceptr alias;
    cuuint64_t pad2;
} CUstreamBatchMemOpParams;

typedef struct {
    CUcontext ctx;
    unsigned count;
    CUstreamBatchMemOpParams *paramArray;
    unsigned flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS;

_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72 && sizeof(CUDA_MEMSET_NODE_PARAMS) == 40, "nodes");
_Static_assert(sizeof(CUDA_HOST_NODE_PARAMS) == 16 && sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == 32, "nodes");
_Static_assert(sizeof(CUgraphExecUpdateResultInfo) == 24 && sizeof(CUgraphEdgeData) == 8, "graphs");
_Static_assert(sizeof(CUstreamBatchMemOpParams) == 48 && sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS) == 32, "batches");
_Static_assert(sizeof(CUlaunchConfig) == 56 && sizeof(struct cu_launch_attribute) == 72, "launches");

#endif
