/*
 * The public functions of the C interface. They check pointers, stand aside in a forked child, where Go's runtime has no
 * threads, and go on in Go; what an error says is kept for each thread here.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "api.h"

#include "_cgo_export.h"

#define PUBLIC __attribute__((visibility("default")))

static _Thread_local char last_error[512];
static atomic_bool forked;

static void child(void) { atomic_store_explicit(&forked, true, memory_order_relaxed); }

/* Registering a handler is all that happens while the library is loaded. */
__attribute__((constructor)) static void loaded(void) { pthread_atfork(NULL, NULL, child); }

XResult xm_api_fail(XResult code, const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
    return code;
}

#define ENTER()                                                                                                        \
    do {                                                                                                               \
        if (atomic_load_explicit(&forked, memory_order_relaxed))                                                       \
            return xm_api_fail(kXSchedErrorNotAllowed, "not in the child of a fork: exec first");                      \
    } while (0)
#define NEEDS(pointer)                                                                                                 \
    do {                                                                                                               \
        ENTER();                                                                                                       \
        if (!(pointer))                                                                                                \
            return xm_api_fail(kXSchedErrorInvalidValue, #pointer " is NULL");                                         \
    } while (0)

XResult xm_api_launch(LaunchCallback launch, HwQueueHandle hwq, void *data) { return launch(hwq, data); }
XResult xm_api_mark(const XHwQueueOps *ops, void *data, void **marker) { return ops->mark(data, marker); }
XResult xm_api_wait(const XHwQueueOps *ops, void *data, void *marker) { return ops->wait(data, marker); }
XResult xm_api_synchronize(const XHwQueueOps *ops, void *data) { return ops->synchronize(data); }

PUBLIC XResult CudaQueueCreate(HwQueueHandle *hwq, CUstream stream)
{
    NEEDS(hwq);
    return xmgo_stream_create(hwq, (uintptr_t)stream);
}

PUBLIC XResult CudaQueueGet(HwQueueHandle *hwq, CUstream stream)
{
    NEEDS(hwq);
    return xmgo_stream_find(hwq, (uintptr_t)stream);
}

PUBLIC XResult HwQueueCreate(HwQueueHandle *hwq, const XHwQueueOps *ops, void *data)
{
    NEEDS(hwq);
    NEEDS(ops);
    if (ops->size != sizeof *ops)
        return xm_api_fail(kXSchedErrorInvalidValue, "ops->size is not sizeof(XHwQueueOps)");
    NEEDS(ops->device);
    NEEDS(ops->mark);
    NEEDS(ops->wait);
    NEEDS(ops->synchronize);
    return xmgo_hardware_create(hwq, (XHwQueueOps *)ops, data);
}

PUBLIC XResult HwQueueDestroy(HwQueueHandle hwq)
{
    ENTER();
    return xmgo_hardware_destroy(hwq);
}

PUBLIC XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle cmd)
{
    ENTER();
    return xmgo_hardware_launch(hwq, cmd);
}

PUBLIC XResult HwQueueSynchronize(HwQueueHandle hwq)
{
    ENTER();
    return xmgo_hardware_synchronize(hwq);
}

PUBLIC XResult HwCommandCreateCallback(HwCommandHandle *cmd, LaunchCallback launch, void *data)
{
    NEEDS(cmd);
    NEEDS(launch);
    *cmd = xmgo_command_create(launch, data);
    return kXSchedSuccess;
}

PUBLIC XResult HwCommandDestroy(HwCommandHandle cmd)
{
    ENTER();
    return xmgo_command_destroy(cmd);
}

PUBLIC XResult XQueueCreate(XQueueHandle *xq, HwQueueHandle hwq, int64_t level, int64_t flags)
{
    NEEDS(xq);
    return xmgo_create(xq, hwq, level, flags);
}

PUBLIC XResult XQueueDestroy(XQueueHandle xq)
{
    ENTER();
    return xmgo_destroy(xq);
}

PUBLIC XResult XQueueGet(XQueueHandle *xq, HwQueueHandle hwq)
{
    NEEDS(xq);
    return xmgo_find(xq, hwq);
}

PUBLIC XResult XQueueSetPreemptLevel(XQueueHandle xq, int64_t level)
{
    ENTER();
    return xmgo_set_level(xq, level);
}

PUBLIC XResult XQueueSetLaunchConfig(XQueueHandle xq, int64_t threshold, int64_t batch_size)
{
    ENTER();
    return xmgo_configure(xq, threshold, batch_size);
}

PUBLIC XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle cmd)
{
    ENTER();
    return xmgo_submit(xq, cmd);
}

PUBLIC XResult XQueueSubmitCallback(XQueueHandle xq, LaunchCallback launch, void *data)
{
    NEEDS(launch);
    return xmgo_submit_callback(xq, launch, data);
}

PUBLIC XResult XQueueLaunchBegin(XQueueHandle xq, HwCommandHandle *cmd)
{
    NEEDS(cmd);
    return xmgo_begin(xq, cmd);
}

PUBLIC XResult XQueueLaunchEnd(XQueueHandle xq, HwCommandHandle cmd, XResult launched)
{
    ENTER();
    return xmgo_end(xq, cmd, launched);
}

PUBLIC XResult XQueueWaitCommand(XQueueHandle xq, HwCommandHandle other)
{
    ENTER();
    return xmgo_wait_command(xq, other);
}

PUBLIC XResult XQueueWait(XQueueHandle xq, HwCommandHandle cmd)
{
    ENTER();
    if (!cmd)
        return xm_api_fail(kXSchedErrorNotFound, "command 0 is not known");
    return xmgo_wait(xq, cmd, -1);
}

PUBLIC XResult XQueueWaitAll(XQueueHandle xq)
{
    ENTER();
    return xmgo_wait(xq, 0, -1);
}

PUBLIC XResult XQueueWaitTimeout(XQueueHandle xq, HwCommandHandle cmd, int64_t timeout_us)
{
    ENTER();
    return xmgo_wait(xq, cmd, timeout_us < 0 ? 0 : timeout_us);
}

PUBLIC XResult XQueueQuery(XQueueHandle xq, XQueueState *state)
{
    NEEDS(state);
    return xmgo_query(xq, state);
}

PUBLIC XResult XQueueSuspend(XQueueHandle xq, int64_t flags)
{
    ENTER();
    return xmgo_suspend(xq, flags);
}

PUBLIC XResult XQueueResume(XQueueHandle xq, int64_t flags)
{
    ENTER();
    return xmgo_resume(xq, flags);
}

PUBLIC XResult XQueueProfileHwCommandCount(XQueueHandle xq, int64_t *count)
{
    NEEDS(count);
    return xmgo_count(xq, count);
}

PUBLIC XResult XQueueGetInfo(XQueueHandle xq, XQueueInfo *info)
{
    NEEDS(info);
    if (info->size != sizeof *info)
        return xm_api_fail(kXSchedErrorInvalidValue, "info->size is not sizeof(XQueueInfo)");
    return xmgo_info(xq, info);
}

PUBLIC XResult XHintPriority(XQueueHandle xq, Priority prio)
{
    ENTER();
    return xmgo_hint_priority(xq, prio);
}

PUBLIC XResult XHintUtilization(XQueueHandle xq, Utilization util)
{
    ENTER();
    return xmgo_hint_utilization(xq, util);
}

PUBLIC XResult XHintLaxity(XQueueHandle xq, Laxity lax_us, Priority lax_prio, Priority crit_prio)
{
    ENTER();
    return xmgo_hint_laxity(xq, lax_us, lax_prio, crit_prio);
}

PUBLIC XResult XHintDeadline(XQueueHandle xq, Deadline ddl_us)
{
    ENTER();
    return xmgo_hint_deadline(xq, ddl_us);
}

PUBLIC XResult XHintTimeslice(Timeslice ts_us)
{
    ENTER();
    return xmgo_hint_timeslice(ts_us);
}

PUBLIC XResult XHintKDeadline(size_t k)
{
    ENTER();
    return xmgo_hint_k(k);
}

PUBLIC XResult XHintWeight(XQueueHandle xq, int32_t weight)
{
    ENTER();
    return xmgo_hint_weight(xq, weight);
}

PUBLIC XResult XHintIdleAfter(XQueueHandle xq, int64_t us)
{
    ENTER();
    return xmgo_hint_idle_after(xq, us);
}

PUBLIC XResult XHintMinShare(XQueueHandle xq, double share)
{
    ENTER();
    return xmgo_hint_min_share(xq, share);
}

PUBLIC XResult XHintQuantum(XQueueHandle xq, int64_t us)
{
    ENTER();
    return xmgo_hint_quantum(xq, us);
}

PUBLIC XResult XHintText(XQueueHandle xq, const char *hints)
{
    NEEDS(hints);
    return xmgo_hint_text(xq, (char *)hints);
}

PUBLIC XResult XHintGetText(XQueueHandle xq, char *hints, size_t size)
{
    NEEDS(hints);
    if (!size)
        return xm_api_fail(kXSchedErrorInvalidValue, "size is 0");
    return xmgo_hint_get_text(xq, hints, size);
}

PUBLIC XResult XHintSetScheduler(XSchedulerType type, XPolicyType policy)
{
    ENTER();
    return xmgo_set_scheduler((int)type, (int)policy);
}

PUBLIC XResult XHintSetPolicy(const char *name)
{
    NEEDS(name);
    return xmgo_set_policy((char *)name);
}

PUBLIC XResult XPolicyNames(char *names, size_t size)
{
    NEEDS(names);
    if (!size)
        return xm_api_fail(kXSchedErrorInvalidValue, "size is 0");
    return xmgo_policy_names(names, size);
}

PUBLIC const char *XLastError(void) { return last_error; }

PUBLIC const char *XResultName(XResult result)
{
    switch (result) {
    case kXSchedSuccess: return "success";
    case kXSchedErrorHardware: return "hardware error";
    case kXSchedErrorInvalidValue: return "invalid value";
    case kXSchedErrorNotFound: return "not found";
    case kXSchedErrorNotAllowed: return "not allowed";
    case kXSchedErrorNotSupported: return "not supported";
    case kXSchedErrorBadResponse: return "bad response";
    case kXSchedErrorTimeout: return "timeout";
    case kXSchedErrorDropped: return "dropped";
    case kXSchedErrorUnknown: break;
    }
    return "unknown error";
}
