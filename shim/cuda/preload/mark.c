#include "mark.h"

#include <stddef.h>

#include "boardmap.h"
#include "device.h"
#include "queue.h"
#include "sys.h"

#define RELAXED __ATOMIC_RELAXED
#define CAPTURE_RELAXED 2      /* CU_STREAM_CAPTURE_MODE_RELAXED */
#define EVENT_FLAGS 2u         /* CU_EVENT_DISABLE_TIMING */
#define NOT_READY 600          /* CUDA_ERROR_NOT_READY */

struct xm_quiet xm_quiet_begin(void)
{
	struct xm_quiet q = {.mode = CAPTURE_RELAXED};

	q.set = xm_real.cuThreadExchangeStreamCaptureMode && xm_real.cuThreadExchangeStreamCaptureMode(&q.mode) == 0;
	return q;
}

void xm_quiet_end(struct xm_quiet q)
{
	if (q.set)
		xm_real.cuThreadExchangeStreamCaptureMode(&q.mode);
}

bool xm_capturing(uintptr_t key)
{
	CUstreamCaptureStatus status = 0;

	return !xm_real.cuStreamIsCapturing || xm_real.cuStreamIsCapturing((CUstream)key, &status) || status != 0;
}

static CUresult write_value(struct xm_queue *q, CUdeviceptr at, uint32_t value)
{
	if (xm_real.cuStreamWriteValue32_v2)
		return xm_real.cuStreamWriteValue32_v2((CUstream)q->key, at, value, 0);
	if (xm_real.cuStreamWriteValue32)
		return xm_real.cuStreamWriteValue32((CUstream)q->key, at, value, 0);
	return NOT_READY;
}

/* q->order held. False: no event could be recorded; a full ring is no failure,
 * the next mark covers this one. */
static bool record(struct xm_queue *q, uint64_t sequence, bool *recorded)
{
	struct xm_event_mark *m;

	*recorded = false;
	if (!xm_real.cuEventCreate || !xm_real.cuEventRecord || !xm_real.cuEventQuery)
		return false;
	if (q->ring_count == XM_RING)
		return true;
	if (!q->ring && !(q->ring = xm_keep(XM_RING * sizeof *q->ring)))
		return false;
	m = &q->ring[(q->ring_head + q->ring_count) % XM_RING];
	if (!m->event && xm_real.cuEventCreate(&m->event, EVENT_FLAGS)) {
		m->event = NULL;
		return false;
	}
	if (xm_real.cuEventRecord(m->event, (CUstream)q->key))
		return false;
	m->sequence = sequence;
	q->ring_count++;
	*recorded = true;
	return true;
}

/* A mark that is about to be set. */
struct plan {
	uint64_t sequence, before;
	uint32_t generation;
	CUdeviceptr at; /* 0: an event */
};

/* What is to be marked of q and where. `marked` is stored before the write is
 * enqueued, since readers extend what the GPU wrote by it. xm_lock held. */
static bool plan(struct xm_thread *me, struct xm_queue *q, struct plan *p)
{
	xm_queue_refresh(q);
	p->sequence = xm_queue_returned(q, me);
	if (q->dead || !xm_state.board || p->sequence <= q->marked || p->sequence <= q->done)
		return false;
	xm_queue_announce(q);
	p->generation = q->generation;
	p->before = q->marked;
	p->at = 0;
	if (q->slot && q->context->base && q->context->generation == q->generation) {
		p->at = q->context->base + offsetof(struct xm_board, slots) +
			(CUdeviceptr)(q->slot - xm_state.board->slots) * sizeof(struct xm_slot) +
			offsetof(struct xm_slot, completed);
		q->marked = p->sequence;
		__atomic_store_n(&q->slot->marked, p->sequence, __ATOMIC_RELEASE);
	}
	return true;
}

/* The driver refused the stream write: events from now on. xm_lock held. */
static void take_back(struct xm_queue *q, const struct plan *p)
{
	q->context->base = 0;
	if (q->generation != p->generation)
		return;
	q->marked = p->before;
	if (q->slot && q->generation == atomic_load(&xm_state.generation))
		__atomic_store_n(&q->slot->marked, p->before, RELAXED);
}

/* q->order held. */
static void set(struct xm_queue *q, const struct plan *p)
{
	bool recorded, ok;

	if (p->at && write_value(q, p->at, (uint32_t)p->sequence) == 0)
		return;
	ok = record(q, p->sequence, &recorded);
	pthread_mutex_lock(&xm_lock);
	if (p->at)
		take_back(q, p);
	if (recorded && q->generation == p->generation) {
		q->marked = p->sequence;
		q->events = true;
	}
	if (!ok)
		q->unmarkable = true;
	pthread_mutex_unlock(&xm_lock);
}

void xm_queue_mark(struct xm_thread *me, struct xm_queue *q)
{
	struct plan p;
	struct xm_quiet quiet;
	bool pushed, due;

	if (atomic_load_explicit(&xm_state.leaving, memory_order_relaxed))
		return;
	pthread_mutex_lock(&q->order);
	pushed = xm_context_push(me, q->context);
	quiet = xm_quiet_begin();
	if (q->context->generation != atomic_load(&xm_state.generation))
		xm_board_register(q->context);
	pthread_mutex_lock(&xm_lock);
	due = plan(me, q, &p);
	pthread_mutex_unlock(&xm_lock);
	if (due)
		set(q, &p);
	xm_quiet_end(quiet);
	if (pushed)
		xm_context_pop();
	pthread_mutex_unlock(&q->order);
}

bool xm_queue_poll(struct xm_queue *q)
{
	uint64_t done = 0;
	struct xm_quiet quiet;

	pthread_mutex_lock(&q->order);
	if (q->ring_count && !q->dead) {
		quiet = xm_quiet_begin();
		while (q->ring_count && xm_real.cuEventQuery(q->ring[q->ring_head].event) != NOT_READY) {
			done = q->ring[q->ring_head].sequence;
			q->ring_head = (q->ring_head + 1) % XM_RING;
			q->ring_count--;
		}
		xm_quiet_end(quiet);
		pthread_mutex_lock(&xm_lock);
		if (!q->dead)
			xm_queue_progress(q, done);
		pthread_mutex_unlock(&xm_lock);
	}
	pthread_mutex_unlock(&q->order);
	return done > 0;
}

void xm_mark_drop(struct xm_queue *q)
{
	for (uint32_t i = 0; q->ring && i < XM_RING; i++) {
		if (q->ring[i].event && xm_real.cuEventDestroy_v2)
			xm_real.cuEventDestroy_v2(q->ring[i].event);
		q->ring[i].event = NULL;
	}
	if (q->ring_count) { /* nobody will hear of them: see xm_queue_refresh */
		pthread_mutex_lock(&xm_lock);
		q->unmarkable = true;
		pthread_mutex_unlock(&xm_lock);
	}
	q->ring_count = 0;
}
