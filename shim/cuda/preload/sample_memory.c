/* Allocations that are managed while the program learns. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mem_count.h"
#include "mem_truth.h"
#include "resolve.h"
#include "sample.h"
#include "state.h"
#include "sys.h"
#include "thread.h"

#define SMALL ((size_t)1 << 20) /* below, an allocation shares its block with others: nothing is to be learnt of it */
#define DEVICES 64
#define ATTACH_GLOBAL 1u
#define PER_THREAD ((CUstream)2) /* waits for nobody's work but this thread's */
#define FIRST_ID ((uint64_t)1 << 62) /* of buffers: far from the driver's */

/* By address. Grows and never shrinks. */
static struct range {
	CUdeviceptr at;
	size_t bytes;
	CUdevice device;
	CUcontext context;
	uint64_t id;
} *ranges;
static size_t count, room;
static uint64_t managed[DEVICES];       /* bytes of each device's */
static uint64_t bound[DEVICES];         /* half of what was free there when the first was made; 0: none was */
static uint64_t sum, most, plain, last_id = FIRST_ID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all of these; held over no driver call */

/* Bytes that are promised to allocations under way are counted before the driver is asked,
 * so that two threads cannot both have the last of them. */
static void account(CUdevice device, int64_t bytes)
{
	managed[device] += (uint64_t)bytes;
	sum += (uint64_t)bytes;
	if (sum > most)
		most = sum;
}

/* More managed memory than the card has free can hang it for everybody (h200.md): what is
 * free now may be needed by all of it at once, and half of what was free at first leaves
 * room for all that is not managed. */
static bool promise(CUdevice device, size_t bytes, size_t free_now)
{
	uint64_t limit;
	bool fits;

	pthread_mutex_lock(&lock);
	if (!bound[device])
		bound[device] = free_now / 2;
	limit = bound[device] < free_now ? bound[device] : free_now;
	fits = managed[device] <= limit && bytes <= limit - managed[device];
	if (fits)
		account(device, (int64_t)bytes);
	else
		plain += bytes;
	pthread_mutex_unlock(&lock);
	return fits;
}

static size_t place(CUdeviceptr at)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool grow(void)
{
	size_t more = room ? 2 * room : 256;
	struct range *r;

	if (count < room)
		return true;
	r = realloc(ranges, more * sizeof *r);
	if (!r)
		return false;
	ranges = r;
	room = more;
	return true;
}

/* Without a record it is managed all the same, and nothing is learnt of it. */
static void keep(const struct range *r)
{
	size_t i;

	pthread_mutex_lock(&lock);
	if (grow()) {
		i = place(r->at);
		memmove(&ranges[i + 1], &ranges[i], (count - i) * sizeof *ranges);
		ranges[i] = *r;
		ranges[i].id = ++last_id;
		count++;
	}
	pthread_mutex_unlock(&lock);
}

static void unpromise(CUdevice device, size_t bytes)
{
	pthread_mutex_lock(&lock);
	account(device, -(int64_t)bytes);
	pthread_mutex_unlock(&lock);
}

/* Its pages are taken on the device at once, as those of its own memory are: else more could be allocated than
 * there is, and the rest would find out when it is touched. */
static bool populate(const struct range *r)
{
	xm_pfn_cuMemPrefetchAsync prefetch = (xm_pfn_cuMemPrefetchAsync)xm_driver_symbol("cuMemPrefetchAsync");
	xm_pfn_cuStreamSynchronize wait = (xm_pfn_cuStreamSynchronize)xm_driver_symbol("cuStreamSynchronize");

	return prefetch && wait && !prefetch(r->at, r->bytes, r->device, PER_THREAD) && !wait(PER_THREAD);
}

static bool make(struct range *r)
{
	xm_pfn_cuMemAllocManaged alloc = (xm_pfn_cuMemAllocManaged)xm_driver_symbol("cuMemAllocManaged");
	xm_pfn_cuMemGetInfo_v2 info = (xm_pfn_cuMemGetInfo_v2)xm_driver_symbol("cuMemGetInfo_v2");
	size_t free_now, total;

	if (!alloc || !info || !xm_real.cuCtxGetDevice || !xm_real.cuCtxGetCurrent || !xm_real.cuMemFree_v2)
		return false;
	if (xm_real.cuCtxGetDevice(&r->device) || (unsigned)r->device >= DEVICES || xm_real.cuCtxGetCurrent(&r->context))
		return false;
	if (info(&free_now, &total) || !promise(r->device, r->bytes, free_now))
		return false;
	if (!alloc(&r->at, r->bytes, ATTACH_GLOBAL)) {
		if (populate(r)) {
			keep(r);
			return true;
		}
		(void)xm_real.cuMemFree_v2(r->at);
	}
	unpromise(r->device, r->bytes);
	return false;
}

bool xm_sample_alloc(struct xm_mem *m, CUcontext context, CUdeviceptr *at, size_t bytes)
{
	struct range r = {.bytes = bytes};
	struct xm_thread *me;
	bool made;

	/* A capture has its own say about allocations, of the call that the program made. */
	if (!at || bytes < SMALL || atomic_load(&xm_state.captures) || xm_samples_over() || !(me = xm_enter()))
		return false;
	made = make(&r);
	xm_leave(me);
	if (!made)
		return false;
	if (m)
		xm_count_made(m, context, XM_COUNT_UNIFIED, r.at, bytes);
	*at = r.at;
	return true;
}

bool xm_sample_range(CUdeviceptr address, struct xm_truth_range *range)
{
	struct xm_thread *me = xm_enter();
	bool yes;
	size_t i;

	if (!me)
		return false;
	pthread_mutex_lock(&lock);
	i = place(address + 1);
	yes = i > 0 && address - ranges[i - 1].at < ranges[i - 1].bytes;
	if (yes) {
		const struct range *r = &ranges[i - 1];
		*range = (struct xm_truth_range){.at = r->at, .bytes = r->bytes, .context = r->context, .device = r->device, .id = r->id};
	}
	pthread_mutex_unlock(&lock);
	xm_leave(me);
	return yes;
}

static void forget(size_t i)
{
	account(ranges[i].device, -(int64_t)ranges[i].bytes);
	count--;
	memmove(&ranges[i], &ranges[i + 1], (count - i) * sizeof *ranges);
}

void xm_sample_freed(CUdeviceptr at)
{
	struct xm_thread *me = xm_enter();
	size_t i;

	if (!me)
		return;
	pthread_mutex_lock(&lock);
	i = place(at);
	if (i < count && ranges[i].at == at)
		forget(i);
	pthread_mutex_unlock(&lock);
	xm_leave(me);
}

void xm_sample_context_ended(CUcontext context)
{
	struct xm_thread *me = xm_enter();

	if (!me)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = count; i-- > 0;)
		if (ranges[i].context == context)
			forget(i);
	pthread_mutex_unlock(&lock);
	xm_leave(me);
}

int xm_sample_ranges(struct xm_sample_range *views, int n)
{
	size_t all;

	pthread_mutex_lock(&lock);
	all = count;
	for (size_t i = 0; i < all && i < (size_t)(n > 0 ? n : 0); i++)
		views[i] = (struct xm_sample_range){ranges[i].at, ranges[i].bytes};
	pthread_mutex_unlock(&lock);
	return (int)all;
}

void xm_sample_memory_figures(struct xm_sample_figures *f)
{
	pthread_mutex_lock(&lock);
	f->managed = sum;
	f->managed_most = most;
	f->plain = plain;
	pthread_mutex_unlock(&lock);
}
