/* What a fork means: the child of a process that has used CUDA stands aside for
 * ever (its context is not usable anyway, and the agent's threads are not
 * there); the child of one that has not starts as if it were new. */
#ifndef XM_FORK_H
#define XM_FORK_H

#include <stdbool.h>

#include "resolve.h"

/* The program is about to use CUDA. Any number of times. */
XM_INTERNAL void xm_cuda_used(void);

/* This process is a child that stands aside. */
XM_INTERNAL bool xm_stands_aside(void);

#endif
