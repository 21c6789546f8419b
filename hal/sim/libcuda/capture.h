/* Captures, between the file that keeps them and the one with the program's calls. */
#ifndef XM_SIM_CAPTURE_H
#define XM_SIM_CAPTURE_H

#include "graph.h"

extern __thread int sim_capture_mode; /* of the calling thread; CU_STREAM_CAPTURE_MODE_* */

/* Precondition of all of these: sim_graph_lock is held. CUresult. into: the program's
 * graph, NULL: a new one. */
int sim_capture_begin(struct sim_stream *s, struct sim_ctx *c, int mode, struct sim_graph *into, struct sim_node *const *before, size_t n);
int sim_capture_end(struct sim_stream *s, struct sim_graph **out);
/* The stream's next node depends on this one, too; false: no memory. */
bool sim_capture_add_tail(struct sim_stream *s, struct sim_node *node);

#endif
