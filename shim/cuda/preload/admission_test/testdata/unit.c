/*
 * Admission on one thread, with a clock that the test moves. Every test is a
 * process of its own: unit NAME.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../boardmap.h"
#include "../../device.h"
#include "../../edge.h"
#include "../../guard.h"
#include "../../thread.h"
#include "fake.h"
#include "sys_fake.h"

static CUcontext context;
static CUstream stream;

static void begin(void)
{
	fake_driver_init();
	context = fake_context(0);
	fake_set_current(context);
	stream = fake_stream();
}

static void begin_with_daemon(uint32_t mode)
{
	begin();
	daemon_start();
	daemon_grant(0, true, mode, 16, 8);
	fake_set_current(context);
	daemon_events();
}

static void launch(unsigned n)
{
	while (n--)
		CHECK_EQ(fake_launch(stream, 0), 0);
}

static void no_daemon(void)
{
	begin();
	launch(1000);
	CHECK_EQ(sleeps, 0);
	CHECK_EQ(fake_writes + fake_records + fake_queries + fake_registrations, 0);
	CHECK_EQ(fake_outstanding(stream), 1000);
}

/* What the daemon may believe of a queue, whatever the state: never less than the truth. */
static void check_truth(void)
{
	struct xm_slot *s = slot_of(stream);

	if (s)
		CHECK(slot_outstanding(s) >= fake_outstanding(stream));
}

static unsigned peak;

static void complete_one(uint64_t slept)
{
	unsigned n = fake_outstanding(stream);

	(void)slept;
	check_truth();
	if (n > peak)
		peak = n;
	fake_complete(stream, 1);
}

static void free_run(void)
{
	begin_with_daemon(XM_MODE_FREE);
	on_sleep = complete_one;
	launch(64);
	CHECK_EQ(fake_writes, 0);
	launch(1);
	CHECK_EQ(fake_writes, 1);
	CHECK_EQ(slot_of(stream)->marked, 64);
	CHECK_EQ(slot_of(stream)->submitted, 128);
	CHECK_EQ(slot_of(stream)->completed, 0);
	CHECK_EQ(fake_complete(stream, 64), 64);
	CHECK_EQ(slot_of(stream)->completed, 64);
	launch(255);
	CHECK_EQ(sleeps, 0);
	launch(2000);
	CHECK(sleeps > 0);
	CHECK(peak <= XM_FREE_LIMIT);
	CHECK_EQ(fake_writes, (64 + 1 + 255 + 2000 - 1) / 64);
	CHECK_EQ(fake_registrations, 1);
}

static void bounded(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	on_sleep = complete_one;
	for (int i = 0; i < 1000; i++) {
		launch(1);
		check_truth();
		CHECK(fake_outstanding(stream) <= 16);
	}
	CHECK(fake_outstanding(stream) > 8); /* the bound is used */
	CHECK_EQ(fake_writes, 124); /* one a batch of 8, none for the last */
	CHECK_EQ(client_line(0)->waiting, 0);
}

/* A threshold smaller than the batch, and numbers that make no sense. */
static void odd_numbers(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	on_sleep = complete_one;
	daemon_grant(0, true, XM_MODE_BOUNDED, 1, 8);
	for (int i = 0; i < 50; i++) {
		launch(1);
		CHECK(fake_outstanding(stream) <= 1);
	}
	daemon_grant(0, true, XM_MODE_BOUNDED, 0, 0);
	for (int i = 0; i < 50; i++) {
		launch(1);
		CHECK(fake_outstanding(stream) <= 1);
	}
	daemon_grant(0, true, XM_MODE_LOOSE, 0, 0);
	for (int i = 0; i < 50; i++) {
		launch(1);
		CHECK(fake_outstanding(stream) <= 1);
	}
	daemon_grant(0, true, XM_MODE_BOUNDED, UINT32_MAX, UINT32_MAX);
	launch(1000);
	CHECK(fake_outstanding(stream) <= XM_FREE_LIMIT);
	daemon_grant(0, true, 77, UINT32_MAX, UINT32_MAX);
	launch(1000);
	CHECK(fake_outstanding(stream) <= XM_FREE_LIMIT);
}

static void task_limit(void)
{
	CUstream s[200];
	unsigned most = 0;

	begin_with_daemon(XM_MODE_FREE);
	for (int i = 0; i < 200; i++)
		s[i] = fake_stream();
	for (int round = 0; round < 40; round++)
		for (int i = 0; i < 200; i++) {
			CHECK_EQ(fake_launch(s[i], 0), 0);
			if (fake_outstanding_all() > most)
				most = fake_outstanding_all();
			if (most > 900)
				fake_complete(s[i], 100);
		}
	CHECK(most > 500);
	CHECK(most <= XM_TASK_LIMIT);
}

static uint64_t passed_at[8];
static int passed;

static void watch_passing(uint64_t slept)
{
	(void)slept;
	if (passed < 8 && fake_outstanding(stream) > 16 + (unsigned)passed)
		passed_at[passed++] = clock_ns;
}

/* The GPU does not move: a kernel may wait for what the program launches next. */
static void pass_after_50ms(void)
{
	uint64_t t;

	begin_with_daemon(XM_MODE_BOUNDED);
	launch(16);
	on_sleep = watch_passing;
	for (unsigned i = 1; i <= 4; i++) {
		t = clock_ns;
		launch(1);
		CHECK_EQ(fake_outstanding(stream), 16 + i);
		CHECK(clock_ns - t >= XM_PASS_NS);
		CHECK(clock_ns - t < XM_PASS_NS + 3000000);
	}
	/* Slower than the pass, but it moves: the bound holds again. */
	fake_complete(stream, 10);
	t = clock_ns;
	launch(1);
	CHECK(clock_ns - t < 1000000);
}

static int step;

static void open_later(uint64_t slept)
{
	(void)slept;
	step++;
	if (step == 1) {
		CHECK_EQ(client_line(0)->waiting, 1);
		CHECK_EQ(client_line(0)->ready, 1);
		CHECK_EQ(client_line(0)->edge, 2); /* the claim, and this ready edge */
		CHECK_EQ(daemon_events(), 1);
		daemon_beat();
		daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8); /* another word, still closed */
	}
	if (step > 1)
		daemon_beat();
	if (step == 40)
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
}

static void gate(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	on_sleep = open_later;
	errno = EDOM;
	launch(1);
	CHECK_EQ(errno, EDOM);
	CHECK_EQ(step, 40);
	CHECK_EQ(client_line(0)->waiting, 0);
	CHECK_EQ(client_line(0)->opened_by_lease, 0);
	/* In the middle of a lease: the next command already stops, and the tail is marked first. */
	launch(2);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	step = 38;
	launch(1);
	CHECK_EQ(step, 40);
	CHECK_EQ(slot_of(stream)->marked, 3);
}

static bool beating;

static void maybe_beat(uint64_t slept)
{
	(void)slept;
	if (beating)
		daemon_beat();
	if (beating && ++step == 30)
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
}

static void gate_lease(void)
{
	uint32_t closed;
	uint64_t t;

	begin_with_daemon(XM_MODE_BOUNDED);
	closed = daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	on_sleep = maybe_beat;
	t = clock_ns;
	launch(1);
	CHECK(clock_ns - t >= XM_LEASE_NS);
	CHECK(clock_ns - t <= XM_LEASE_NS + 300000000);
	CHECK_EQ(fake_daemon.board->devices[0].daemon.gate, ((closed >> 1) + 1) << 1 | 1);
	CHECK_EQ(client_line(0)->opened_by_lease, 1);
	/* The daemon is dead: nobody is yielded to. */
	t = clock_ns;
	launch(100);
	CHECK_EQ(clock_ns, t);
	/* It lives again, and a beating heart keeps a gate closed for as long as it likes. */
	daemon_beat();
	closed = daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	beating = true;
	t = clock_ns;
	launch(1);
	CHECK(clock_ns - t > 2 * (uint64_t)XM_LEASE_NS);
	CHECK_EQ(client_line(0)->opened_by_lease, 1);
}

static unsigned looks;

/* Another thread, as far as the lock lets it in, sees a newer beat meanwhile. */
static void other_looks(void)
{
	looks++;
	clock_ns += 1000;
	daemon_beat();
	if (pthread_mutex_trylock(&xm_lock))
		return;
	pthread_mutex_unlock(&xm_lock);
	xm_dev_expire(&xm_state.devs[0]);
}

/* Whoever is slow between the clock and the look at the heartbeat takes no daemon for dead. */
static void gate_lease_looks(void)
{
	uint32_t closed;

	begin_with_daemon(XM_MODE_BOUNDED);
	daemon_beat();
	closed = daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	for (int i = 0; i < 3; i++) {
		on_clock = other_looks;
		xm_dev_expire(&xm_state.devs[0]);
	}
	CHECK_EQ(looks, 3);
	CHECK_EQ(fake_daemon.board->devices[0].daemon.gate, closed);
	CHECK_EQ(client_line(0)->opened_by_lease, 0);
	clock_ns += XM_LEASE_NS; /* and a dead one for dead */
	xm_dev_expire(&xm_state.devs[0]);
	clock_ns += XM_LEASE_NS;
	xm_dev_expire(&xm_state.devs[0]);
	CHECK_EQ(client_line(0)->opened_by_lease, 1);
}

/* When a look at the heart is due: the time that is left shrinks until it beats. */
static void gate_lease_left(void)
{
	uint64_t left;

	begin_with_daemon(XM_MODE_BOUNDED);
	daemon_beat();
	CHECK_EQ(xm_daemon_left(), XM_LEASE_NS);
	clock_ns += XM_LEASE_NS / 2;
	left = xm_daemon_left();
	CHECK(left && left <= XM_LEASE_NS / 2);
	clock_ns += left;
	CHECK_EQ(xm_daemon_left(), 0);
	CHECK(xm_daemon_dead());
	clock_ns += XM_LEASE_NS;
	CHECK_EQ(xm_daemon_left(), 0);
	daemon_beat();
	CHECK_EQ(xm_daemon_left(), XM_LEASE_NS);
	CHECK(!xm_daemon_dead());
}

static void edges(void)
{
	uint32_t edge;

	begin_with_daemon(XM_MODE_TOP);
	edge = client_line(0)->edge;
	CHECK_EQ(client_line(0)->ready, 0);
	launch(3);
	CHECK_EQ(client_line(0)->ready, 1);
	CHECK_EQ(client_line(0)->edge, edge + 1);
	CHECK_EQ(client_line(0)->ready_at, clock_ns);
	CHECK_EQ(daemon_events(), 1);
	fake_complete(stream, 2);
	CHECK(!fake_query(stream));
	CHECK_EQ(client_line(0)->ready, 1);
	fake_complete(stream, 1);
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->edge, edge + 2);
	CHECK_EQ(client_line(0)->launches, 3);
	CHECK_EQ(slot_outstanding(slot_of(stream)), 0);
	CHECK_EQ(daemon_events(), 1);
	launch(1);
	CHECK_EQ(client_line(0)->edge, edge + 3);
	fake_complete_all();
	xm_synced_event();
	CHECK_EQ(client_line(0)->edge, edge + 4);
	CHECK_EQ(fake_queries, 1);
	launch(1);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->edge, edge + 6);
	CHECK_EQ(fake_queries, 1);
	CHECK_EQ(daemon_events(), 4);

	/* A command that the driver refuses is no work. */
	fake.refuse = true;
	CHECK_EQ(fake_launch(stream, 0), 1);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->edge, edge + 8);
	daemon_events();

	/* In free run the state is kept, and nobody is woken for it. */
	daemon_grant(0, true, XM_MODE_FREE, 16, 8);
	launch(1);
	CHECK_EQ(client_line(0)->ready, 1);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->edge, edge + 10);
	CHECK_EQ(daemon_events(), 0);
}

/* Two streams: idle only when both are known to be complete. */
/* While the daemon waits out an idle edge it looks for itself. */
static void edges_watched(void)
{
	uint32_t edge;

	begin_with_daemon(XM_MODE_TOP);
	launch(1);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(daemon_events(), 2);
	fake_daemon.board->devices[0].daemon.watching = 1;
	edge = client_line(0)->edge;
	launch(1);
	CHECK_EQ(client_line(0)->ready, 1);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->edge, edge + 2);
	CHECK_EQ(daemon_events(), 0);
	fake_daemon.board->devices[0].daemon.watching = 0;
	launch(1);
	CHECK_EQ(daemon_events(), 1);
}

static void edges_two_streams(void)
{
	CUstream other;

	begin_with_daemon(XM_MODE_TOP);
	other = fake_stream();
	launch(1);
	CHECK_EQ(fake_launch(other, 0), 0);
	fake_complete(stream, 1);
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 1);
	CHECK_EQ(fake_queries, 1); /* the other was asked */
	xm_synced_stream(stream, 0);
	CHECK_EQ(fake_queries, 1); /* and is not asked again at once */
	clock_ns += 30000;
	fake_complete(other, 1);
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 0);
	/* The GPU's own mark is enough: 8 commands and one more, all complete. */
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	launch(1);
	CHECK_EQ(fake_launch(other, 0), 0);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0);
}

static void default_streams(void)
{
	CUcontext second;
	int slots = 0;

	begin_with_daemon(XM_MODE_BOUNDED);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(fake_launch(0, 0), 0);
		CHECK_EQ(fake_launch((CUstream)1, XM_PTDS), 0);
		CHECK_EQ(fake_launch(0, XM_PTDS), 0);
		CHECK_EQ(fake_launch((CUstream)2, 0), 0);
	}
	CHECK_EQ(fake_outstanding((CUstream)1), 8);
	CHECK_EQ(fake_outstanding((CUstream)2), 8);
	CHECK_EQ(slot_of((CUstream)1)->flags, XM_QUEUE_LEGACY);
	CHECK_EQ(slot_of((CUstream)2)->flags, XM_QUEUE_PER_THREAD);
	CHECK_EQ(slot_of((CUstream)1)->submitted, 8);
	/* The legacy stream of another context of the device is another queue. */
	second = fake_context(0);
	fake_set_current(second);
	CHECK_EQ(fake_launch(0, 0), 0);
	fake_set_current(context);
	CHECK_EQ(fake_launch(0, 0), 0);
	for (unsigned i = 1; i < XM_BOARD_SLOTS; i++)
		slots += fake_daemon.board->slots[i].flags == XM_QUEUE_LEGACY;
	CHECK_EQ(slots, 2);
	CHECK_EQ(fake_outstanding((CUstream)1), 9);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0); /* the second context's queue was asked */
	fake_set_current(NULL);
	xm_admit(0, 0); /* no context: the driver will say so */
	CHECK_EQ(xm_done(201), 201);
}

/* Devices are claimed by UUID, in the order of their first use. */
static void devices(void)
{
	CUcontext c;

	begin_with_daemon(XM_MODE_FREE);
	c = fake_context(5);
	fake_set_current(c);
	CHECK_EQ(client_line(1)->present, 1);
	CHECK_EQ(fake_daemon.board->devices[1].identity.uuid[0], 6);
	CHECK_EQ(fake_daemon.board->devices[1].identity.ordinal, 5);
	CHECK(!strcmp((char *)fake_daemon.board->devices[1].identity.name, "Fake GPU 5"));
	CHECK_EQ(client_line(1)->level_max, 2);
	CHECK_EQ(daemon_events(), 2); /* the claim, and the level */
	CHECK_EQ(fake_launch(0, 0), 0);
	CHECK_EQ(client_line(1)->ready, 1);
	CHECK_EQ(client_line(0)->ready, 0);
	for (int i = 6; i < 40; i++) { /* more than there are sections: those run as they would without us */
		fake_set_current(fake_context(i));
		CHECK_EQ(fake_launch(0, 0), 0);
		CHECK_EQ(fake_outstanding(0), 1);
	}
	CHECK_EQ(client_line(15)->present, 1);
}

/* Case 37: a process with more queues than the board has slots. */
static void many_queues(void)
{
	enum { N = 5000 };
	static CUstream s[N];
	unsigned used = 0;
	uint32_t over;

	begin_with_daemon(XM_MODE_BOUNDED);
	for (int i = 0; i < N; i++) {
		s[i] = fake_stream();
		CHECK_EQ(fake_launch(s[i], 0), 0);
		fake_complete(s[i], 1);
	}
	for (unsigned i = 1; i < XM_BOARD_SLOTS; i++) {
		used += fake_daemon.board->slots[i].handle != 0;
		for (unsigned j = i + 1; j < i + 3 && j < XM_BOARD_SLOTS; j++)
			CHECK(fake_daemon.board->slots[i].handle != fake_daemon.board->slots[j].handle);
	}
	over = fake_daemon.board->client.queues_over;
	CHECK_EQ(used, XM_BOARD_SLOTS - 1);
	CHECK_EQ(over, N - (XM_BOARD_SLOTS - 1));
	/* Those beyond are bounded like the others, by events. */
	on_sleep = complete_one;
	stream = s[N - 1];
	for (int i = 0; i < 100; i++) {
		launch(1);
		CHECK(fake_outstanding(stream) <= 16);
	}
	CHECK(fake_records > 0);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0);
	for (int i = 0; i < N; i++)
		fake_stream_destroy(s[i]);
	for (int i = 0; i < 100; i++) { /* slots come back */
		stream = fake_stream();
		launch(1);
		CHECK(slot_of(stream));
	}
	CHECK(fake_daemon.board->client.queues_over < 100);
}

static void complete_everything(uint64_t slept)
{
	(void)slept;
	fake_complete_all();
}

/* In free run nobody waits for one of a thousand queues without slots to be asked
 * by its own next command: whoever is at the limit asks them all. */
static void many_queues_free(void)
{
	enum { N = 6000 };
	static CUstream s[N];
	uint64_t began;

	begin_with_daemon(XM_MODE_FREE);
	on_sleep = complete_everything;
	for (int i = 0; i < N; i++)
		s[i] = fake_stream();
	began = clock_ns;
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < N; i++) {
			CHECK_EQ(fake_launch(s[i], 0), 0);
			CHECK(fake_outstanding_all() <= XM_TASK_LIMIT);
		}
	CHECK_EQ(fake_daemon.board->client.queues_over, N - (XM_BOARD_SLOTS - 1));
	CHECK(sleeps < 3 * N / 100);
	CHECK(clock_ns - began < XM_PASS_NS);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0);
}

enum { SLOW = 100, QUICK = 900 };
static CUstream slow[SLOW], quick[QUICK];

static void complete_quick(uint64_t slept)
{
	(void)slept;
	for (int i = 0; i < QUICK; i++)
		fake_complete(quick[i], 1);
}

/* Queues without slots that do not come further keep nobody from hearing of those
 * that do. */
static void many_queues_slow(void)
{
	uint64_t began;

	begin_with_daemon(XM_MODE_FREE);
	on_sleep = complete_quick;
	for (unsigned i = 0; i < XM_BOARD_SLOTS; i++) {
		stream = fake_stream();
		launch(1);
		fake_complete(stream, 1);
	}
	xm_synced_context();
	for (int i = 0; i < QUICK; i++) {
		quick[i] = fake_stream();
		CHECK_EQ(fake_launch(quick[i], 0), 0);
	}
	for (int i = 0; i < SLOW; i++) {
		slow[i] = fake_stream();
		CHECK_EQ(fake_launch(slow[i], 0), 0);
	}
	began = clock_ns;
	for (int i = 0; i < QUICK; i++)
		CHECK_EQ(fake_launch(quick[i], 0), 0);
	CHECK(clock_ns - began < XM_PASS_NS);
	CHECK(fake_outstanding_all() <= XM_TASK_LIMIT);
}

static void slot_reuse(void)
{
	struct xm_slot *slot;
	CUstream dead = NULL;

	begin_with_daemon(XM_MODE_BOUNDED);
	dead = stream;
	launch(10); /* 8 marked, 2 not */
	slot = slot_of(dead);
	fake_stream_destroy(dead);
	CHECK_EQ(slot->marked, 10); /* its end was marked before */
	CHECK_EQ(slot->flags, XM_QUEUE_DESTROYED);
	for (int i = 0; i < 20; i++) {
		stream = fake_stream();
		launch(1);
		CHECK(slot_of(stream) != slot);
		fake_complete(stream, 1);
		fake_stream_destroy(stream);
	}
	CHECK_EQ(client_line(0)->ready, 1); /* the destroyed stream still runs */
	CHECK_EQ(slot->handle, (uint64_t)(uintptr_t)dead);
	CHECK_EQ(fake_complete(dead, 10), 10);
	CHECK_EQ(slot->completed, 10);
	stream = fake_stream();
	xm_synced_stream(stream, 0);
	launch(1);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0);
	for (int i = 0; i < 40 && slot->handle == (uint64_t)(uintptr_t)dead; i++) {
		stream = fake_stream();
		launch(1);
		fake_complete(stream, 1);
		fake_stream_destroy(stream);
	}
	CHECK(slot->handle != (uint64_t)(uintptr_t)dead);
}

/* The handle comes back without its destruction having been seen. */
static void handle_reused(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	launch(3);
	xm_stream_made(stream, 0, 0);
	fake_complete_all();
	launch(1);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->launches, 3);
	clock_ns += 1100000000; /* nobody can say when the first one's end came */
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->launches, 4);
}

static void stop_daemon_later(uint64_t slept)
{
	(void)slept;
	if (++step == 3)
		daemon_stop();
}

static void detach_and_return(void)
{
	uint32_t edge;

	begin_with_daemon(XM_MODE_BOUNDED);
	launch(12);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	on_sleep = stop_daemon_later;
	launch(1); /* waits at the gate until the daemon goes */
	CHECK_EQ(step, 3);
	edge = client_line(0)->edge;
	launch(1000);
	CHECK_EQ(client_line(0)->edge, edge);
	CHECK_EQ(client_line(0)->waiting, 1); /* the old board is not written any more */
	/* The daemon returns while 1013 commands are outstanding. */
	fake_complete(stream, 1000);
	daemon_start();
	CHECK_EQ(client_line(0)->present, 1);
	CHECK_EQ(client_line(0)->ready, 1);
	CHECK(client_line(0)->edge > edge);
	CHECK(slot_of(stream));
	check_truth();
	on_sleep = complete_one;
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	for (int i = 0; i < 100; i++) {
		launch(1);
		check_truth();
	}
	CHECK(fake_outstanding(stream) <= 16);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(fake_registrations, 2);
}

/* The daemon comes after the program, and goes and comes many times. */
static void many_boards(void)
{
	begin();
	on_sleep = complete_one;
	launch(10);
	for (int i = 0; i < 40; i++) {
		daemon_start();
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
		launch(100);
		check_truth();
		daemon_stop();
		launch(10);
	}
	CHECK_EQ(fake_registrations, XM_VIEWS);
	CHECK(fake_records > 0);
}

static void captures(void)
{
	CUstream other;
	uint64_t writes;

	begin_with_daemon(XM_MODE_BOUNDED);
	other = fake_stream();
	launch(3);
	fake_capture(stream, true);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	writes = fake_writes;
	launch(100); /* neither gated nor bounded nor counted */
	CHECK_EQ(sleeps, 0);
	CHECK_EQ(fake_writes, writes);
	xm_synced_event();
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	on_sleep = complete_one;
	stream = other;
	for (int i = 0; i < 100; i++) { /* another stream is, meanwhile */
		launch(1);
		CHECK(fake_outstanding(stream) <= 16);
	}
	CHECK(fake_writes > writes);
	fake_complete_all();
	xm_synced_stream(other, 0);
	CHECK_EQ(fake_queries, 0);
}

static void capture_ends(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	fake_capture(stream, true);
	launch(10);
	CHECK_EQ(client_line(0)->ready, 0);
	fake_capture(stream, false);
	launch(1); /* the graph's launch is one command */
	CHECK_EQ(client_line(0)->ready, 1);
	CHECK_EQ(client_line(0)->launches, 0);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->launches, 1);
	xm_capture_ended(stream); /* once too often: no harm */
	launch(20);
}

static void events_instead(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	fake.no_write = true;
	on_sleep = complete_one;
	for (int i = 0; i < 200; i++) {
		launch(1);
		CHECK(fake_outstanding(stream) <= 16);
	}
	CHECK_EQ(fake_writes, 0);
	CHECK(fake_records > 10);
	fake_complete_all();
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 0);
	fake_stream_destroy(stream);
}

static void unregistered(void)
{
	begin();
	fake.no_register = true;
	daemon_start();
	daemon_grant(0, true, XM_MODE_FREE, 16, 8);
	on_sleep = complete_one;
	launch(1000);
	CHECK(peak <= XM_FREE_LIMIT);
	CHECK_EQ(fake_writes, 0);
	CHECK_EQ(fake_records, 15);
}

/* No mark can be had at all: counted, gated, not bounded. */
static void unmarkable(void)
{
	begin();
	fake.no_register = fake.no_event = true;
	daemon_start();
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	launch(100);
	CHECK_EQ(sleeps, 0);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->launches, 100);
}

static void contexts(void)
{
	CUcontext second = fake_context(0);
	CUstream there;

	begin_with_daemon(XM_MODE_BOUNDED);
	fake_set_current(second);
	there = fake_stream();
	for (int i = 0; i < 12; i++)
		CHECK_EQ(fake_launch(there, 0), 0);
	fake_set_current(context);
	for (int i = 0; i < 4; i++) /* a stream of a context that is not current */
		CHECK_EQ(fake_launch(there, 0), 0);
	launch(12);
	CHECK_EQ(fake_registrations, 2); /* each has its own */
	CHECK_EQ(fake_outstanding(there), 16);
	fake_complete(stream, 12);
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 1);
	fake_context_destroy(second);
	CHECK_EQ(client_line(0)->ready, 0);
	launch(1);
	CHECK_EQ(client_line(0)->ready, 1);
}

static void forked_child(void)
{
	struct xm_board before;

	begin_with_daemon(XM_MODE_BOUNDED);
	launch(3);
	memcpy(&before, fake_daemon.board, sizeof before);
	xm_forked_child();
	daemon_events();
	launch(100);
	xm_synced_stream(stream, 0);
	xm_synced_context();
	xm_synced_event();
	xm_context_changed();
	xm_context_made(0);
	xm_stream_gone(stream, 0);
	xm_capture_began(stream);
	xm_capture_ended(stream);
	daemon_stop();
	CHECK(!memcmp(&before, fake_daemon.board, sizeof before));
	CHECK_EQ(daemon_events(), 0);
	CHECK_EQ(xm_board_attach(dup(fake_daemon.board_fd), dup(fake_daemon.event_fd)), -ECHILD);
}

static void answer_later(uint64_t slept)
{
	(void)slept;
	if (++step == 4)
		daemon_start();
	if (step == 8)
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
}

static void newcomer(void)
{
	uint64_t t;

	begin();
	launch(1); /* no agent is starting: nobody to wait for */
	CHECK_EQ(sleeps, 0);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	atomic_store(&xm_state.expecting, true);
	on_sleep = answer_later;
	launch(1);
	CHECK_EQ(step, 8);
	CHECK_EQ(fake_outstanding(stream), 1);
	/* Another device, and nobody answers. */
	on_sleep = NULL;
	fake_set_current(fake_context(1));
	t = clock_ns;
	CHECK_EQ(fake_launch(0, 0), 0);
	CHECK(clock_ns - t >= XM_GREET_NS && clock_ns - t < XM_GREET_NS + 2000000);
	t = clock_ns;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(fake_launch(0, 0), 0);
	CHECK_EQ(clock_ns, t);
}

static int nested;

static void launch_in_handler(uint64_t slept)
{
	(void)slept;
	if (nested++ == 2) { /* a signal handler of the program, in the middle of the wait */
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
		errno = 0;
		CHECK_EQ(fake_launch(stream, 0), 0);
		CHECK_EQ(errno, 0);
		CHECK_EQ(fake_launch((CUstream)1, 0), 0);
		daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	}
	if (nested == 6)
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
}

static void handler_in_wait(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	on_sleep = launch_in_handler;
	errno = ERANGE;
	launch(1);
	CHECK_EQ(errno, ERANGE);
	CHECK_EQ(nested, 6);
	CHECK_EQ(fake_outstanding(stream), 2);
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->launches, 3);
	CHECK_EQ(client_line(0)->waiting, 0);
}

/* What the other threads see, and ours. */
static void nobody_takes_it_for_idle(void)
{
	fake_complete_all();
	xm_settle_asking(&xm_state.devs[0], NULL);
	xm_synced_stream(stream, 0);
	xm_query_ok(stream, 0);
	xm_synced_context();
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 1);
}

static void handler_on_same_stream(void)
{
	CHECK_EQ(fake_launch(stream, 0), 0);
	nobody_takes_it_for_idle();
}

static void handler_on_other_streams(void)
{
	CHECK_EQ(fake_launch((CUstream)1, 0), 0);
	CHECK_EQ(fake_launch(NULL, XM_PTDS), 0);
	nobody_takes_it_for_idle();
}

static CUstream handlers;

static void handler_of_six(void)
{
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(fake_launch(stream, 0), 0);
		CHECK_EQ(fake_launch(handlers, 0), 0);
	}
}

static void handler_refused(void)
{
	fake.refuse = true;
	CHECK_EQ(fake_launch(handlers, 0), 1);
	CHECK_EQ(fake_launch(handlers, 0), 0);
	nobody_takes_it_for_idle();
}

static void handler_before_a_refusal(void)
{
	handler_on_same_stream();
	fake.refuse = true;
}

static void handler_in_a_handler(void)
{
	fake_entering = handler_on_same_stream;
	CHECK_EQ(fake_launch(handlers, 0), 0);
}

static void handler_with_a_context(void)
{
	CUcontext other = fake_context(1);

	fake_set_current(other);
	fake_set_current(context);
	handler_on_other_streams();
}

static void (*const handlers_in_driver[])(void) = {
	handler_on_same_stream, handler_on_other_streams, handler_of_six, handler_refused, handler_before_a_refusal,
	handler_in_a_handler, handler_with_a_context, nobody_takes_it_for_idle,
};

/* What the thread's leases were used for counts once they end. */
static void end_leases(void)
{
	struct xm_thread *me = xm_thread_known();

	pthread_mutex_lock(&xm_lock);
	for (unsigned i = 0; i < XM_LEASES; i++) {
		CHECK(!xm_lease_in_driver(&me->leases[i]));
		CHECK(!me->leases[i].queue || xm_lease_left(&me->leases[i]) <= me->leases[i].start);
		xm_lease_end(&me->leases[i]);
	}
	pthread_mutex_unlock(&xm_lock);
}

/*
 * A signal handler of the program launches and asks while its thread is in the
 * driver with a command. That command counts as on its way until it is in, and
 * afterwards every command is counted, once.
 */
static void handler_in_driver(uint32_t level)
{
	const unsigned kinds = sizeof handlers_in_driver / sizeof *handlers_in_driver;
	unsigned waits = 0;
	CUresult result;

	daemon_level(level);
	begin_with_daemon(XM_MODE_BOUNDED);
	on_sleep = complete_one;
	handlers = fake_stream();
	for (unsigned i = 0; i < 40 * kinds; i++) {
		for (unsigned n = i % 5; n; n--) /* with a lease, and without */
			CHECK_EQ(fake_launch(stream, 0), 0);
		fake_entering = handlers_in_driver[i % kinds];
		result = fake_launch(i % 3 ? stream : NULL, 0);
		CHECK_EQ(result, handlers_in_driver[i % kinds] == handler_before_a_refusal);
		CHECK(!fake_entering);
		CHECK_EQ(client_line(0)->ready, 1);
		if (fake_outstanding_all() && i % 2) {
			xm_settle_asking(&xm_state.devs[0], NULL);
			CHECK_EQ(client_line(0)->ready, 1);
		}
		fake_complete_all();
		xm_settle_asking(&xm_state.devs[0], NULL);
		CHECK_EQ(client_line(0)->ready, 0);
		end_leases();
		waits += level == 2 && result; /* what was put before a refused command stays, and counts */
		CHECK_EQ(client_line(0)->launches, fake_commands + waits);
		CHECK_EQ(xm_state.outstanding, 0);
		CHECK_EQ(client_line(0)->waiting, 0);
	}
}

static void handler_in_driver_1(void)
{
	handler_in_driver(1);
}

static void handler_in_driver_2(void)
{
	handler_in_driver(2);
}

/* Sequence numbers are 32 bits on the GPU's side. */
static void wrap(void)
{
	struct xm_queue *q = NULL;

	begin_with_daemon(XM_MODE_BOUNDED);
	launch(1);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	for (struct xm_slot *s = slot_of(stream); s; s = NULL)
		CHECK_EQ(s->submitted, 1);
	/* As if 2^32 - 20 commands had gone before. */
	launch(1);
	q = xm_state.devs[0].dirty;
	CHECK(q && !q->dirty_next);
	q->counted += 0xffffffecull;
	q->done += 0xffffffecull;
	q->marked = q->done;
	q->slot->completed = (uint32_t)q->done;
	q->slot->marked = q->marked;
	q->slot->synced = q->done;
	q->slot->submitted += 0xffffffecull;
	on_sleep = complete_one;
	for (int i = 0; i < 100; i++) {
		launch(1);
		CHECK(fake_outstanding(stream) <= 16);
		check_truth();
	}
	CHECK(slot_of(stream)->marked > 0x100000000ull);
	fake_complete_all();
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 0);
}

/* The GPU's word says something that was never marked. */
static void garbage_completion(void)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	launch(12);
	slot_of(stream)->completed = 4000000000u;
	on_sleep = complete_one;
	launch(50);
	CHECK(fake_outstanding(stream) <= 16);
}

/* ---- level 2 ---------------------------------------------------------- */

static void begin_gated(bool open)
{
	begin_with_daemon(XM_MODE_BOUNDED);
	daemon_level(2);
	daemon_grant(0, open, XM_MODE_BOUNDED, 16, 8);
}

#define CHECK_SHAPE(s, want)                                                        \
	do {                                                                        \
		if (strcmp(fake_shape(s), want)) {                                  \
			fprintf(stderr, "queued: %s\n", fake_shape(s));             \
			CHECK(!strcmp(fake_shape(s), want));                        \
		}                                                                   \
	} while (0)

/* A wait before every command on every kind of stream, marks behind commands,
 * and in the other modes none. */
static void gated(void)
{
	begin_gated(true);
	fake.frozen = true;
	launch(10);
	CHECK_SHAPE(stream, "gcgcgcgcgcgcgcgcmgcgc");
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(fake_launch(0, 0), 0);
		CHECK_EQ(fake_launch(0, XM_PTDS), 0);
	}
	CHECK_SHAPE((CUstream)1, "gcgc");
	CHECK_SHAPE((CUstream)2, "gcgc");
	CHECK_EQ(fake_waits, 14);
	CHECK_EQ(client_line(0)->level_max, 2);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_NONE);
	fake.frozen = false;
	fake_complete_all();
	xm_synced_context();
	CHECK_EQ(client_line(0)->ready, 0);
	for (uint32_t mode = XM_MODE_FREE; mode <= XM_MODE_TOP; mode += XM_MODE_TOP) {
		daemon_grant(0, true, mode, 16, 8);
		launch(20);
	}
	daemon_level(1);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	launch(5);
	CHECK_EQ(fake_waits, 14);
	daemon_level(2);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	launch(1);
	CHECK_EQ(fake_waits, 15);
}

static void open_soon(uint64_t slept)
{
	(void)slept;
	CHECK_EQ(fake_outstanding(stream), 16);
	CHECK_EQ(fake_complete(stream, 1), 0); /* nothing passes */
	CHECK_EQ(client_line(0)->waiting, 1);
	daemon_beat();
	if (++step == 30) { /* 3 s: no command passed the bound meanwhile */
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
		fake_complete(stream, 8);
		on_sleep = NULL;
	}
}

/* A closed gate stops the GPU, and the program only at its bound. */
static void gated_closed(void)
{
	begin_gated(true);
	launch(2);
	CHECK_EQ(fake_complete(stream, 1), 1);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	launch(14); /* one has its wait behind it */
	CHECK_EQ(fake_outstanding(stream), 15);
	CHECK_EQ(fake_complete(stream, 100), 1);
	launch(2);
	CHECK_EQ(sleeps, 0);
	CHECK_EQ(fake_outstanding(stream), 16);
	CHECK_EQ(client_line(0)->ready, 1);
	on_sleep = open_soon;
	errno = EDOM;
	launch(1);
	CHECK_EQ(errno, EDOM);
	CHECK_EQ(step, 30);
	CHECK_EQ(client_line(0)->waiting, 0);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->launches, 19);
}

/* With the gate open a command passes the bound after 50 ms, as at level 1. */
static void gated_pass(void)
{
	uint64_t t;

	begin_gated(true);
	fake.frozen = true;
	launch(16);
	t = clock_ns;
	launch(1);
	CHECK(clock_ns - t >= XM_PASS_NS && clock_ns - t < XM_PASS_NS + 3000000);
	CHECK_EQ(fake_waits, 17);
}

/* The daemon dies: the word is opened where the GPU reads it. */
static void gated_lease(void)
{
	begin_gated(false);
	launch(16);
	CHECK_EQ(fake_complete(stream, 16), 0);
	launch(1);
	CHECK_EQ(client_line(0)->opened_by_lease, 1);
	CHECK_EQ(fake_complete(stream, 17), 17);
}

/* Streams whose waits are refused: level 1, for the rest of the program's life. */
static void gated_refused(void)
{
	begin_gated(true);
	fake.no_wait = 801;
	launch(1);
	CHECK_EQ(fake_outstanding(stream), 1);
	CHECK_EQ(client_line(0)->level_max, 1);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_NO_WAITS);
	CHECK(daemon_events() > 0);
	launch(10);
	CHECK_EQ(fake_waits, 0);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	step = 2;
	on_sleep = open_later;
	launch(1); /* at level 1 a closed gate holds this thread */
	CHECK_EQ(step, 40);
	on_sleep = NULL;
	daemon_stop();
	daemon_start();
	CHECK_EQ(client_line(0)->level_max, 1);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_NO_WAITS);
}

/* A closed gate is not passed by the command whose wait was refused. */
static void gated_refused_closed(void)
{
	begin_gated(true);
	launch(1);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	launch(1);
	fake.no_wait = 1; /* of a stream that is well */
	step = 2;
	on_sleep = open_later;
	launch(1);
	CHECK_EQ(step, 40);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_NO_WAITS);
	CHECK_EQ(client_line(0)->launches, 0 + 2);
}

/* A driver that has no waits. */
static void level_max(void)
{
	begin();
	xm_real.cuStreamWaitValue32_v2 = NULL;
	daemon_start();
	CHECK_EQ(client_line(0)->level_max, 0);
	launch(1);
	CHECK_EQ(client_line(0)->level_max, 1);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_NO_WAITS);
}

static CUresult not_initialised(void *p, size_t bytes, unsigned flags)
{
	(void)p;
	(void)bytes;
	(void)flags;
	return 709; /* CUDA_ERROR_CONTEXT_IS_DESTROYED */
}

/* The runtime makes the primary context current before anybody retained it. */
static void level_of_a_late_context(void)
{
	CUresult (*registers)(void *, size_t, unsigned);

	begin();
	registers = xm_real.cuMemHostRegister_v2;
	xm_real.cuMemHostRegister_v2 = not_initialised;
	daemon_start();
	fake_set_current(context);
	CHECK_EQ(client_line(0)->level_max, 0);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_NONE);
	xm_real.cuMemHostRegister_v2 = registers;
	launch(1);
	CHECK_EQ(client_line(0)->level_max, 2);
}

static void level_of_two_contexts(void)
{
	CUcontext second;

	begin_gated(true);
	CHECK_EQ(client_line(0)->level_max, 2);
	fake.no_register = true;
	second = fake_context(0);
	fake_set_current(second);
	CHECK_EQ(client_line(0)->level_max, 1);
	CHECK_EQ(client_line(0)->level_why, XM_LEVEL_WHY_UNREGISTERED);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8); /* at level 2 still */
	fake_set_current(context);
	launch(3);
	CHECK_EQ(fake_waits, 3);
	fake_set_current(second);
	step = 2;
	on_sleep = open_later;
	CHECK_EQ(fake_launch(0, 0), 0); /* what no wait can hold is held here */
	CHECK_EQ(step, 40);
	CHECK_EQ(fake_waits, 3);
}

/* Errors are the program's own, and say nothing of levels. */
static void gated_errors(void)
{
	begin_gated(true);
	fake.bad_stream = true;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(fake_launch(stream, 0), 400);
	fake.bad_stream = false;
	CHECK_EQ(client_line(0)->level_max, 2);
	CHECK_EQ(client_line(0)->ready, 0);
	CHECK_EQ(client_line(0)->launches, 0);
	/* A command that is refused leaves its wait: the device is not idle before it is passed. */
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	fake.refuse = true;
	CHECK_EQ(fake_launch(stream, 0), 1);
	CHECK_SHAPE(stream, "g");
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 1);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	CHECK_EQ(fake_complete(stream, 1), 0);
	clock_ns += 30000;
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 0);
}

/* A capture of another thread: waits go on, one command at a time, quietly; the capturing stream has none. */
static void gated_captures(void)
{
	CUstream other;

	begin_gated(true);
	other = fake_stream();
	fake.frozen = true;
	launch(3);
	CHECK_EQ(fake_launch(other, 0), 0);
	fake_capture(other, true);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(fake_launch(other, 0), 0);
	CHECK_EQ(sleeps, 0);
	CHECK_SHAPE(other, "gc");
	launch(3);
	CHECK_SHAPE(stream, "gcgcgcmgcmgcmgc");
	fake_capture(other, false);
	CHECK_EQ(fake_launch(other, 0), 0); /* the graph */
	CHECK_SHAPE(other, "gcmgc");
}

/* Streams of contexts that are not current, and two contexts of one device. */
static void gated_contexts(void)
{
	CUcontext second;
	CUstream there;

	begin_gated(true);
	fake.frozen = true;
	second = fake_context(0);
	fake_set_current(second);
	there = fake_stream();
	for (int i = 0; i < 3; i++)
		CHECK_EQ(fake_launch(there, 0), 0);
	CHECK_EQ(fake_launch(0, 0), 0);
	fake_set_current(context);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(fake_launch(there, 0), 0);
	CHECK_EQ(fake_launch(0, 0), 0);
	launch(1);
	CHECK_SHAPE(there, "gcgcgcgcgcgc");
	CHECK_SHAPE((CUstream)1, "gc");
	CHECK_SHAPE(stream, "gc");
}

static void while_destroying(void)
{
	CHECK_EQ(client_line(0)->ready, 1); /* who is idle may never get a turn, and the driver waits for one */
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 1);
	step = 7;
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
}

static void gated_context_goes(void)
{
	begin_gated(false);
	launch(5);
	fake_destroying = while_destroying;
	fake_context_destroy(context);
	CHECK_EQ(step, 7);
	CHECK_EQ(client_line(0)->ready, 0);
}

/* A stream destroyed at a closed gate, whose end nobody can be asked for: it is outstanding until the gate opens. */
static void gated_stream_goes(void)
{
	CUstream gone;

	begin_gated(true);
	fake.no_write = fake.no_event = true;
	launch(1);
	CHECK_EQ(fake_complete(stream, 1), 1);
	xm_synced_stream(stream, 0);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	launch(3);
	gone = stream;
	fake_stream_destroy(gone);
	for (int i = 0; i < 50; i++) {
		clock_ns += 100000000;
		daemon_beat();
		xm_synced_event();
		CHECK_EQ(client_line(0)->ready, 1);
	}
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	clock_ns += 1100000000;
	xm_synced_event();
	CHECK_EQ(client_line(0)->ready, 0);
}

/* The board goes while the GPU waits at its gate, and the daemon stores one more closed word. */
static void gated_detach(void)
{
	struct xm_watch words[XM_GUARD_WATCHES];
	const _Atomic uint32_t *late;

	begin_gated(false);
	launch(12);
	late = atomic_load(&xm_state.devs[0].gate);
	CHECK_EQ(fake_complete(stream, 12), 0);
	daemon_stop();
	CHECK(atomic_load(late) & 1);
	CHECK_EQ(fake_complete(stream, 3), 3);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8); /* it had decided before */
	CHECK(fake_complete(stream, 3) <= 1);
	CHECK_EQ(xm_guard_round(words, XM_GUARD_WATCHES), 1);
	CHECK(words[0].word == late && atomic_load(late) == words[0].seen);
	CHECK_EQ(fake_complete(stream, 3), 3);
	CHECK_EQ(fake_outstanding(stream), 5);
	launch(20); /* without a board: no waits */
	CHECK_EQ(fake_waits, 12);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	CHECK_EQ(fake_complete(stream, 30), 1);
	/* The next board does not free the old one. */
	daemon_level(2);
	daemon_start();
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	CHECK_EQ(xm_guard_round(words, XM_GUARD_WATCHES), 1);
	CHECK_EQ(fake_complete(stream, 40), 24);
	launch(1);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	CHECK_EQ(xm_guard_round(words, XM_GUARD_WATCHES), 0);
	CHECK(!xm_guard_busy());
	CHECK_EQ(atomic_load(late), 1); /* not the shared page any more, and open for good */
}

/* Who gets a board that nobody waits at needs no guard. */
static void gated_detach_drained(void)
{
	const _Atomic uint32_t *late;

	begin_gated(true);
	launch(3);
	fake_complete_all();
	xm_synced_stream(stream, 0);
	late = atomic_load(&xm_state.devs[0].gate);
	daemon_stop();
	CHECK(!xm_guard_busy());
	CHECK_EQ(atomic_load(late), 1);
}

/* A process that leaves is held by nobody. */
static void gated_leaving(void)
{
	uint64_t t;

	begin_gated(false);
	launch(16);
	atomic_store(&xm_state.leaving, true);
	xm_dev_expire(&xm_state.devs[0]);
	CHECK_EQ(client_line(0)->opened_by_lease, 0);
	CHECK_EQ(fake_complete(stream, 16), 16);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	t = clock_ns;
	launch(40); /* handlers of the program that run later */
	CHECK_EQ(clock_ns, t);
	CHECK_EQ(fake_waits, 16);
}

static int memfd(size_t n, bool seal)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)n) == 0);
	if (seal)
		CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

static void wrong_boards(void)
{
	int pipes[2];

	begin();
	CHECK_EQ(xm_board_attach(memfd(XM_BOARD_SIZE, true), eventfd(0, 0)), -EPROTO);      /* zeros */
	CHECK_EQ(xm_board_attach(memfd(XM_BOARD_SIZE, false), eventfd(0, 0)), -EPROTO);     /* not sealed */
	CHECK_EQ(xm_board_attach(memfd(XM_BOARD_SIZE - 4096, true), eventfd(0, 0)), -EPROTO);
	CHECK(pipe(pipes) == 0);
	CHECK_EQ(xm_board_attach(memfd(XM_BOARD_SIZE, true), pipes[1]), -EPROTO); /* writing there could kill the program */
	CHECK_EQ(fcntl(pipes[1], F_GETFD), -1); /* the descriptors are taken also then */
	CHECK_EQ(xm_board_attach(-1, eventfd(0, 0)), -EBADF);
	daemon_start();
	CHECK_EQ(xm_board_attach(dup(fake_daemon.board_fd), dup(fake_daemon.event_fd)), -EBUSY);
	daemon_stop();
	daemon_stop();
	launch(10);
}

static const struct test {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"no_daemon", no_daemon},
	{"free_run", free_run},
	{"bounded", bounded},
	{"odd_numbers", odd_numbers},
	{"task_limit", task_limit},
	{"pass_after_50ms", pass_after_50ms},
	{"gate", gate},
	{"gate_lease", gate_lease},
	{"gate_lease_looks", gate_lease_looks},
	{"gate_lease_left", gate_lease_left},
	{"edges", edges},
	{"edges_watched", edges_watched},
	{"edges_two_streams", edges_two_streams},
	{"default_streams", default_streams},
	{"devices", devices},
	{"many_queues", many_queues},
	{"many_queues_free", many_queues_free},
	{"many_queues_slow", many_queues_slow},
	{"slot_reuse", slot_reuse},
	{"handle_reused", handle_reused},
	{"detach_and_return", detach_and_return},
	{"many_boards", many_boards},
	{"captures", captures},
	{"capture_ends", capture_ends},
	{"events_instead", events_instead},
	{"unregistered", unregistered},
	{"unmarkable", unmarkable},
	{"contexts", contexts},
	{"forked_child", forked_child},
	{"newcomer", newcomer},
	{"handler_in_wait", handler_in_wait},
	{"handler_in_driver_1", handler_in_driver_1},
	{"handler_in_driver_2", handler_in_driver_2},
	{"wrap", wrap},
	{"garbage_completion", garbage_completion},
	{"wrong_boards", wrong_boards},
	{"gated", gated},
	{"gated_closed", gated_closed},
	{"gated_pass", gated_pass},
	{"gated_lease", gated_lease},
	{"gated_refused", gated_refused},
	{"gated_refused_closed", gated_refused_closed},
	{"level_max", level_max},
	{"level_of_a_late_context", level_of_a_late_context},
	{"level_of_two_contexts", level_of_two_contexts},
	{"gated_errors", gated_errors},
	{"gated_captures", gated_captures},
	{"gated_contexts", gated_contexts},
	{"gated_context_goes", gated_context_goes},
	{"gated_stream_goes", gated_stream_goes},
	{"gated_detach", gated_detach},
	{"gated_detach_drained", gated_detach_drained},
	{"gated_leaving", gated_leaving},
};

int main(int argc, char **argv)
{
	fake_alone = true;
	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++) {
		if (argc < 2) {
			puts(tests[i].name);
		} else if (!strcmp(argv[1], tests[i].name)) {
			tests[i].run();
			CHECK_EQ(fake_violations, 0);
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
