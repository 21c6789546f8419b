/* Streams, and how far the device has come in them: an event behind each free. */
#include "device.h"
#include "mark.h"
#include "mem_pool.h"
#include "state.h"
#include "sys.h"

#define BUCKETS 1024u
#define PER_THREADS 64u /* threads end unseen; from so many of their streams on, records that nobody needs are used again */
#define EVENT_FLAGS 2u  /* CU_EVENT_DISABLE_TIMING */
#define GOING_NS 1000000000u /* that who has no memory else waits for a context's end */

/* Protected by xm_mem_lock. Buckets that hold records by `next`. */
static struct xm_order *buckets[BUCKETS], *free_orders;
static struct xm_order *every; /* record, wherever it is, by `all`; none ever leaves */
static uint32_t per_threads;

static uint64_t this_thread(void)
{
	static _Atomic uint64_t threads;
	static _Thread_local uint64_t mine __attribute__((tls_model("initial-exec")));

	if (!mine)
		mine = atomic_fetch_add(&threads, 1) + 1;
	return mine;
}

/* --- records. xm_mem_lock held ---------------------------------------------------------- */

static struct xm_order **bucket(uintptr_t key)
{
	return &buckets[(key * 0x9e3779b97f4a7c15u) >> 54 & (BUCKETS - 1)];
}

static bool is(const struct xm_order *o, uintptr_t key, CUcontext current, uint64_t thread)
{
	return o->key == key && (key > XM_KEY_PER_THREAD || (o->context == current && o->thread == thread));
}

struct xm_order *xm_order_find(uintptr_t key, CUcontext current)
{
	uint64_t thread = key == XM_KEY_PER_THREAD ? this_thread() : 0;
	struct xm_order *o = *bucket(key);

	while (o && !is(o, key, current, thread))
		o = o->next;
	return o;
}

static void unhash(struct xm_order *o)
{
	struct xm_order **at = bucket(o->key);

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	per_threads -= o->key == XM_KEY_PER_THREAD;
	o->key = 0;
	if (!o->held) {
		o->next = free_orders;
		free_orders = o;
	}
}

void xm_order_keep(struct xm_order *o)
{
	o->held++;
}

void xm_order_let_go(struct xm_order *o)
{
	if (--o->held || o->key)
		return;
	o->next = free_orders;
	free_orders = o;
}

static void recycle_one(void)
{
	uint64_t mine = this_thread();

	for (struct xm_order *o = every; o; o = o->all)
		if (o->key == XM_KEY_PER_THREAD && !o->held && o->thread != mine) {
			unhash(o);
			return;
		}
}

static struct xm_order *blank(void)
{
	struct xm_order **at = &free_orders, *o;

	if (per_threads > PER_THREADS)
		recycle_one();
	while (*at && xm_context_goes((*at)->context)) /* its events are to be let alone */
		at = &(*at)->next;
	o = *at;
	if (o) {
		*at = o->next;
	} else if ((o = xm_keep(sizeof *o))) {
		o->all = every;
		every = o;
	}
	return o;
}

/* Events of one context, to be destroyed. */
struct stripped {
	CUevent event[XM_MARKS + XM_SPARES];
	uint32_t n;
	struct xm_asker asker; /* when there are any */
};

/* Marks, and what else it has when that is another context's. */
static void strip(struct xm_order *o, CUcontext context, struct stripped *s)
{
	for (uint32_t i = 0; i < o->marks; i++)
		s->event[s->n++] = o->mark[i].event;
	for (uint32_t i = 0; o->context != context && i < o->spares; i++)
		s->event[s->n++] = o->spare[i];
	if (s->n)
		(void)xm_ask_begin(&s->asker, o->context); /* it does not go, or the record would not be blank */
	o->marks = 0;
	if (o->context != context)
		o->spares = 0;
}

/* No lock held. */
static void destroy(const struct stripped *s)
{
	if (!s->n)
		return;
	for (uint32_t i = 0; i < s->n && xm_real.cuEventDestroy_v2; i++)
		(void)xm_real.cuEventDestroy_v2(s->event[i]);
	pthread_mutex_lock(&xm_mem_lock);
	xm_ask_end(&s->asker);
	pthread_mutex_unlock(&xm_mem_lock);
}

static struct xm_order *enter(uintptr_t key, CUcontext context, struct xm_mem *m, struct stripped *s)
{
	struct xm_order *o = blank(), **at = bucket(key);

	if (!o)
		return NULL;
	strip(o, context, s);
	o->key = key;
	o->context = context;
	o->thread = key == XM_KEY_PER_THREAD ? this_thread() : 0;
	per_threads += key == XM_KEY_PER_THREAD;
	o->m = m;
	o->last = o->done = 0;
	o->held = 0;
	o->next = *at;
	*at = o;
	return o;
}

/* --- finding -------------------------------------------------------------------------------- */

static CUresult context_of(uintptr_t key, CUcontext current, CUcontext *context)
{
	struct xm_quiet quiet;
	CUresult r;

	*context = current;
	if (key <= XM_KEY_PER_THREAD)
		return CUDA_SUCCESS;
	if (!xm_real.cuStreamGetCtx)
		return CUDA_ERROR_NOT_SUPPORTED;
	quiet = xm_quiet_begin();
	r = xm_real.cuStreamGetCtx((CUstream)key, context);
	xm_quiet_end(quiet);
	return r;
}

struct xm_order *xm_order_hold(uintptr_t key, CUcontext current, CUresult *result)
{
	struct stripped s;
	CUcontext context;
	struct xm_order *o;
	struct xm_mem *m;

	pthread_mutex_lock(&xm_mem_lock);
	o = xm_order_find(key, current);
	if (o)
		o->held++;
	pthread_mutex_unlock(&xm_mem_lock);
	if (o)
		return o;
	*result = context_of(key, current, &context);
	if (*result)
		return NULL;
	m = xm_mem_of_context(context);
	s.n = 0;
	pthread_mutex_lock(&xm_mem_lock);
	o = xm_order_find(key, current);
	if (!o)
		o = enter(key, context, m, &s);
	if (o)
		o->held++;
	pthread_mutex_unlock(&xm_mem_lock);
	destroy(&s);
	*result = o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	return o;
}

/* --- marks ------------------------------------------------------------------------------------ */

/* Our own calls, in the order's context; a capture is none of theirs. */
struct visit {
	struct xm_quiet quiet;
	bool pushed;
};

static struct visit visit(CUcontext context, CUcontext current)
{
	struct visit v = {.pushed = current != context && xm_real.cuCtxPushCurrent_v2 &&
				    xm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS};

	if (atomic_load_explicit(&xm_state.captures, memory_order_relaxed))
		v.quiet = xm_quiet_begin();
	return v;
}

static void leave(struct visit v)
{
	xm_quiet_end(v.quiet);
	if (v.pushed)
		xm_context_pop();
}

/* xm_mem_lock held. False: there are enough. */
static bool spare(struct xm_order *o, CUevent e)
{
	if (o->spares == XM_SPARES)
		return false;
	o->spare[o->spares++] = e;
	return true;
}

/* An event that stands behind `place`; *left is one of which nobody has need. One that another thread recorded later, after
 * `place` was given, tells of it as well. xm_mem_lock held. */
static void marked(struct xm_order *o, CUevent e, uint64_t place, CUevent *left)
{
	CUevent over = NULL;

	if (place <= o->done || (o->marks && o->mark[o->marks - 1].covers >= place))
		over = e;
	else if (o->marks == XM_MARKS)
		over = o->mark[--o->marks].event;
	if (over != e) {
		o->mark[o->marks].event = e;
		o->mark[o->marks++].covers = place;
	}
	if (over && !spare(o, over))
		*left = over;
}

CUresult xm_order_mark(struct xm_order *o, uintptr_t key, CUcontext current, uint64_t *place)
{
	CUevent e = NULL, left = NULL;
	CUcontext context;
	struct visit v;
	CUresult r = CUDA_SUCCESS;

	if (!xm_real.cuEventCreate || !xm_real.cuEventRecord || !xm_real.cuEventQuery || !xm_real.cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&xm_mem_lock);
	*place = ++o->last;
	if (o->spares && !o->watched)
		e = o->spare[--o->spares];
	context = o->context;
	pthread_mutex_unlock(&xm_mem_lock);
	v = visit(context, current);
	if (!e)
		r = xm_real.cuEventCreate(&e, EVENT_FLAGS);
	if (r)
		e = NULL;
	else
		r = xm_real.cuEventRecord(e, (CUstream)key);
	pthread_mutex_lock(&xm_mem_lock);
	if (!r)
		marked(o, e, *place, &left);
	else if (e && !spare(o, e))
		left = e;
	pthread_mutex_unlock(&xm_mem_lock);
	if (left)
		(void)xm_real.cuEventDestroy_v2(left);
	leave(v);
	return r;
}

/* It has come to that place; marks that find no room among the spare ones stay. xm_mem_lock held. */
static void passed(struct xm_order *o, uint64_t done)
{
	uint32_t n = 0, kept = 0;

	if (done <= o->done)
		return;
	o->done = done;
	while (n < o->marks && o->mark[n].covers <= done && spare(o, o->mark[n].event))
		n++;
	for (; n < o->marks; n++)
		o->mark[kept++] = o->mark[n];
	o->marks = kept;
}

/* An event that was given back meanwhile and recorded anew stands behind where it stood, so that its passing says
 * enough. */
static bool has_passed(CUevent e)
{
	return xm_real.cuEventQuery(e) == CUDA_SUCCESS;
}

/* The last is asked first: mostly all is done. */
static uint64_t farthest(const struct xm_order *copy)
{
	uint64_t done = 0;

	if (has_passed(copy->mark[copy->marks - 1].event))
		return copy->mark[copy->marks - 1].covers;
	for (uint32_t i = 0; i + 1 < copy->marks && has_passed(copy->mark[i].event); i++)
		done = copy->mark[i].covers;
	return done;
}

void xm_order_poll(struct xm_order *o)
{
	struct xm_asker asker;
	struct xm_order copy;
	struct xm_quiet quiet = {0};
	uint64_t done;
	bool asks;

	pthread_mutex_lock(&xm_mem_lock);
	copy = *o;
	asks = copy.marks && xm_ask_begin(&asker, copy.context);
	pthread_mutex_unlock(&xm_mem_lock);
	if (!asks)
		return;
	if (atomic_load_explicit(&xm_state.captures, memory_order_relaxed))
		quiet = xm_quiet_begin();
	done = farthest(&copy);
	xm_quiet_end(quiet);
	pthread_mutex_lock(&xm_mem_lock);
	passed(o, done);
	xm_ask_end(&asker);
	pthread_mutex_unlock(&xm_mem_lock);
}

/* The next after o, held. xm_mem_lock held. */
static struct xm_order *waited_for(struct xm_order *o)
{
	o = o ? o->all : every;
	while (o && !(o->held && o->marks))
		o = o->all;
	if (o)
		o->held++;
	return o;
}

void xm_orders_poll(void)
{
	struct xm_order *o = NULL, *next;

	do {
		pthread_mutex_lock(&xm_mem_lock);
		next = waited_for(o);
		if (o)
			xm_order_let_go(o);
		o = next;
		pthread_mutex_unlock(&xm_mem_lock);
		if (o)
			xm_order_poll(o);
	} while (o);
}

/* --- making a stream wait ---------------------------------------------------------------------- */

/* NULL: it has come there. While it is watched none of its events is recorded anew, further behind. xm_mem_lock held. */
static CUevent event_behind(struct xm_order *o, uint64_t place)
{
	if (o->done >= place)
		return NULL;
	for (uint32_t i = 0; i < o->marks; i++)
		if (o->mark[i].covers >= place) {
			o->watched++;
			return o->mark[i].event;
		}
	return NULL; /* the context's end took its events, and its work */
}

CUresult xm_order_wait(struct xm_order *o, uint64_t place, uintptr_t key)
{
	struct xm_asker asker;
	CUresult r;
	CUevent e;
	bool asks;

	if (!xm_real.cuStreamWaitEvent)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&xm_mem_lock);
	asks = xm_ask_begin_late(&asker, &o->context, GOING_NS);
	e = asks ? event_behind(o, place) : NULL;
	if (asks && !e)
		xm_ask_end(&asker);
	pthread_mutex_unlock(&xm_mem_lock);
	if (!e)
		return asks ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	r = xm_real.cuStreamWaitEvent((CUstream)key, e, 0);
	pthread_mutex_lock(&xm_mem_lock);
	o->watched--;
	xm_ask_end(&asker);
	pthread_mutex_unlock(&xm_mem_lock);
	return r;
}

/* --- ends ----------------------------------------------------------------------------------------- */

/* Its events stay, and tell how far its work has come. */
void xm_orders_stream_gone(uintptr_t key)
{
	struct xm_order *o;

	if (key <= XM_KEY_PER_THREAD)
		return;
	pthread_mutex_lock(&xm_mem_lock);
	o = xm_order_find(key, NULL);
	if (o)
		unhash(o);
	pthread_mutex_unlock(&xm_mem_lock);
}

/* The driver has ended its work, and its events with it. */
void xm_orders_context_ended(CUcontext context)
{
	pthread_mutex_lock(&xm_mem_lock);
	for (struct xm_order *o = every; o; o = o->all) {
		if (o->context != context)
			continue;
		o->done = o->last;
		o->marks = o->spares = 0;
		o->context = NULL;
		if (o->key)
			unhash(o);
	}
	pthread_mutex_unlock(&xm_mem_lock);
}
