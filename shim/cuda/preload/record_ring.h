/*
 * Rings of records, one a thread: its thread alone writes, the reader alone reads, and
 * nobody waits. A thread keeps its ring for good (as its record, which another thread may
 * have after it), and a new one gets none once there are XM_RINGS.
 *
 * A record is made in its place, and is there for the reader when it is whole. A signal handler that
 * interrupted its own thread in the middle of one loses its own; one that never came back from
 * there is noticed after a while.
 */
#ifndef XMSCHED_RECORD_RING_H
#define XMSCHED_RECORD_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "record.h"

#define XM_RINGS 64u
#define XM_RING_BYTES (256u << 10) /* about 2,000 launches */

struct xm_ring {
	_Atomic uint64_t head; /* bytes ever written; by the thread */
	_Atomic uint64_t lost; /* records that found no room */
	volatile bool writing;
	uint32_t refused;      /* in a row, for `writing` */
	uint64_t skipped;      /* before the record being made: what is left at the ring's end */
	_Atomic uint64_t tail __attribute__((aligned(64))); /* bytes ever read; by the reader */
	uint8_t data[XM_RING_BYTES] __attribute__((aligned(64)));
};

/* A ring for the thread's record that has none yet; NULL: there are no more. */
XM_INTERNAL struct xm_ring *xm_ring_new(void);

/* The place of the next record, with room for the largest; NULL, and counted: there is none. After it
 * the thread either adds that record or takes the place again. */
XM_INTERNAL struct xm_record *xm_ring_place(struct xm_ring *r);

/* The record that was made there, with its head's `bytes`. */
XM_INTERNAL void xm_ring_add(struct xm_ring *r, const struct xm_record *made);

/* Nothing was made there. */
XM_INTERNAL void xm_ring_leave(struct xm_ring *r);

/* A record was lost without a ring. */
XM_INTERNAL void xm_ring_lost(void);

/* struct xm_commands' take and dropped. */
XM_INTERNAL int xm_ring_take(void *buf, uint32_t bytes);
XM_INTERNAL uint64_t xm_ring_dropped(void);

#endif
