/* The few types of the driver's interface that the library names, until the
 * generated header is there. */
#ifndef XM_ABI_OWN_H
#define XM_ABI_OWN_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef struct { char bytes[16]; } CUuuid;
typedef int CUstreamCaptureStatus;
typedef int CUstreamCaptureMode;
typedef int CUdriverProcAddressQueryResult;

typedef unsigned int CUdeviceptr_v1;
typedef struct CUarray_st *CUarray;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
typedef struct { int type, id; } CUmemLocation;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void *attrs;
    unsigned numAttrs;
} CUlaunchConfig;
typedef struct xm_own_CUDA_LAUNCH_PARAMS CUDA_LAUNCH_PARAMS;
typedef struct xm_own_CUDA_MEMCPY3D_BATCH_OP CUDA_MEMCPY3D_BATCH_OP;
typedef struct xm_own_CUarrayMapInfo CUarrayMapInfo;
typedef struct xm_own_CUctxCreateParams CUctxCreateParams;
typedef struct xm_own_CUexecAffinityParam CUexecAffinityParam;
typedef struct xm_own_CUmemDecompressParams CUmemDecompressParams;
typedef struct xm_own_CUmemcpyAttributes CUmemcpyAttributes;
typedef struct xm_own_CUstreamBatchMemOpParams CUstreamBatchMemOpParams;
typedef struct xm_own_CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS;
typedef struct xm_own_CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS;
typedef struct xm_own_CUDA_MEMCPY2D CUDA_MEMCPY2D;
typedef struct xm_own_CUDA_MEMCPY2D_v1 CUDA_MEMCPY2D_v1;
typedef struct xm_own_CUDA_MEMCPY3D CUDA_MEMCPY3D;
typedef struct xm_own_CUDA_MEMCPY3D_PEER CUDA_MEMCPY3D_PEER;
typedef struct xm_own_CUDA_MEMCPY3D_v1 CUDA_MEMCPY3D_v1;
typedef struct xm_own_CUgraphEdgeData CUgraphEdgeData;
enum { CUDA_SUCCESS = 0, CU_STREAM_CAPTURE_STATUS_NONE = 0 };

#endif
