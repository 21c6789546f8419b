/* What the hooks share beside their types. */
#ifndef XM_HOOKS_H
#define XM_HOOKS_H

#include "hooks_table.h"

/* The driver answered a call that sets the thread's current context. */
XM_INTERNAL void xm_door_context_set(CUresult result);

/* The driver ended the context, and what was in it. NULL: which one is not known. */
XM_INTERNAL void xm_door_context_ended(CUcontext context);

/* A capture of this or, in its mode, of another thread may forbid allocating: the driver knows, and marks the
 * capture as spoilt. */
XM_INTERNAL CUresult xm_door_forbidden(void);

#endif
