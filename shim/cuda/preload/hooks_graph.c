/* Launches in graphs, whose parameters are changed apart from launching. */
#include <string.h>

#include "graph_record.h"
#include "hooks.h"

/* The first version ends before the kernel that may stand in place of the function. */
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUresult result = XM_DRIVER(cuGraphExecKernelNodeSetParams)(exec, node, p);
    CUDA_KERNEL_NODE_PARAMS all = {0};

    if (result != CUDA_SUCCESS)
        return result;
    memcpy(&all, p, sizeof *p);
    xm_graph_kernel_set(exec, node, &all);
    return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUresult result = XM_DRIVER(cuGraphExecKernelNodeSetParams_v2)(exec, node, p);

    if (result == CUDA_SUCCESS)
        xm_graph_kernel_set(exec, node, p);
    return result;
}
