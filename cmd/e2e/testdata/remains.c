/*
 * Two programs that show whether memory keeps what somebody else wrote.
 *
 *   remains write BUFFERS MIB MARK   fills memory with the word MARK, says so, and goes on
 *                                    filling it until it is killed, or ends at SIGTERM
 *   remains look BUFFERS MIB MARK    allocates memory, writes nothing, looks at every word
 *                                    as often as it reads a line, and says how many are MARK
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static dptr *at;
static size_t bytes;
static int buffers;

static volatile sig_atomic_t told_to_end;

static void end(int signal)
{
	told_to_end = signal;
}

static void write_mark(uint32_t mark)
{
	signal(SIGTERM, end);
	do {
		for (int i = 0; i < buffers; i++)
			CHECK(cuMemsetD32_v2(at[i], mark, bytes / 4));
		CHECK(cuCtxSynchronize());
		printf("1\n");
		fflush(stdout);
	} while (!told_to_end);
}

static void look_for(uint32_t mark)
{
	uint32_t *copy = malloc(bytes);
	char line[16];

	if (!copy)
		exit(2);
	do {
		size_t found = 0;

		for (int i = 0; i < buffers; i++) {
			CHECK(cuMemcpyDtoH_v2(copy, at[i], bytes));
			for (size_t w = 0; w < bytes / 4; w++)
				found += copy[w] == mark;
		}
		printf("found %zu\n", found);
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin));
	free(copy);
}

int main(int argc, char **argv)
{
	void *context;
	uint32_t mark;
	int device;

	if (argc != 5)
		return 2;
	buffers = atoi(argv[2]);
	bytes = (size_t)atoi(argv[3]) << 20;
	mark = (uint32_t)strtoul(argv[4], NULL, 0);
	at = calloc((size_t)buffers, sizeof(*at));
	if (!at || !bytes)
		return 2;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	for (int i = 0; i < buffers; i++)
		CHECK(cuMemAlloc_v2(&at[i], bytes));
	if (!strcmp(argv[1], "write"))
		write_mark(mark);
	else
		look_for(mark);
	free(at);
	return 0;
}
