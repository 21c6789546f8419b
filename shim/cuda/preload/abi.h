/* The driver's binary interface, and what of ours can be seen from outside. */
#ifndef XM_ABI_H
#define XM_ABI_H

#define XM_INTERNAL __attribute__((visibility("hidden")))
#define XM_EXPORT __attribute__((visibility("default")))

#include "gen/cuda_abi.h"

#endif
