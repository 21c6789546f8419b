/*
 * A job: processes, threads and contexts that each keep the GPU busy, and count the
 * kernels that they have completed in a word of a file, the first to be started in
 * the first.
 *
 *   job PTX ITERATIONS FILE SHAPE
 *
 * Each letter of SHAPE starts one:
 *   f   a forked process
 *   g   a forked process of a forked process that has ended
 *   s   a spawned process
 *   t   a thread, in the primary context
 *   c   a thread, in a context of its own
 *   p   a thread that goes from the one context to another of its own, back and forth
 * and two that count nothing:
 *   u   uses the GPU here, now, so that processes are forked after that
 *   w   a forked process that waits
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

#define WORDS 64
#define BATCH 4

extern char **environ;

static char ptx[1 << 20];
static uint64_t iterations;
static uint64_t *words;

/* A context with what it takes to compute there. */
struct place {
	void *context, *spin, *stream;
};

/* Leaves the context current. */
static struct place place(int primary, int blocking)
{
	struct place p;
	void *module;
	int device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	if (primary)
		CHECK(cuDevicePrimaryCtxRetain(&p.context, device));
	else
		CHECK(cuCtxCreate_v2(&p.context, 0, device));
	CHECK(cuCtxSetCurrent(p.context));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&p.spin, module, "xm_spin"));
	p.stream = NULL; /* the legacy stream of the context */
	if (!blocking)
		CHECK(cuStreamCreate(&p.stream, 1));
	return p;
}

static void compute(const struct place *p)
{
	uint64_t out = 0;
	void *args[] = {&out, &iterations};

	for (int i = 0; i < BATCH; i++)
		CHECK(cuLaunchKernel(p->spin, 132, 1, 1, 128, 1, 1, 0, p->stream, args, NULL));
	CHECK(cuStreamSynchronize(p->stream));
}

static void count(unsigned word)
{
	__atomic_fetch_add(&words[word], BATCH, __ATOMIC_RELAXED);
}

static void keep_busy(unsigned word, int primary)
{
	struct place p = place(primary, 0);

	for (;;) {
		compute(&p);
		count(word);
	}
}

static void go_back_and_forth(unsigned word)
{
	struct place p[] = {place(1, 1), place(0, 1)};
	void *popped;

	CHECK(cuCtxSetCurrent(NULL));
	for (unsigned i = 0;; i++) {
		CHECK(cuCtxPushCurrent_v2(p[i % 2].context));
		compute(&p[i % 2]);
		CHECK(cuCtxPopCurrent_v2(&popped));
		count(word);
	}
}

struct part {
	char kind;
	unsigned word;
};

static void *thread(void *arg)
{
	const struct part *part = arg;

	if (part->kind == 'p')
		go_back_and_forth(part->word);
	keep_busy(part->word, part->kind == 't');
	return arg;
}

static void start_thread(char kind, unsigned word)
{
	static struct part parts[WORDS];
	pthread_t t;

	parts[word] = (struct part){kind, word};
	CHECK(pthread_create(&t, NULL, thread, &parts[word]));
}

static void start_forked(unsigned word, int generations)
{
	pid_t child = fork();

	if (child == 0 && generations > 1) {
		start_forked(word, generations - 1);
		_exit(0);
	}
	if (child == 0)
		keep_busy(word, 1);
	if (child < 0 || (generations > 1 && waitpid(child, NULL, 0) != child))
		exit(2);
}

static void start_spawned(char **argv, unsigned word)
{
	char kind[16];
	char *args[] = {argv[0], argv[1], argv[2], argv[3], kind, NULL};
	pid_t child;

	snprintf(kind, sizeof kind, "@%u", word);
	CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, args, environ));
}

static void start_waiting(void)
{
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	if (child < 0)
		exit(2);
}

static void use_here(void)
{
	struct place p = place(1, 0);

	compute(&p);
}

static void start(char kind, char **argv, unsigned *word)
{
	switch (kind) {
	case 'u':
		use_here();
		return;
	case 'w':
		start_waiting();
		return;
	case 'f':
	case 'g':
		start_forked((*word)++, kind == 'f' ? 1 : 2);
		return;
	case 's':
		start_spawned(argv, (*word)++);
		return;
	default:
		start_thread(kind, (*word)++);
	}
}

int main(int argc, char **argv)
{
	unsigned word = 0;
	FILE *f;
	int fd;

	if (argc != 5)
		return 2;
	f = fopen(argv[1], "rb");
	fd = open(argv[3], O_RDWR);
	if (!f || !fread(ptx, 1, sizeof ptx - 1, f) || fd < 0)
		return 2;
	fclose(f);
	iterations = strtoull(argv[2], NULL, 10);
	words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		return 2;
	if (argv[4][0] == '@')
		keep_busy((unsigned)strtoul(argv[4] + 1, NULL, 10), 1);
	for (const char *kind = argv[4]; *kind; kind++)
		start(*kind, argv, &word);
	for (;;)
		pause();
}
