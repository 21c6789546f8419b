/*
 * What the program is told of its memory: the limit or the card, its own use, and of
 * an address what is true of memory that the driver allocated, wherever its bytes
 * are. Never what the neighbours have.
 */
#ifndef XMSCHED_MEM_TRUTH_H
#define XMSCHED_MEM_TRUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"

struct xm_mem;

/* What the device has for this process, and what of it is free. */
XM_INTERNAL void xm_truth_info(struct xm_mem *m, size_t *free, size_t *total);

/* The allocation that holds the address; false: it is none of ours. */
struct xm_truth_range {
	CUdeviceptr at;
	size_t bytes; /* as asked for */
	CUcontext context;
	CUdevice device;
	uint64_t id;
	CUmemoryPool pool; /* NULL: of none */
};
XM_INTERNAL bool xm_truth_range(CUdeviceptr address, struct xm_truth_range *range);

/* An attribute of an address in it, as cuPointerGetAttribute stores it. `absent` is set, and zero stored, when
 * such memory has none. False: no attribute that is known here. */
XM_INTERNAL bool xm_truth_attribute(const struct xm_truth_range *r, CUdeviceptr address, CUpointer_attribute what, void *data,
				    bool *absent);

/* What the program may ask before there is a context: $XMSCHED_MEMORY_LIMIT, in bytes; 0: none. */
XM_INTERNAL size_t xm_truth_early_limit(void);

#endif
