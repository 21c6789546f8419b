#include "record.h"

#include <string.h>

#include "device.h"
#include "graph_record.h"
#include "kernels.h"
#include "mark.h"
#include "queue.h"
#include "record_ring.h"
#include "record_ticks.h"
#include "thread.h"

#define RELAXED memory_order_relaxed

_Atomic bool xm_record_on;

/* The device that the thread works with, as far as it is known without asking. */
static uint16_t section(const struct xm_thread *me)
{
	const struct xm_context *c = me ? me->context : NULL;

	return c && c->dev ? (uint16_t)c->dev->index : XM_COMMAND_NO_SECTION;
}

/* The lease that the command just done was counted in; NULL: it was not counted (a handler's,
 * inside of another). */
static const struct xm_lease *lease_of(const struct xm_thread *me, uintptr_t key, struct xm_queue **queue)
{
	const struct xm_lease *l = xm_lease_now;
	struct xm_queue *q = __atomic_load_n(&l->queue, __ATOMIC_RELAXED);

	if (!me || l->owner != me || !q || q->key != key || atomic_load_explicit(&xm_inside, RELAXED))
		return NULL;
	if (key <= XM_KEY_PER_THREAD && q->context != me->context)
		return NULL;
	*queue = q;
	return l;
}

static uint32_t slot(const struct xm_queue *q)
{
	const struct xm_board *board = xm_state.board;

	if (!board || !q->slot || q->generation != atomic_load_explicit(&xm_state.generation, RELAXED))
		return XM_COMMAND_NO_QUEUE;
	return (uint32_t)(q->slot - board->slots);
}

bool xm_record_place(struct xm_command *c, CUstream stream, unsigned flags)
{
	const struct xm_thread *me = xm_thread_known();
	uintptr_t key = xm_key(stream, flags);
	const struct xm_lease *l;
	struct xm_queue *q;

	if (atomic_load_explicit(&xm_state.captures, RELAXED) && xm_capturing(key))
		return false;
	c->section = section(me);
	c->queue = XM_COMMAND_NO_QUEUE;
	c->sequence = 0;
	l = lease_of(me, key, &q);
	if (!l)
		return true;
	c->section = (uint16_t)q->dev->index;
	c->queue = slot(q);
	c->sequence = me->lease_base[l - me->leases] + l->start - xm_lease_left(l);
	return true;
}

/* The thread's ring. A thread that only allocated so far is made known here. */
static struct xm_ring *ring(void)
{
	struct xm_thread *me = xm_thread_known();

	if (me && me->ring)
		return me->ring;
	if (atomic_load_explicit(&xm_aside, RELAXED) || !(me = xm_enter()))
		return NULL;
	if (!me->ring)
		me->ring = xm_ring_new();
	xm_leave(me);
	return me->ring;
}

struct xm_record *xm_record_begin(void)
{
	struct xm_ring *r = ring();

	atomic_thread_fence(memory_order_acquire); /* what was set before recording began is seen */
	if (r)
		return xm_ring_place(r);
	xm_ring_lost();
	return NULL;
}

void xm_record_end(struct xm_record *r)
{
	struct xm_ring *to = ring();

	r->head.bytes = ((uint32_t)sizeof r->head + r->head.payload + 7) & ~7u;
	r->head.ns = xm_ticks();
	for (uint32_t at = r->head.payload; at % 8; at++)
		r->payload[at] = 0;
	if (to)
		xm_ring_add(to, r);
}

void xm_record_add(const struct xm_command *c, const void *payload, uint32_t bytes)
{
	struct xm_record *r = xm_record_begin();

	if (!r)
		return;
	r->head = *c;
	r->head.payload = bytes;
	if (bytes)
		memcpy(r->payload, payload, bytes);
	xm_record_end(r);
}

/* ---- commands that say themselves what they touch ------------------------------------ */

void xm_record_fill(CUstream stream, unsigned flags, uint64_t dst, size_t pitch, size_t width, size_t height)
{
	struct xm_command c = {.kind = XM_COMMAND_FILL};
	struct xm_command_fill f = {dst, width, height, height > 1 ? pitch : width};

	if (width && height && xm_record_place(&c, stream, flags))
		xm_record_add(&c, &f, sizeof f);
}

void xm_record_prefetch(CUstream stream, unsigned flags, uint64_t at, size_t bytes, int64_t place)
{
	struct xm_command c = {.kind = XM_COMMAND_PREFETCH};
	struct xm_command_range r = {at, bytes, place};

	if (bytes && xm_record_place(&c, stream, flags))
		xm_record_add(&c, &r, sizeof r);
}

void xm_record_prefetches(CUstream stream, unsigned flags, const CUdeviceptr *at, const size_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		xm_record_prefetch(stream, flags, at[i], bytes[i], 0);
}

/* Of a batch: those that write. */
void xm_record_writes(CUstream stream, unsigned flags, const CUstreamBatchMemOpParams *ops, unsigned n)
{
	for (; n; n--, ops++)
		if (ops->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
			xm_record_fill(stream, flags, ops->writeValue.address, 0, 4, 1);
		else if (ops->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
			xm_record_fill(stream, flags, ops->writeValue.address, 0, 8, 1);
}

void xm_record_other(CUstream stream, unsigned flags, enum xm_command_kind kind)
{
	struct xm_command c = {.kind = (uint16_t)kind, .flags = XM_COMMAND_UNKNOWN};

	if (xm_record_place(&c, stream, flags))
		xm_record_add(&c, NULL, 0);
}

/* ---- lent ------------------------------------------------------------------------------ */

static int record(int on)
{
	xm_ticks_begin();
	return atomic_exchange(&xm_record_on, on != 0);
}

const struct xm_commands xm_commands = {
	.version = XM_COMMANDS_VERSION,
	.size = sizeof xm_commands,
	.record = record,
	.take = xm_ring_take,
	.dropped = xm_ring_dropped,
	.kernel = xm_kernel_info,
	.graph = xm_graph_nodes,
	.ranges = xm_ranges,
};
