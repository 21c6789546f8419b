/* Graphs and captures, as their files share them.
 *
 * Model: a graph is a list of nodes, each with what it does (its work) and the
 * nodes before it. An executable graph is a copy with an order that keeps the
 * edges; a launch puts the works into the stream one after the other, so branches
 * do not overlap. A capture is a graph being written: its streams know the nodes
 * that their next one depends on.
 *
 * Lock order: the lock of one executable graph, then sim_graph_lock, which
 * protects everything here that no comment says otherwise of, then a context's.
 * Nothing that can wait for the device is done under sim_graph_lock.
 */
#ifndef XM_SIM_GRAPH_H
#define XM_SIM_GRAPH_H

#include "copy.h"
#include "cu_graph.h"
#include "sim.h"

extern pthread_mutex_t sim_graph_lock;

/* What a node does. The pointers belong to it; work.c copies and frees. */
struct sim_work {
    unsigned type; /* CU_GRAPH_NODE_TYPE_* */
    struct sim_ctx *ctx;
    uint64_t ctx_id;
    union {
        struct {
            struct sim_entry entry;
            CUfunction function; /* as the program gave it; NULL when only the entry is known */
            CUkernel kern;
            void **params; /* into entry.args, for whoever asks */
        } kernel;
        struct {
            struct sim_transfer transfer;
            CUDA_MEMCPY3D given;
        } copy;
        struct {
            struct sim_fill fill;
            CUDA_MEMSET_NODE_PARAMS given;
        } set;
        CUDA_HOST_NODE_PARAMS host;
        CUevent event;
        struct sim_graph *child;
        struct {
            CUstreamBatchMemOpParams *ops;
            unsigned count, flags;
        } batch;
    };
};

struct sim_node {
    uint32_t live;
    struct sim_graph *graph;
    size_t index; /* in its graph's list */
    struct sim_node **before;
    size_t befores;
    struct sim_node *original; /* of a copy's node */
    bool off;                  /* in an executable graph: left out of launches */
    struct sim_work work;
};

struct sim_graph {
    uint32_t live;
    struct sim_node **nodes;
    size_t count, room;
    bool child;     /* belongs to a node */
    bool capturing; /* belongs to a capture */
};

struct sim_exec {
    uint32_t live;
    unsigned users; /* calls that use it now; whoever ends last frees a destroyed one */
    bool destroyed;
    uint64_t flags;
    pthread_mutex_t lock; /* protects all below */
    struct sim_graph *graph; /* a copy: its nodes know the ones that they were made from */
    struct sim_node **order; /* its nodes and those of its children, as they are launched */
    size_t count;
    struct sim_mark last; /* behind the last launch: the next one waits for it */
};

struct sim_capture {
    struct sim_capture *next;
    uint64_t id;
    int mode;
    pthread_t thread;
    struct sim_ctx *ctx;
    struct sim_graph *graph;
    bool borrowed; /* the graph is the program's */
    bool invalid;
    struct sim_stream *origin;
    struct sim_stream *streams; /* through capture_next */
};

/* ---- work.c ---- */
/* These check what a program describes and give CUresult; w is filled on success
 * alone and is the caller's to free. */
int sim_work_kernel(struct sim_work *w, const CUDA_KERNEL_NODE_PARAMS *p, struct sim_ctx *c);
int sim_work_copy(struct sim_work *w, const CUDA_MEMCPY3D *p, struct sim_ctx *c);
void sim_work_transfer(struct sim_work *w, const struct sim_transfer *t, struct sim_ctx *c);
int sim_work_set(struct sim_work *w, const CUDA_MEMSET_NODE_PARAMS *p, struct sim_ctx *c);
int sim_work_host(struct sim_work *w, const CUDA_HOST_NODE_PARAMS *p);
int sim_work_batch(struct sim_work *w, unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags, struct sim_ctx *c);
bool sim_work_clone(struct sim_work *to, const struct sim_work *from);
void sim_work_free(struct sim_work *w);
int sim_work_run(struct sim_stream *s, struct sim_ctx *c, const struct sim_work *w);
bool sim_work_waits(const struct sim_work *w); /* may hold its stream */

/* ---- graph.c ---- */
/* Precondition of all of these: sim_graph_lock is held. */
struct sim_graph *sim_graph_make(void);
void sim_graph_drop(struct sim_graph *g);
void sim_node_drop(struct sim_node *n); /* the caller takes it out of its graph */
struct sim_graph *sim_graph_copy(const struct sim_graph *g);
/* Takes the work over on success. NULL: no memory. */
struct sim_node *sim_graph_add(struct sim_graph *g, struct sim_work *w, struct sim_node *const *before, size_t n);
/* Indices of all nodes so that none comes before what it depends on, waits as late
 * as can be; NULL: no memory, or a circle (*circle). The caller frees. */
size_t *sim_graph_order(const struct sim_graph *g, bool *circle);

/* ---- graph_node.c and graph_calls.c: the program's calls that others go through ---- */
#define NODE CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n
#define EXEC CUgraphExec x, CUgraphNode n
EXPORT CUresult cuGraphAddKernelNode_v2(NODE, const CUDA_KERNEL_NODE_PARAMS *p);
EXPORT CUresult cuGraphAddMemcpyNode(NODE, const CUDA_MEMCPY3D *p, CUcontext ctx);
EXPORT CUresult cuGraphAddMemsetNode(NODE, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx);
EXPORT CUresult cuGraphAddHostNode(NODE, const CUDA_HOST_NODE_PARAMS *p);
EXPORT CUresult cuGraphAddChildGraphNode(NODE, CUgraph child);
EXPORT CUresult cuGraphAddEmptyNode(NODE);
EXPORT CUresult cuGraphAddEventWaitNode(NODE, CUevent e);
EXPORT CUresult cuGraphAddEventRecordNode(NODE, CUevent e);
EXPORT CUresult cuGraphAddBatchMemOpNode(NODE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p);
EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D *p);
EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p);
EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p);
EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode n, CUevent e);
EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode n, CUevent e);
EXPORT CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(EXEC, const CUDA_KERNEL_NODE_PARAMS *p);
EXPORT CUresult cuGraphExecMemcpyNodeSetParams(EXEC, const CUDA_MEMCPY3D *p, CUcontext ctx);
EXPORT CUresult cuGraphExecMemsetNodeSetParams(EXEC, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx);
EXPORT CUresult cuGraphExecHostNodeSetParams(EXEC, const CUDA_HOST_NODE_PARAMS *p);
EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(EXEC, CUevent e);
EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(EXEC, CUevent e);
EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(EXEC, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
#undef NODE
#undef EXEC

/* ---- graph_exec.c ---- */
/* The node of an executable graph that was made from n, with the exec's lock held
 * until sim_exec_leave; NULL, and nothing held, when there is none. */
struct sim_node *sim_exec_enter(CUgraphExec x, CUgraphNode n);
void sim_exec_leave(CUgraphExec x);

#endif
