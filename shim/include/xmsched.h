/*
 * xmsched.h: a program schedules its own work on an accelerator.
 *
 * The program submits commands to preemptible queues (XQueues), and suspends and resumes them itself or has a
 * scheduler of this process do it by a policy. No daemon is needed. Link with -lxmsched_api.
 *
 * Names, numbers and meanings are XSched's where the meaning is the same; "Ours" marks what XSched lacks. Differences:
 *
 *   - Preemption level 1 only; a higher one is refused with kXSchedErrorNotSupported. Levels 2 and 3 stop whole
 *     processes and are to be had through xrun: the streams of a process share hardware channels.
 *   - Nothing here ends the process, and no handle is trusted: an unknown one is kXSchedErrorNotFound.
 *   - A submitted command can be waited for any number of times, and submitted again when it is over. It is known at
 *     least until 4096 other commands have been submitted after its end, or until HwCommandDestroy.
 *   - Configuring takes effect at once, also on a suspended queue. Out-of-range hints are refused, not clamped.
 *
 * All functions may be called from any thread, but not in the child of a fork() (kXSchedErrorNotAllowed there). After
 * an error XLastError says more. What must not be waited for inside a launch callback is the queue of that command.
 */
#ifndef XMSCHED_H
#define XMSCHED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t XQueueHandle;
typedef uint64_t HwQueueHandle;
typedef uint64_t HwCommandHandle;

typedef enum {
    kXSchedSuccess = 0,
    kXSchedErrorHardware = 1,     /* the hardware queue failed; its XQueue is broken */
    kXSchedErrorInvalidValue = 2, /* XLastError names the range */
    kXSchedErrorNotFound = 3,     /* unknown handle */
    kXSchedErrorNotAllowed = 4,
    kXSchedErrorNotSupported = 5,
    kXSchedErrorBadResponse = 6,
    kXSchedErrorTimeout = 100, /* ours */
    kXSchedErrorDropped = 101, /* ours: the command was dropped before its launch */
    kXSchedErrorUnknown = 999,
} XResult;

typedef enum {
    kPreemptLevelUnknown = 0,
    kPreemptLevelBlock = 1,
    kPreemptLevelDeactivate = 2,
    kPreemptLevelInterrupt = 3,
} XPreemptLevel;

typedef enum {
    kQueueStateUnknown = 0,
    kQueueStateIdle = 1,
    kQueueStateReady = 2,
} XQueueState;

typedef enum {
    kQueueCreateFlagNone = 0,
    /* XQueueSubmit launches on the calling thread, when the queue lets it, and returns after that. */
    kQueueCreateFlagBlockingSubmit = 1,
} XQueueCreateFlag;

typedef enum {
    kQueueSuspendFlagNone = 0,
    kQueueSuspendFlagSyncHwQueue = 1, /* return when the hardware queue is empty */
    kQueueSuspendFlagWaitAll = 2,     /* begin when all commands submitted so far are over */
    kQueueSuspendFlagWaitIdle = 4,    /* begin at a moment without any command */
} XQueueSuspendFlag;

typedef enum {
    kQueueResumeFlagNone = 0,
    kQueueResumeFlagDropCommands = 1, /* forget what has not been launched */
} XQueueResumeFlag;

typedef enum {
    kSchedulerUnknown = 0,
    kSchedulerAppManaged = 1, /* the program suspends and resumes; this is what a process begins with */
    kSchedulerLocal = 2,      /* a policy in this process */
    kSchedulerGlobal = 3,     /* not here: run the program under xrun */
} XSchedulerType;

typedef enum {
    kPolicyUnknown = 0,
    kPolicyHighestPriorityFirst = 1,
    kPolicyHeterogeneousHighestPriorityFirst = 2,
    kPolicyCPUHighestPriorityFirst = 3,
    kPolicyUtilizationPartition = 4,
    kPolicyProcessUtilizationPartition = 5,
    kPolicyStrictProcessUtilizationPartition = 6,
    kPolicyKEarliestDeadlineFirst = 7,
    kPolicyLaxity = 8,
    kPolicyActiveWindowFirst = 9,
    kPolicyCompletelyFairScheduler = 10,
    kPolicyMultiLevelFeedbackQueue = 11,
    kPolicyRoundRobin = 101,         /* ours */
    kPolicyWeightedRoundRobin = 102, /* ours */
    kPolicyFirstComeFirstServed = 103, /* ours */
} XPolicyType;

/* Launches a command's work on the hardware queue. What it returns is the command's result. */
typedef XResult (*LaunchCallback)(HwQueueHandle hwq, void *data);

typedef int32_t Priority; /* the larger one wins */
#define PRIORITY_NO_EXECUTE (-256)
#define PRIORITY_MIN (-255)
#define PRIORITY_DEFAULT 0
#define PRIORITY_MAX 255

typedef int32_t Utilization; /* percent */
#define UTILIZATION_MIN 0    /* no share of its own: what the others leave */
#define UTILIZATION_MAX 100

typedef int64_t Timeslice; /* microseconds */
#define TIMESLICE_MIN 100
#define TIMESLICE_MAX 10000000

typedef int64_t Laxity; /* microseconds, at least 100 */
#define NO_LAXITY (-1)

typedef int64_t Deadline; /* microseconds, at least 100 */
#define NO_DEADLINE (-1)

/* -- Hardware queues ------------------------------------------------------------------------------------------ */

typedef struct CUstream_st *CUstream;

/*
 * A hardware queue of a CUDA stream. For the default stream (NULL) the context must be current on this thread. An
 * existing one of the same stream is given again.
 */
XResult CudaQueueCreate(HwQueueHandle *hwq, CUstream stream);
XResult CudaQueueGet(HwQueueHandle *hwq, CUstream stream);

/* Ours: a queue of any other accelerator, as its user sees it. The functions are called from threads of the library. */
typedef struct {
    size_t size;        /* sizeof(XHwQueueOps) */
    const char *device; /* queues of one name share a device */
    /* Puts a marker behind everything launched so far; never beside a launch or another mark of this queue. */
    XResult (*mark)(void *data, void **marker);
    /* Waits until the queue has passed the marker, and gives the marker up. */
    XResult (*wait)(void *data, void *marker);
    /* Waits until everything in the queue is done. */
    XResult (*synchronize)(void *data);
} XHwQueueOps;
XResult HwQueueCreate(HwQueueHandle *hwq, const XHwQueueOps *ops, void *data);

/* Not allowed while an XQueue stands on it. The stream itself is left to the program. */
XResult HwQueueDestroy(HwQueueHandle hwq);
/* Launches past the XQueue, at once, on this thread. */
XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle cmd);
XResult HwQueueSynchronize(HwQueueHandle hwq);

/* -- Commands ------------------------------------------------------------------------------------------------- */

XResult HwCommandCreateCallback(HwCommandHandle *cmd, LaunchCallback launch, void *data);
/* Forgets the handle. A command that has been submitted still runs. */
XResult HwCommandDestroy(HwCommandHandle cmd);

/* -- XQueues -------------------------------------------------------------------------------------------------- */

/* level is kPreemptLevelBlock. A hardware queue that has an XQueue gives that one again. */
XResult XQueueCreate(XQueueHandle *xq, HwQueueHandle hwq, int64_t level, int64_t flags);
/* Lets out what is in the queue, suspended or not, and waits for it. */
XResult XQueueDestroy(XQueueHandle xq);
XResult XQueueGet(XQueueHandle *xq, HwQueueHandle hwq);
XResult XQueueSetPreemptLevel(XQueueHandle xq, int64_t level);
/*
 * At most threshold commands (1 to 65536, at first 16) are outstanding in the hardware, and batch_size of them (1 to
 * threshold, at first 8) share a completion marker. 0 and less leaves a value as it is; a batch size that is left, and
 * above the threshold, counts as the threshold.
 */
XResult XQueueSetLaunchConfig(XQueueHandle xq, int64_t threshold, int64_t batch_size);
XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle cmd);
/* The result is the command's: of its callback, of the hardware, or kXSchedErrorDropped. */
XResult XQueueWait(XQueueHandle xq, HwCommandHandle cmd);
XResult XQueueWaitAll(XQueueHandle xq);
XResult XQueueQuery(XQueueHandle xq, XQueueState *state);
XResult XQueueSuspend(XQueueHandle xq, int64_t flags);
XResult XQueueResume(XQueueHandle xq, int64_t flags);
XResult XQueueProfileHwCommandCount(XQueueHandle xq, int64_t *count);

/* Ours: submits without a handle, at half the cost. */
XResult XQueueSubmitCallback(XQueueHandle xq, LaunchCallback launch, void *data);
/*
 * Ours: the caller launches itself. Begin returns when the queue lets it; then launch on this thread, and End. cmd may
 * be waited for after that. Between the two nothing else of the queue is launched.
 */
XResult XQueueLaunchBegin(XQueueHandle xq, HwCommandHandle *cmd);
XResult XQueueLaunchEnd(XQueueHandle xq, HwCommandHandle cmd, XResult launched);
/*
 * Ours: commands submitted to xq from now on are launched when a command of another queue is over. The scheduler
 * knows: what a running queue waits for runs, too. It does not know of cuStreamWaitEvent.
 */
XResult XQueueWaitCommand(XQueueHandle xq, HwCommandHandle other);
/* Ours: XQueueWait and XQueueWaitAll (cmd 0) for so long at most; then kXSchedErrorTimeout. */
XResult XQueueWaitTimeout(XQueueHandle xq, HwCommandHandle cmd, int64_t timeout_us);

/* Ours: an XQueue at one moment. */
typedef struct {
    size_t size;       /* in: sizeof(XQueueInfo) */
    int32_t suspended; /* by the program */
    int32_t open;      /* the scheduler's word; the queue runs if it is open and not suspended */
    uint64_t submitted, launched, completed;
    int64_t threshold, batch_size;
    char device[64];
} XQueueInfo;
XResult XQueueGetInfo(XQueueHandle xq, XQueueInfo *info);

/* -- Scheduling ----------------------------------------------------------------------------------------------- */

/* Hints belong to the queue: they are kept whatever the scheduler and the policy, and take effect at once. */
XResult XHintPriority(XQueueHandle xq, Priority prio);
XResult XHintUtilization(XQueueHandle xq, Utilization util);
/* NO_LAXITY: crit_prio from the first moment on. 0 and 0 are 0 and the queue's priority, or 1 if that is not above 0. */
XResult XHintLaxity(XQueueHandle xq, Laxity lax_us, Priority lax_prio, Priority crit_prio);
XResult XHintDeadline(XQueueHandle xq, Deadline ddl_us);
/* These two are for all queues of the process, present and future. */
XResult XHintTimeslice(Timeslice ts_us);
XResult XHintKDeadline(size_t k);
XResult XHintSetScheduler(XSchedulerType type, XPolicyType policy);
/* Ours. */
XResult XHintWeight(XQueueHandle xq, int32_t weight);          /* 1 to 1000; 0: 1 */
XResult XHintIdleAfter(XQueueHandle xq, int64_t us);           /* how long without commands is idle; -1: 200 us */
XResult XHintMinShare(XQueueHandle xq, double share);          /* 0 to 0.9 */
XResult XHintQuantum(XQueueHandle xq, int64_t us);             /* XHintTimeslice for one queue; -1: none */
/* Several at once, all or none: "priority=5 quantum=10ms", with the names and values of xrun's flags. What is not named
 * stays as it is. The other call gives those that differ from the default, cut to size. */
XResult XHintText(XQueueHandle xq, const char *hints);
XResult XHintGetText(XQueueHandle xq, char *hints, size_t size);
XResult XHintSetPolicy(const char *name);                      /* kSchedulerLocal by a policy's name, "HPF" say */
XResult XPolicyNames(char *names, size_t size);                /* separated by spaces, cut to size */

/* -- Errors --------------------------------------------------------------------------------------------------- */

/* Ours: says what the last failed call of this thread was refused for. Never NULL. */
const char *XLastError(void);
const char *XResultName(XResult result);

#ifdef __cplusplus
}
#endif

#endif
