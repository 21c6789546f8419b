/* What a launch is made of, for those who launch later. */
#ifndef XM_SIM_LAUNCH_H
#define XM_SIM_LAUNCH_H

#include "sim.h"

struct sim_shape {
    unsigned grid[3], block[3], shared;
};

#define SIM_MULTIPROCESSORS 132u /* of an H200, as are the limits in launch.c and occupancy.c */
#define SIM_SHARED_DEFAULT (48 * 1024)
#define SIM_SHARED_MOST (227 * 1024)

/* Checks a launch and makes its command. CUresult. */
int sim_launch_entry(struct sim_ctx *c, CUfunction f, const struct sim_shape *shape, void **params, void **extra, struct sim_entry *e);
/* Puts a checked launch into a stream, or into its capture. */
int sim_launch_run(struct sim_ctx *c, struct sim_stream *s, CUfunction f, struct sim_entry *e);

/* ---- function.c ---- */
int sim_function_get(const struct sim_function *f, int attribute, int *value); /* CUresult, as the next */
int sim_function_set(struct sim_function *f, int attribute, int value);

/* ---- launch_ex.c ---- */
/* A cooperative launch: all its blocks have to be resident at once. */
int sim_launch_together(CUfunction f, const struct sim_shape *shape, CUstream h, bool ptds, void **params);

/* ---- occupancy.c ---- */
/* Blocks of so many threads and so much dynamic shared memory that a multiprocessor holds. */
unsigned sim_blocks_resident(unsigned threads, size_t dynamic);

#endif
