#include "pass.h"

#include "admission.h"
#include "boardmap.h"
#include "bound.h"
#include "device.h"
#include "edge.h"
#include "gate.h"
#include "mark.h"
#include "probes.h"
#include "queue.h"
#include "sys.h"
#include "thread.h"

#define GATE_SLICE_NS 100000000u /* a thread at a closed gate looks at the daemon's heartbeat this often */
#define BOUND_SLICE_NS 50000u    /* first sleep of a thread over the bound; the GPU wakes nobody */
#define BOUND_SLICE_MAX 1000000u
#define GREET_SLICE_NS 1000000u

/* What the next step of a waiting thread is. */
enum verdict { GRANTED, MARK, SWEEP, GREET, GATE, BOUND };

/* One command on its way through admission. */
struct passage {
	struct xm_dev *dev;      /* where it is counted as pending */
	bool waiting;            /* and as waiting */
	bool marked;             /* a mark was tried since the last wait */
	bool swept;              /* and there is none to be set in other queues */
	bool events;             /* completion of the queue is known by asking for its events */
	bool polled;             /* and they were asked for since the last wait */
	bool pass;               /* 50 ms without completion: goes over the bound */
	uint32_t gate;           /* the closed gate's word */
	CUdeviceptr wait_at;     /* where its commands wait for the gate on the device; 0: this thread does */
	const _Atomic uint32_t *word; /* completion word of the queue, or NULL */
	uint32_t seen;
	uint64_t done;           /* completion when the wait began */
	uint64_t since;          /* ns; 0: not over the bound yet */
	uint64_t greet_until;
	uint64_t slice;
};

/* ---- under xm_lock ---------------------------------------------------- */

static void pend(struct passage *p, struct xm_dev *dev)
{
	if (p->dev == dev)
		return;
	if (p->dev)
		p->dev->pending--;
	p->dev = dev;
	dev->pending++;
	xm_dev_tell(dev, true);
}

static void set_waiting(struct passage *p, bool waiting)
{
	if (p->waiting == waiting)
		return;
	p->waiting = waiting;
	p->dev->waiting += waiting ? 1u : -1u;
	xm_dev_publish(p->dev);
}

/* A newcomer's first command waits a moment for the daemon's answer, so that it
 * does not slip in before the others know that they have a competitor. */
static bool must_greet(struct passage *p, struct xm_dev *dev, const struct xm_grant *g)
{
	if (dev->greeted)
		return false;
	if (g->answered || !atomic_load_explicit(&xm_state.expecting, memory_order_relaxed)) {
		dev->greeted = g->answered;
		return false;
	}
	if (!p->greet_until)
		p->greet_until = xm_now() + XM_GREET_NS;
	if (xm_now() < p->greet_until)
		return true;
	dev->greeted = true;
	return false;
}

/* Whose commands are outstanding in q, once `me` has a lease there. */
static void note_solo(struct xm_queue *q, struct xm_thread *me)
{
	bool others = false;

	for (struct xm_lease *l = q->leases; l; l = l->next)
		others |= l->owner != me && (xm_lease_usable(l) || xm_lease_in_driver(l));
	if (others)
		q->solo = NULL;
	else if (xm_queue_total(q) == q->done)
		q->solo = me;
	else if (q->solo != me)
		q->solo = NULL;
}

static void look_at_bound(struct passage *p, struct xm_queue *q)
{
	uint64_t now = xm_now();

	if (!p->since || q->done != p->done) {
		p->since = now;
		p->done = q->done;
		p->slice = BOUND_SLICE_NS;
	}
	p->pass = now - p->since >= XM_PASS_NS;
	p->word = NULL;
	if (q->slot && q->generation == atomic_load(&xm_state.generation)) {
		p->word = (const _Atomic uint32_t *)&q->slot->completed;
		p->seen = atomic_load_explicit(p->word, memory_order_relaxed);
	}
}

static void give(struct xm_thread *me, struct xm_queue *q, uint32_t n, uint32_t gate, struct passage *p)
{
	xm_queue_announce(q);
	xm_queue_dirty(q);
	note_solo(q, me);
	set_waiting(p, false);
	xm_lease_give(me, q, n, gate, p->wait_at);
	xm_queue_publish(q);
	q->dev->pending--;
	q->dev->grants++;
	p->dev = NULL;
}

static enum verdict at_gate(struct passage *p, const struct xm_grant *g)
{
	p->gate = g->gate;
	p->since = 0;
	set_waiting(p, true);
	return GATE;
}

/*
 * Where memory is short it may have to move while the gate is closed, and nothing
 * that could touch it then may be outstanding: so nothing waits on the device meanwhile.
 */
static bool memory_moves(const struct xm_dev *dev)
{
	uint32_t flags = dev->section ? __atomic_load_n(&dev->section->daemon_memory.flags, __ATOMIC_RELAXED) : 0;

	return flags & XM_MEMORY_MANAGED && flags & (XM_MEMORY_DRAINED | XM_MEMORY_PREPARE);
}

/*
 * At level 2 a closed gate holds the GPU, not this thread, up to the bound. Over
 * it nothing can complete before the gate opens but what was on its way, so it
 * is the gate that is waited for; and no command passes the bound meanwhile: a
 * kernel that runs and waits for one would not get it, for it stops at the gate.
 */
static enum verdict step(struct xm_thread *me, struct xm_queue *q, struct passage *p)
{
	struct xm_lease *mine = xm_lease_of(me, q->key);
	struct xm_grant g;
	uint32_t n;

	pend(p, q->dev);
	p->events = q->events;
	if (mine)
		xm_lease_end(mine);
	g = xm_dev_grant(q->dev);
	if (must_greet(p, q->dev, &g))
		return GREET;
	xm_queue_refresh(q);
	if (!p->marked && xm_bound_mark_due(q, me, &g, false))
		return MARK;
	p->wait_at = g.gated ? xm_gate_address(q) : 0;
	if (!g.open && (!p->wait_at || memory_moves(q->dev)))
		return at_gate(p, &g);
	n = xm_bound_measure(me, q, &g);
	if (n > 1 && g.gated && !p->wait_at && q->context->asking)
		n = 1; /* another thread is about to bring the gate within reach */
	if (n == 0) {
		if (!p->marked && xm_bound_mark_due(q, me, &g, true))
			return MARK;
		if (!p->swept && xm_state.outstanding >= XM_TASK_LIMIT)
			return SWEEP;
		if (!g.open)
			return at_gate(p, &g);
		look_at_bound(p, q);
		if (!p->pass && !atomic_load_explicit(&xm_state.leaving, memory_order_relaxed)) {
			set_waiting(p, true);
			return BOUND;
		}
		n = 1;
	}
	give(me, q, n, g.gate, p);
	return GRANTED;
}

/* ---- waiting, no lock held, not inside -------------------------------- */

static void spin_while(const _Atomic uint32_t *word, uint32_t seen)
{
	uint64_t end = xm_now() + XM_SPIN_NS;

	while (atomic_load_explicit(word, memory_order_acquire) == seen && xm_now() < end)
		xm_pause();
}

static void wait_gate(struct xm_dev *dev, uint32_t gate)
{
	const _Atomic uint32_t *word = atomic_load(&dev->gate);
	struct xm_thread *me;

	spin_while(word, gate);
	while (atomic_load_explicit(word, memory_order_acquire) == gate && atomic_load(&dev->gate) == word) {
		xm_wait_word(word, gate, GATE_SLICE_NS);
		me = xm_enter();
		if (!me)
			return;
		xm_dev_expire(dev);
		xm_leave(me);
	}
}

/* Ends when the word moves or the slice is over; the caller looks again. A
 * process at its own limit waits for any queue and has no single word. */
static void wait_bound(struct passage *p)
{
	static _Atomic uint32_t never;
	const _Atomic uint32_t *word = p->word ? p->word : &never;
	uint32_t seen = p->word ? p->seen : 0;

	if (p->slice == BOUND_SLICE_NS)
		spin_while(word, seen);
	if (atomic_load_explicit(word, memory_order_relaxed) == seen)
		xm_wait_word(word, seen, p->slice);
	if (p->slice < BOUND_SLICE_MAX)
		p->slice *= 2;
}

static void wait_greeting(struct xm_dev *dev)
{
	const _Atomic uint32_t *word = atomic_load(&dev->gate);

	if (word == &xm_gate_absent) {
		uint32_t seen = atomic_load(&xm_state.generation);

		if (!(seen & 1))
			xm_wait_word(&xm_state.generation, seen, GREET_SLICE_NS);
	} else {
		xm_wait_word(word, 0, GREET_SLICE_NS);
	}
}

/* ---- the slow path ---------------------------------------------------- */

static void forget(struct passage *p)
{
	if (!p->dev)
		return;
	pthread_mutex_lock(&xm_lock);
	set_waiting(p, false);
	p->dev->pending--;
	pthread_mutex_unlock(&xm_lock);
}

/* The wait before the first command of the lease just given. False: the command
 * has to ask again, one level lower. */
static bool put_wait(struct xm_thread *me, struct xm_queue *q, CUdeviceptr at)
{
	enum xm_put put = xm_gate_put(me, q, at);
	struct xm_lease *l = xm_lease_now;

	if (put == XM_PUT)
		return true;
	xm_lease_give_back(l);
	if (put == XM_PUT_LEVEL)
		return false;
	pthread_mutex_lock(&xm_lock);
	xm_settle(q->dev, me, true); /* it may have been the ready edge */
	pthread_mutex_unlock(&xm_lock);
	return true;
}

void xm_pass_through(uintptr_t key)
{
	struct passage p = {.slice = BOUND_SLICE_NS};
	struct xm_thread *me = xm_enter();
	struct xm_queue *q;
	enum verdict v;
	uint32_t inside;

	while (me) {
		q = xm_queue_for(me, key);
		if (!q) {
			forget(&p);
			break;
		}
		xm_board_reach(me, q->context);
		pthread_mutex_lock(&xm_lock);
		v = step(me, q, &p);
		pthread_mutex_unlock(&xm_lock);
		if (v == GRANTED) {
			if (!p.wait_at || put_wait(me, q, p.wait_at))
				break;
			continue;
		}
		if (v == MARK) {
			xm_queue_mark(me, q);
			p.marked = true;
			continue;
		}
		if (v == SWEEP) {
			p.swept = !xm_bound_sweep(me);
			continue;
		}
		if (v == BOUND && p.events && !p.polled) {
			(void)xm_queue_poll(q);
			p.polled = true;
			continue;
		}
		xm_leave(me);
		inside = atomic_exchange_explicit(&xm_inside, 0, memory_order_relaxed); /* what a handler launches meanwhile comes before */
		XM_SITE(gate_begin, key, v == GATE ? 1 : v == BOUND ? 2 : 3, 0);
		if (v == GATE)
			wait_gate(p.dev, p.gate);
		else if (v == BOUND)
			wait_bound(&p);
		else
			wait_greeting(p.dev);
		XM_SITE(gate_end, key, 0, 0);
		atomic_store_explicit(&xm_inside, inside, memory_order_relaxed);
		p.marked = p.swept = p.polled = false;
		me = xm_enter();
	}
	if (me)
		xm_leave(me);
}

void xm_capture_began(CUstream stream)
{
	struct xm_thread *me = xm_enter();

	(void)stream;
	atomic_fetch_add(&xm_state.captures, 1);
	if (!me)
		return;
	pthread_mutex_lock(&xm_probe); /* no question to any stream is under way from here on */
	pthread_mutex_unlock(&xm_probe);
	pthread_mutex_lock(&xm_lock);
	xm_thread_revoke_all();
	pthread_mutex_unlock(&xm_lock);
	xm_leave(me);
}

void xm_capture_ended(CUstream stream)
{
	uint32_t n = atomic_load(&xm_state.captures);

	(void)stream;
	while (n && !atomic_compare_exchange_weak(&xm_state.captures, &n, n - 1))
		;
}
