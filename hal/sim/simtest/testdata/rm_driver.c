/* What a process with another driver (XMSCHED_SIM_RM) sees: statuses of the controls,
 * or that there is nothing to control. */
#include "rm.h"

int main(void)
{
    void *ctx;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cuCtxSetCurrent(ctx));
    printf("calls %d, learnt %u, groups %u", calls != 0, object_count != 0, count(KEPLER_CHANNEL_GROUP_A));
    static const uint32_t marks[] = {MPS_COMPUTE, GT200_DEBUGGER, MAXWELL_PROFILER_DEVICE, AMPERE_SMC_PARTITION_REF};
    for (unsigned i = 0; i < 4; i++)
        if (count(marks[i]))
            printf(", %#x", marks[i]);
    if (count(KEPLER_CHANNEL_GROUP_A)) {
        uint64_t us = 100;
        uint32_t s = slice(find(KEPLER_CHANNEL_GROUP_A, 0, 1)->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, &us);
        printf(", slice %#x", s);
        s = hold(true, false);
        printf(", hold %#x", s);
        s = hold(false, false);
        printf(", release %#x", s);
    }
    puts("");
    CHECK(cuMemsetD8_v2(0, 0, 0));
    CHECK(cuCtxSynchronize());
    return 0;
}
