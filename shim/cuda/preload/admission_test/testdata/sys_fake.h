#ifndef SYS_FAKE_H
#define SYS_FAKE_H

#include <stdbool.h>
#include <stdint.h>

extern uint64_t clock_ns;
extern void (*on_sleep)(uint64_t slept); /* called after every sleep of a waiting thread */
extern void (*on_clock)(void); /* called once, after the clock was read and before the reader has the time */
extern uint64_t sleeps;
extern unsigned fences;
extern bool have_fence;

#endif
