/* What the simulated driver and the simulated device say to each other. The
 * device's half is hal/sim/device/wire.go; a test compares every offset.
 *
 * Control: one SOCK_SEQPACKET connection a process, one request and one reply at
 * a time, file descriptors beside. Data: one sealed memfd a context, with a ring
 * for each channel. The device trusts nothing that it reads there.
 *
 * A ring has one writer line and one device line. `put` and `get` count entries
 * for ever; an entry is free again when `get`, which counts completed commands,
 * has passed it. Waiters set `waiting` and sleep on the low half of `get`.
 */
#ifndef XM_SIM_PROTOCOL_H
#define XM_SIM_PROTOCOL_H

#include <stdint.h>

#define SIM_VERSION 2u
#define SIM_MAGIC 0x53584d58u /* 'XMXS' */

#define SIM_CHANNELS 8u      /* a context; streams fold onto them */
#define SIM_ENTRIES 1024u    /* a ring */
#define SIM_ARGS 176u        /* bytes of arguments an entry carries */
#define SIM_EVENTS 65536u    /* time stamps a context */
#define SIM_NAME 64u         /* bytes of a kernel's or the device's name, with NUL */
#define SIM_TEXT 512u        /* bytes beside a request */
#define SIM_DEVICES 8u       /* at most */

/* Requests. The letters are the fields of the request and the reply; device is the
 * number of the device that is meant, where it matters. */
enum sim_op {
    SIM_HELLO = 1,      /* a version -> a number of devices; fd: doorbell (eventfd) */
    SIM_CONTEXT,        /* device -> a context id; fd: its memory */
    SIM_CONTEXT_END,    /* a context id */
    SIM_ALLOC,          /* a context id, or 0: the process's, on device; b address, c bytes */
    SIM_FREE,           /* a address */
    SIM_HOST_ALLOC,     /* b address, c bytes; fd: the memory */
    SIM_HOST_REGISTER,  /* b address, c bytes, d offset; fd of the mapping, if any, sent along */
    SIM_HOST_END,       /* a address: of either kind */
    SIM_KERNEL,         /* text name -> a kernel id */
    SIM_MEM_INFO,       /* device -> a free, b total */
    SIM_DEVICE,         /* device -> a HBM bytes, uuid, text name */
    SIM_PEER,           /* a context id, b context id that it has access to if c, on another device */
    SIM_ACCESS,         /* a address of device memory, b numbers of other devices that have access, a bit each */

    SIM_MANAGED_ALLOC = 16, /* b address, c bytes; fd: the memory. Ends with SIM_FREE */
    SIM_MANAGED_ADVISE, /* a address, b bytes, c 1 read mostly or 0 no longer */
    SIM_TOOLS_BEGIN,    /* a queue, b entries, c control page, fd sent along: the end of a pipe, for as long as the other
                         * is open -> a number */
    SIM_TOOLS_EVENTS,   /* a number, c the events wanted, a bit each */
    SIM_TOOLS_FLUSH,

    /* Of the resource manager. Objects are named by a client and a handle in it; the
     * result is its status, not a CUresult. */
    SIM_RM_ALLOC = 32,  /* a client, b parent, c handle or 0, d class; text: struct sim_rm_for -> a handle */
    SIM_RM_FREE,        /* a client, b handle: with all below it */
    SIM_RM_DUP,         /* a client, b parent, c handle or 0, d of what: its client in the upper half -> a handle */
    SIM_RM_SLICE,       /* a client, b group, c us. Takes its time */
    SIM_RM_GET_SLICE,   /* a client, b group -> a us */
    SIM_RM_HOLD,        /* a client, b subdevice, c 1 off or 0 on, d channels; text: of each its client and handle. Takes its time */
    SIM_RM_LOOK,        /* a client, b handle -> a class, uuid of its device */

    /* Of memory that is mapped by hand. */
    SIM_PHYS_CREATE = 48, /* a bytes, of device or, if c, of the host; text: struct sim_phys -> a id. Of the host: takes its time */
    SIM_PHYS_RELEASE,   /* a id: one handle less */
    SIM_PHYS_EXPORT,    /* a id; fd: the memory */
    SIM_PHYS_IMPORT,    /* a id of what is mapped, or fd sent along -> a id, b bytes, text: struct sim_phys: one handle more */
    SIM_RESERVE,        /* a address, b bytes */
    SIM_UNRESERVE,      /* a address, where nothing is mapped */
    SIM_MAP,            /* a address, b bytes, c offset, d id. Of the host: takes its time */
    SIM_UNMAP,          /* a address, b bytes: whole mappings, one or more */
    SIM_MAP_ACCESS      /* a address, b bytes: whole mappings; text: numbers of devices, a bit each, of which c may read, d write */
};

/* What is to be known of physical memory where it is imported. */
struct sim_phys {
    int32_t place, id; /* CUmemLocation; a device's number */
    uint32_t handle_types, pad;
};

/* What an object of the resource manager is for, where its parent does not say so. */
struct sim_rm_for {
    uint64_t context; /* 0: none */
    uint32_t engine;  /* NV2080_ENGINE_TYPE_… of a group */
    uint32_t device;  /* number of a device */
};

struct sim_request {
    uint32_t op, device;
    uint64_t a, b, c, d;
    char text[SIM_TEXT];
};

struct sim_reply {
    int32_t result; /* CUresult */
    uint32_t pad;
    uint64_t a, b;
    uint8_t uuid[16];
    char text[SIM_NAME];
};

enum sim_command {
    SIM_NOP = 0,
    SIM_LAUNCH,   /* kernel, grid, block, args */
    SIM_COPY,     /* a dst, b src, c bytes; flags SIM_LOOSE */
    SIM_FILL,     /* a dst, b value, c elements, kind element size 1, 2, 4 */
    SIM_WAIT,     /* a address, b value, kind width 4 or 8, flags how to compare */
    SIM_WRITE,    /* a address, b value, kind width 4 or 8 */
    SIM_AFTER,    /* a context, b channel, c count: wait until that channel's get is that far */
    SIM_EVENT,    /* a slot of the context's time stamps */

    SIM_COPY_ROWS = 16, /* a dst, b src, c bytes of a row; flags SIM_LOOSE; args: struct sim_rows */
    SIM_FILL_ROWS,      /* a dst, b value, c elements of a row, kind; args: struct sim_rows */
    SIM_PREFETCH        /* a address, c bytes of managed memory, kind 1 to the device of number flags, 0 to the host */
};

/* Of a copy: an end may be any memory of the process, which the device then reads
 * or writes where it is. */
#define SIM_LOOSE 1u

/* Where the rows of SIM_COPY_ROWS and SIM_FILL_ROWS (which has no source) lie:
 * pitch bytes from row to row, slice bytes from layer to layer. */
struct sim_rows {
    uint64_t height, depth;
    uint64_t dst_pitch, dst_slice;
    uint64_t src_pitch, src_slice;
};

struct sim_entry {
    uint32_t command, kind, flags, kernel;
    uint64_t a, b, c;
    uint64_t submitted; /* CLOCK_MONOTONIC, ns: the command begins no earlier */
    uint32_t grid[3], block[3];
    uint32_t shared, arg_bytes;
    uint8_t args[SIM_ARGS];
};

struct sim_ring {
    uint64_t put;            /* written by the driver */
    uint32_t waiting;        /* somebody sleeps on get */
    uint8_t pad0[52];
    uint64_t get;            /* written by the device */
    uint8_t pad1[56];
};

struct sim_context {
    uint32_t magic, version;
    uint32_t error;          /* sticky CUresult, written by the device */
    uint32_t asleep;         /* the device wants the doorbell; whoever clears it rings */
    uint8_t pad[4080];
    struct sim_ring rings[SIM_CHANNELS];
    uint8_t pad2[4096 - sizeof(struct sim_ring) * SIM_CHANNELS % 4096];
    uint64_t stamps[SIM_EVENTS]; /* simulated ns */
    struct sim_entry entries[SIM_CHANNELS][SIM_ENTRIES];
};

_Static_assert(sizeof(struct sim_entry) == 256, "an entry is four cache lines");
_Static_assert(sizeof(struct sim_ring) == 128, "a ring header is two cache lines");
_Static_assert(sizeof(struct sim_request) == 552 && sizeof(struct sim_reply) == 104, "messages");

#endif
