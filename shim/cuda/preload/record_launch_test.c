/* A launch's record from parameters of every form, and the tensor maps among them, with no driver:
 * what a kernel's layout is the test says. */
#include "record_launch.c"
#include "tensormap.c"

#include <stdio.h>
#include <stdlib.h>

#define WANT(x)                                                                           \
	do {                                                                              \
		if (!(x)) {                                                               \
			fprintf(stderr, "record_launch_test:%d: not %s\n", __LINE__, #x); \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

static struct xm_known layout;
static struct xm_parameter parameters[XM_KERNEL_PARAMETERS];
static struct xm_thread *thread = (void *)&layout;
static struct xm_record made;

const struct xm_known *xm_kernel_known(CUfunction f)
{
	return f ? &layout : NULL;
}

struct xm_thread *xm_enter(void) { return thread; }
void xm_leave(struct xm_thread *me) { (void)me; }
void *xm_keep(size_t bytes) { return calloc(1, bytes); }
bool xm_record_place(struct xm_command *c, CUstream stream, unsigned flags)
{
	(void)stream;
	(void)flags;
	*c = (struct xm_command){.section = 3, .queue = 4, .sequence = 5};
	return true;
}
struct xm_record *xm_record_begin(void) { return &made; }
void xm_record_end(struct xm_record *r) { (void)r; }

/* What was in the record's place before must not show. */
static void launch(CUfunction f, void **params, void **extra)
{
	struct xm_launch l = {.f = f, .grid = {1, 2, 3}, .block = {4, 5, 6}, .shared = 7, .params = params, .extra = extra};

	memset(&made, 0xee, sizeof made);
	xm_record_launch(NULL, 0, &l);
	WANT(made.head.kind == XM_COMMAND_KERNEL && made.head.section == 3 && made.head.queue == 4 && made.head.sequence == 5);
	WANT(made.head.grid[2] == 3 && made.head.block[2] == 6 && made.head.shared == 7);
	WANT(made.head.payload <= sizeof made.payload);
}

static void lay_out(unsigned n, const struct xm_parameter *p)
{
	layout = (struct xm_known){.id = 9, .flags = XM_KERNEL_LAYOUT, .parameters = n, .parameter = parameters};
	memcpy(parameters, p, n * sizeof *p);
	for (unsigned i = 0; i < n; i++)
		if (layout.bytes < p[i].offset + p[i].size)
			layout.bytes = p[i].offset + p[i].size;
}

static CUfunction f = (CUfunction)&layout;

/* Holes are 0, whether the layout is known to have none of more than a word or not. */
static void holes(bool dense)
{
	uint64_t a = ~0ull, b = ~1ull;
	uint32_t n = 0x11111111;
	uint8_t c = 0x22;
	const uint8_t want[] = {0x11, 0x11, 0x11, 0x11, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0x22, 0, 0x22, 0, 0x11, 0x11, 0x11, 0x11,
				254, 255, 255, 255, 255, 255, 255, 255, 0x22};

	lay_out(7, (struct xm_parameter[]){{0, 4}, {8, 8}, {16, 1}, {18, 1}, {20, 4}, {24, 8}, {32, 1}});
	layout.dense = dense;
	launch(f, (void *[]){&n, &a, &c, &c, &n, &b, &c}, NULL);
	WANT(made.head.kernel == 9 && made.head.flags == 0 && made.head.payload == sizeof want);
	WANT(!memcmp(made.payload, want, sizeof want));
}

static void long_ones(void)
{
	static uint8_t big[6000];
	uint64_t a = 42;
	size_t size = sizeof big;
	void *extra[] = {XM_EXTRA_SIZE, &size, XM_EXTRA_POINTER, big, XM_EXTRA_END};

	for (unsigned i = 0; i < sizeof big; i++)
		big[i] = (uint8_t)(i + 1);
	lay_out(3, (struct xm_parameter[]){{0, 8}, {8, 6000}, {6008, 8}});
	launch(f, (void *[]){&a, big, &a}, NULL);
	WANT(made.head.flags == XM_COMMAND_CUT && made.head.payload == XM_COMMAND_PARAMETERS);
	WANT(!memcmp(made.payload, &a, 8) && !memcmp(made.payload + 8, big, XM_COMMAND_PARAMETERS - 8));
	launch(f, NULL, extra);
	WANT(made.head.flags == XM_COMMAND_CUT && made.head.payload == XM_COMMAND_PARAMETERS && !memcmp(made.payload, big, XM_COMMAND_PARAMETERS));
	size = 5;
	launch(f, NULL, extra);
	WANT(made.head.flags == 0 && made.head.payload == 5 && !memcmp(made.payload, big, 5));
	launch(f, NULL, (void *[]){XM_EXTRA_END});
	WANT(made.head.payload == 0);
	lay_out(1, (struct xm_parameter[]){{0, 8}});
	layout.flags |= XM_KERNEL_MORE;
	launch(f, (void *[]){&a}, NULL);
	WANT(made.head.flags == XM_COMMAND_CUT && made.head.payload == 8);
}

static void unknown(void)
{
	uint64_t a = 1;
	size_t size = 8;

	lay_out(1, (struct xm_parameter[]){{0, 8}});
	launch(NULL, (void *[]){&a}, NULL);
	WANT(made.head.flags == XM_COMMAND_UNKNOWN && made.head.kernel == 0 && made.head.payload == 0);
	layout.flags = 0;
	launch(f, (void *[]){&a}, NULL);
	WANT(made.head.flags == XM_COMMAND_UNKNOWN && made.head.kernel == 9 && made.head.payload == 0);
	launch(f, NULL, (void *[]){XM_EXTRA_POINTER, &a, XM_EXTRA_SIZE, &size, XM_EXTRA_END}); /* they say themselves how long they are */
	WANT(made.head.flags == XM_COMMAND_UNKNOWN && made.head.payload == 8);
}

/* Descriptors as the driver might make them: what is in them nobody looks at. */
struct descriptor {
	uint8_t bytes[XM_TENSORMAP_BYTES];
};

static struct descriptor encode(uint32_t number)
{
	const cuuint64_t dims[5] = {number, 2, 3, 4, 5}, strides[4] = {16, 32, 64, 128};
	struct descriptor d = {{1}};

	memcpy(d.bytes + 60, &number, sizeof number);
	xm_tensormap_made(&d, number % 16, 5, (void *)(uintptr_t)(number * 4096), dims, strides);
	return d;
}

static const struct xm_command_map *map(uint32_t i)
{
	return (const struct xm_command_map *)(const void *)(made.payload + made.head.payload) - made.head.maps + i;
}

static void maps(void)
{
	enum { MANY = 40 };
	struct descriptor d[MANY], none = {{7}};
	uint64_t a = 3;

	lay_out(3, (struct xm_parameter[]){{0, 8}, {64, 128}, {192, 8}});
	launch(f, (void *[]){&a, &none, &a}, NULL);
	WANT(made.head.maps == 0 && made.head.payload == 200);
	d[0] = encode(17);
	launch(f, (void *[]){&a, &d[0], &a}, NULL);
	WANT(made.head.maps == 1 && made.head.payload == 200 + sizeof *map(0));
	WANT(map(0)->address == 17 * 4096 && map(0)->offset == 64 && map(0)->rank == 5 && map(0)->type == 1 && map(0)->element == 16);
	WANT(map(0)->dims[0] == 17 && map(0)->dims[4] == 5 && map(0)->strides[3] == 128);
	launch(f, (void *[]){&a, &none, &a}, NULL);
	WANT(made.head.maps == 0);

	for (uint32_t i = 0; i < MANY; i++)
		d[i] = encode(i + 1);
	lay_out(1, (struct xm_parameter[]){{0, 31 * 128}});
	launch(f, (void *[]){d}, NULL);
	WANT(made.head.maps == 31 && made.head.flags == 0 && map(30)->address == 31 * 4096 && map(30)->offset == 30 * 128);
	lay_out(1, (struct xm_parameter[]){{0, MANY * 128}});
	launch(f, (void *[]){d}, NULL);
	WANT(made.head.maps == XM_COMMAND_MAPS && made.head.flags == XM_COMMAND_CUT);

	thread = NULL; /* in a handler that interrupted us */
	launch(f, (void *[]){d}, NULL);
	WANT(made.head.maps == 0);
	thread = (void *)&layout;
}

/* The number of those remembered is bounded; those in use stay. */
static void forgetting(void)
{
	struct descriptor used = encode(100000), last;
	struct xm_command_map m;

	for (uint32_t i = 0; i < 20000; i++) {
		last = encode(200000 + i);
		WANT(xm_tensormaps_in(&used, sizeof used, &m, 1) == 1 && m.address == 100000ull * 4096);
	}
	WANT(xm_tensormaps_in(&last, sizeof last, &m, 1) == 1);
	last = (struct descriptor){{1}};
	memcpy(last.bytes + 60, &(uint32_t){200000}, 4);
	WANT(xm_tensormaps_in(&last, sizeof last, &m, 1) == 0);
}

int main(void)
{
	holes(false);
	holes(true);
	long_ones();
	unknown();
	maps();
	forgetting();
	return 0;
}
