/*
 * What this process owns in the driver's resource manager, as far as level 3
 * needs it: clients, devices, subdevices, channel groups and channels, with
 * who is below whom. Learnt from the calls by which libcuda makes, frees and
 * duplicates them (ioctl.c); an object that the process did not make itself
 * never gets in here, so nothing is ever done to one.
 *
 * A table is plain data under one lock of its user: no system call, no clock,
 * no driver. Records come from xm_keep and are recycled, never given back.
 */
#ifndef XMSCHED_OBJECTS_H
#define XMSCHED_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

#define XM_RM_GPUS 32u /* GPUs of one process; the board has sections for 16 */

enum xm_rm_kind {
	XM_RM_CLIENT = 1,
	XM_RM_DEVICE,
	XM_RM_SUBDEVICE,
	XM_RM_GROUP,
	XM_RM_CHANNEL,
	XM_RM_PROFILER, /* a profiler's session: no level 3 while there is one */
	XM_RM_INSTANCE, /* a MIG instance: the same */
	XM_RM_DEBUGGER, /* counted only: libcuda has one of its own for every context */
	XM_RM_MPS,      /* counted only: libcuda makes one outside of MPS too */
	XM_RM_KINDS,
};

/* One GPU: what is wished of all the channels that this process has there. */
struct xm_gpu {
	uint8_t uuid[16];
	uint32_t hold;    /* XM_HOLD_* that is in force for what comes new */
	uint32_t slice;   /* us that compute groups are to have; 0: their own */
	bool asked;       /* a harmless control was tried */
	uint32_t refused; /* the driver's status that ended level 3 here; 0: none did */
	uint32_t late;    /* times in a row that a newcomer could not be switched off */
};

/* Where the file behind a descriptor lies: another one under its number is none of ours. */
struct xm_rm_file {
	int fd;
	uint64_t device, inode;
};

struct xm_rm_object {
	uint32_t client, handle, class;
	enum xm_rm_kind kind;
	struct xm_rm_file file;      /* where it was made; its controls go there */
	uint32_t engine;             /* groups: engine type */
	uint32_t instance;           /* devices: which of the machine's; XM_RM_NO_INSTANCE: not told */
	uint64_t identity;           /* the same for all names of one object */
	bool many;                   /* has, or had, more than one name */
	uint8_t hint[16];            /* groups: UUID of the device whose context was being made */
	bool hinted;
	bool mute;                   /* subdevices: will not tell its UUID */
	struct xm_gpu *gpu;          /* subdevices, and their devices: NULL until asked */
	uint32_t usual, slice;       /* groups: us before the first change, us now; 0: untouched */
	bool off;                    /* channels: switched off by us; the same for all names */
	uint32_t failed;             /* channels: refusals to be switched in a row */
	struct xm_rm_object *up, *down, *next, *prev; /* the tree; siblings doubly linked */
	struct xm_rm_object *chain;  /* of the hash, or the free */
};

#define XM_RM_NO_INSTANCE UINT32_MAX
#define XM_RM_BUCKETS 256u /* a power of two */

struct xm_rm_table {
	struct xm_rm_object *buckets[XM_RM_BUCKETS];
	struct xm_rm_object *clients; /* siblings */
	struct xm_rm_object *free;
	struct xm_gpu gpus[XM_RM_GPUS];
	uint32_t gpu_count;
	uint32_t count[XM_RM_KINDS]; /* names alive, by kind */
	uint64_t identities;
	uint64_t changes; /* adds 1 with every object that comes or goes */
	uint32_t strange; /* allocations that were not understood: nobody knows what else there is */
};

/* An allocation that succeeded. */
struct xm_rm_made {
	struct xm_rm_file file;
	uint32_t client, parent, handle, class;
	uint32_t engine;   /* of a group; 0: not told */
	uint32_t instance; /* of a device */
	const uint8_t *hint; /* 16 bytes or NULL */
};

/* Whether objects of this class are kept; 0: they are not. */
XM_INTERNAL enum xm_rm_kind xm_rm_kind_of(uint32_t class);

/* The object of that name; NULL: not ours. A client's own name is (client, client). */
XM_INTERNAL struct xm_rm_object *xm_rm_find(struct xm_rm_table *t, uint32_t client, uint32_t handle);

/*
 * Adds what was made. A name that is taken is given anew: what it stood for has
 * gone without our seeing it. NULL: not of a kind that is kept, or of a client
 * that is not ours, or without memory (then `strange` grows).
 */
XM_INTERNAL struct xm_rm_object *xm_rm_add(struct xm_rm_table *t, const struct xm_rm_made *m);

/* A second name for an object of ours (of m its class and what follows are not looked at). NULL: the source is not ours. */
XM_INTERNAL struct xm_rm_object *xm_rm_duplicate(struct xm_rm_table *t, const struct xm_rm_made *m, uint32_t source_client,
						 uint32_t source);

/* Drops the object with all below it. */
XM_INTERNAL void xm_rm_drop(struct xm_rm_table *t, struct xm_rm_object *o);

/* Drops whatever was made on a file that this process has closed. */
XM_INTERNAL void xm_rm_drop_file(struct xm_rm_table *t, const struct xm_rm_file *f);

/* The GPU of that UUID, made when there is room and `make`; else NULL. */
XM_INTERNAL struct xm_gpu *xm_rm_gpu(struct xm_rm_table *t, const uint8_t uuid[16], bool make);

/* The client, and the device, that an object is below (or is); NULL: none. */
XM_INTERNAL struct xm_rm_object *xm_rm_above(struct xm_rm_object *o, enum xm_rm_kind kind);

/* The GPU that a group, channel, device or subdevice is on; NULL: not known (yet). */
XM_INTERNAL struct xm_gpu *xm_rm_gpu_of(struct xm_rm_table *t, struct xm_rm_object *o);

/* A subdevice of that GPU to which controls can go; NULL: none. */
XM_INTERNAL struct xm_rm_object *xm_rm_subdevice(struct xm_rm_table *t, const struct xm_gpu *gpu);

/* The engine that a channel works for; 0: not told. */
XM_INTERNAL uint32_t xm_rm_engine(struct xm_rm_object *channel);

/* The object after `o` in an order in which a parent comes before its children; NULL begins, and ends. */
XM_INTERNAL struct xm_rm_object *xm_rm_next(struct xm_rm_table *t, struct xm_rm_object *o);

/* Whether `o` is the first name of its object in that order. */
XM_INTERNAL bool xm_rm_first_name(struct xm_rm_table *t, struct xm_rm_object *o);

/* Notes of a channel, under each of its names, that it was switched. */
XM_INTERNAL void xm_rm_switched(struct xm_rm_table *t, struct xm_rm_object *o, bool off);

#endif
