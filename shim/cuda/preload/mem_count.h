/*
 * Memory on the device that passes us by: pools that are the driver's (mem_pool.h), what the program maps itself, arrays,
 * unified memory. It is counted as the process's own use and cannot be moved. Where
 * memory is not managed nothing is counted.
 *
 * Counted is what was asked for. A pool that keeps what was freed, and what the driver
 * rounds up to, is not seen.
 */
#ifndef XMSCHED_MEM_COUNT_H
#define XMSCHED_MEM_COUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"

struct xm_mem;

/* Before the driver is asked: an error when the limit forbids it. m may be NULL. */
XM_INTERNAL CUresult xm_count_before(struct xm_mem *m, size_t bytes);

/* The driver is out of memory: true when there may be more now. */
XM_INTERNAL bool xm_count_again(struct xm_mem *m, size_t bytes);

/* A call that takes memory of the device, asked for twice when there is none. */
#define XM_COUNTED(m, bytes, call)                                                 \
    ({                                                                             \
        CUresult result_ = xm_count_before(m, bytes);                              \
        if (result_ == CUDA_SUCCESS)                                               \
            result_ = (call);                                                      \
        if (result_ == CUDA_ERROR_OUT_OF_MEMORY && xm_count_again(m, bytes))       \
            result_ = (call);                                                      \
        result_;                                                                   \
    })

/* It is there, at this address or under this handle / it is gone. */
enum xm_count_kind { XM_COUNT_POOL, XM_COUNT_MAPPED, XM_COUNT_ARRAY, XM_COUNT_UNIFIED, XM_COUNT_PLAIN, XM_COUNT_KINDS };
XM_INTERNAL void xm_count_made(struct xm_mem *m, CUcontext context, enum xm_count_kind kind, uint64_t key, size_t bytes);
XM_INTERNAL void xm_count_gone(uint64_t key);

/* Of the program's own mapping: the memory lives until its handles are released and its mappings are gone. */
XM_INTERNAL void xm_count_handle(struct xm_mem *m, CUmemGenericAllocationHandle h, size_t bytes);
XM_INTERNAL CUresult xm_count_retained(CUresult result, const CUmemGenericAllocationHandle *h);
XM_INTERNAL void xm_count_released(CUmemGenericAllocationHandle h);
XM_INTERNAL void xm_count_mapped(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle h);
XM_INTERNAL void xm_count_unmapped(CUdeviceptr at, size_t bytes);

XM_INTERNAL void xm_count_context_ended(CUcontext context);

/* The current context may reach the peer's memory: what is there stays there, and what is allocated there from now
 * on is plain. */
XM_INTERNAL void xm_count_peer(CUcontext peer);
/* The same of that device, which may reach all that is here. The thread is inside. */
XM_INTERNAL void xm_count_reached(struct xm_mem *m, CUdevice device);
XM_INTERNAL bool xm_memory_plain(struct xm_mem *m);
XM_INTERNAL CUresult xm_count_plain(struct xm_mem *m, CUcontext context, CUdeviceptr *dptr, size_t bytes);

/* One line to the user: why sharing was refused. */
XM_INTERNAL void xm_count_say_ipc(void);

#endif
