/*
 * Admission with real threads, the real clock and a GPU that completes commands
 * by itself. The fake driver checks every command (fake.h). Every test is a
 * process of its own: stress NAME [THREADS].
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../sys.h"
#include "../../thread.h"
#include "fake.h"

#define MAX_THREADS 8

static CUcontext context;
static CUstream shared;
static int threads = 4;
static _Atomic bool stop;

static _Atomic bool heart_on;
static pthread_t heart;

static void *beat(void *unused)
{
	while (atomic_load(&heart_on)) {
		daemon_beat();
		usleep(50000);
	}
	return unused;
}

static void heart_start(void)
{
	atomic_store(&heart_on, true);
	CHECK(pthread_create(&heart, NULL, beat, NULL) == 0);
}

static void heart_stop(void)
{
	atomic_store(&heart_on, false);
	CHECK(pthread_join(heart, NULL) == 0);
}

static void begin(void)
{
	fake_driver_init();
	context = fake_context(0);
	fake_set_current(context);
	shared = fake_stream();
	daemon_start();
	daemon_grant(0, true, XM_MODE_FREE, 16, 8);
	fake_gpu_start();
	heart_start();
}

static uint64_t ms(void)
{
	return xm_now() / 1000000;
}

/* Waits up to a limit that no machine is slow enough for. */
static void until(bool (*is)(void), const char *what)
{
	uint64_t end = ms() + 10000;

	while (!is()) {
		if (ms() > end)
			fail(__FILE__, __LINE__, what);
		usleep(200);
	}
}

static bool is_idle(void)
{
	return __atomic_load_n(&client_line(0)->ready, __ATOMIC_ACQUIRE) == 0;
}

static bool is_ready(void)
{
	return __atomic_load_n(&client_line(0)->ready, __ATOMIC_ACQUIRE) == 1;
}

static bool is_opened(void)
{
	return __atomic_load_n(&client_line(0)->opened_by_lease, __ATOMIC_ACQUIRE) == 1;
}

static void run_threads(void *(*body)(void *), pthread_t *t)
{
	for (long i = 0; i < threads; i++)
		CHECK(pthread_create(&t[i], NULL, body, (void *)i) == 0);
}

static void join_threads(pthread_t *t)
{
	for (int i = 0; i < threads; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
}

static _Atomic uint64_t refused;

/* Anything a program does, in random order, on shared and own streams. */
static void *work(void *number)
{
	unsigned seed = (unsigned)(uintptr_t)number + 17;
	CUstream own, s;

	fake_set_current(context);
	own = fake_stream();
	while (!atomic_load(&stop)) {
		unsigned flags = 0;

		switch (rand_r(&seed) % 4) {
		case 0: s = own; break;
		case 1: s = shared; break;
		case 2: s = 0; break;
		default: s = 0; flags = XM_PTDS; break;
		}
		switch (rand_r(&seed) % 20) {
		case 0: fake_sync_stream(s, flags); break;
		case 1: fake_sync_context(); break;
		case 2: xm_synced_event(); break;
		case 3:
			if ((uintptr_t)s > 2)
				fake_query(s);
			break;
		case 4: usleep(rand_r(&seed) % 300); break;
		case 5:
			fake_stream_destroy(own);
			own = fake_stream();
			break;
		case 6: fake_set_current(context); break;
		case 7:
			xm_admit(s, flags);
			xm_done(1);
			atomic_fetch_add(&refused, 1);
			break;
		default:
			for (int n = 1 + rand_r(&seed) % 12; n; n--)
				CHECK_EQ(fake_launch(s, flags), 0);
		}
	}
	fake_sync_context();
	return NULL;
}

/* The daemon: modes, numbers and gates at random. */
static void govern(uint64_t for_ms)
{
	uint64_t end = ms() + for_ms;
	unsigned seed = 5;

	while (ms() < end) {
		daemon_level(1 + rand_r(&seed) % 2);
		daemon_grant(0, rand_r(&seed) % 4 != 0, rand_r(&seed) % 3, 1 + rand_r(&seed) % 32, 1 + rand_r(&seed) % 16);
		usleep(rand_r(&seed) % 2000);
	}
	daemon_grant(0, true, XM_MODE_TOP, 16, 8);
}

static void edges(void)
{
	pthread_t t[MAX_THREADS];
	uint32_t edge;

	begin();
	run_threads(work, t);
	govern(1500);
	atomic_store(&stop, true);
	join_threads(t);
	until(is_idle, "never idle");
	edge = client_line(0)->edge;
	CHECK(edge > 10);
	CHECK_EQ(client_line(0)->waiting, 0);
	CHECK_EQ(fake_outstanding_all(), 0);
	CHECK(client_line(0)->launches >= fake_commands);
	CHECK(client_line(0)->launches <= fake_commands + refused); /* those that left their wait */
	fake_gpu_stop();
}

/* One stream, several threads: never more outstanding than the bound, but for
 * what each passed it by while the GPU told of nothing. */
static void *hammer(void *unused)
{
	unsigned out;

	fake_set_current(context);
	while (!atomic_load(&stop)) {
		CHECK_EQ(fake_launch(shared, 0), 0);
		out = fake_outstanding(shared);
		CHECK(out <= 16u + (unsigned)threads * fake_passes());
	}
	return unused;
}

static void bound(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t end;

	begin();
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	run_threads(hammer, t);
	for (end = ms() + 700; ms() < end;)
		usleep(10000);
	atomic_store(&stop, true);
	join_threads(t);
	CHECK(fake_commands > 1000);
	CHECK(fake_writes > fake_commands / 32);
	fake_gpu_stop();
}

/* Marks of one queue arrive in order: what the GPU writes only grows. */
static void *watch_marks(void *unused)
{
	struct xm_slot *s;
	uint32_t last = 0, now;

	while (!(s = slot_of(shared)))
		usleep(100);
	while (!atomic_load(&stop)) {
		now = __atomic_load_n(&s->completed, __ATOMIC_ACQUIRE);
		CHECK((int32_t)(now - last) >= 0);
		CHECK((int32_t)((uint32_t)__atomic_load_n(&s->marked, __ATOMIC_ACQUIRE) - now) >= 0);
		last = now;
	}
	return unused;
}

static void *launch_only(void *unused)
{
	fake_set_current(context);
	while (!atomic_load(&stop))
		CHECK_EQ(fake_launch(shared, 0), 0);
	return unused;
}

static void marks(void)
{
	pthread_t t[MAX_THREADS], w;

	begin();
	run_threads(launch_only, t);
	CHECK(pthread_create(&w, NULL, watch_marks, NULL) == 0);
	govern(1000);
	atomic_store(&stop, true);
	join_threads(t);
	CHECK(pthread_join(w, NULL) == 0);
	CHECK(slot_of(shared)->marked > 1000);
	fake_gpu_stop();
}

/* A closed gate stops every thread, and one store lets all go on. */
static void gate(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t before, end;

	begin();
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	run_threads(launch_only, t);
	for (int round = 0; round < 20; round++) {
		uint32_t closed = daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);

		/* First the acknowledgement: from there on whoever waits, even if only at the bound so far, goes on to the gate. */
		for (end = ms() + 5000; __atomic_load_n(&client_line(0)->acked, __ATOMIC_ACQUIRE) != closed; usleep(100))
			CHECK(ms() < end);
		for (end = ms() + 5000; __atomic_load_n(&client_line(0)->waiting, __ATOMIC_ACQUIRE) < (uint32_t)threads; usleep(100))
			CHECK(ms() < end);
		before = fake_commands;
		usleep(2000);
		CHECK_EQ(fake_commands, before);
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
		for (end = ms() + 5000; fake_commands == before; usleep(100))
			CHECK(ms() < end);
	}
	atomic_store(&stop, true);
	join_threads(t);
	fake_gpu_stop();
}

/* The daemon dies with the gate closed. */
static void gate_lease(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t start, before;

	begin();
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	heart_stop();
	start = ms();
	daemon_beat(); /* the last one, and nobody knows of it before */
	before = fake_commands;
	run_threads(launch_only, t);
	while (fake_commands == before) {
		CHECK(ms() - start < 10000);
		usleep(1000);
	}
	CHECK(ms() - start >= 800);
	until(is_opened, "not opened by the lease"); /* the number follows the gate */
	atomic_store(&stop, true);
	join_threads(t);
	fake_gpu_stop();
}

static void all_wait(void)
{
	for (uint64_t end = ms() + 5000; __atomic_load_n(&client_line(0)->waiting, __ATOMIC_ACQUIRE) < (uint32_t)threads; usleep(100))
		CHECK(ms() < end);
}

static void goes_on(uint64_t from)
{
	for (uint64_t end = ms() + 5000; fake_completed < from + 100; usleep(100))
		CHECK(ms() < end);
}

static void *launch_own(void *unused)
{
	CUstream own;

	fake_set_current(context);
	own = fake_stream();
	for (unsigned n = 0; !atomic_load(&stop); n++)
		CHECK_EQ(n % 3 ? fake_launch(own, 0) : fake_launch(0, XM_PTDS), 0);
	return unused;
}

/* Level 2: a closed gate stops the GPU while the program's threads go on to
 * their bound, and one store lets all go on. What was past its wait completes:
 * one command of a stream at most, and every thread has two. How much is queued
 * behind the gate is no promise of a single round: who waits at the bound from
 * before may find it drained; over all rounds it must be seen. */
static void gated(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t before;
	unsigned queued = 0;

	begin();
	daemon_level(2);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	fake_set_current(context); /* brings the gate within the GPU's reach: no command goes without its wait */
	run_threads(launch_own, t);
	for (int round = 0; round < 20; round++) {
		daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
		before = fake_completed;
		all_wait();
		fake_gpu_rounds(50);
		CHECK(fake_completed - before <= 2u * (unsigned)threads);
		before = fake_completed;
		fake_gpu_rounds(50);
		CHECK_EQ(fake_completed, before);
		if (fake_outstanding_all() > queued)
			queued = fake_outstanding_all();
		CHECK(is_ready());
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
		goes_on(before);
	}
	CHECK(queued >= 8u * (unsigned)threads);
	CHECK_EQ(client_line(0)->level_max, 2);
	atomic_store(&stop, true);
	join_threads(t);
	fake_set_current(context);
	until(is_idle, "never idle");
	CHECK_EQ(client_line(0)->launches, fake_commands);
	fake_gpu_stop();
}

/* The daemon dies with the gate closed: the GPU goes on within the lease. */
static void gated_lease(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t before, start;

	begin();
	daemon_level(2);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	run_threads(launch_own, t);
	usleep(10000);
	daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
	all_wait();
	heart_stop();
	start = ms();
	daemon_beat();
	before = fake_completed;
	goes_on(before);
	CHECK(ms() - start >= 800);
	until(is_opened, "not opened by the lease"); /* the number follows the gate */
	atomic_store(&stop, true);
	join_threads(t);
	fake_gpu_stop();
}

/* The session ends with the gate closed; a daemon that was stopped in the middle
 * of a decision closes it once more. Nothing waits for ever, then and after. */
static void gated_detach(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t before;

	begin();
	daemon_level(2);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	run_threads(launch_own, t);
	for (int round = 0; round < 10; round++) {
		daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
		all_wait();
		before = fake_completed;
		heart_stop();
		daemon_stop();
		daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
		goes_on(before);
		daemon_start();
		heart_start();
		daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
		goes_on(fake_completed);
	}
	atomic_store(&stop, true);
	join_threads(t);
	fake_gpu_stop();
}

/* The session ends while threads wait, and another begins. */
static void detach(void)
{
	pthread_t t[MAX_THREADS];
	uint64_t before, end;

	begin();
	run_threads(launch_only, t);
	for (int round = 0; round < 10; round++) {
		daemon_grant(0, false, XM_MODE_BOUNDED, 16, 8);
		for (end = ms() + 5000; __atomic_load_n(&client_line(0)->waiting, __ATOMIC_ACQUIRE) < (uint32_t)threads; usleep(100))
			CHECK(ms() < end);
		before = fake_commands;
		heart_stop();
		daemon_stop();
		for (end = ms() + 5000; fake_commands < before + 100; usleep(100))
			CHECK(ms() < end);
		daemon_start();
		heart_start();
		for (end = ms() + 5000; !client_line(0)->present || !client_line(0)->ready; usleep(100))
			CHECK(ms() < end);
	}
	atomic_store(&stop, true);
	join_threads(t);
	fake_gpu_stop();
}

/* The tail of a queue that nobody synchronises: its end is found. */
static void tail(void)
{
	uint32_t edge;

	begin();
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	for (int round = 0; round < 5; round++) {
		edge = client_line(0)->edge;
		atomic_store(&fake.frozen, true);
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(fake_launch(shared, 0), 0);
			CHECK_EQ(fake_launch(0, 0), 0);
			CHECK_EQ(fake_launch(0, XM_PTDS), 0);
		}
		CHECK(is_ready());
		usleep(20000);
		CHECK(is_ready());
		CHECK_EQ(client_line(0)->edge, edge + 1);
		atomic_store(&fake.frozen, false);
		until(is_idle, "the end was not found");
		for (int i = 0; i < 1000 && __atomic_load_n(&client_line(0)->edge, __ATOMIC_ACQUIRE) != edge + 2; i++)
			usleep(100); /* the number is stored after the state */
		CHECK_EQ(client_line(0)->edge, edge + 2);
	}
	/* A competitor that comes while the tail is outstanding. */
	daemon_grant(0, true, XM_MODE_FREE, 16, 8);
	CHECK_EQ(fake_launch(shared, 0), 0);
	usleep(20000);
	CHECK(is_ready());
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	until(is_idle, "a competitor's arrival was not noticed");
	fake_gpu_stop();
}

static CUstream own_of[MAX_THREADS], streams_of_handlers[4];
static _Thread_local CUstream own;
static _Atomic uint64_t handled;

static void on_signal(int sig)
{
	int was = errno;

	(void)sig;
	atomic_fetch_add(&handled, 1);
	if (atomic_load(&handled) % 16 == 0)
		xm_synced_event();
	errno = was;
}

static void on_signal_launch(int sig)
{
	int was = errno;

	(void)sig;
	atomic_fetch_add(&handled, 1);
	errno = 7;
	xm_admit(handled % 4 && own ? streams_of_handlers[handled % 4] : own, 0); /* the fake driver has a lock, so the command itself stays out of it */
	xm_done(handled % 2);
	CHECK_EQ(errno, 7);
	errno = was;
}

/* The storm's signals. They are blocked but where handlers may launch. */
static sigset_t storm_signals(void)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGALRM);
	sigaddset(&s, SIGUSR1);
	sigaddset(&s, SIGPROF);
	return s;
}

static void storm_reaches_me(bool yes)
{
	sigset_t s = storm_signals();

	CHECK(pthread_sigmask(yes ? SIG_UNBLOCK : SIG_BLOCK, &s, NULL) == 0);
}

/* Whatever handlers did in between, no lease of this thread has a command on its way,
 * or more left than it was given. */
static void leases_are_sound(void)
{
	struct xm_thread *me = xm_thread_known();

	CHECK(me != NULL);
	pthread_mutex_lock(&xm_lock);
	for (unsigned i = 0; i < XM_LEASES; i++) {
		CHECK(!xm_lease_in_driver(&me->leases[i]));
		CHECK(!me->leases[i].queue || xm_lease_left(&me->leases[i]) <= me->leases[i].start);
	}
	pthread_mutex_unlock(&xm_lock);
	CHECK_EQ(xm_inside, 0);
}

static void *launch_in_storm(void *number)
{
	long i = (long)number;

	fake_set_current(context);
	own = own_of[i] = fake_stream();
	storm_reaches_me(true);
	while (!atomic_load(&stop)) {
		errno = EXDEV;
		xm_admit(own_of[i], 0);
		CHECK_EQ(errno, EXDEV);
		for (volatile int n = rand() % 2000; n; n--) /* in the driver */
			;
		xm_done(0);
		if (rand() % 64 == 0)
			xm_synced_stream(own_of[i], 0);
	}
	storm_reaches_me(false);
	leases_are_sound();
	return NULL;
}

/* A thread whose first command is a handler's, and that has no context. */
static void *sleep_in_storm(void *unused)
{
	storm_reaches_me(true);
	while (!atomic_load(&stop))
		usleep(1000);
	storm_reaches_me(false);
	return unused;
}

/*
 * Case 20: signals of the program in the middle of waits. Its threads take them
 * only where nothing but admission can be interrupted: a handler that launches
 * while its thread holds a lock of the driver or of malloc hangs without us too,
 * and the fake driver allocates. The daemon (this thread and the heart) takes
 * none: a handler that waited for the gate here would wait for itself.
 */
static void storm(void (*handler)(int))
{
	struct sigaction a = {.sa_handler = handler};
	struct itimerval tick = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
	pthread_t t[MAX_THREADS], sleeper;
	uint64_t end;
	unsigned seed = 3;

	storm_reaches_me(false); /* nor any thread that is made from here on */
	begin();
	streams_of_handlers[1] = shared;
	streams_of_handlers[2] = fake_stream();
	streams_of_handlers[3] = NULL;
	CHECK(sigaction(SIGALRM, &a, NULL) == 0 && sigaction(SIGUSR1, &a, NULL) == 0 && sigaction(SIGPROF, &a, NULL) == 0);
	run_threads(launch_in_storm, t);
	CHECK(pthread_create(&sleeper, NULL, sleep_in_storm, NULL) == 0);
	setitimer(ITIMER_PROF, &tick, NULL);
	for (end = ms() + 1500; ms() < end || handled <= 100;) { /* a busy machine delivers few a second */
		CHECK(ms() < end + 60000);
		daemon_level(1 + rand_r(&seed) % 2);
		daemon_grant(0, rand_r(&seed) % 2, XM_MODE_BOUNDED, 16, 8);
		for (int i = 0; i < threads; i++)
			pthread_kill(t[i], rand_r(&seed) % 2 ? SIGALRM : SIGUSR1);
		pthread_kill(sleeper, SIGUSR1);
		usleep(200);
	}
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	atomic_store(&stop, true);
	join_threads(t);
	CHECK(pthread_join(sleeper, NULL) == 0);
	memset(&tick, 0, sizeof tick);
	setitimer(ITIMER_PROF, &tick, NULL);
	fake_gpu_stop();
}

static void signals(void)
{
	storm(on_signal);
}

static void signals_launch(void)
{
	storm(on_signal_launch);
}

static bool child_ok(void)
{
	int status;
	pid_t p = fork();

	CHECK(p >= 0);
	if (p == 0) {
		xm_forked_child();
		alarm(10);
		for (int i = 0; i < 1000; i++) {
			xm_admit(shared, 0);
			xm_done(0);
			xm_synced_context();
		}
		xm_context_made(0);
		_exit(0);
	}
	CHECK(waitpid(p, &status, 0) == p);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Forks while other threads are anywhere inside admission. */
static void forks(void)
{
	pthread_t t[MAX_THREADS];

	begin();
	run_threads(launch_only, t);
	daemon_grant(0, true, XM_MODE_BOUNDED, 16, 8);
	for (int i = 0; i < 100; i++)
		CHECK(child_ok());
	atomic_store(&stop, true);
	join_threads(t);
	fake_gpu_stop();
}

static void *short_life(void *unused)
{
	fake_set_current(context);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(fake_launch(shared, 0), 0);
		CHECK_EQ(fake_launch(0, XM_PTDS), 0);
	}
	fake_sync_stream(0, XM_PTDS);
	return unused;
}

/* Threads come and go, with per-thread streams. */
static void thread_ends(void)
{
	pthread_t t[MAX_THREADS];

	begin();
	daemon_grant(0, true, XM_MODE_TOP, 16, 8);
	for (int i = 0; i < 200; i++) {
		run_threads(short_life, t);
		join_threads(t);
	}
	fake_sync_context();
	until(is_idle, "never idle");
	CHECK_EQ(client_line(0)->launches, 200ull * (unsigned)threads * 6);
	CHECK(fake_daemon.board->client.queues_over == 0);
	fake_gpu_stop();
}

static void *capture_and_end(void *unused)
{
	CUstream s;

	fake_set_current(context);
	s = fake_stream();
	while (!atomic_load(&stop)) {
		fake_sync_stream(s, 0);
		fake_capture(s, true);
		for (int i = 0; i < 20; i++)
			CHECK_EQ(fake_launch(s, 0), 0);
		fake_capture(s, false);
		CHECK_EQ(fake_launch(s, 0), 0);
	}
	fake_sync_stream(s, 0);
	return unused;
}

/* One thread captures, again and again, while others run, tails are looked for and gates move. */
static void captures(void)
{
	pthread_t t[MAX_THREADS], c;

	begin();
	run_threads(work, t);
	CHECK(pthread_create(&c, NULL, capture_and_end, NULL) == 0);
	govern(1500);
	atomic_store(&stop, true);
	CHECK(pthread_join(c, NULL) == 0);
	join_threads(t);
	until(is_idle, "never idle");
	fake_gpu_stop();
}

static const struct test {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"edges", edges},
	{"bound", bound},
	{"marks", marks},
	{"gate", gate},
	{"gate_lease", gate_lease},
	{"gated", gated},
	{"gated_lease", gated_lease},
	{"gated_detach", gated_detach},
	{"detach", detach},
	{"tail", tail},
	{"signals", signals},
	{"signals_launch", signals_launch},
	{"forks", forks},
	{"thread_ends", thread_ends},
	{"captures", captures},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		threads = atoi(argv[2]);
	CHECK(threads >= 1 && threads <= MAX_THREADS);
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
