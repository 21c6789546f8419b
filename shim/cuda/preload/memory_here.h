/*
 * What the doors ask of memory. Where it is not managed every function here is one
 * load and a branch, and the driver is called as without us.
 */
#ifndef XMSCHED_MEMORY_HERE_H
#define XMSCHED_MEMORY_HERE_H

#include "abi.h"

struct xm_mem;

/* The managed memory of the current context's device; NULL: it is not managed, or there
 * is no context. The first call for a device may wait 200 ms for the daemon's answer. */
XM_INTERNAL struct xm_mem *xm_memory_here(CUcontext *context);

/* The same without deciding or waiting. */
XM_INTERNAL struct xm_mem *xm_memory_known(void);

/* By the device's number. */
XM_INTERNAL struct xm_mem *xm_memory_on(CUdevice device);

#endif
