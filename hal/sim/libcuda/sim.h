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

/* What a context has of the resource manager's: groups on the compute engine and on
 * three copy engines, and their channels. 0: not there. */
struct sim_rm_set {
    uint32_t groups[4], channels[8 + 3 * 4];
};

struct sim_stream {
    uint32_t live;
    unsigned channel;
    unsigned flags;
    int priority;
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    uint64_t last; /* its channel's count behind its last command */
    uint64_t seen[SIM_CHANNELS]; /* of its context's channels, what it waited for by events; ctx->lock */
    uint64_t id;
    bool legacy, per_thread;
    unsigned owned; /* by owner, so many times over; protected by the context's lock */
    pthread_t owner;
    struct sim_capture *capture; /* NULL: none. This and the rest: graph.h's lock */
    struct sim_stream *capture_next;
    struct sim_node **tail; /* what its next node depends on; the room is kept for the next capture */
    void *edges;            /* as many edges of the plain kind */
    size_t tails, tail_room;
    uint64_t attributes[3][2]; /* as set: SYNCHRONIZATION_POLICY, MEM_SYNC_DOMAIN_MAP, MEM_SYNC_DOMAIN */
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
    uint64_t capture;       /* the one that it was last recorded in; 0: none */
    struct sim_node **tail; /* what whoever waits for it then depends on */
    size_t tails;
};

struct sim_function {
    uint32_t live;
    struct sim_module *module;
    char *name;
    int64_t kernel; /* -1: the device has no body for it */
    unsigned params;
    size_t *offsets, *sizes;
    size_t arg_bytes;
    int max_dynamic, carveout, cluster_policy; /* attributes that can be set */
    int required_cluster[3]; /* 0: any */
    bool wide_clusters;
    bool taken; /* some program has its handle: it is on the device */
};

/* A pool's memory is the process's, in chunks; pool.c knows them. */
struct sim_pool {
    uint32_t live;
    CUdevice device;
    struct sim_pool *next;
    bool is_default, destroyed;
    uint32_t access; /* other devices that have access, by ordinal */
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

#define SIM_LIMITS 9 /* CUlimit, those of a device without partitions */

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
    CUdevice device;
    struct sim_rm_set rm; /* its objects of the resource manager */
    unsigned flags;
    unsigned version;  /* of the interface that made it */
    unsigned attached; /* uses beyond the first, by cuCtxAttach */
    size_t limits[SIM_LIMITS];
    bool limit_set[SIM_LIMITS];
    int cache_config;
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
    uint64_t barrier[SIM_CHANNELS];      /* counts that whatever comes next has to wait for: sim_ctx_barrier */
    bool barred[SIM_CHANNELS];           /* a channel does not wait for them yet */
    uint32_t slots_used, slots_free, slots_first;
    struct sim_free_slot *free_slots; /* a ring of SIM_EVENTS: the longest free is used first */
    struct sim_chunk chunks[SIM_CHUNKS];
    unsigned chunk_count;
    pthread_cond_t disowned;   /* a stream has no owner any more */
    uint64_t *host_words;      /* hostfunc.c: calls that have returned, by channel */
    struct sim_host_queue *host_queue[SIM_CHANNELS];
    unsigned capturing;        /* blocking streams that capture; under graph.h's lock, read without */
};

enum sim_kind { SIM_RANGE_DEVICE, SIM_RANGE_HOST, SIM_RANGE_REGISTERED, SIM_RANGE_MANAGED, SIM_RANGE_POOL, SIM_RANGE_MAPPED };

/* Whether memory of this kind is the device's, as far as calls are concerned; memory of
 * the host that is mapped by hand is like the device's to all of them. */
static inline bool sim_on_device(enum sim_kind kind) { return kind == SIM_RANGE_DEVICE || kind == SIM_RANGE_POOL || kind == SIM_RANGE_MAPPED; }

struct sim_range {
    uint64_t base, size;
    uint64_t id; /* given by sim_range_add; never twice in a process */
    enum sim_kind kind;
    unsigned flags;
    uint64_t ctx_id;
    struct sim_ctx *ctx;
    struct sim_pool *pool; /* where memory of a pool comes from */
    bool sync;             /* SYNC_MEMOPS is set */
    /* Of what is mapped by hand: which memory, from which byte of it; where that is, a
     * device's ordinal or -1 for the host; how it can be shared; who may use it here. */
    uint64_t phys, offset;
    CUdevice home;
    unsigned handle_types;
    uint32_t readable, writable; /* devices by ordinal, a bit each */
    int host_access;
};

/* ---- slab.c: handles are pointers into these; a wrong one is seen as such ---- */
struct sim_stream *sim_stream_new(void);
struct sim_event *sim_event_new(void);
struct sim_module *sim_module_new(void);
struct sim_graph *sim_graph_new(void);
struct sim_node *sim_node_new(void);
struct sim_exec *sim_exec_new(void);
struct sim_library *sim_library_new(void);
struct sim_kernel *sim_kernel_new(void);
struct sim_function *sim_function_new(void);
struct sim_ctx *sim_ctx_new(void);
struct sim_pool *sim_pool_new(void);
void sim_object_free(void *object);
bool sim_is_stream(const void *handle);
bool sim_is_event(const void *handle);
bool sim_is_module(const void *handle);
bool sim_is_graph(const void *handle);
bool sim_is_node(const void *handle);
bool sim_is_exec(const void *handle);
bool sim_is_library(const void *handle);
bool sim_is_kernel(const void *handle);
bool sim_is_function(const void *handle);
bool sim_is_ctx(const void *handle);
bool sim_is_pool(const void *handle);
bool sim_was_ctx(const void *handle); /* is one, or was one that ended */

/* ---- conn.c ---- */
int sim_connect(void); /* CUresult */
int sim_call(struct sim_request *q, int send_fd, struct sim_reply *r, int *got_fd);
void sim_ring_bell(void);
bool sim_device_gone(void);
bool sim_connection_lost(void); /* the same, without looking */
void sim_forget_connection(void); /* in a forked child */

/* ---- device.c ---- */
struct sim_device {
    uint32_t number; /* of all that there are; a program sees some of them */
    uint64_t memory;
    uint8_t uuid[16];
    char name[SIM_NAME];
};
/* Those that the program sees, by ordinal; they stay as cuInit found them. */
extern struct sim_device sim_devices[SIM_DEVICES];
extern int sim_device_count;
void sim_devices_choose(const struct sim_device *all, unsigned n);
static inline bool sim_device_is(CUdevice d) { return d >= 0 && d < sim_device_count; }

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
/* Lets all that comes, in whatever stream, wait for all that is there: so the
 * driver brings code to the device. */
void sim_ctx_barrier(struct sim_ctx *c);
/* A command behind all that the context has now, whatever the stream. */
int sim_submit_behind_all(struct sim_ctx *c, struct sim_entry *e, struct sim_mark *mark);

/* ---- rm.c ---- */
int sim_rm_context_begin(struct sim_ctx *c); /* CUresult */
void sim_rm_context_end(struct sim_ctx *c);
EXPORT int xm_sim_ioctl(int fd, unsigned long request, void *arg);
/* Opens a file of the kernel's driver, as open(2) would: page faults are watched by the
 * tools' one (tools.c), which is closed as any other. */
EXPORT int xm_sim_open(const char *path);
bool sim_tools_file(int fd);
int sim_tools_ioctl(int fd, unsigned long request, void *arg);

/* ---- stream.c ---- */
int sim_stream_of(CUstream handle, bool ptds, struct sim_ctx **c, struct sim_stream **out);
unsigned sim_stream_channel(struct sim_ctx *c);

/* ---- ring.c ---- */
/* Places a command behind what its stream has to wait for. Blocks while the
 * ring is full. *mark may be NULL. */
int sim_submit(struct sim_stream *s, struct sim_entry *e, struct sim_mark *mark);
int sim_wait(const struct sim_mark *mark); /* CUresult: the context's error */
bool sim_done(const struct sim_mark *mark);
/* Puts a call of the program's function into a stream; the call is the ring's then. */
struct sim_call;
int sim_submit_call(struct sim_stream *s, struct sim_call *call);
void sim_stream_own(struct sim_stream *s);
void sim_stream_disown(struct sim_stream *s);

/* ---- hostfunc.c ---- */
bool sim_in_host_function(void); /* the calling thread runs one: it may not call the driver */
bool sim_host_place(struct sim_ctx *c, unsigned channel, struct sim_entry *wait);
void sim_host_placed(struct sim_ctx *c, const struct sim_mark *reached, struct sim_call *call);
void sim_host_context_gone(struct sim_ctx *c);
/* One of the two functions, with the program's data. CUresult. */
int sim_host_submit(struct sim_stream *s, void (*fn)(void *), void (*callback)(CUstream, CUresult, void *), void *data);

/* ---- event.c ---- */
int sim_event_record(struct sim_stream *s, struct sim_ctx *c, struct sim_event *e);
int sim_event_wait(struct sim_stream *s, struct sim_event *e);
int sim_event_record_all(struct sim_ctx *c, struct sim_event *e); /* behind all that the context has */

/* ---- capture.c ---- */
struct sim_work;
static inline bool sim_capturing(const struct sim_stream *s) { return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE) != NULL; }
/* What becomes of a command in a capturing stream: a node. CUresult; takes w over. */
int sim_capture_work(struct sim_stream *s, struct sim_work *w);
int sim_capture_entry(struct sim_stream *s, const struct sim_entry *e);
int sim_capture_record(struct sim_stream *s, struct sim_event *e, unsigned flags);
int sim_capture_wait(struct sim_stream *s, struct sim_event *e, unsigned flags);
/* The errors that captures cause to other calls; they invalidate the captures that
 * are to blame. 0 when there is none. */
int sim_capture_sync(struct sim_stream *s);         /* for a call that no capturing stream takes */
int sim_capture_waits(struct sim_stream *s);        /* for a call that waits for s or asks whether it is done: unsafe, too */
int sim_capture_implicit(const struct sim_stream *s); /* for a call that uses s: the legacy stream against blocking ones */
int sim_capture_unsafe(void);                       /* for a call that a capture's mode forbids */
bool sim_capture_is_implicit(const struct sim_stream *s); /* the same, and nothing is lost */
int sim_capture_refused(struct sim_stream *s, int rc); /* for a launch that is refused with rc, which it returns */
int sim_capture_context(const struct sim_ctx *c);   /* for a call that waits for all of a context */
int sim_capture_event(const struct sim_event *e);   /* for a call that asks what is of an event */
void sim_capture_stream_gone(struct sim_stream *s);
void sim_capture_event_gone(struct sim_event *e);
void sim_capture_context_gone(struct sim_ctx *c);

/* ---- range.c ---- */
bool sim_range_add(const struct sim_range *r);
bool sim_range_find(uint64_t address, uint64_t n, struct sim_range *out); /* the one that holds all of it */
bool sim_range_take(uint64_t base, struct sim_range *out);              /* removes the one that begins there */
bool sim_range_overlaps(uint64_t address, uint64_t n);
/* The mappings by hand that make up [address, address + n) exactly: calls one with each
 * of them, which may change it; false, and no call, when there are no such. */
bool sim_range_pieces(uint64_t address, uint64_t n, void (*one)(struct sim_range *, void *), void *with);
bool sim_range_take_ctx(uint64_t ctx_id, struct sim_range *out); /* removes one of the ranges that end with a context */

/* Sets an attribute that its range keeps; false: no range holds the address. */
bool sim_range_set_sync(uint64_t address, bool on);

/* ---- vmm.c ---- */
bool sim_reserved(uint64_t address, uint64_t n); /* some of it lies in reserved addresses */

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
int sim_image_check(const char *image); /* CUresult: not machine code */
int sim_module_load(struct sim_ctx *c, const char *image, CUmodule *out);
void sim_module_unload(struct sim_module *m);
void sim_module_context_gone(struct sim_ctx *c);

/* ---- library.c ---- */
/* What a handle that a program launches stands for in a context: itself, or a
 * kernel's function there. NULL with *rc. */
struct sim_function *sim_function_of(CUfunction handle, struct sim_ctx *c, int *rc);

#endif
