/*
 * The slow path: a command whose thread has no lease for it. It gets one, after
 * the marks, waits and edges that are due (admission.c).
 */
#ifndef XMSCHED_PASS_H
#define XMSCHED_PASS_H

#include <stdint.h>

void xm_pass_through(uintptr_t key) __attribute__((visibility("hidden")));

#endif
