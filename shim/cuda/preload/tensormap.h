/*
 * Tensor maps: descriptors of 128 bytes that the driver makes in a form of its own, and
 * that kernels get by value. What one was made with is remembered under a hash of its bytes, so that
 * it is found again among a launch's parameters, wherever it was copied meanwhile. The oldest are
 * forgotten. Told whether recording is on or not.
 */
#ifndef XMSCHED_TENSORMAP_H
#define XMSCHED_TENSORMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "commands.h"

#define XM_TENSORMAP_BYTES 128u
#define XM_TENSORMAP_ALIGN 64u

extern XM_INTERNAL _Atomic bool xm_tensormaps_made;

static inline bool xm_tensormaps_any(void)
{
	return atomic_load_explicit(&xm_tensormaps_made, memory_order_relaxed);
}

/* The driver encoded one; `strides` are rank - 1. */
XM_INTERNAL void xm_tensormap_made(const void *map, uint32_t type, uint32_t rank, const void *address, const cuuint64_t *dims,
				   const cuuint64_t *strides);

/* It is about to replace the address; what it was before, for the case that it does. */
struct xm_tensormap_was {
	bool known;
	struct xm_command_map map;
};
XM_INTERNAL struct xm_tensormap_was xm_tensormap_before(const void *map);
XM_INTERNAL void xm_tensormap_moved(const void *map, const struct xm_tensormap_was *was, const void *address);

/* Those among a launch's parameters, up to `most` of them; returns how many there are. */
XM_INTERNAL uint32_t xm_tensormaps_in(const void *parameters, uint32_t bytes, struct xm_command_map *maps, uint32_t most);

#endif
