/* Driver calls that start or move work and that the library does not govern:
 * they are let through, and named, so that nobody takes a task for scheduled
 * that is not. */
#ifndef XM_UNCOVERED_H
#define XM_UNCOVERED_H

#include <stdint.h>

#include "resolve.h"

/* Distinct names seen so far; the agent is told when it grows. */
extern XM_INTERNAL uint32_t xm_uncovered_total;

/* The program used `name`, or was given it and it is not known what it does. Any
 * thread; no allocation, no lock. */
XM_INTERNAL void xm_uncovered(const char *name);

/* Copies up to n bytes of "name\nname\n…" and returns the length of it all. */
XM_INTERNAL int xm_uncovered_names(char *buf, int n);

/* The resolver passed a name through that has no hook. */
XM_INTERNAL void xm_passed(const char *name);

/* Names passed through so far, repetitions included. */
XM_INTERNAL uint64_t xm_passed_total(void);

#endif
