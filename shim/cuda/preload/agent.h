/*
 * The border between the preload library (C) and the agent (Go, libxagent.so).
 *
 * The library lends the agent the functions of struct xm_host; the agent
 * brings a board and carries news away. Nothing of the agent is ever called
 * by a thread of the program: xm_agent_start runs on a thread of our own, and
 * the functions of xm_host are called by the agent's threads alone.
 */
#ifndef XMSCHED_AGENT_H
#define XMSCHED_AGENT_H

#include <stdint.h>

#include "commands.h"
#include "memory.h"
#include "samples.h"

#define XM_HOST_VERSION 1u

/* Bits that wait_news returns. */
#define XM_NEWS_UNCOVERED 1 /* names that uncovered() has not yet returned */
#define XM_NEWS_LEAVING 2   /* the process is going away */

/* Lives for ever; never changes after xm_agent_start was called. */
struct xm_host {
	uint32_t version; /* XM_HOST_VERSION */
	uint32_t size;    /* sizeof(struct xm_host) */

	/*
	 * Maps, checks and adopts a board. Takes ownership of both descriptors,
	 * also when it fails. Returns 0 or -errno: -EBUSY a board is attached,
	 * -EPROTO magic, version, size or seals are wrong, -ECHILD this is a
	 * forked child that stands aside.
	 */
	int (*attach)(int board_fd, int event_fd);

	/*
	 * Gates open, free run, nothing is written to the board any more. The
	 * mapping stays until no GPU write can hit it. Idempotent.
	 */
	void (*detach)(void);

	/* Blocks up to timeout_ms (negative: for ever) for news; a set of XM_NEWS_. */
	int (*wait_news)(int timeout_ms);

	/*
	 * Copies up to n bytes of "name\nname\n" of all uncovered calls seen so
	 * far; returns the length needed, without a terminating NUL.
	 */
	int (*uncovered)(char *buf, int n);

	/* One warning line on the program's stderr, once a code (1 to 63). */
	void (*warn_once)(int code, const char *text);

	/* The functions that move this process's memory (memory.h). */
	const struct xm_memory *memory;

	/* What the process has handed to the driver (commands.h). */
	const struct xm_commands *commands;

	/* Launches that show what they touch, while the program learns (samples.h). */
	const struct xm_samples *samples;

	/* A process that is leaving need not wait for the agent any more: it does, for a
	 * second at most, where something was learnt that the agent keeps. */
	void (*left)(void);
};

/*
 * Exported by libxagent.so. Called once, on a detached thread with all signals
 * blocked; starts its goroutines and returns 0 at once, or a negative number.
 */
int xm_agent_start(const struct xm_host *host);

#endif
