/* Every function of xmsched.h over a hardware queue of this program's own: what it does, and what it refuses. */
#include <sys/wait.h>

#include "check.h"

static void queues(void)
{
    struct hardware *h = hardware_new(FOREVER);
    HwQueueHandle hwq = hardware_handle(h);
    XQueueHandle xq = 0, again = 0;
    GIVES(kXSchedErrorNotFound, XQueueGet(&xq, hwq));
    GIVES(kXSchedErrorNotSupported, XQueueCreate(&xq, hwq, kPreemptLevelDeactivate, kQueueCreateFlagNone));
    EXPECT(strstr(XLastError(), "xrun"));
    GIVES(kXSchedErrorNotSupported, XQueueCreate(&xq, hwq, kPreemptLevelInterrupt, kQueueCreateFlagNone));
    GIVES(kXSchedErrorInvalidValue, XQueueCreate(&xq, hwq, 4, kQueueCreateFlagNone));
    GIVES(kXSchedErrorInvalidValue, XQueueCreate(&xq, hwq, kPreemptLevelBlock, 64));
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    OK(XQueueCreate(&again, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    EXPECT(again == xq);
    OK(XQueueGet(&again, hwq));
    EXPECT(again == xq);
    OK(XQueueSetPreemptLevel(xq, kPreemptLevelBlock));
    GIVES(kXSchedErrorNotSupported, XQueueSetPreemptLevel(xq, kPreemptLevelDeactivate));
    GIVES(kXSchedErrorNotAllowed, HwQueueDestroy(hwq));

    /* Waiting for a command, again and again, and for a second one of the same handle. */
    HwCommandHandle cmd = 0;
    OK(HwCommandCreateCallback(&cmd, hardware_launch, h));
    GIVES(kXSchedErrorNotAllowed, XQueueWait(xq, cmd));
    for (int i = 0; i < 3; i++) {
        OK(XQueueSubmit(xq, cmd));
        OK(XQueueWait(xq, cmd));
        OK(XQueueWait(xq, cmd));
    }
    OK(XQueueWaitTimeout(xq, cmd, 0));
    OK(HwQueueLaunch(hwq, cmd));
    OK(HwQueueSynchronize(hwq));
    EXPECT(hardware_launched(h) == 4);
    XQueueState state = kQueueStateUnknown;
    OK(XQueueQuery(xq, &state));
    EXPECT(state == kQueueStateIdle);
    int64_t count = 0;
    OK(XQueueProfileHwCommandCount(xq, &count));
    EXPECT(count == 3);
    OK(HwCommandDestroy(cmd));
    GIVES(kXSchedErrorNotFound, XQueueWait(xq, cmd));
    GIVES(kXSchedErrorNotFound, XQueueSubmit(xq, cmd));

    OK(XQueueDestroy(xq));
    GIVES(kXSchedErrorNotFound, XQueueDestroy(xq));
    GIVES(kXSchedErrorNotFound, XQueueWaitAll(xq));
    OK(HwQueueDestroy(hwq));
    GIVES(kXSchedErrorNotFound, HwQueueDestroy(hwq));
}

/* Case 35, and what XSched makes of a suspended queue: configured, destroyed, waited for. */
static void suspended(void)
{
    struct hardware *h = hardware_new(FOREVER);
    HwQueueHandle hwq = hardware_handle(h);
    XQueueHandle xq = 0;
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    OK(XQueueSuspend(xq, kQueueSuspendFlagSyncHwQueue));
    OK(XQueueSuspend(xq, kQueueSuspendFlagNone));
    for (int i = 0; i < 5; i++)
        OK(XQueueSubmitCallback(xq, hardware_launch, h));
    OK(XQueueSetLaunchConfig(xq, 4, -1 + 3));
    OK(XQueueSetLaunchConfig(xq, 0, 1));
    GIVES(kXSchedErrorInvalidValue, XQueueSetLaunchConfig(xq, 0, 5));
    OK(XQueueSetLaunchConfig(xq, 0, 4));
    OK(XQueueSetLaunchConfig(xq, 2, 0));
    OK(XQueueSetLaunchConfig(xq, 4, 1));
    EXPECT(strstr(XLastError(), "1 to 4"));
    GIVES(kXSchedErrorTimeout, XQueueWaitTimeout(xq, 0, 1000));
    XQueueInfo info = {.size = sizeof info};
    OK(XQueueGetInfo(xq, &info));
    EXPECT(info.suspended == 1 && info.open == 1 && info.submitted == 5 && info.launched == 0);
    EXPECT(info.threshold == 4 && info.batch_size == 1 && !strcmp(info.device, "test device"));
    info.size = 3;
    GIVES(kXSchedErrorInvalidValue, XQueueGetInfo(xq, &info));

    HwCommandHandle dropped = 0;
    OK(HwCommandCreateCallback(&dropped, hardware_launch, h));
    OK(XQueueSubmit(xq, dropped));
    GIVES(kXSchedErrorNotAllowed, XQueueSubmit(xq, dropped));
    OK(XQueueResume(xq, kQueueResumeFlagDropCommands));
    GIVES(kXSchedErrorDropped, XQueueWait(xq, dropped));
    GIVES(kXSchedErrorInvalidValue, XQueueSuspend(xq, 64));
    GIVES(kXSchedErrorInvalidValue, XQueueResume(xq, 64));
    OK(XQueueSuspend(xq, kQueueSuspendFlagWaitAll | kQueueSuspendFlagWaitIdle));
    OK(XQueueSubmit(xq, dropped));
    EXPECT(hardware_launched(h) == 0);
    OK(XQueueDestroy(xq));
    EXPECT(hardware_launched(h) == 1);
    OK(HwQueueDestroy(hwq));
}

static XResult refusing(HwQueueHandle hwq, void *data)
{
    (void)hwq;
    (void)data;
    return kXSchedErrorBadResponse;
}

static void errors(void)
{
    struct hardware *h = hardware_new(FOREVER);
    HwQueueHandle hwq = hardware_handle(h);
    XQueueHandle xq = 0;
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    HwCommandHandle bad = 0, good = 0;
    OK(HwCommandCreateCallback(&bad, refusing, NULL));
    OK(HwCommandCreateCallback(&good, hardware_launch, h));
    OK(XQueueSubmit(xq, bad));
    OK(XQueueSubmit(xq, good));
    GIVES(kXSchedErrorBadResponse, XQueueWait(xq, bad));
    OK(XQueueWait(xq, good));
    hardware_allow(h, 0, true);
    OK(XQueueSubmit(xq, good));
    GIVES(kXSchedErrorHardware, XQueueWait(xq, good));
    GIVES(kXSchedErrorHardware, XQueueSubmit(xq, bad));
    GIVES(kXSchedErrorHardware, XQueueWaitAll(xq));
    GIVES(kXSchedErrorHardware, HwQueueSynchronize(hwq));
    GIVES(kXSchedErrorHardware, XQueueDestroy(xq));
    OK(HwQueueDestroy(hwq));

    /* Nothing is trusted. */
    XQueueState state;
    int64_t count;
    GIVES(kXSchedErrorInvalidValue, XQueueCreate(NULL, 1, 1, 0));
    GIVES(kXSchedErrorInvalidValue, HwCommandCreateCallback(&bad, NULL, NULL));
    GIVES(kXSchedErrorInvalidValue, HwQueueCreate(&hwq, NULL, NULL));
    GIVES(kXSchedErrorInvalidValue, XQueueQuery(1, NULL));
    GIVES(kXSchedErrorInvalidValue, XHintSetPolicy(NULL));
    XHwQueueOps ops = {0};
    GIVES(kXSchedErrorInvalidValue, HwQueueCreate(&hwq, &ops, NULL));
    for (uint64_t unknown = 1ULL << 40; unknown; unknown <<= 8) {
        GIVES(kXSchedErrorNotFound, XQueueCreate(&xq, unknown, 1, 0));
        GIVES(kXSchedErrorNotFound, XQueueSubmit(unknown, good));
        GIVES(kXSchedErrorNotFound, XQueueWait(unknown, good));
        GIVES(kXSchedErrorNotFound, XQueueSuspend(unknown, 0));
        GIVES(kXSchedErrorNotFound, XQueueResume(unknown, 0));
        GIVES(kXSchedErrorNotFound, XQueueQuery(unknown, &state));
        GIVES(kXSchedErrorNotFound, XQueueProfileHwCommandCount(unknown, &count));
        GIVES(kXSchedErrorNotFound, XHintPriority(unknown, 1));
        GIVES(kXSchedErrorNotFound, HwQueueLaunch(unknown, good));
        GIVES(kXSchedErrorNotFound, HwCommandDestroy(unknown));
        GIVES(kXSchedErrorNotFound, HwQueueDestroy(good)); /* a handle of another kind */
    }
    EXPECT(strlen(XLastError()) > 0 && !strcmp(XResultName(kXSchedErrorTimeout), "timeout"));
}

static void hints(void)
{
    struct hardware *h = hardware_new(FOREVER);
    HwQueueHandle hwq = hardware_handle(h);
    XQueueHandle xq = 0;
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    OK(XHintPriority(xq, PRIORITY_MAX));
    OK(XHintPriority(xq, PRIORITY_NO_EXECUTE));
    OK(XHintPriority(xq, PRIORITY_MIN));
    GIVES(kXSchedErrorInvalidValue, XHintPriority(xq, PRIORITY_MAX + 1));
    EXPECT(strstr(XLastError(), "-255 to 255"));
    OK(XHintUtilization(xq, UTILIZATION_MIN));
    OK(XHintUtilization(xq, UTILIZATION_MAX));
    GIVES(kXSchedErrorInvalidValue, XHintUtilization(xq, 101));
    OK(XHintTimeslice(TIMESLICE_MIN));
    OK(XHintTimeslice(TIMESLICE_MAX));
    GIVES(kXSchedErrorInvalidValue, XHintTimeslice(TIMESLICE_MIN - 1));
    GIVES(kXSchedErrorInvalidValue, XHintTimeslice(0));
    OK(XHintDeadline(xq, 1000));
    OK(XHintDeadline(xq, NO_DEADLINE));
    GIVES(kXSchedErrorInvalidValue, XHintDeadline(xq, 1));
    OK(XHintKDeadline(3));
    GIVES(kXSchedErrorInvalidValue, XHintKDeadline(0));
    OK(XHintLaxity(xq, 2000, 0, 5));
    GIVES(kXSchedErrorInvalidValue, XHintLaxity(xq, 2000, 5, 0));
    char hints[256], little[8];
    OK(XHintLaxity(xq, NO_LAXITY, 1, 7)); /* urgent from the first moment on */
    OK(XHintGetText(xq, hints, sizeof hints));
    EXPECT(strstr(hints, "laxity=0s:1:7"));
    GIVES(kXSchedErrorInvalidValue, XHintLaxity(xq, NO_LAXITY, 1, PRIORITY_MAX + 1));
    OK(XHintLaxity(xq, NO_LAXITY, 0, 0));
    OK(XHintText(xq, ""));
    OK(XHintText(xq, " priority=3  quantum=10ms laxity=2ms:1:5 gang=a"));
    OK(XHintGetText(xq, hints, sizeof hints));
    EXPECT(strstr(hints, "priority=3 ") && strstr(hints, "quantum=10ms") && strstr(hints, "laxity=2ms:1:5") && strstr(hints, "gang=a"));
    GIVES(kXSchedErrorInvalidValue, XHintText(xq, "priority=4 quantum=11s weight=2")); /* all or none */
    EXPECT(strstr(XLastError(), "quantum"));
    GIVES(kXSchedErrorInvalidValue, XHintText(xq, "priority=4 prio=3"));
    EXPECT(strstr(XLastError(), "prio=3") && strstr(XLastError(), "min-share"));
    GIVES(kXSchedErrorInvalidValue, XHintText(xq, "priority"));
    GIVES(kXSchedErrorInvalidValue, XHintText(xq, NULL));
    GIVES(kXSchedErrorNotFound, XHintText(xq + 1, "priority=4"));
    char again[256];
    OK(XHintGetText(xq, again, sizeof again));
    EXPECT(strcmp(hints, again) == 0);
    OK(XHintGetText(xq, little, sizeof little));
    EXPECT(strncmp(hints, little, sizeof little - 1) == 0 && strlen(little) == sizeof little - 1);
    GIVES(kXSchedErrorInvalidValue, XHintGetText(xq, little, 0));
    OK(XHintWeight(xq, 4));
    GIVES(kXSchedErrorInvalidValue, XHintWeight(xq, -1));
    OK(XHintIdleAfter(xq, 500));
    OK(XHintQuantum(xq, 5000));
    OK(XHintMinShare(xq, 0.5));
    GIVES(kXSchedErrorInvalidValue, XHintMinShare(xq, 1.5));
    OK(XQueueDestroy(xq));
    OK(HwQueueDestroy(hwq));
}

static void scheduling(void)
{
    char names[256];
    OK(XPolicyNames(names, sizeof names));
    EXPECT(strstr(names, "HPF") && strstr(names, "RR"));
    GIVES(kXSchedErrorInvalidValue, XHintSetPolicy("no such policy"));
    EXPECT(strstr(XLastError(), "HPF"));
    GIVES(kXSchedErrorInvalidValue, XHintSetScheduler(kSchedulerLocal, (XPolicyType)77));
    GIVES(kXSchedErrorInvalidValue, XHintSetScheduler(kSchedulerUnknown, kPolicyUnknown));
    GIVES(kXSchedErrorNotSupported, XHintSetScheduler(kSchedulerGlobal, kPolicyHighestPriorityFirst));

    struct hardware *high = hardware_new(0), *low = hardware_new(0);
    HwQueueHandle high_hw = hardware_handle(high), low_hw = hardware_handle(low);
    XQueueHandle hq = 0, lq = 0;
    OK(XQueueCreate(&hq, high_hw, kPreemptLevelBlock, kQueueCreateFlagNone));
    OK(XHintPriority(hq, 1)); /* before there is a scheduler: kept */
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
    OK(XQueueCreate(&lq, low_hw, kPreemptLevelBlock, kQueueCreateFlagNone));
    OK(XQueueSetLaunchConfig(lq, 1, 1));

    OK(XQueueSubmitCallback(hq, hardware_launch, high));
    XQueueInfo info = {.size = sizeof info};
    OK(XQueueGetInfo(lq, &info));
    EXPECT(!info.open && !info.suspended);
    HwCommandHandle awaited = 0;
    OK(HwCommandCreateCallback(&awaited, hardware_launch, low));
    OK(XQueueSubmit(lq, awaited));
    OK(XQueueSubmitCallback(lq, hardware_launch, low));
    rest(20000);
    EXPECT(hardware_launched(low) == 0);

    /* Case 18: what the running queue waits for runs, and nothing else of its queue. */
    OK(XQueueWaitCommand(hq, awaited));
    OK(XQueueSubmitCallback(hq, hardware_launch, high));
    await_launched(low, 1);
    hardware_allow(low, 1, false);
    await_launched(high, 2);
    rest(20000);
    EXPECT(hardware_launched(low) == 1);
    hardware_allow(high, FOREVER, false);
    OK(XQueueWaitAll(hq));
    await_launched(low, 2); /* once the other is idle */
    hardware_allow(low, FOREVER, false);

    /* Without a scheduler everything runs. */
    OK(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown));
    OK(XQueueGetInfo(lq, &info));
    EXPECT(info.open);
    OK(XHintSetPolicy("rr"));
    OK(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown));
    OK(XQueueDestroy(hq));
    OK(XQueueDestroy(lq));
    OK(HwQueueDestroy(high_hw));
    OK(HwQueueDestroy(low_hw));
}

static pthread_t launched_on;
static XResult note_thread(HwQueueHandle hwq, void *data)
{
    launched_on = pthread_self();
    return hardware_launch(hwq, data);
}

static void direct(void)
{
    struct hardware *h = hardware_new(FOREVER);
    HwQueueHandle hwq = hardware_handle(h);
    XQueueHandle xq = 0;
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagBlockingSubmit));
    OK(XQueueSubmitCallback(xq, note_thread, h));
    EXPECT(pthread_equal(launched_on, pthread_self()));
    HwCommandHandle cmd = 0, failed = 0;
    OK(XQueueLaunchBegin(xq, &cmd));
    OK(hardware_launch(hwq, h));
    OK(XQueueLaunchEnd(xq, cmd, kXSchedSuccess));
    GIVES(kXSchedErrorNotAllowed, XQueueLaunchEnd(xq, cmd, kXSchedSuccess));
    OK(XQueueWait(xq, cmd));
    OK(XQueueLaunchBegin(xq, &failed));
    OK(XQueueLaunchEnd(xq, failed, kXSchedErrorInvalidValue));
    GIVES(kXSchedErrorInvalidValue, XQueueWait(xq, failed));
    GIVES(kXSchedErrorNotAllowed, XQueueSubmit(xq, cmd));
    OK(XQueueDestroy(xq));
    OK(HwQueueDestroy(hwq));
}

/* Many more commands than are kept, none of them destroyed. */
static void many(void)
{
    struct hardware *h = hardware_new(FOREVER);
    HwQueueHandle hwq = hardware_handle(h);
    XQueueHandle xq = 0;
    OK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    HwCommandHandle first = 0, last = 0;
    for (int i = 0; i < 20000; i++) {
        OK(HwCommandCreateCallback(&last, hardware_launch, h));
        OK(XQueueSubmit(xq, last));
        if (!first)
            first = last;
        if (i % 100 == 0)
            OK(XQueueWaitAll(xq));
    }
    OK(XQueueWaitAll(xq));
    OK(XQueueWait(xq, last));
    GIVES(kXSchedErrorNotFound, XQueueWait(xq, first));
    OK(XQueueDestroy(xq));
    OK(HwQueueDestroy(hwq));
}

struct work {
    XQueueHandle xq;
    struct hardware *h;
};

/* A command that has ended is forgotten once many have after it: a thread that slept meanwhile finds it no more. */
static void ok_or_forgotten(XResult result)
{
    if (result != kXSchedErrorNotFound)
        OK(result);
}

static void *worker(void *data)
{
    struct work *w = data;
    for (int i = 0; i < 2000; i++) {
        HwCommandHandle cmd = 0;
        OK(HwCommandCreateCallback(&cmd, hardware_launch, w->h));
        OK(XQueueSubmit(w->xq, cmd));
        if (i % 50 == 0) {
            OK(XQueueSuspend(w->xq, 0));
            OK(XQueueResume(w->xq, 0));
            OK(XHintPriority(w->xq, i % 7));
            ok_or_forgotten(XQueueWait(w->xq, cmd));
        }
        if (i % 3 == 0)
            ok_or_forgotten(HwCommandDestroy(cmd));
    }
    return NULL;
}

static void threads(void)
{
    OK(XHintSetPolicy("HPF"));
    struct work work[2];
    HwQueueHandle hwq[2];
    for (int i = 0; i < 2; i++) {
        work[i].h = hardware_new(FOREVER);
        hwq[i] = hardware_handle(work[i].h);
        OK(XQueueCreate(&work[i].xq, hwq[i], kPreemptLevelBlock, kQueueCreateFlagNone));
    }
    pthread_t thread[6];
    for (int i = 0; i < 6; i++)
        EXPECT(!pthread_create(&thread[i], NULL, worker, &work[i % 2]));
    for (int i = 0; i < 6; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        OK(XQueueWaitAll(work[i].xq));
        EXPECT(hardware_launched(work[i].h) == 6000);
        OK(XQueueDestroy(work[i].xq));
        OK(HwQueueDestroy(hwq[i]));
    }
    OK(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown));
}

static void forks(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        char names[8];
        _exit(XPolicyNames(names, sizeof names) == kXSchedErrorNotAllowed ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    queues();
    suspended();
    errors();
    hints();
    scheduling();
    direct();
    many();
    threads();
    forks();
    puts("ok");
    return 0;
}
