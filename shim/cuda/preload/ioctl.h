/*
 * Standing before libc's ioctl: every request but a few of NVIDIA's resource
 * manager passes with one comparison and a jump. Those few are handed to the
 * driver unchanged, and what they did is told to hold.h: allocations, frees and
 * duplications of the kinds of objects that level 3 needs, and, while a GPU is
 * held, controls of its groups and channels.
 *
 * What the caller sees is the driver's: arguments, result, errno.
 */
#ifndef XMSCHED_IOCTL_H
#define XMSCHED_IOCTL_H

#include <stdint.h>

#include "abi.h"

/*
 * The device on which this thread is about to make a context (16 bytes), until
 * it is told NULL: what tells where channel groups belong when the driver does not.
 */
XM_INTERNAL void xm_context_begins(const uint8_t uuid[16]);

#endif
