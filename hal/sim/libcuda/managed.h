/* What is known of managed memory's pages. */
#ifndef XM_SIM_MANAGED_H
#define XM_SIM_MANAGED_H

#include "cu_memory.h"
#include "sim.h"

#define SIM_BY_HOST 1u /* who accesses a page by advice: the host, and devices by ordinal */
#define SIM_BY_DEVICE(d) (2u << (d))

/* Compared bytewise: no padding. */
struct sim_advice {
    uint32_t read_mostly, accessed_by;
    CUmemLocation preferred, prefetched; /* type 0: nowhere */
};

/* Changes what is known of the pages that [p, p + n) touches. CUresult. */
int sim_managed_change(const struct sim_range *r, uint64_t p, size_t n, void (*change)(struct sim_advice *, const void *), const void *how);
/* What is the same for all of them. */
struct sim_advice sim_managed_state(const struct sim_range *r, uint64_t p, size_t n);

int sim_place_ok(CUmemLocation l);
CUmemLocation sim_place_of(CUdevice device);

#endif
