/* What kernels.c and kernels_code.c share: one lock over both tables. No driver call under it. */
#ifndef XMSCHED_KERNELS_CODE_H
#define XMSCHED_KERNELS_CODE_H

#include <pthread.h>

#include "abi.h"

extern XM_INTERNAL pthread_mutex_t xm_code_lock;

#endif
