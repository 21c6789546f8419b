/* Libraries: code of no context. */
#ifndef XM_SIM_LIBRARY_H
#define XM_SIM_LIBRARY_H

#include "cu_graph.h"
#include "sim.h"

struct sim_kernel {
    uint32_t live;
    struct sim_library *library;
    struct sim_ptx_entry entry;
    int max_dynamic; /* set for all contexts; -1: not set */
};

/* A library's module in one context. */
struct sim_instance {
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    struct sim_module *module;
};

struct sim_library {
    uint32_t live;
    int broken; /* CUresult, why nothing can be had of it; 0: it can */
    char *image;
    struct sim_kernel **kernels;
    unsigned kernel_count;
    struct sim_instance *instances; /* protected by library.c's lock */
    size_t instance_count;
};

#endif
