/* Memory that is mapped by hand: what vmm.c and vmm_share.c have in common. */
#ifndef XM_SIM_VMM_H
#define XM_SIM_VMM_H

#include "cu_memory.h"
#include "sim.h"

#define SIM_GRANULE ((size_t)2 << 20) /* of sizes and addresses, on the device and the host, as on an H200 */
#define SIM_POSIX_FD 1 /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */

/* Physical memory that the program has handles for. The handle is the device's number
 * of it. */
struct sim_physical {
    uint64_t id;
    size_t size;
    unsigned handles;
    CUmemLocation location;
    unsigned handle_types;
    struct sim_physical *next;
};

bool sim_physical_find(CUmemGenericAllocationHandle h, struct sim_physical *out);
/* Takes note of one more handle. CUresult; gives the handle back when it fails. */
int sim_physical_add(const struct sim_physical *p);
/* What the device says of memory that it gives a handle for. CUresult */
int sim_physical_of(const struct sim_reply *r, struct sim_physical *out);

#endif
