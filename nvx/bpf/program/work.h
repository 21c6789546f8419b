/* Commands, and the calls that wait for them. */
#ifndef WORK_H
#define WORK_H

INLINE struct stream *stream_named(const struct hit *hit, u64 name, int make)
{
	struct stream_key key = {hit->pid, hit->ours, name};
	struct stream *s = map_lookup(&streams, &key), fresh = {};

	if (s || !make)
		return s;
	if (map_update(&streams, &key, &fresh, UPDATE_NEW))
		__sync_fetch_and_add(&hit->process->lost_streams, 1);
	return map_lookup(&streams, &key);
}

INLINE void commanded(const struct hit *hit)
{
	struct process *p = hit->process;
	u64 n = __sync_fetch_and_add(&p->commands, 1) + 1;
	struct stream *s = stream_named(hit, stream_of(hit), 1);
	u64 epoch, mark;

	if (!s)
		return;
	__sync_fetch_and_add(&s->sequence, 1);
	epoch = EPOCH_OF(load(&p->word));
	mark = load(&s->mark);
	if (mark != epoch && __sync_val_compare_and_swap(&s->mark, mark, epoch) == mark)
		outstanding_more(p, epoch, hit->now, n);
}

INLINE void recorded(const struct hit *hit)
{
	struct event_key key = {hit->pid, hit->ours, fetch(hit->ctx, &hit->hook->value)};
	struct event e = {stream_of(hit), 0};
	struct stream *s = stream_named(hit, e.stream, 0);

	e.sequence = s ? load(&s->sequence) : 0;
	map_update(&events, &key, &e, UPDATE_ANY);
}

/* A call begins that comes back when (part of) the device is done. */
INLINE void wait_begins(const struct hit *hit)
{
	struct call_key key = call_key(hit, KIND_WAIT);
	struct process *p = hit->process;
	struct call c = {};
	struct stream *s;

	c.at = hit->now;
	c.commands = load(&p->commands);
	if (STREAMS_OF(load(&p->word)))
		c.outstanding = c.commands - load(&p->block_from);
	if (hit->hook->scope == SCOPE_STREAM) {
		c.stream = stream_of(hit);
		s = stream_named(hit, c.stream, 0);
		if (s)
			c.sequence = load(&s->sequence);
	} else if (hit->hook->scope == SCOPE_EVENT) {
		struct event_key event = {hit->pid, hit->ours, fetch(hit->ctx, &hit->hook->stream)};
		struct event *e = map_lookup(&events, &event);

		if (e) {
			c.stream = e->stream;
			c.sequence = e->sequence;
		}
	}
	map_update(&calls, &key, &c, UPDATE_ANY);
}

/* The device has worked while somebody waited for it. Waits of several threads
 * at once count once, and rather too little than too much. */
INLINE void waited(struct process *p, const struct call *c, u64 now)
{
	u64 until = load(&p->waited_until), from = c->at > until ? c->at : until;

	if (!c->outstanding || now <= c->at)
		return;
	if (from < now && __sync_val_compare_and_swap(&p->waited_until, until, now) == until)
		__sync_fetch_and_add(&p->waited_ns, now - from);
	raise(&p->command_ns, (now - c->at) / c->outstanding);
}

INLINE void wait_ends(const struct hit *hit, u32 result)
{
	struct call_key key = call_key(hit, KIND_WAIT);
	struct process *p = hit->process;
	struct call *found = map_lookup(&calls, &key), c;
	struct stream *s;

	if (!found)
		return;
	c = *found;
	map_delete(&calls, &key);
	if (result)
		return;
	__sync_fetch_and_add(&p->waits, 1);
	if (between(p))
		return;
	waited(p, &c, hit->now);
	if (hit->hook->scope == SCOPE_CONTEXT) {
		if (load(&p->commands) == c.commands)
			outstanding_none(p, hit->now);
		return;
	}
	s = c.stream ? stream_named(hit, c.stream, 0) : 0;
	if (s && load(&s->sequence) == c.sequence)
		stream_done(p, s, hit->now);
}

/* The preload library knows that a stream (1), the context (2) or something (3) is
 * done. The wait may have been a command's own, which then came after its beginning. */
INLINE void completed(const struct hit *hit)
{
	struct call_key key = call_key(hit, KIND_WAIT);
	struct process *p = hit->process;
	u64 what = fetch(hit->ctx, &hit->hook->value);
	struct call *found = map_lookup(&calls, &key), c = {};
	struct stream *s;

	if (found) {
		c = *found;
		map_delete(&calls, &key);
		__sync_fetch_and_add(&p->waits, 1);
		if (between(p))
			return;
		if (!c.outstanding && load(&p->commands) > c.commands)
			c.outstanding = 1;
		waited(p, &c, hit->now);
	}
	if (what == SCOPE_STREAM) {
		s = stream_named(hit, stream_of(hit), 0);
		if (s)
			stream_done(p, s, hit->now);
	} else if (found && load(&p->commands) - c.commands <= 1) {
		outstanding_none(p, hit->now);
	}
}

INLINE void held(const struct hit *hit)
{
	struct call_key key = call_key(hit, KIND_HELD);
	struct call c = {};

	c.at = hit->now;
	map_update(&calls, &key, &c, UPDATE_ANY);
}

INLINE void let(const struct hit *hit)
{
	struct call_key key = call_key(hit, KIND_HELD);
	struct process *p = hit->process;
	struct call *c = map_lookup(&calls, &key);
	u64 ns;

	if (!c)
		return;
	ns = hit->now - c->at;
	map_delete(&calls, &key);
	__sync_fetch_and_add(&p->gate_waits, 1);
	__sync_fetch_and_add(&p->gate_ns, ns);
	raise(&p->gate_longest_ns, ns);
}

#endif
