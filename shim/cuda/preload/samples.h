/*
 * Samples, as the agent sees them: launches that are isolated so that their page faults
 * can be told from others'. Only while the program learns (XMSCHED_LEARN=1).
 *
 * A thread with such a launch asks, waits for the agent to have the device quiet and the
 * memory sent away, launches, and waits until the agent has seen what came. It waits on a
 * word in this process's memory, each time for at most a second, and makes no driver call
 * of its own: that can take as long as a kernel does, and a kernel may wait for what this
 * very thread launches next. Who comes late finds the sample gone. After three of these in a
 * row there is no sample any more.
 *
 * All are called by the agent's threads, one sample at a time.
 */
#ifndef XMSCHED_SAMPLES_H
#define XMSCHED_SAMPLES_H

#include <stdint.h>

#include "commands.h"

#define XM_SAMPLES_VERSION 1u

/* A launch that waits for the agent. `bytes` of record follow the head in `buf`: struct
 * xm_command, of kind KERNEL. */
struct xm_sample {
	uint32_t number;
	uint32_t bytes;
	uint64_t context; /* CUcontext that it will be launched in */
	int32_t device;   /* CUdevice of that */
	uint32_t pad;
};

/* Memory that was asked for as the device's, and is managed so that it faults. */
struct xm_sample_range {
	uint64_t address, bytes;
};

struct xm_sample_figures {
	uint64_t asked, taken; /* launches that were offered; of these, those seen to their end */
	uint64_t missed;       /* those that the agent did not answer in time */
	uint64_t ns;           /* that launches took longer */
	uint64_t managed, managed_most; /* bytes now, and at most */
	uint64_t plain;        /* bytes that did not become managed, since there would have been too much */
	uint32_t over;         /* XM_SAMPLES_* : why there are no more, 0: there are */
	uint32_t pad;
};

enum { XM_SAMPLES_MISSED = 1, XM_SAMPLES_LONG = 2, XM_SAMPLES_STOPPED = 3 };

struct xm_samples {
	uint32_t version; /* XM_SAMPLES_VERSION */
	uint32_t size;    /* sizeof(struct xm_samples) */

	/* 1: this program learns. */
	int (*learns)(void);

	/* Waits for a launch, and takes it: 1, with the record in `record`, of at least
	 * XM_COMMAND_MOST bytes. 0: there was none for so long. -ECANCELED: there will be none
	 * any more. */
	int (*next)(int timeout_ms, struct xm_sample *head, void *record);

	/* The launch is worth no sample: it goes on. */
	int (*skip)(uint32_t number);

	/* The device is quiet, and what is to be seen is away: the launch may enter the driver. 1;
	 * 0: it went on without. */
	int (*ready)(uint32_t number);

	/* Waits until the driver has taken the launch: 1. 0: not yet. -ECANCELED: it refused it, or it went on. */
	int (*ran)(uint32_t number, int timeout_ms);

	/* Seen: the thread goes on. 1; 0: it has gone on already, what was seen is of others too. */
	int (*done)(uint32_t number);

	/* No more. */
	void (*stop)(void);

	/* By address, up to n; returns how many there are. */
	int (*ranges)(struct xm_sample_range *views, int n);

	void (*figures)(struct xm_sample_figures *out);
};

#endif
