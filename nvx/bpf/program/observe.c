/*
 * What programs do with a GPU, added up in the kernel while they run: three
 * programs, at the entry of a driver's function or at a probe site, at its
 * return, and at the end of a process. Nothing is told to user space but what is
 * seldom; the maps are read when somebody wants to know.
 *
 * The table `hooks` says what a place is and where its values are; a place's
 * cookie is its row. So one program serves all, and what a function's
 * parameters mean is data (functions.go).
 *
 * Times of work are estimates, from when commands are handed over and when a
 * call that waits comes back: model.h has the rules.
 *
 * This file and what it includes may be used under the MIT licence or the GPL,
 * version 2: the kernel lends some of its helpers only to such programs.
 */
#include "observe.h"

char text_of_license[] SECTION("license") = "Dual MIT/GPL";

const volatile u32 namespace; /* processes are named as in this pid namespace; 0: as the kernel does */

struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, 1024);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct hook);
} hooks SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_PERCPU_HASH);
	MAP_NUMBER(max_entries, 8192);
	MAP_TYPE(key, struct count_key);
	MAP_TYPE(value, struct count);
} counts SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, 1024);
	MAP_TYPE(key, struct process_key);
	MAP_TYPE(value, struct process);
} processes SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct stream_key);
	MAP_TYPE(value, struct stream);
} streams SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_LRU_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct event_key);
	MAP_TYPE(value, struct event);
} events SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, 262144);
	MAP_NUMBER(map_flags, NO_PREALLOC);
	MAP_TYPE(key, struct memory_key);
	MAP_TYPE(value, u64);
} memory SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_LRU_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct call_key);
	MAP_TYPE(value, struct call);
} calls SECTION(".maps");

/* A process too large for the stack of a program. */
struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct process);
} blank SECTION(".maps");

/* When windows ended, by their number. */
struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, WINDOWS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} ends SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_RINGBUF);
	MAP_NUMBER(max_entries, 65536);
} news SECTION(".maps");

/* This process alone; 0: all. */
u32 only;
/* The number of this window; odd: between two, when commands are not hooked. */
u64 window;
/* Rare things that found the ring full. */
u64 lost_news;
/* Hits of processes that the maps had no room for. */
u64 lost_hits;

#include "who.h"
#include "model.h"

/* What a hook's handler needs. */
struct hit {
	const void *ctx;
	const struct hook *hook;
	struct process *process;
	u32 pid, ours, row;
	u64 thread, now;
};

INLINE u64 fetch(const void *ctx, const struct place *place)
{
	u64 value = 0, at = 0;
	u32 reg = place->reg;

	if (place->how == HOW_NONE)
		return 0;
	if (place->how == HOW_NUMBER)
		return (s64)place->offset;
	if (place->how == HOW_STACK)
		reg = STACK_POINTER;
	/* The register is known only at run time, so the verifier has to be asked for it by a helper. */
	if (probe_read_kernel(&at, sizeof(at), (const char *)ctx + reg))
		return 0;
	value = at;
	if (place->how != HOW_REGISTER && probe_read_user(&value, sizeof(value), (const void *)(at + (s64)place->offset)))
		return 0;
	return place->size == 4 ? (u32)value : value;
}

/* Offsets of CUDA_MEMCPY2D and CUDA_MEMCPY3D (hal/cuda/abi, checked by a test). */
enum { WIDTH_2D = 112, HEIGHT_2D = 120, WIDTH_3D = 176 };

INLINE u64 bytes_of(const void *ctx, const struct hook *h)
{
	u64 box[3] = {};
	u64 value = fetch(ctx, &h->value);

	switch (h->shape) {
	case SHAPE_PRODUCT:
		return value * fetch(ctx, &h->other) * h->unit;
	case SHAPE_2D:
		if (probe_read_user(box, 16, (const void *)(value + WIDTH_2D)))
			return 0;
		return box[0] * box[1];
	case SHAPE_3D:
		if (probe_read_user(box, 24, (const void *)(value + WIDTH_3D)))
			return 0;
		return box[0] * box[1] * box[2];
	}
	return value;
}

INLINE u64 stream_of(const struct hit *hit)
{
	u64 stream = fetch(hit->ctx, &hit->hook->stream);

	if (stream == 2 || (!stream && hit->hook->flags & FLAG_PER_THREAD))
		return 1ull << 63 | (u32)hit->thread;
	return stream ? stream : 1;
}

INLINE void count(const struct hit *hit, u64 bytes)
{
	struct count_key key = {hit->pid, hit->row};
	struct count first = {1, bytes};
	struct count *c = map_lookup(&counts, &key);

	if (c) {
		c->hits++;
		c->bytes += bytes;
	} else if (map_update(&counts, &key, &first, UPDATE_ANY)) {
		__sync_fetch_and_add(&lost_hits, 1);
	}
}

INLINE void tell(u32 what, u32 pid)
{
	struct news_item item = {what, pid};

	if (ringbuf_output(&news, &item, sizeof(item), 0))
		__sync_fetch_and_add(&lost_news, 1);
}

INLINE struct process *process_of(struct hit *hit)
{
	struct process_key key = {hit->pid, hit->ours};
	struct process *p = map_lookup(&processes, &key);
	u32 zero = 0;

	if (p)
		return p;
	p = map_lookup(&blank, &zero);
	if (!p || map_update(&processes, &key, p, UPDATE_NEW))
		return map_lookup(&processes, &key);
	p = map_lookup(&processes, &key);
	if (!p)
		return 0;
	p->started = hit->now;
	p->window = load(&window);
	p->word = 1 << 16;
	get_current_comm(p->comm, sizeof(p->comm));
	tell(NEWS_CAME, hit->pid);
	return p;
}

INLINE int arrive(struct hit *hit, const void *ctx)
{
	hit->ctx = ctx;
	hit->thread = get_current_pid_tgid();
	hit->pid = here(hit->thread >> 32);
	if (!hit->pid || (only && hit->pid != only))
		return 0;
	hit->row = get_attach_cookie(ctx);
	hit->hook = map_lookup(&hooks, &hit->row);
	if (!hit->hook)
		return 0;
	hit->ours = hit->hook->flags & FLAG_OURS ? 1 : 0;
	hit->now = ktime_get_ns();
	hit->process = process_of(hit);
	if (!hit->process) {
		__sync_fetch_and_add(&lost_hits, 1);
		return 0;
	}
	window_of(hit->process);
	return 1;
}

#include "memory.h"
#include "work.h"

SECTION("uprobe") int enter(void *ctx)
{
	struct hit hit;
	u64 bytes = 0;
	u16 kind;

	if (!arrive(&hit, ctx))
		return 0;
	kind = hit.hook->kind;
	if (kind == KIND_COPY || kind == KIND_FILL || kind == KIND_MADE)
		bytes = bytes_of(ctx, hit.hook);
	count(&hit, bytes);
	switch (kind) {
	case KIND_LAUNCH:
	case KIND_COPY:
	case KIND_FILL:
	case KIND_OTHER:
		commanded(&hit);
		break;
	case KIND_ALLOC:
		alloc_begins(&hit);
		break;
	case KIND_MADE:
		made(&hit, fetch(ctx, &hit.hook->stream), bytes);
		break;
	case KIND_FREE:
		freed(&hit, fetch(ctx, &hit.hook->value));
		break;
	case KIND_RECORD:
		recorded(&hit);
		break;
	case KIND_BEGIN:
		wait_begins(&hit);
		break;
	case KIND_COMPLETE:
		completed(&hit);
		break;
	case KIND_HELD:
		held(&hit);
		break;
	case KIND_LET:
		let(&hit);
		break;
	}
	if (hit.hook->scope != SCOPE_NONE && kind != KIND_COMPLETE)
		wait_begins(&hit);
	return 0;
}

SECTION("uretprobe") int leave(void *ctx)
{
	struct hit hit;
	u32 result = REGISTER(ctx, RESULT);

	if (!arrive(&hit, ctx))
		return 0;
	if (hit.hook->kind == KIND_ALLOC)
		alloc_ends(&hit, result);
	if (hit.hook->scope != SCOPE_NONE)
		wait_ends(&hit, result);
	return 0;
}

/* The end of a process, seen by its last thread or not at all: user space looks as well. */
SECTION("tp_btf/sched_process_exit") int left(const void *unused)
{
	u64 now = ktime_get_ns(), thread = get_current_pid_tgid();
	struct process_key key = {here(thread >> 32), 0};
	struct process *p;
	int known = 0;

	(void)unused;
	if ((u32)thread != thread >> 32)
		return 0;
	p = map_lookup(&processes, &key);
	if (p) {
		p->ended = now;
		known = 1;
	}
	key.ours = 1;
	p = map_lookup(&processes, &key);
	if (p) {
		p->ended = now;
		known = 1;
	}
	if (known)
		tell(NEWS_LEFT, key.pid);
	return 0;
}
