/*
 * The way to the kernel driver, and nothing else: one function that every call
 * to the resource manager goes through, the program's own and ours, and what
 * may be asked of a descriptor. Tests put a kernel of their own in its place.
 */
#ifndef XMSCHED_RAW_H
#define XMSCHED_RAW_H

#include <stdbool.h>

#include "objects.h"

/*
 * As ioctl(2) does: -1 and errno, or what the driver returned. Where the driver
 * library is the simulated one, requests of the resource manager go to it.
 */
XM_INTERNAL int xm_rm_raw(int fd, unsigned long request, void *arg);

/* The ioctl that the program would call without us. */
XM_INTERNAL int xm_ioctl_next(int fd, unsigned long request, void *arg);

/* What the descriptor stands for now; false: nothing that a driver could be behind. */
XM_INTERNAL bool xm_rm_file(int fd, struct xm_rm_file *f);

/* Whether the same file is still behind the descriptor. */
XM_INTERNAL bool xm_rm_file_is(const struct xm_rm_file *f);

#endif
