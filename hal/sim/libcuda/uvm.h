/* What of the unified memory driver's interface is answered here: numbers and layouts,
 * the same as nvx/faults has, with their origin, and a test there compares. */
#ifndef XM_SIM_UVM_H
#define XM_SIM_UVM_H

#include <stdint.h>

#define UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS 58u
#define UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS 59u
#define UVM_TOOLS_FLUSH_EVENTS 67u
#define UVM_TOOLS_INIT_EVENT_TRACKER_V2 76u

struct UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS {
    uint64_t queueBuffer, queueBufferSize, controlBuffer;
    uint8_t processor[16];
    uint32_t allProcessors, uvmFd, rmStatus;
};

struct UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS {
    uint64_t eventTypeFlags;
    uint32_t rmStatus;
};

struct UVM_TOOLS_FLUSH_EVENTS_PARAMS {
    uint32_t rmStatus;
};

#endif
