/*
 * Busy and idle, as far as the calls of a program tell.
 *
 * A block begins when a command is handed over while nothing is outstanding, and
 * ends when a call that has waited comes back and nothing was handed over since
 * it began. In between the program counts as busy: it may have been less, when
 * the device was done before somebody asked. What a thread waited while something was
 * outstanding the device was surely working, for this program or for another
 * that was let before it.
 *
 * Threads change these numbers at the same time and no lock may be taken here.
 * What is outstanding is one word, changed by compare-and-swap: an epoch, and
 * how many streams have commands. A stream's mark is the epoch in which it became
 * one of them; a wait for the whole context begins another epoch, which makes all
 * marks stale at once.
 *
 * Where looking at commands would cost too much, user space takes those hooks
 * away for a while: it looks in windows. What lasted when a window ended counts until then,
 * and is known by nothing but what comes in the next one.
 */
#ifndef MODEL_H
#define MODEL_H

#define TRIES 8
#define STREAMS_OF(word) ((word) & 0xffff)
#define EPOCH_OF(word) ((word) >> 16)

INLINE u64 load(const u64 *p)
{
	return *(const volatile u64 *)p;
}

INLINE void store(u64 *p, u64 value)
{
	*(volatile u64 *)p = value;
}

INLINE void raise(u64 *p, u64 value)
{
	for (int i = 0; i < TRIES; i++) {
		u64 old = load(p);

		if (old >= value || __sync_val_compare_and_swap(p, old, value) == old)
			return;
	}
}

INLINE void note(struct histogram *h, u64 ns)
{
	u32 slot = 0;
	u64 rest = ns;

	/* The place of the highest bit: clang has no instruction for it. */
	if (rest >> 32) {
		slot += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		slot += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		slot += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		slot += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		slot += 2;
		rest >>= 2;
	}
	if (rest >> 1) {
		slot += 1;
		rest >>= 1;
	}
	slot += rest;
	if (slot >= SLOTS)
		slot = SLOTS - 1;
	__sync_fetch_and_add(&h->number[slot], 1);
	__sync_fetch_and_add(&h->ns[slot], ns);
}

INLINE void block_begins(struct process *p, u64 now, u64 commands)
{
	u64 idle = __sync_lock_test_and_set(&p->idle_since, 0);

	store(&p->block_from, commands - 1);
	store(&p->since, now);
	if (idle && idle < now)
		note(&p->idle, now - idle);
}

INLINE void block_ends(struct process *p, u64 now)
{
	u64 since = __sync_lock_test_and_set(&p->since, 0);
	u64 n = load(&p->commands) - load(&p->block_from), ns;

	if (!since || since >= now)
		return;
	ns = now - since;
	note(&p->busy, ns);
	if (ns > load(&p->longest_ns)) {
		store(&p->longest_ns, ns);
		store(&p->longest_commands, n);
	}
	if (n == 1) {
		__sync_fetch_and_add(&p->singles, 1);
		raise(&p->single_ns, ns);
	}
	store(&p->idle_since, now);
}

/* A stream has its first command of this epoch. */
INLINE void outstanding_more(struct process *p, u64 epoch, u64 now, u64 commands)
{
	for (int i = 0; i < TRIES; i++) {
		u64 old = load(&p->word);

		if (EPOCH_OF(old) != epoch || STREAMS_OF(old) == 0xffff)
			return;
		if (__sync_val_compare_and_swap(&p->word, old, old + 1) == old) {
			if (!STREAMS_OF(old))
				block_begins(p, now, commands);
			return;
		}
	}
}

INLINE void outstanding_less(struct process *p, u64 epoch, u64 now)
{
	for (int i = 0; i < TRIES; i++) {
		u64 old = load(&p->word);

		if (EPOCH_OF(old) != epoch || !STREAMS_OF(old))
			return;
		if (__sync_val_compare_and_swap(&p->word, old, old - 1) == old) {
			if (STREAMS_OF(old) == 1)
				block_ends(p, now);
			return;
		}
	}
}

INLINE void outstanding_none(struct process *p, u64 now)
{
	for (int i = 0; i < TRIES; i++) {
		u64 old = load(&p->word);

		if (__sync_val_compare_and_swap(&p->word, old, (EPOCH_OF(old) + 1) << 16) == old) {
			if (STREAMS_OF(old))
				block_ends(p, now);
			else if (!load(&p->idle_since) && !load(&p->since))
				store(&p->idle_since, now); /* the first thing that is known */
			return;
		}
	}
}

/* Between two windows nothing is known of commands. */
INLINE int between(const struct process *p)
{
	return load(&p->window) & 1;
}

/* The first hit of a process in a window, or between two, ends what lasted. */
INLINE void window_of(struct process *p)
{
	u64 now = load(&window), then = load(&p->window), *end, since, idle, word;
	u32 slot = (then / 2) % WINDOWS;

	if (now == then || __sync_val_compare_and_swap(&p->window, then, now) != then)
		return;
	since = __sync_lock_test_and_set(&p->since, 0);
	idle = __sync_lock_test_and_set(&p->idle_since, 0);
	word = load(&p->word);
	store(&p->word, (EPOCH_OF(word) + 1) << 16);
	end = map_lookup(&ends, &slot);
	if (then & 1 || !end || now - then >= 2 * WINDOWS)
		return;
	if (since && since < *end)
		__sync_fetch_and_add(&p->cut_busy_ns, *end - since);
	else if (idle && idle < *end)
		__sync_fetch_and_add(&p->cut_idle_ns, *end - idle);
}

INLINE void stream_done(struct process *p, struct stream *s, u64 now)
{
	u64 mark = load(&s->mark);

	if (mark && __sync_val_compare_and_swap(&s->mark, mark, 0) == mark)
		outstanding_less(p, mark, now);
}

#endif
