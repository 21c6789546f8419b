/* Manual scheduling: a batch model is suspended for as long as an urgent one has work, and resumed after it. */
#include "gpu.h"

int main(void)
{
    gpu_open();
    struct model batch = model_new(60, 30000), urgent = model_new(4, 30000);
    HwQueueHandle hwq = 0;
    XQueueHandle xq = 0;
    XSCHED(CudaQueueCreate(&hwq, batch.stream));
    XSCHED(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    XSCHED(XQueueSetLaunchConfig(xq, 4, 2));
    for (int i = 0; i < batch.layers; i++)
        XSCHED(XQueueSubmitCallback(xq, model_layer, &batch));
    for (int request = 0; request < 3; request++) {
        /* What is outstanding, at most four layers, is done when this returns. */
        XSCHED(XQueueSuspend(xq, kQueueSuspendFlagSyncHwQueue));
        XQueueInfo before = {.size = sizeof before}, after = {.size = sizeof after};
        XSCHED(XQueueGetInfo(xq, &before));
        for (int i = 0; i < urgent.layers; i++)
            XSCHED(model_layer(hwq, &urgent));
        CUDA(cuStreamSynchronize(urgent.stream));
        model_verify(&urgent);
        XSCHED(XQueueGetInfo(xq, &after));
        printf("request %d: the batch stood still: %s\n", request, before.completed == after.completed ? "true" : "false");
        XSCHED(XQueueResume(xq, kQueueResumeFlagNone));
    }
    XSCHED(XQueueWaitAll(xq));
    int64_t count = 0;
    XSCHED(XQueueProfileHwCommandCount(xq, &count));
    printf("batch: %lld layers done\n", (long long)count);
    XSCHED(XQueueDestroy(xq));
    XSCHED(HwQueueDestroy(hwq));
    model_verify(&batch);
    return 0;
}
