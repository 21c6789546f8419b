/*
 * The one table of what this process owns, and the two locks over it.
 *
 * xm_hold_lock stands over everything that is done to channels and groups, the
 * driver's calls included, and over the freeing of objects that are kept here: so
 * no control ever names an object that has just gone. The table's own lock is
 * short, and no call is made under it; who makes a channel takes it after the
 * driver returned. The order is hold, then table; admission's locks are taken
 * under neither, and the driver library is never called.
 */
#ifndef XMSCHED_OWNED_H
#define XMSCHED_OWNED_H

#include <pthread.h>
#include <stdatomic.h>

#include "objects.h"

extern XM_INTERNAL pthread_mutex_t xm_hold_lock;
extern XM_INTERNAL struct xm_rm_table xm_owned; /* protected by the table's lock; of a GPU's record `asked`, `refused` and `late` by xm_hold_lock */

extern XM_INTERNAL _Atomic bool xm_owned_missed; /* an allocation passed unseen */

/* Before anything is put in: from now on children made by fork begin with an empty one. */
XM_INTERNAL void xm_owned_begin(void);

XM_INTERNAL void xm_owned_lock(void);
XM_INTERNAL void xm_owned_unlock(void);

/* Everything below: xm_hold_lock held. */

/* Asks subdevices that have not been asked which GPU they are. */
XM_INTERNAL void xm_owned_identify(void);

/* The record of that GPU, whether or not anything of it is owned; NULL: too many. */
XM_INTERNAL struct xm_gpu *xm_owned_gpu(const uint8_t uuid[16]);

/* Makes the compute groups' slices as is wished, but for those refused before; the first refusal, else 0. */
XM_INTERNAL int xm_slices_carry_out(const struct xm_gpu *gpu);
XM_INTERNAL void xm_slices_forgive(const struct xm_gpu *gpu);

/* The slice that they are to have, which is longer than wished where there are several. The table's lock held too. */
XM_INTERNAL uint32_t xm_slices_due(const struct xm_gpu *gpu);

/* A channel came, or may have been switched on behind our back. Takes xm_hold_lock. */
XM_INTERNAL void xm_hold_settle(uint32_t client, uint32_t handle);

/* The driver refused something of level 3 there, which is off from now on. */
XM_INTERNAL void xm_owned_refused(struct xm_gpu *gpu, int status);

#endif
