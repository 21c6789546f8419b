/*
 * A driver and a daemon for testing admission alone.
 *
 * The driver keeps a FIFO a stream; commands complete when the test says so, or
 * by a thread (fake_gpu_start). It knows what is truly outstanding, and checks
 * with every command what admission promises: that the device is told ready,
 * and that no idle edge falls between a command's start and its end.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../state.h"

#define CHECK(what)                                                                              \
	do {                                                                                     \
		if (!(what))                                                                     \
			fail(__FILE__, __LINE__, #what);                                         \
	} while (0)
#define CHECK_EQ(got, want) check_eq(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))

_Noreturn void fail(const char *file, int line, const char *what);
void check_eq(const char *file, int line, const char *what, long long got, long long want);

/* ---- driver ---- */

extern struct fake_faults {
	_Atomic bool no_write;    /* stream writes are refused */
	_Atomic bool no_event;    /* events too */
	_Atomic bool no_register; /* the board cannot be registered */
	_Atomic bool refuse;      /* the next command is refused */
	_Atomic bool frozen;      /* the GPU completes nothing */
	_Atomic int no_wait;      /* waits are refused with this result */
	_Atomic bool bad_stream;  /* whatever is asked of a stream, it is not one */
} fake;

/* Things that admission must not do, counted. */
extern _Atomic uint32_t fake_violations;
extern _Atomic uint64_t fake_commands, fake_completed, fake_writes, fake_waits, fake_queries, fake_records, fake_registrations;

extern bool fake_alone; /* there is one thread: driver calls under the lock can be seen */
void fake_driver_init(void);
CUcontext fake_context(int device);        /* new */
void fake_set_current(CUcontext c);        /* tells admission too */
void fake_context_destroy(CUcontext c);    /* the same */
extern void (*fake_destroying)(void);      /* in the middle of that */
CUstream fake_stream(void);                /* in the current context; tells admission */
void fake_stream_destroy(CUstream s);      /* the same */
void fake_capture(CUstream s, bool on);    /* the same */

/* A command as a door would do it. */
CUresult fake_launch(CUstream s, unsigned flags);
/* The driver's half of it alone. Calls fake_entering, once, before anything else: a
 * signal handler of the program may run there. */
extern void (*fake_entering)(void);
CUresult fake_enqueue(CUstream s, unsigned flags);
/* Synchronises as a door would: waits for the stream (a thread must complete commands), then tells. */
void fake_sync_stream(CUstream s, unsigned flags);
void fake_sync_context(void);
/* Polls the stream once as a door would; true: complete. */
bool fake_query(CUstream s);

/* What is queued, first to last: c command, g wait for the gate, m stream write, e event. */
const char *fake_shape(CUstream s);

/* Completes up to n commands of the stream, and the marks behind them, up to a
 * wait at a closed gate. Returns how many. */
unsigned fake_complete(CUstream s, unsigned n);
void fake_complete_all(void);
unsigned fake_outstanding(CUstream s);     /* commands */
unsigned fake_outstanding_all(void);
void fake_gpu_start(void);                 /* a thread that completes everything, at random speed */
void fake_gpu_stop(void);
void fake_gpu_rounds(unsigned n);          /* waits until that thread has been at every stream n times more */
/* How often the bound may have let each thread pass by now: once for every 50 ms
 * in which no mark told of a completion. On a busy machine the GPU's thread may
 * well be away for that long. */
unsigned fake_passes(void);

/* ---- daemon ---- */

struct fake_daemon {
	struct xm_board *board; /* the daemon's view */
	int board_fd, event_fd;
};
extern struct fake_daemon fake_daemon;

/* Makes a board and has it attached. */
void daemon_start(void);
/* Detaches, as the agent does when the session ends. */
void daemon_stop(void);
/* The level that grants give from now on: 1 at first. */
void daemon_level(uint32_t level);
/* Publishes a grant for device section i; returns the gate word. */
uint32_t daemon_grant(int i, bool open, uint32_t mode, uint32_t threshold, uint32_t batch);
void daemon_beat(void);
/* What the eventfd holds, emptied. */
uint64_t daemon_events(void);
struct xm_client_line *client_line(int i);
/* Outstanding commands of a slot, as the daemon reads them. */
uint64_t slot_outstanding(const struct xm_slot *s);
struct xm_slot *slot_of(CUstream s);

#endif
