/*
 * Kernels: which one a launch's handle stands for. A handle is asked about when it is first
 * launched while recording is on; what it came in is known from the load, which is watched
 * from the first, for its image may be gone later.
 *
 * An id stands for a name, a code hash and a layout, and is never given twice. A handle is
 * forgotten when its module, library or context ends.
 *
 * Looking up a known handle takes no lock; all else takes one of its own, under which the driver is
 * not entered, on threads that have gone inside (thread.h).
 */
#ifndef XMSCHED_KERNELS_H
#define XMSCHED_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "commands.h"

/* Never changes, never goes. */
struct xm_known {
	struct xm_known *next; /* of the bucket */
	uint32_t id, flags;    /* XM_KERNEL_* */
	uint32_t parameters, bytes;
	bool dense; /* each word of 8 bytes is one parameter, or begins with one that is shorter */
	uint64_t code[2];
	uint32_t name_bytes;
	const char *name; /* no NUL */
	const struct xm_parameter *parameter;
};

/* The kernel behind the handle; calls the driver when it is new. NULL: not to be had. */
XM_INTERNAL const struct xm_known *xm_kernel_known(CUfunction f);

/* struct xm_commands' kernel. */
XM_INTERNAL int xm_kernel_info(uint32_t id, struct xm_kernel *out);

/* Handles that came out of this module or library, and are no more. xm_code_lock held. */
XM_INTERNAL void xm_kernels_drop(const void *of);
XM_INTERNAL void xm_kernels_drop_all(void);

/* ---- kernels_code.c: modules and libraries ---------------------------------------- */

struct xm_code {
	uint64_t hash[2]; /* 0, 0: not known */
};

/* What was loaded from an image, or a file, without reading past what its header tells. */
XM_INTERNAL struct xm_code xm_code_of_image(const void *image);
XM_INTERNAL struct xm_code xm_code_of_file(const char *path);

/* The driver loaded a module, or a library. */
XM_INTERNAL void xm_code_module(CUmodule m, struct xm_code code);
XM_INTERNAL void xm_code_library(CUlibrary l, struct xm_code code);

/* Before it unloads one; returns what it was, for the case that it refuses. */
XM_INTERNAL struct xm_code xm_code_goes(const void *handle);

/* The driver gave a handle for something of a library: a kernel, its function, a module. */
XM_INTERNAL void xm_code_kernel(CUkernel k, CUlibrary l);
XM_INTERNAL void xm_code_function(CUfunction f, CUkernel k);
XM_INTERNAL void xm_code_instance(CUmodule m, CUlibrary l);

/* A context ended: its modules and functions did. NULL: some context, not known which. */
XM_INTERNAL void xm_code_context_ended(CUcontext context);

/* What is known of a launch's handle: the library it is a kernel of (is_kernel), or a function of. */
struct xm_origin {
	bool is_kernel;
	CUlibrary library; /* NULL: not known to be of one */
};
XM_INTERNAL struct xm_origin xm_code_origin(CUfunction f);
XM_INTERNAL struct xm_code xm_code_known(const void *handle); /* of a module or library */

#endif
