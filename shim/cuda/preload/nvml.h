/*
 * NVML's answers about memory, which frameworks ask for beside the driver's: the two
 * must not contradict each other, and neither tells of the neighbours. Only what is
 * looked up by dlsym comes here, by its exact name.
 */
#ifndef XM_NVML_H
#define XM_NVML_H

#include "abi.h"

/* What dlsym answers to a name that begins with "nvml": `found`, or our function before it. */
XM_INTERNAL void *xm_nvml_hooked(void *found, const char *name);

#endif
