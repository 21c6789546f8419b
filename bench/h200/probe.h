// What the probes of this folder share.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                   \
	do {                                                                          \
		int error = (int)(call);                                              \
		if (error) {                                                          \
			fprintf(stderr, "%s: error %d, line %d\n", #call, error, __LINE__); \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
