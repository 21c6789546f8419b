/* The program has synchronised with a stream, an event or a context: pools give back what they do not keep. Where
 * no pool has that it is one load and a branch. */
#ifndef XMSCHED_MEM_POOL_SYNCED_H
#define XMSCHED_MEM_POOL_SYNCED_H

#include <stdatomic.h>
#include <stdint.h>

#include "abi.h"

extern XM_INTERNAL _Atomic uint32_t xm_pool_due;

XM_INTERNAL void xm_pools_synced_slow(void);

static inline void xm_pools_synced(void)
{
	if (__builtin_expect(atomic_load_explicit(&xm_pool_due, memory_order_relaxed) != 0, 0))
		xm_pools_synced_slow();
}

/* Before the driver destroys the stream. */
XM_INTERNAL void xm_pools_stream_gone(CUstream stream);

/* Before the driver is asked for what may end the context / when it has answered, and the end has been told of. NULL
 * does nothing. */
XM_INTERNAL void xm_pools_context_goes(CUcontext context);
XM_INTERNAL void xm_pools_context_answered(CUcontext context);

#endif
