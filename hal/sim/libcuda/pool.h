/* A pool's memory. All of it is under pool_lock, which is taken before the lock of
 * the connection and of a context. */
#ifndef XM_SIM_POOL_H
#define XM_SIM_POOL_H

#include "cu_memory.h"
#include "sim.h"

/* A piece of a chunk: in use, or free behind a place in a stream. */
struct sim_pool_block {
    struct sim_pool_block *next; /* by address */
    uint64_t base;
    size_t size, asked; /* asked: what it was taken for */
    bool free;
    uint64_t ctx_id, stream_id; /* the stream that freed it may use it again at once, */
    struct sim_mark mark;       /* others when it has come here */
};

struct sim_pool_chunk {
    struct sim_pool_chunk *next;
    uint64_t base;
    size_t size;
    struct sim_pool_block *blocks;
};

/* ---- pool_memory.c. Precondition of each: the pools are locked. ---- */
int sim_pool_take(struct sim_pool *p, struct sim_stream *s, size_t n, uint64_t *out);
void sim_pool_give(struct sim_pool *p, uint64_t base, const struct sim_stream *s, const struct sim_mark *mark);
void sim_pool_trim(struct sim_pool *p, uint64_t keep);
void sim_pool_share(struct sim_pool *p); /* with the devices in p->access, and no others */

/* ---- pool.c ---- */
extern struct sim_pool *sim_pools; /* all that have memory or a handle */
int sim_pool_default(CUdevice device, struct sim_pool **out);
int sim_pool_current(CUdevice device, struct sim_pool **out);
bool sim_pool_ok(const struct sim_pool *p);
void sim_pools_lock(void);
void sim_pools_unlock(void);

#endif
