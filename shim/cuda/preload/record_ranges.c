/* The program's ranges of memory, whether recording is on or not: who turns it on later
 * must know what the pointers point into. */
#include <pthread.h>
#include <string.h>

#include "device.h"
#include "mark.h"
#include "record.h"
#include "sys.h"
#include "thread.h"

#define BUCKETS 16384u
#define MOST 262144u          /* ranges kept; further ones are told when they come, and not found later */
#define GRANULE (2ull << 20) /* of what the program maps itself */

struct range {
	struct range *next;
	uint64_t at, bytes;
	uint32_t how;
	uint16_t section;
	bool leaving; /* the driver is being asked to free it */
	CUcontext context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* no driver call, and nothing waited for, under it */
static struct range *buckets[BUCKETS], *free_ranges;     /* protected by lock, as the next */
static uint32_t made;

static struct range **place(uint64_t at)
{
	struct range **r = &buckets[at * 0x9e3779b97f4a7c15u >> 50 & (BUCKETS - 1)];

	while (*r && (*r)->at != at)
		r = &(*r)->next;
	return r;
}

static struct range *add(uint64_t at)
{
	struct range **to = place(at), *r = *to;

	if (r)
		return r;
	r = free_ranges;
	if (r)
		free_ranges = r->next;
	else if (made == MOST || !(r = xm_keep(sizeof *r)))
		return NULL;
	else
		made++;
	*r = (struct range){.at = at};
	*to = r;
	return r;
}

static void drop(struct range **at)
{
	struct range *r = *at;

	*at = r->next;
	r->next = free_ranges;
	free_ranges = r;
}

/* ---- records --------------------------------------------------------------------------- */

static struct xm_command head(const struct range *r, enum xm_command_kind kind)
{
	return (struct xm_command){.kind = (uint16_t)kind, .section = r->section, .queue = XM_COMMAND_NO_QUEUE, .flags = r->how};
}

static void tell(const struct range *r, enum xm_command_kind kind)
{
	struct xm_command c = head(r, kind);
	const struct xm_command_range range = {r->at, r->bytes, 0};

	if (xm_recording())
		xm_record_add(&c, &range, sizeof range);
}

/* What a stream's capture makes or frees is the graph's. */
static bool captured(CUstream stream, unsigned flags, uint32_t how)
{
	return how & XM_COMMAND_POOL && atomic_load_explicit(&xm_state.captures, memory_order_relaxed) &&
	       xm_capturing(xm_key(stream, flags));
}

static void came(struct range now)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = add(now.at);
	if (r) {
		now.next = r->next;
		*r = now;
	}
	pthread_mutex_unlock(&lock);
}

void xm_range_came(CUstream stream, unsigned flags, uint64_t at, size_t bytes, uint32_t how)
{
	struct range r = {.at = at, .bytes = bytes, .how = how, .section = XM_COMMAND_NO_SECTION};
	struct xm_context *c;
	struct xm_thread *me;

	if (!at || !bytes || captured(stream, flags, how) || !(me = xm_enter()))
		return;
	c = xm_context_current(me);
	if (c) {
		r.context = c->handle;
		r.section = c->dev ? (uint16_t)c->dev->index : XM_COMMAND_NO_SECTION;
	}
	came(r);
	xm_leave(me);
	tell(&r, XM_COMMAND_ALLOC);
}

/* The next range of [*at, end) that is there, copied; with `leaving` as it was asked for. */
static bool next(uint64_t *at, uint64_t end, bool leaving, bool to, struct range *out)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	while (*at < end && !found) {
		struct range *r = *place(*at);

		found = r && r->leaving == leaving;
		if (found) {
			r->leaving = to;
			*out = *r;
		}
		*at += r && r->bytes ? r->bytes : GRANULE;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void xm_range_goes(CUstream stream, unsigned flags, uint64_t at, size_t bytes)
{
	struct xm_thread *me;
	struct range r;
	uint64_t end = at + (bytes ? bytes : 1);

	if (!at || captured(stream, flags, XM_COMMAND_POOL))
		return;
	do {
		if (!(me = xm_enter()))
			return;
		if (!next(&at, end, false, true, &r)) {
			xm_leave(me);
			return;
		}
		xm_leave(me);
		tell(&r, XM_COMMAND_FREE);
	} while (at < end);
}

static void left(uint64_t at, uint64_t end)
{
	pthread_mutex_lock(&lock);
	while (at < end) {
		struct range **to = place(at), *r = *to;

		at += r && r->bytes ? r->bytes : GRANULE;
		if (r && r->leaving)
			drop(to);
	}
	pthread_mutex_unlock(&lock);
}

CUresult xm_range_gone(CUresult result, uint64_t at, size_t bytes)
{
	struct xm_thread *me;
	struct range r;
	uint64_t end = at + (bytes ? bytes : 1);

	if (!at || !(me = xm_enter()))
		return result;
	if (result == CUDA_SUCCESS)
		left(at, end);
	while (result != CUDA_SUCCESS && next(&at, end, true, false, &r)) {
		xm_leave(me);
		tell(&r, XM_COMMAND_ALLOC);
		if (!(me = xm_enter()))
			return result;
	}
	xm_leave(me);
	return result;
}

/* One of the context's; false: there is none left. */
static bool of_context(CUcontext context, unsigned *bucket, struct range *out)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (; *bucket < BUCKETS && !found; *bucket += !found)
		for (struct range **at = &buckets[*bucket]; *at && !found;) {
			found = (*at)->context == context;
			if (found) {
				*out = **at;
				drop(at);
			} else {
				at = &(*at)->next;
			}
		}
	pthread_mutex_unlock(&lock);
	return found;
}

void xm_range_context_ended(CUcontext context)
{
	struct xm_thread *me;
	struct range r;
	unsigned bucket = 0;
	bool more = context != NULL;

	while (more && (me = xm_enter())) {
		more = of_context(context, &bucket, &r);
		xm_leave(me);
		if (more)
			tell(&r, XM_COMMAND_FREE);
	}
}

/* ---- the agent ---------------------------------------------------------------------------- */

int xm_ranges(void *buf, uint32_t bytes)
{
	const uint32_t each = sizeof(struct xm_command) + sizeof(struct xm_command_range);
	uint64_t need = 0, now = xm_now();
	uint8_t *to = buf;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct range *r = buckets[i]; r; r = r->next) {
			const struct xm_command_range range = {r->at, r->bytes, 0};
			struct xm_command c = head(r, XM_COMMAND_ALLOC);

			need += each;
			if (!buf || need > bytes)
				continue;
			c.bytes = each;
			c.payload = sizeof range;
			c.ns = now;
			memcpy(to, &c, sizeof c);
			memcpy(to + sizeof c, &range, sizeof range);
			to += each;
		}
	pthread_mutex_unlock(&lock);
	return need <= INT32_MAX ? (int)need : INT32_MAX;
}
