/*
 * What the program in the kernel and the Go side of nvx/bpf share. Every number
 * is 8 bytes or comes in pairs of 4, so that there is no padding; layout.go has
 * the same, and a test compares the two by the types in the object.
 */
#ifndef OBSERVE_H
#define OBSERVE_H

#include "kernel.h"

enum kind {
	KIND_NONE,
	KIND_LAUNCH,   /* commands: a kernel or graph */
	KIND_COPY,
	KIND_FILL,
	KIND_OTHER,    /* another command of a stream */
	KIND_ALLOC,    /* enter and leave: memory is made */
	KIND_MADE,     /* a place behind it: memory has been made */
	KIND_FREE,
	KIND_WAIT,     /* enter and leave: the caller waits for the device */
	KIND_BEGIN,    /* a place before it */
	KIND_COMPLETE, /* a place behind it */
	KIND_RECORD,   /* an event is put into a stream */
	KIND_QUERY,    /* asks and does not wait */
	KIND_HELD,     /* a thread is held at the gate, by the bound or for a greeting */
	KIND_LET,      /* and goes on */
};

enum how {
	HOW_NONE,     /* 0 */
	HOW_NUMBER,   /* offset */
	HOW_REGISTER, /* the register at byte `reg` of the context */
	HOW_STACK,    /* memory at the stack pointer + offset */
	HOW_FIELD,    /* memory at the register + offset */
};

/* Where a value is when the program stops. */
struct place {
	u8 how;
	u8 size; /* 4 or 8 bytes of it count */
	u16 reg;
	s32 offset;
};

enum shape {
	SHAPE_BYTES,   /* value */
	SHAPE_PRODUCT, /* value * other * unit */
	SHAPE_2D,      /* value is the address of a CUDA_MEMCPY2D */
	SHAPE_3D,      /* of a CUDA_MEMCPY3D or one between devices */
	SHAPE_PITCHED, /* value * what is at address `other` when the call is over */
	SHAPE_GUARDED, /* value, when other is 1 */
};

enum scope { SCOPE_NONE, SCOPE_STREAM, SCOPE_CONTEXT, SCOPE_EVENT };

enum {
	FLAG_PER_THREAD = 1, /* stream 0 is the thread's */
	FLAG_OURS = 2,       /* a site of the preload library */
	FLAG_HANDLE = 4,     /* memory without an address: cuMemCreate's */
};

/* One hooked place: row of the table that cookies point into. */
struct hook {
	u16 kind;
	u16 scope; /* of a wait, or of a command whose call blocks: what its return says of */
	u16 shape;
	u16 flags;
	u32 unit;
	u32 unused;
	struct place stream; /* of EVENT: the event; of memory that is made: where its address goes */
	struct place value;
	struct place other;
};

struct process_key {
	u32 pid;
	u32 ours; /* seen at the preload library's sites */
};

struct count_key {
	u32 pid;
	u32 row;
};

struct count {
	u64 hits;
	u64 bytes;
};

#define SLOTS 40 /* of a histogram: slot n holds times from 2^(n-1) ns on, below 2^n */

struct histogram {
	u64 number[SLOTS];
	u64 ns[SLOTS];
};

struct process {
	u64 started; /* first hit */
	u64 ended;   /* it left; 0 not */
	u64 window;  /* of looking, see model.h */
	u64 word;    /* epoch << 16 | streams with commands outstanding */
	u64 since;   /* of the block that is running; 0 none */
	u64 block_from;
	u64 idle_since; /* 0: busy, or nothing known yet */
	u64 commands;
	u64 cut_busy_ns, cut_idle_ns; /* of blocks and gaps that the end of a window cut off */
	u64 longest_ns, longest_commands;
	u64 single_ns, singles; /* blocks of one command: the longest, and how many */
	u64 waited_ns, waited_until, waits;
	u64 command_ns; /* some command took at least so long */
	u64 gate_ns, gate_waits, gate_longest_ns;
	u64 bytes, high, allocations, frees, unknown_frees, refused, refused_bytes, untracked;
	u64 lost_streams;
	struct histogram busy, idle;
	char comm[16];
};

struct stream_key {
	u32 pid;
	u32 ours;
	u64 stream;
};

struct stream {
	u64 sequence; /* commands so far */
	u64 mark;     /* epoch in which it has commands outstanding; 0 none */
};

struct event_key {
	u32 pid;
	u32 ours;
	u64 event;
};

struct event {
	u64 stream;
	u64 sequence;
};

struct memory_key {
	u32 pid;
	u32 handle;
	u64 at;
};

struct call_key {
	u64 thread;
	u32 kind;
	u32 ours;
};

struct call {
	u64 at;
	u64 commands; /* of the process */
	u64 sequence; /* of the stream */
	u64 stream;
	u64 value;
	u64 other;
	u64 outstanding; /* commands of the block, when something was outstanding */
};

enum news { NEWS_CAME = 1, NEWS_LEFT };

/* What happens seldom. */
struct news_item {
	u32 what;
	u32 pid;
};

#define WINDOWS 64 /* of looking, whose ends are remembered */

#endif
