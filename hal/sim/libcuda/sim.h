/* The simulated driver's own interior. Nothing here is exported.
 *
 * Lock order: sim_ctx.lock, or the lock of the ranges, or that of the slabs, or
 * that of the connection; none is held while another is taken, except that the
 * connection's may be taken last.
 */
#ifndef XM_SIM_H
#define XM_SIM_H

#include "cu.h"
#include "protocol.h"

#include <pthread.h>
#include <stdbool.h>

/* Protected: a preloaded library may define the same names, and the table of
 * cuGetProcAddress must hold ours all the same. */
#define EXPORT __attribute__((visibility("protected")))

#define SIM_DRIVER_VERSION 13000
#define SIM_PRIORITY_GREATEST (-5) /* of an H200; the least is 0 */

/* ---- objects ---- */

struct sim_stream {
    uint32_t live;
    unsigned channel;
    unsigned flags;
    int priority;
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    uint64_t last; /* its channel's count behind its last command */
    uint64_t id;
    bool legacy, per_thread;
};

/* Where a record, or a piece of staging memory, stands in a channel. */
struct sim_mark {
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    unsigned channel;
    uint64_t count;
};

struct sim_event {
    uint32_t live;
    unsigned flags;
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    uint32_t slot;
    bool recorded;
    struct sim_mark mark;
};

struct sim_function {
    uint32_t live;
    struct sim_module *module;
    char *name;
    int64_t kernel; /* -1: the device has no body for it */
    unsigned params;
    size_t *offsets, *sizes;
    size_t arg_bytes;
};

/* A pool's memory is the process's, in chunks; pool.c knows them. */
struct sim_pool {
    uint32_t live;
    struct sim_pool *next;
    bool is_default, destroyed;
    int reuse[3]; /* by event dependencies, opportunistic, with internal dependencies */
    uint64_t threshold, most;
    uint64_t reserved, reserved_high, used, used_high;
    struct sim_pool_chunk *chunks;
};

struct sim_module {
    uint32_t live;
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    unsigned functions;
    struct sim_function **function;
};

#define SIM_CHUNKS 32u
#define SIM_CHUNK_BYTES (1u << 20)

struct sim_chunk {
    void *data;
    bool taken;
    struct sim_mark busy;
};

struct sim_free_slot {
    uint32_t slot;
    unsigned channel;
    uint64_t count;
};

struct sim_ctx {
    uint32_t live;
    bool primary;
    unsigned flags;
    uint64_t id; /* the device's; 0 while there is none */
    struct sim_context *mem;
    struct sim_stream legacy;

    pthread_mutex_t lock; /* protects all below, and the order of the rings */
    unsigned next_channel;
    uint64_t legacy_last;                /* channel 0's count behind the last legacy command */
    uint64_t legacy_seen[SIM_CHANNELS];  /* of it, what a channel has been made to wait for */
    uint64_t blocking[SIM_CHANNELS];     /* count behind the last command of a blocking stream */
    uint64_t blocking_seen[SIM_CHANNELS];
    uint64_t waits[SIM_CHANNELS];        /* count behind the last command that may hold the channel */
    uint32_t slots_used, slots_free, slots_first;
    struct sim_free_slot *free_slots; /* a ring of SIM_EVENTS: the longest free is used first */
    struct sim_chunk chunks[SIM_CHUNKS];
    unsigned chunk_count;
};

enum sim_kind { SIM_RANGE_DEVICE, SIM_RANGE_HOST, SIM_RANGE_REGISTERED, SIM_RANGE_MANAGED, SIM_RANGE_POOL };

/* Whether memory of this kind is the device's alone: nobody here can touch it. */
static inline bool sim_on_device(enum sim_kind kind) { return kind == SIM_RANGE_DEVICE || kind == SIM_RANGE_POOL; }

struct sim_range {
    uint64_t base, size;
    uint64_t id; /* given by sim_range_add; never twice in a process */
    enum sim_kind kind;
    unsigned flags;
    uint64_t ctx_id;
    struct sim_ctx *ctx;
    struct sim_pool *pool; /* where memory of a pool comes from */
    bool sync;             /* SYNC_MEMOPS is set */
};

/* ---- slab.c: handles are pointers into these; a wrong one is seen as such ---- */
struct sim_stream *sim_stream_new(void);
struct sim_event *sim_event_new(void);
struct sim_module *sim_module_new(void);
struct sim_function *sim_function_new(void);
struct sim_ctx *sim_ctx_new(void);
struct sim_pool *sim_pool_new(void);
void sim_object_free(void *object);
bool sim_is_stream(const void *handle);
bool sim_is_event(const void *handle);
bool sim_is_module(const void *handle);
bool sim_is_function(const void *handle);
bool sim_is_ctx(const void *handle);
bool sim_is_pool(const void *handle);
bool sim_was_ctx(const void *handle); /* is one, or was one that ended */

/* ---- conn.c ---- */
int sim_connect(void); /* CUresult */
int sim_call(struct sim_request *q, int send_fd, struct sim_reply *r, int *got_fd);
void sim_ring_bell(void);
bool sim_device_gone(void);
void sim_forget_connection(void); /* in a forked child */

struct sim_device {
    uint64_t memory;
    uint8_t uuid[16];
    char name[SIM_NAME];
};
extern struct sim_device sim_device;

/* ---- init.c ---- */
int sim_ready(void); /* CUDA_SUCCESS once cuInit succeeded in this very process */
int sim_unsupported(const char *symbol);

/* ---- context.c ---- */
/* The calling thread's context, if there is one, alive and without a sticky
 * error; otherwise the error that the driver answers. */
int sim_current(struct sim_ctx **out);
bool sim_ctx_is(const struct sim_ctx *c, uint64_t id); /* still that context */
int sim_ctx_error(const struct sim_ctx *c);
bool sim_ctx_flags_ok(unsigned flags);
int sim_ctx_begin(struct sim_ctx *c); /* CUresult: makes the device's side */
void sim_ctx_end(struct sim_ctx *c);  /* waits, and takes it down with all that belongs to it */
int sim_ctx_drain(struct sim_ctx *c); /* waits for all that is in its rings */

/* ---- stream.c ---- */
int sim_stream_of(CUstream handle, bool ptds, struct sim_ctx **c, struct sim_stream **out);
unsigned sim_stream_channel(struct sim_ctx *c);

/* ---- ring.c ---- */
/* Places a command behind what its stream has to wait for. Blocks while the
 * ring is full. *mark may be NULL. */
int sim_submit(struct sim_stream *s, struct sim_entry *e, struct sim_mark *mark);
int sim_wait(const struct sim_mark *mark); /* CUresult: the context's error */
bool sim_done(const struct sim_mark *mark);

/* ---- range.c ---- */
bool sim_range_add(const struct sim_range *r);
bool sim_range_find(uint64_t address, uint64_t n, struct sim_range *out); /* the one that holds all of it */
bool sim_range_take(uint64_t base, struct sim_range *out);              /* removes the one that begins there */
bool sim_range_overlaps(uint64_t address, uint64_t n);
bool sim_range_take_ctx(uint64_t ctx_id, struct sim_range *out); /* removes one of a context's ranges that are not host memory */

/* Sets an attribute that its range keeps; false: no range holds the address. */
bool sim_range_set_sync(uint64_t address, bool on);

/* ---- pool.c ---- */
void sim_pools_settle(void); /* what a synchronisation lets go: call it behind one */
int sim_pool_free(const struct sim_range *r); /* of memory that nothing uses any more */

/* ---- managed.c ---- */
void sim_managed_gone(uint64_t range_id); /* what is known of a range that has ended */

/* ---- memory.c ---- */
int sim_range_release(const struct sim_range *r); /* gives a range that was taken out back to the device */
int sim_host_alloc(size_t n, void **out); /* pinned, not in the ranges */
void sim_host_free(void *p, size_t n);
void sim_memory_context_gone(struct sim_ctx *c);

/* ---- ptx.c ---- */
struct sim_ptx_entry {
    char *name;
    unsigned params;
    size_t *offsets, *sizes;
    size_t arg_bytes;
};
/* Reads the entries of a module's text; *entries is the caller's to free with
 * sim_ptx_free. CUresult. */
int sim_ptx_parse(const char *text, struct sim_ptx_entry **entries, unsigned *count);
void sim_ptx_free(struct sim_ptx_entry *entries, unsigned count);

/* ---- module.c ---- */
void sim_module_context_gone(struct sim_ctx *c);

#endif
