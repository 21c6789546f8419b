/*
 * Commands, as the agent's predictor sees them: what this process has handed to the
 * driver, with the values that say which memory it touches. Nothing is recorded until
 * `record` asks for it, and nothing here changes what the program gets: a record that
 * cannot be made, or that nobody takes, is dropped and counted.
 *
 * A record is written when the driver has taken the command, so it may be taken before
 * the command runs, or after. A freed range alone is told before the driver is asked: its
 * address may be given anew at once. Records of one thread come in its order, and after those
 * of other threads that it can have known of; else times of several threads may be a little
 * out of order.
 *
 * Commands of a stream that captures are not recorded: the graph's launch is, and
 * `graph` says what it consists of.
 */
#ifndef XMSCHED_COMMANDS_H
#define XMSCHED_COMMANDS_H

#include <stdint.h>

#define XM_COMMANDS_VERSION 1u

#define XM_COMMAND_MOST 8192u         /* bytes of a record at most; of a buffer for `take` at least */
#define XM_COMMAND_PARAMETERS 4096u   /* bytes of a launch's parameters that are recorded */
#define XM_COMMAND_MAPS 32u           /* tensor maps of a launch that are recorded */
#define XM_COMMAND_NO_QUEUE UINT32_MAX
#define XM_COMMAND_NO_SECTION UINT16_MAX

#define XM_KERNEL_NAME 1024u
#define XM_KERNEL_PARAMETERS 128u

enum xm_command_kind {
	XM_COMMAND_KERNEL = 1,
	XM_COMMAND_COPY,
	XM_COMMAND_FILL,
	XM_COMMAND_GRAPH,
	XM_COMMAND_PREFETCH,
	XM_COMMAND_ALLOC,
	XM_COMMAND_FREE,
	XM_COMMAND_OTHER, /* touches memory, and does not say which */
};

/* Flags of a record. */
enum {
	XM_COMMAND_UNKNOWN = 1,   /* not all it touches is known: any memory may be */
	XM_COMMAND_CUT = 2,       /* parameters or tensor maps beyond the bound are missing */
	XM_COMMAND_SRC_HOST = 4,  /* of copies: the address is the host's */
	XM_COMMAND_DST_HOST = 8,
	XM_COMMAND_SRC_ARRAY = 16, /* an array, which has no address: 0 */
	XM_COMMAND_DST_ARRAY = 32,
	XM_COMMAND_POOL = 64,      /* of ALLOC, FREE: in order of the stream */
	XM_COMMAND_UNIFIED = 128,  /* of ALLOC: managed by the driver */
	XM_COMMAND_MAPPED = 256,   /* of ALLOC, FREE: mapped by the program itself */
	XM_COMMAND_DISABLED = 512, /* of a graph's node: does not run */
};

/* The beginning of every record; `payload` bytes follow, of the kind's own form. */
struct xm_command {
	uint32_t bytes;    /* of all of it; a multiple of 8 */
	uint16_t kind;     /* enum xm_command_kind */
	uint16_t section;  /* of the board, XM_COMMAND_NO_SECTION: not known */
	uint32_t queue;    /* slot of the board; XM_COMMAND_NO_QUEUE: it has none */
	uint32_t kernel;   /* of KERNEL, for `kernel`; 0: not known */
	uint64_t sequence; /* number of the command in its queue, as the slot's `submitted` and `completed` count; 0: not
	                    * counted. Too small where several threads use the queue at once */
	uint64_t ns;       /* CLOCK_MONOTONIC */
	uint32_t grid[3], block[3], shared;
	uint32_t payload;
	uint32_t flags;
	uint32_t maps;     /* of KERNEL: struct xm_command_map at the payload's end, after the parameters, padded to 8 */
};

/* KERNEL: the parameters as the kernel finds them, by their offsets; then the maps: of
 * tensor maps passed by value, what they were encoded with. */
struct xm_command_map {
	uint64_t address;
	uint64_t dims[5];    /* elements */
	uint64_t strides[4]; /* bytes, of dimension 1 on */
	uint32_t offset;     /* in the parameters */
	uint32_t rank;
	uint32_t type;       /* CUtensorMapDataType */
	uint32_t element;    /* bits; 0: not known */
};

/* COPY: `height` rows of `width` bytes, `depth` times. */
struct xm_command_copy {
	uint64_t dst, src;
	uint64_t width, height, depth;
	uint64_t dst_pitch, dst_slice, src_pitch, src_slice; /* bytes from row to row, and from layer to layer */
};

/* FILL */
struct xm_command_fill {
	uint64_t dst, width, height, pitch; /* bytes, rows, bytes */
};

/* ALLOC, FREE; PREFETCH, where `place` is the device's number, or -1 for the host. */
struct xm_command_range {
	uint64_t address, bytes; /* bytes 0: not known */
	int64_t place;
};

/* GRAPH */
struct xm_command_graph {
	uint64_t id;      /* of the executable graph, never given twice; 0: not known */
	uint64_t version; /* adds 1 with every update */
};

struct xm_parameter {
	uint32_t offset, size;
};

enum {
	XM_KERNEL_LAYOUT = 1, /* the parameters are known */
	XM_KERNEL_MORE = 2,   /* there are more than are listed */
};

struct xm_kernel {
	uint64_t code[2]; /* hash of the image that it came in; 0: not known. A large image is sampled */
	uint32_t flags;
	uint32_t parameters;     /* how many are listed */
	uint32_t parameter_bytes; /* of all */
	uint32_t name_bytes;
	char name[XM_KERNEL_NAME]; /* ends in NUL. A longer one ends in '#' and a hash of all of it */
	struct xm_parameter parameter[XM_KERNEL_PARAMETERS];
};

struct xm_commands {
	uint32_t version; /* XM_COMMANDS_VERSION */
	uint32_t size;    /* sizeof(struct xm_commands) */

	/* Begins (1) or ends (0) recording; returns what it was. */
	int (*record)(int on);

	/* Whole records, oldest first, as many as fit; returns their bytes, 0: there is none.
	 * -EINVAL: the buffer is smaller than XM_COMMAND_MOST. */
	int (*take)(void *buf, uint32_t bytes);

	/* Records that were lost so far. */
	uint64_t (*dropped)(void);

	/* 0; -ENOENT: there is no such kernel. Ids are not given twice; a kernel that is
	 * loaded again has its old one. */
	int (*kernel)(uint32_t id, struct xm_kernel *out);

	/* The records of a graph's nodes, in no order, with queue, sequence and ns 0; memory that
	 * nodes allocate is not among them. Returns the bytes that they need, and writes whole records as
	 * far as they fit. -ENOENT: it is not known, or it ended and was forgotten since. `version` may be NULL. */
	int (*graph)(uint64_t id, void *buf, uint32_t bytes, uint64_t *version);

	/* An ALLOC record for each range that exists, whether recording was on or not. Returns as
	 * `graph` does. Asked for after recording began, with the records that follow, it makes the picture whole. */
	int (*ranges)(void *buf, uint32_t bytes);
};

#endif
