/* Memory that programs make and give back. */
#ifndef MEMORY_H
#define MEMORY_H

INLINE struct call_key call_key(const struct hit *hit, u32 kind)
{
	struct call_key key = {hit->thread, kind, hit->ours};

	return key;
}

INLINE struct memory_key memory_key(const struct hit *hit, u64 at)
{
	struct memory_key key = {hit->pid, hit->hook->flags & FLAG_HANDLE ? 2 + hit->ours : hit->ours, at};

	return key;
}

INLINE void made(const struct hit *hit, u64 at, u64 bytes)
{
	struct process *p = hit->process;
	struct memory_key key = memory_key(hit, at);

	__sync_fetch_and_add(&p->allocations, 1);
	if (map_update(&memory, &key, &bytes, UPDATE_ANY)) {
		__sync_fetch_and_add(&p->untracked, 1);
		return;
	}
	raise(&p->high, __sync_fetch_and_add(&p->bytes, bytes) + bytes);
}

INLINE void freed(const struct hit *hit, u64 at)
{
	struct process *p = hit->process;
	struct memory_key key = memory_key(hit, at);
	u64 *bytes, n;

	if (!at)
		return;
	bytes = map_lookup(&memory, &key);
	if (!bytes) {
		__sync_fetch_and_add(&p->unknown_frees, 1);
		return;
	}
	n = *bytes;
	if (map_delete(&memory, &key))
		return; /* another thread was first */
	__sync_fetch_and_add(&p->frees, 1);
	__sync_fetch_and_add(&p->bytes, -n);
}

INLINE void alloc_begins(const struct hit *hit)
{
	struct call_key key = call_key(hit, KIND_ALLOC);
	struct call c = {};

	c.at = fetch(hit->ctx, &hit->hook->stream);
	c.value = bytes_of(hit->ctx, hit->hook);
	c.other = fetch(hit->ctx, &hit->hook->other);
	map_update(&calls, &key, &c, UPDATE_ANY);
}

INLINE void alloc_ends(const struct hit *hit, u32 result)
{
	struct call_key key = call_key(hit, KIND_ALLOC);
	struct call *c = map_lookup(&calls, &key);
	u64 at = 0, bytes, pitch = 0, out, other;

	if (!c)
		return;
	out = c->at;
	bytes = c->value;
	other = c->other;
	map_delete(&calls, &key);
	if (hit->hook->shape == SHAPE_GUARDED && (u32)other != 1)
		return;
	if (result) {
		__sync_fetch_and_add(&hit->process->refused, 1);
		raise(&hit->process->refused_bytes, bytes);
		return;
	}
	if (probe_read_user(&at, sizeof(at), (const void *)out) || !at)
		return;
	if (hit->hook->shape == SHAPE_PITCHED) {
		if (probe_read_user(&pitch, sizeof(pitch), (const void *)other))
			return;
		bytes *= pitch;
	}
	made(hit, at, bytes);
}

#endif
