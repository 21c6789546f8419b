/* Copies and memsets, as everything that starts them describes them. */
#ifndef XM_SIM_COPY_H
#define XM_SIM_COPY_H

#include "cu_memory.h"
#include "sim.h"

/* One end of a copy: where its first byte lies, and how far apart its rows and
 * layers are. */
struct sim_end {
    uint64_t base;
    size_t pitch, slice;
    bool known; /* all of it lies in one of the driver's ranges, of this kind: */
    enum sim_kind kind;
    bool sync; /* a synchronous copy has to wait for its end, whatever the kind */
};

/* depth layers of height rows of width bytes; never none of them. */
struct sim_transfer {
    struct sim_end to, from;
    size_t width, height, depth;
};

enum sim_direction { SIM_TO_DEVICE, SIM_FROM_DEVICE, SIM_WITHIN, SIM_ANY };

/* CUresult: whether the ends are such as the driver takes. Fills known and kind. */
int sim_transfer_bytes(struct sim_transfer *t, uint64_t dst, uint64_t src, size_t n, enum sim_direction way);
/* *nothing: it copies no bytes. */
int sim_transfer_of(struct sim_transfer *t, const CUDA_MEMCPY3D *p, bool *nothing);

/* The one way in for every copy: puts it into the stream, and waits for it where
 * the driver does. Precondition: t is checked. */
int sim_transfer_run(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t, bool async);

/* ---- peer.c: order between contexts ---- */
int sim_order_behind(struct sim_stream *s, struct sim_ctx *other); /* what comes in s waits for all that the other has */
int sim_order_before(struct sim_ctx *other, struct sim_stream *s); /* what comes in the other waits for what s has */

/* rows rows of n elements of width bytes, pitch bytes apart. */
struct sim_fill {
    uint64_t dst;
    size_t pitch, n, rows;
    unsigned value, width;
};

int sim_fill_check(const struct sim_fill *f, struct sim_range *r);
int sim_fill_run(struct sim_stream *s, const struct sim_fill *f, bool async);

/* ---- staging.c: ends in memory that the driver does not know ---- */
int sim_stage_in(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t, struct sim_mark *mark);
int sim_stage_out(struct sim_ctx *c, struct sim_stream *s, const struct sim_transfer *t);

/* ---- copy.c ---- */
int sim_transfer_enqueue(struct sim_stream *s, const struct sim_transfer *t, struct sim_mark *mark);

#endif
