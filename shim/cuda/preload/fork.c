#include "fork.h"

#include <pthread.h>

#include "admission.h"

static int used;  /* 1 from the first use of CUDA on, in children too */
static int aside; /* 1 in children of a process with used == 1 */

static void in_child(void)
{
    __atomic_store_n(&aside, 1, __ATOMIC_RELAXED);
    xm_forked_child();
}

void xm_cuda_used(void)
{
    int before = 0;

    if (__atomic_compare_exchange_n(&used, &before, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        (void)pthread_atfork(NULL, NULL, in_child); /* without memory for it a child would only wait for its parent's gate */
}

bool xm_stands_aside(void)
{
    return __atomic_load_n(&aside, __ATOMIC_RELAXED);
}
