#include "gate.h"

#include <stddef.h>

#include "mark.h"
#include "sys.h"

#define RELAXED __ATOMIC_RELAXED
#define NOT_READY 600     /* CUDA_ERROR_NOT_READY */
#define NOT_PERMITTED 800 /* CUDA_ERROR_NOT_PERMITTED */
#define NOT_SUPPORTED 801 /* CUDA_ERROR_NOT_SUPPORTED */

CUdeviceptr xm_gate_address(const struct xm_queue *q)
{
	const struct xm_context *c = q->context;

	if (!c->base || c->generation != atomic_load(&xm_state.generation) || !q->dev->section)
		return 0;
	return c->base + offsetof(struct xm_board, devices) + q->dev->index * sizeof(struct xm_device) +
	       offsetof(struct xm_device, daemon.gate);
}

CUresult xm_gate_enqueue(uintptr_t key, CUdeviceptr at)
{
	if (xm_real.cuStreamWaitValue32_v2)
		return xm_real.cuStreamWaitValue32_v2((CUstream)key, at, 1, CU_STREAM_WAIT_VALUE_AND);
	if (xm_real.cuStreamWaitValue32)
		return xm_real.cuStreamWaitValue32((CUstream)key, at, 1, CU_STREAM_WAIT_VALUE_AND);
	return NOT_SUPPORTED;
}

/* A program may launch into a stream that is no more, or after an error that
 * ended its context; then the driver has the same answer to anything. A stream
 * that is well and takes no wait is ours to find out. */
static bool waits_are_refused(uintptr_t key, CUresult r)
{
	if (r == NOT_SUPPORTED || r == NOT_PERMITTED)
		return true;
	r = xm_real.cuStreamQuery ? xm_real.cuStreamQuery((CUstream)key) : 0;
	return r == 0 || r == NOT_READY;
}

enum xm_put xm_gate_put(struct xm_thread *me, struct xm_queue *q, CUdeviceptr at)
{
	bool pushed = xm_context_push(me, q->context);
	struct xm_quiet quiet = xm_quiet_begin();
	CUresult r = xm_gate_enqueue(q->key, at);
	bool refused = r && waits_are_refused(q->key, r);

	xm_quiet_end(quiet);
	if (pushed)
		xm_context_pop();
	if (!r)
		return XM_PUT;
	if (!refused)
		return XM_PUT_ERROR;
	pthread_mutex_lock(&xm_lock);
	q->dev->no_waits = true;
	xm_level_tell(q->dev);
	pthread_mutex_unlock(&xm_lock);
	return XM_PUT_LEVEL;
}

bool xm_gate_closed(const struct xm_dev *dev)
{
	uint32_t gate = dev->section ? __atomic_load_n(&dev->section->daemon.gate, RELAXED) : 1;

	return gate && !(gate & 1);
}

bool xm_gate_open(struct xm_device *section)
{
	uint32_t *word = &section->daemon.gate;
	uint32_t gate = __atomic_load_n(word, RELAXED);

	do {
		if (gate & 1)
			return false;
	} while (!__atomic_compare_exchange_n(word, &gate, ((gate >> 1) + 1) << 1 | 1, false, __ATOMIC_ACQ_REL, RELAXED));
	xm_wake_word((const _Atomic uint32_t *)word);
	return true;
}

void xm_level_tell(struct xm_dev *dev)
{
	uint32_t level = 0, why = XM_LEVEL_WHY_NONE;
	struct xm_client_line *line;

	if (dev->no_waits) {
		level = 1;
		why = XM_LEVEL_WHY_NO_WAITS;
	} else if (dev->unreached) {
		level = 1;
		why = XM_LEVEL_WHY_UNREGISTERED;
	} else if (dev->reached) {
		level = dev->level3 ? 3 : 2;
		why = dev->level3_why;
	}
	if (!dev->section)
		return;
	line = &dev->section->client;
	if (__atomic_load_n(&line->level_max, RELAXED) == level && __atomic_load_n(&line->level_why, RELAXED) == why)
		return;
	__atomic_store_n(&line->level_why, why, RELAXED);
	__atomic_store_n(&line->level_max, level, __ATOMIC_RELEASE);
	xm_signal_fd(xm_state.event_fd);
}
