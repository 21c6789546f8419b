/* Nodes of any kind by one call, as programs of CUDA 12 add and set them: each is
 * the call for its kind. */
#include "graph.h"

/* CUgraphNodeParams. */
struct any_params {
    unsigned type, reserved[3];
    union {
        CUDA_KERNEL_NODE_PARAMS kernel;
        struct {
            int flags, reserved;
            CUcontext ctx;
            CUDA_MEMCPY3D params;
        } copy;
        struct {
            CUDA_MEMSET_NODE_PARAMS params;
            CUcontext ctx;
        } set;
        CUDA_HOST_NODE_PARAMS host;
        CUgraph graph;
        CUevent event;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
        uint64_t room[29];
    } of;
    uint64_t reserved2;
};

_Static_assert(sizeof(struct any_params) == 256, "CUgraphNodeParams");

static int absent(const struct any_params *p)
{
    int rc = sim_ready();
    return rc ? rc : !p ? CUDA_ERROR_INVALID_VALUE : sim_unsupported("a graph node of a kind that it cannot run");
}

static bool known(const struct any_params *p)
{
    return p && (p->type <= CU_GRAPH_NODE_TYPE_EVENT_RECORD || p->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
}

static int add(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n, const struct any_params *p)
{
    if (!known(p))
        return absent(p);
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphAddKernelNode_v2(out, g, before, n, &p->of.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphAddMemcpyNode(out, g, before, n, &p->of.copy.params, p->of.copy.ctx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphAddMemsetNode(out, g, before, n, &p->of.set.params, p->of.set.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphAddHostNode(out, g, before, n, &p->of.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphAddChildGraphNode(out, g, before, n, p->of.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphAddEventWaitNode(out, g, before, n, p->of.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphAddEventRecordNode(out, g, before, n, p->of.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphAddBatchMemOpNode(out, g, before, n, &p->of.batch);
    }
    return cuGraphAddEmptyNode(out, g, before, n);
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t n, struct any_params *p)
{
    return add(out, g, before, n, p);
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *before, const CUgraphEdgeData *data, size_t n, struct any_params *p)
{
    (void)data;
    return add(out, g, before, n, p);
}

EXPORT CUresult cuGraphNodeSetParams(CUgraphNode n, struct any_params *p)
{
    if (!known(p))
        return absent(p);
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams_v2(n, &p->of.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(n, &p->of.copy.params);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphMemsetNodeSetParams(n, &p->of.set.params);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeSetParams(n, &p->of.host);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphEventWaitNodeSetEvent(n, p->of.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphEventRecordNodeSetEvent(n, p->of.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphBatchMemOpNodeSetParams(n, &p->of.batch);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode n, struct any_params *p)
{
    if (!known(p))
        return absent(p);
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphExecKernelNodeSetParams_v2(x, n, &p->of.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphExecMemcpyNodeSetParams(x, n, &p->of.copy.params, p->of.copy.ctx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphExecMemsetNodeSetParams(x, n, &p->of.set.params, p->of.set.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphExecHostNodeSetParams(x, n, &p->of.host);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphExecEventWaitNodeSetEvent(x, n, p->of.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphExecEventRecordNodeSetEvent(x, n, p->of.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphExecBatchMemOpNodeSetParams(x, n, &p->of.batch);
    }
    return CUDA_ERROR_INVALID_VALUE;
}
