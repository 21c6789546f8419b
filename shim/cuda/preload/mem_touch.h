/*
 * Commands that name memory: the driver looks at the addresses of copies and memsets
 * when it is called, and refuses what is mapped to nothing. So a thread says which
 * addresses it enters the driver with, what is named so is not moved meanwhile, and while
 * memory of the device is gone the thread waits here, admitted already, before the driver. Kernel
 * launches are not looked at: the device finds their addresses when it runs them.
 */
#ifndef XMSCHED_MEM_TOUCH_H
#define XMSCHED_MEM_TOUCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define XM_TOUCH_ALL UINT64_MAX /* of an address: any may be meant */

extern __attribute__((visibility("hidden"))) _Atomic bool xm_mem_any;

int xm_touch_slow(uint64_t a, uint64_t b) __attribute__((visibility("hidden")));
void xm_untouch_slow(int touched) __attribute__((visibility("hidden")));

/* Returns what xm_untouch is to be given after the driver returned. 0 is no address. May wait. */
static inline int xm_touch(uint64_t a, uint64_t b)
{
	if (__builtin_expect(!atomic_load_explicit(&xm_mem_any, memory_order_relaxed), 1))
		return -1;
	return xm_touch_slow(a, b);
}

/* The addresses that the description of a 2D or 3D copy names; the vendor's field names. */
#define XM_NAMED(type, device) ((type) == CU_MEMORYTYPE_DEVICE || (type) == CU_MEMORYTYPE_UNIFIED ? (uint64_t)(device) : 0)
#define XM_TOUCH_COPY(p)                                                                                       \
    ((p) ? xm_touch(XM_NAMED((p)->srcMemoryType, (p)->srcDevice), XM_NAMED((p)->dstMemoryType, (p)->dstDevice)) : -1)

static inline void xm_untouch(int touched)
{
	if (__builtin_expect(touched >= 0, 0))
		xm_untouch_slow(touched);
}

#endif
