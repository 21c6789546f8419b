#define _GNU_SOURCE
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../agent_start.h"
#include "../../boardmap.h"
#include "../../sys.h"

#define BASE_OFFSET 0x100000000000ull /* device addresses are not host addresses */

enum kind { COMMAND, WRITE, EVENT, WAIT };

struct op {
	enum kind kind;
	uint32_t *at;
	uint32_t value;
	struct CUevent_st *event;
	const struct xm_client_line *line; /* of its device when the command entered, and the edge then */
	uint32_t edge;
};

struct CUctx_st {
	int device;
	bool dead;
	struct CUstream_st *legacy;
	void *registered[64];
	int registrations;
};

struct CUstream_st {
	struct CUctx_st *context;
	struct CUstream_st *next;
	bool dead, capturing;
	struct op *ops;
	uint32_t head, count, size, commands;
};

struct CUevent_st {
	_Atomic bool recorded;
};

struct fake_faults fake;
_Atomic uint32_t fake_violations;
_Atomic uint64_t fake_commands, fake_completed, fake_writes, fake_waits, fake_queries, fake_records, fake_registrations;

static pthread_mutex_t gpu = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams;
static _Thread_local struct CUctx_st *stack[8];
static _Thread_local int depth;
static _Thread_local struct per_thread {
	struct CUctx_st *context;
	struct CUstream_st *stream;
} mine[8];
static uint64_t told_at;  /* when a mark last told of completions */
static unsigned stalls;   /* how often there was none for XM_PASS_NS before */
static _Thread_local int mode_now; /* capture mode of the thread: 0 global */
static _Atomic int captures;
void (*fake_destroying)(void);
void (*fake_entering)(void);

_Noreturn void fail(const char *file, int line, const char *what)
{
	const char *slash = strrchr(file, '/');

	fprintf(stderr, "%s:%d: %s\n", slash ? slash + 1 : file, line, what);
	fflush(stderr);
	_exit(1);
}

void check_eq(const char *file, int line, const char *what, long long got, long long want)
{
	char text[256];

	if (got == want)
		return;
	snprintf(text, sizeof text, "%s is %lld, want %lld", what, got, want);
	fail(file, line, text);
}

static void violate(const char *what)
{
	fprintf(stderr, "violation: %s\n", what);
	atomic_fetch_add(&fake_violations, 1);
}

/* ---- the GPU: all under `gpu` ---- */

static _Atomic bool attached;

/* The client's line of the stream's device, once it is claimed. */
static struct xm_client_line *line_of(const struct CUstream_st *s)
{
	if (!atomic_load(&attached))
		return NULL;
	for (uint32_t i = 0; i < XM_BOARD_DEVICES; i++) {
		struct xm_device *d = &fake_daemon.board->devices[i];

		if (__atomic_load_n(&d->client.present, __ATOMIC_ACQUIRE) && d->identity.uuid[0] == s->context->device + 1)
			return &d->client;
	}
	return NULL;
}

static void push(struct CUstream_st *s, struct op o)
{
	if (s->count == s->size) {
		struct op *more = calloc(s->size ? 2 * s->size : 8, sizeof *more);

		for (uint32_t i = 0; i < s->count; i++)
			more[i] = s->ops[(s->head + i) % s->size];
		free(s->ops);
		s->ops = more;
		s->head = 0;
		s->size = s->size ? 2 * s->size : 8;
	}
	s->ops[(s->head + s->count++) % s->size] = o;
	s->commands += o.kind == COMMAND;
}

/* Seen from without the time between two marks lies between these clocks. */
static void tell(const struct op *o)
{
	uint64_t before = xm_now();

	__atomic_store_n(o->at, o->value, __ATOMIC_RELEASE);
	stalls += (unsigned)((xm_now() - told_at) / XM_PASS_NS);
	told_at = before;
}

static void finish(struct CUstream_st *s)
{
	struct op done = s->ops[s->head], *o = &done;

	s->head = (s->head + 1) % s->size;
	s->count--;
	switch (o->kind) {
	case COMMAND:
		s->commands--;
		atomic_fetch_add(&fake_completed, 1);
		if (o->line && o->line == line_of(s) && !s->dead && __atomic_load_n(&o->line->edge, __ATOMIC_ACQUIRE) != o->edge)
			violate("an idle edge while a command was outstanding");
		break;
	case WRITE:
		tell(o);
		break;
	case WAIT:
		break;
	case EVENT:
		atomic_store(&o->event->recorded, true);
		break;
	}
}

/* Does the front of the stream wait at a closed gate? */
static bool held(const struct CUstream_st *s)
{
	const struct op *o = &s->ops[s->head];

	return o->kind == WAIT && !(__atomic_load_n(o->at, __ATOMIC_ACQUIRE) & 1);
}

/* Marks at the front need no command to complete, nor do waits at an open gate. */
static void settle(struct CUstream_st *s)
{
	while (s->count && s->ops[s->head].kind != COMMAND && !held(s) && !atomic_load(&fake.frozen))
		finish(s);
}

static struct CUstream_st *resolve(CUstream handle, bool per_thread_default)
{
	struct CUctx_st *c = depth ? stack[depth - 1] : NULL;

	if ((uintptr_t)handle > 2)
		return handle;
	if (!c)
		return NULL;
	if ((uintptr_t)handle == 2 || (!handle && per_thread_default)) {
		for (int i = 0; i < 8; i++) {
			if (mine[i].context == c)
				return mine[i].stream;
			if (!mine[i].context) {
				struct CUstream_st *s = calloc(1, sizeof *s);

				s->context = c;
				pthread_mutex_lock(&gpu);
				s->next = streams;
				streams = s;
				pthread_mutex_unlock(&gpu);
				mine[i].context = c;
				return mine[i].stream = s;
			}
		}
		return NULL;
	}
	return c->legacy;
}

bool fake_alone;

/* Who opens gates takes xm_lock, and the driver may not return before a gate opens. */
static void unlocked(void)
{
	if (!fake_alone)
		return;
	if (pthread_mutex_trylock(&xm_lock))
		violate("a driver call under the lock");
	else
		pthread_mutex_unlock(&xm_lock);
}

static struct CUstream_st *touch(CUstream handle, const char *who)
{
	struct CUstream_st *s = resolve(handle, false);

	unlocked();
	if (s && (s->dead || s->context->dead)) {
		fprintf(stderr, "%s: ", who);
		violate("a destroyed stream was touched");
	}
	if (s && s->capturing) {
		fprintf(stderr, "%s: ", who);
		violate("a capturing stream was touched");
	}
	return s;
}

/* ---- the driver's functions that admission calls ---- */

static CUresult get_current(CUcontext *c)
{
	unlocked();
	*c = depth ? stack[depth - 1] : NULL;
	return 0;
}

static CUresult get_device(CUdevice *d)
{
	if (!depth)
		return 201;
	*d = stack[depth - 1]->device;
	return 0;
}

static CUresult push_current(CUcontext c)
{
	unlocked();
	if (c->dead)
		violate("a destroyed context was made current");
	stack[depth++] = c;
	return 0;
}

static CUresult pop_current(CUcontext *c)
{
	*c = stack[--depth];
	return 0;
}

static CUresult uuid(CUuuid *u, CUdevice d)
{
	memset(u, 0, sizeof *u);
	((char *)u)[0] = (char)(d + 1);
	return 0;
}

static CUresult name(char *text, int n, CUdevice d)
{
	snprintf(text, (size_t)n, "Fake GPU %d", d);
	return 0;
}

static CUresult stream_context(CUstream s, CUcontext *c)
{
	unlocked();
	*c = ((struct CUstream_st *)s)->context;
	return 0;
}

static CUresult is_capturing(CUstream s, CUstreamCaptureStatus *status)
{
	struct CUstream_st *r = resolve(s, false);

	*status = r && r->capturing;
	return 0;
}

static void quiet(const char *who)
{
	unlocked();
	if (atomic_load(&captures) && mode_now != 2) {
		fprintf(stderr, "%s: ", who);
		violate("called while somebody captures, capture mode not relaxed");
	}
}

static CUresult query(CUstream handle)
{
	struct CUstream_st *s;
	bool busy;

	if (atomic_load(&fake.bad_stream))
		return 400;
	s = touch(handle, "query");

	quiet("query");
	if (!depth)
		return 201;
	atomic_fetch_add(&fake_queries, 1);
	pthread_mutex_lock(&gpu);
	busy = s->count != 0;
	if (s == s->context->legacy) /* waits for all blocking streams, per-thread ones among them */
		for (struct CUstream_st *t = streams; t; t = t->next)
			busy |= t->context == s->context && t->count != 0;
	pthread_mutex_unlock(&gpu);
	return busy ? 600 : 0;
}

static uint32_t *host_of(struct CUctx_st *c, CUdeviceptr at)
{
	for (int i = 0; i < c->registrations; i++) {
		uintptr_t base = (uintptr_t)c->registered[i] + BASE_OFFSET;

		if (at >= base && at < base + XM_BOARD_SIZE)
			return (uint32_t *)((uintptr_t)at - BASE_OFFSET);
	}
	return NULL;
}

static CUresult write_value(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	struct CUstream_st *s = touch(handle, "write");
	uint32_t *p;

	if (atomic_load(&fake.no_write) || flags)
		return 801;
	pthread_mutex_lock(&gpu);
	p = host_of(s->context, at);
	if (p) {
		push(s, (struct op){.kind = WRITE, .at = p, .value = value});
		settle(s);
	} else {
		violate("a stream write to an address that is not registered in its context");
	}
	pthread_mutex_unlock(&gpu);
	atomic_fetch_add(&fake_writes, 1);
	return 0;
}

static CUresult wait_value(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	struct CUstream_st *s;
	uint32_t *p;

	if (atomic_load(&fake.bad_stream))
		return 400;
	s = touch(handle, "wait");
	if (value != 1 || flags != CU_STREAM_WAIT_VALUE_AND)
		violate("a wait that is none for bit 0");
	if (atomic_load(&fake.no_wait))
		return (CUresult)atomic_load(&fake.no_wait);
	if (s->context != stack[depth - 1])
		violate("a wait from another context's thread");
	pthread_mutex_lock(&gpu);
	p = host_of(s->context, at);
	if (p) {
		push(s, (struct op){.kind = WAIT, .at = p});
		settle(s);
	} else {
		violate("a wait at an address that is not registered in its context");
	}
	pthread_mutex_unlock(&gpu);
	atomic_fetch_add(&fake_waits, 1);
	return 0;
}

static CUresult host_register(void *at, size_t n, unsigned flags)
{
	struct CUctx_st *c = depth ? stack[depth - 1] : NULL;

	quiet("register");
	if (!c || n != XM_BOARD_SIZE || flags != 3)
		return 1;
	if (atomic_load(&fake.no_register))
		return 801;
	pthread_mutex_lock(&gpu);
	c->registered[c->registrations++] = at;
	pthread_mutex_unlock(&gpu);
	atomic_fetch_add(&fake_registrations, 1);
	return 0;
}

static CUresult host_pointer(CUdeviceptr *d, void *at, unsigned flags)
{
	(void)flags;
	*d = (uintptr_t)at + BASE_OFFSET;
	return 0;
}

static CUresult exchange_mode(CUstreamCaptureMode *m)
{
	int was = mode_now;

	mode_now = (int)*m;
	*m = (CUstreamCaptureMode)was;
	return 0;
}

static CUresult event_create(CUevent *e, unsigned flags)
{
	if (atomic_load(&fake.no_event) || flags != 2)
		return 801;
	*e = calloc(1, sizeof(struct CUevent_st));
	return 0;
}

static CUresult event_record(CUevent e, CUstream handle)
{
	struct CUstream_st *s = touch(handle, "record");

	if (atomic_load(&fake.no_event))
		return 801;
	atomic_store(&e->recorded, false);
	pthread_mutex_lock(&gpu);
	push(s, (struct op){.kind = EVENT, .event = e});
	settle(s);
	pthread_mutex_unlock(&gpu);
	atomic_fetch_add(&fake_records, 1);
	return 0;
}

static CUresult event_query(CUevent e)
{
	quiet("event query");
	return atomic_load(&e->recorded) ? 0 : 600;
}

static CUresult event_destroy(CUevent e)
{
	(void)e; /* it may still stand in a FIFO */
	return 0;
}

struct xm_real xm_real;
uint32_t xm_uncovered_total;

void xm_agent_watch_exit(void)
{
}

int xm_uncovered_names(char *buf, int n)
{
	(void)buf;
	(void)n;
	return 0;
}

void fake_driver_init(void)
{
	xm_real.cuCtxGetCurrent = get_current;
	xm_real.cuCtxGetDevice = get_device;
	xm_real.cuCtxPushCurrent_v2 = push_current;
	xm_real.cuCtxPopCurrent_v2 = pop_current;
	xm_real.cuDeviceGetUuid_v2 = uuid;
	xm_real.cuDeviceGetName = name;
	xm_real.cuStreamGetCtx = stream_context;
	xm_real.cuStreamIsCapturing = is_capturing;
	xm_real.cuStreamQuery = query;
	xm_real.cuStreamWriteValue32_v2 = write_value;
	xm_real.cuStreamWaitValue32_v2 = wait_value;
	xm_real.cuMemHostRegister_v2 = host_register;
	xm_real.cuMemHostGetDevicePointer_v2 = host_pointer;
	xm_real.cuThreadExchangeStreamCaptureMode = exchange_mode;
	xm_real.cuEventCreate = event_create;
	xm_real.cuEventRecord = event_record;
	xm_real.cuEventQuery = event_query;
	xm_real.cuEventDestroy_v2 = event_destroy;
}

/* ---- the program's side, through the doors ---- */

static struct CUstream_st *new_stream(struct CUctx_st *c)
{
	struct CUstream_st *s = calloc(1, sizeof *s);

	s->context = c;
	pthread_mutex_lock(&gpu);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&gpu);
	return s;
}

CUcontext fake_context(int device)
{
	struct CUctx_st *c = calloc(1, sizeof *c);

	c->device = device;
	c->legacy = new_stream(c);
	return c;
}

void fake_set_current(CUcontext c)
{
	if (!depth)
		depth = 1;
	stack[depth - 1] = c;
	if (!c)
		depth--;
	xm_context_changed();
	if (c)
		xm_context_made(c->device);
}

void fake_context_destroy(CUcontext c)
{
	xm_context_gone(c);
	if (fake_destroying)
		fake_destroying();
	pthread_mutex_lock(&gpu);
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (s->context == c)
			s->count = s->commands = 0;
	c->dead = true;
	pthread_mutex_unlock(&gpu);
	xm_context_ended();
}

CUstream fake_stream(void)
{
	CUstream s = new_stream(stack[depth - 1]);

	xm_stream_made(s, 0, 0);
	return s;
}

void fake_stream_destroy(CUstream s)
{
	xm_stream_gone(s, 0);
	pthread_mutex_lock(&gpu);
	s->dead = true;
	pthread_mutex_unlock(&gpu);
}

void fake_capture(CUstream s, bool on)
{
	if (on) {
		xm_capture_began(s);
		s->capturing = true;
		atomic_fetch_add(&captures, 1);
	} else {
		atomic_fetch_sub(&captures, 1);
		s->capturing = false;
		xm_capture_ended(s);
	}
}

CUresult fake_enqueue(CUstream handle, unsigned flags)
{
	struct CUstream_st *s = resolve(handle, flags & XM_PTDS);
	struct xm_client_line *line;
	struct op o = {.kind = COMMAND};
	void (*entering)(void) = fake_entering;

	if (entering) {
		fake_entering = NULL;
		entering();
	}
	if (atomic_load(&fake.bad_stream))
		return 400;
	if (atomic_exchange(&fake.refuse, false))
		return 1;
	if (s->capturing)
		return 0;
	pthread_mutex_lock(&gpu);
	line = line_of(s);
	o.line = line;
	if (line) {
		o.edge = __atomic_load_n(&line->edge, __ATOMIC_ACQUIRE);
		if (!__atomic_load_n(&line->ready, __ATOMIC_ACQUIRE))
			violate("a command entered the driver while the device is told idle");
	}
	push(s, o);
	pthread_mutex_unlock(&gpu);
	atomic_fetch_add(&fake_commands, 1);
	return 0;
}

CUresult fake_launch(CUstream s, unsigned flags)
{
	xm_admit(s, flags);
	return xm_done(fake_enqueue(s, flags));
}

static bool empty(struct CUstream_st *s)
{
	bool is;

	pthread_mutex_lock(&gpu);
	is = s->count == 0;
	pthread_mutex_unlock(&gpu);
	return is;
}

void fake_sync_stream(CUstream handle, unsigned flags)
{
	struct CUstream_st *s = resolve(handle, flags & XM_PTDS);

	while (!empty(s))
		usleep(10);
	xm_synced_stream(handle, flags);
}

void fake_sync_context(void)
{
	struct CUctx_st *c = stack[depth - 1];
	bool busy = true;

	while (busy) {
		busy = false;
		pthread_mutex_lock(&gpu);
		for (struct CUstream_st *s = streams; s; s = s->next)
			busy |= s->context == c && s->count;
		pthread_mutex_unlock(&gpu);
		if (busy)
			usleep(10);
	}
	xm_synced_context();
}

bool fake_query(CUstream s)
{
	if (!empty(s))
		return false;
	xm_query_ok(s, 0);
	return true;
}

unsigned fake_complete(CUstream handle, unsigned n)
{
	struct CUstream_st *s = resolve(handle, false);
	unsigned done = 0;

	pthread_mutex_lock(&gpu);
	settle(s);
	while (done < n && s->count && !held(s)) {
		finish(s);
		settle(s);
		done++;
	}
	pthread_mutex_unlock(&gpu);
	return done;
}

void fake_complete_all(void)
{
	pthread_mutex_lock(&gpu);
	for (struct CUstream_st *s = streams; s; s = s->next)
		while (s->count && !held(s))
			finish(s);
	pthread_mutex_unlock(&gpu);
}

const char *fake_shape(CUstream handle)
{
	static const char letters[] = {[COMMAND] = 'c', [WRITE] = 'm', [EVENT] = 'e', [WAIT] = 'g'};
	static _Thread_local char text[512];
	struct CUstream_st *s = resolve(handle, false);
	uint32_t n = 0;

	pthread_mutex_lock(&gpu);
	for (; n < s->count && n < sizeof text - 1; n++)
		text[n] = letters[s->ops[(s->head + n) % s->size].kind];
	pthread_mutex_unlock(&gpu);
	text[n] = 0;
	return text;
}

unsigned fake_outstanding(CUstream handle)
{
	struct CUstream_st *s = resolve(handle, false);
	unsigned n;

	pthread_mutex_lock(&gpu);
	n = s->commands;
	pthread_mutex_unlock(&gpu);
	return n;
}

unsigned fake_outstanding_all(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&gpu);
	for (struct CUstream_st *s = streams; s; s = s->next)
		n += s->commands;
	pthread_mutex_unlock(&gpu);
	return n;
}

static pthread_t gpu_thread;
static _Atomic bool gpu_on;
static _Atomic uint64_t gpu_rounds;

static void *gpu_run(void *unused)
{
	unsigned seed = 1;

	while (atomic_load(&gpu_on)) {
		pthread_mutex_lock(&gpu);
		for (struct CUstream_st *s = streams; s && !atomic_load(&fake.frozen); s = s->next)
			for (int n = rand_r(&seed) % 8; n && s->count && !held(s); n--)
				finish(s);
		pthread_mutex_unlock(&gpu);
		atomic_fetch_add(&gpu_rounds, 1);
		if (rand_r(&seed) % 4 == 0)
			usleep((useconds_t)(rand_r(&seed) % 50));
	}
	return unused;
}

void fake_gpu_start(void)
{
	sigset_t all, before;

	told_at = xm_now();
	atomic_store(&gpu_on, true);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* handlers of the program do not run on the GPU */
	if (pthread_create(&gpu_thread, NULL, gpu_run, NULL))
		fail(__FILE__, __LINE__, "no thread for the GPU");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void fake_gpu_stop(void)
{
	atomic_store(&gpu_on, false);
	pthread_join(gpu_thread, NULL);
}

void fake_gpu_rounds(unsigned n)
{
	uint64_t until = atomic_load(&gpu_rounds) + n + 1; /* the one under way may have been there already */

	while (atomic_load(&gpu_rounds) < until)
		usleep(100);
}

unsigned fake_passes(void)
{
	unsigned n;

	pthread_mutex_lock(&gpu);
	n = stalls + (unsigned)((xm_now() - told_at) / XM_PASS_NS);
	pthread_mutex_unlock(&gpu);
	return n;
}

/* ---- the daemon ---- */

struct fake_daemon fake_daemon = {.board_fd = -1, .event_fd = -1};

static struct xm_board *make_board(int *fd)
{
	struct xm_board *b;

	*fd = memfd_create("fake-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(*fd >= 0 && ftruncate(*fd, XM_BOARD_SIZE) == 0);
	CHECK(fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	b = mmap(NULL, XM_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	CHECK(b != MAP_FAILED);
	b->daemon = (struct xm_daemon_header){.magic = XM_BOARD_MAGIC,
					      .version = XM_BOARD_VERSION,
					      .size = XM_BOARD_SIZE,
					      .slots = XM_BOARD_SLOTS,
					      .devices = XM_BOARD_DEVICES};
	return b;
}

void daemon_start(void)
{
	struct fake_daemon d;
	struct fake_daemon before = fake_daemon;

	d.board = make_board(&d.board_fd);
	d.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(d.event_fd >= 0);
	pthread_mutex_lock(&gpu);
	fake_daemon = d;
	pthread_mutex_unlock(&gpu);
	if (before.board) {
		munmap(before.board, XM_BOARD_SIZE);
		close(before.board_fd);
		close(before.event_fd);
	}
	CHECK_EQ(xm_board_attach(dup(d.board_fd), dup(d.event_fd)), 0);
	atomic_store(&attached, true);
}

void daemon_stop(void)
{
	atomic_store(&attached, false);
	xm_board_detach();
}

static _Atomic uint32_t level = 1;

void daemon_level(uint32_t l)
{
	atomic_store(&level, l);
}

uint32_t daemon_grant(int i, bool open, uint32_t mode, uint32_t threshold, uint32_t batch)
{
	struct xm_daemon_line *d = &fake_daemon.board->devices[i].daemon;
	uint32_t epoch = ((__atomic_load_n(&d->gate, __ATOMIC_RELAXED) >> 1) + 2) & ~1u;

	__atomic_store_n(&d->mode, mode, __ATOMIC_RELAXED);
	__atomic_store_n(&d->threshold, threshold, __ATOMIC_RELAXED);
	__atomic_store_n(&d->batch, batch, __ATOMIC_RELAXED);
	__atomic_store_n(&d->level, atomic_load(&level), __ATOMIC_RELAXED);
	__atomic_store_n(&d->gate, epoch << 1 | open, __ATOMIC_RELEASE);
	xm_wake_word((const _Atomic uint32_t *)&d->gate);
	return epoch << 1 | open;
}

void daemon_beat(void)
{
	__atomic_fetch_add(&fake_daemon.board->daemon.heartbeat, 1, __ATOMIC_RELAXED);
}

uint64_t daemon_events(void)
{
	uint64_t n = 0;

	return read(fake_daemon.event_fd, &n, sizeof n) == sizeof n ? n : 0;
}

struct xm_client_line *client_line(int i)
{
	return &fake_daemon.board->devices[i].client;
}

struct xm_slot *slot_of(CUstream s)
{
	for (unsigned i = 1; i < XM_BOARD_SLOTS; i++)
		if (fake_daemon.board->slots[i].handle == (uint64_t)(uintptr_t)s)
			return &fake_daemon.board->slots[i];
	return NULL;
}

uint64_t slot_outstanding(const struct xm_slot *s)
{
	uint64_t done = s->marked - (uint32_t)((uint32_t)s->marked - s->completed);

	return s->submitted - (done > s->synced ? done : s->synced);
}
