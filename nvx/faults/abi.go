package faults

import "structs"

// The interface of the unified memory driver, as data. Names keep the vendor's
// spelling; the words of the comments are ours.
//
// Origin: kernel-open/nvidia-uvm/uvm_ioctl.h, uvm_linux_ioctl.h, uvm_types.h and
// uvm_tools.c of the public open kernel modules, and a probe on an H200 with driver
// 580.159.04, which answered to these numbers and wrote entries of this layout.
// Other versions promise nothing: sizes are checked as far as the driver does, a
// status other than 0 is a refusal.
const (
	// Of /dev/nvidia-uvm-tools: requests are plain numbers.
	UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS  = 58
	UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS = 59
	UVM_TOOLS_INIT_EVENT_TRACKER_V2      = 76
	// Of /dev/nvidia-uvm: returns when what has happened is in the queues.
	UVM_TOOLS_FLUSH_EVENTS = 67

	UvmEventTypeGpuFault = 3
	UvmEventNumTypesAll  = 64

	UvmEventMemoryAccessTypeRead     = 1
	UvmEventMemoryAccessTypeWrite    = 2
	UvmEventMemoryAccessTypeAtomic   = 3
	UvmEventMemoryAccessTypePrefetch = 4
)

// Paths of the driver's files.
const (
	spacePath = "/dev/nvidia-uvm"
	toolsPath = "/dev/nvidia-uvm-tools"
)

// UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS makes a descriptor a queue's. The number of
// entries is a power of two.
type UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS struct {
	_               structs.HostLayout
	QueueBuffer     uint64    `c:"queueBuffer"`
	QueueBufferSize uint64    `c:"queueBufferSize"` // entries
	ControlBuffer   uint64    `c:"controlBuffer"`
	Processor       [16]uint8 `c:"processor"` // of one alone: its UUID
	AllProcessors   uint32    `c:"allProcessors"`
	UvmFd           uint32    `c:"uvmFd"` // whose faults
	RmStatus        uint32    `c:"rmStatus"`
	_               uint32
}

// UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS says which events, a bit each; the
// request that disables takes the same.
type UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS struct {
	_              structs.HostLayout
	EventTypeFlags uint64 `c:"eventTypeFlags"`
	RmStatus       uint32 `c:"rmStatus"`
	_              uint32
}

// UVM_TOOLS_FLUSH_EVENTS_PARAMS is the flush's.
type UVM_TOOLS_FLUSH_EVENTS_PARAMS struct {
	_        structs.HostLayout
	RmStatus uint32 `c:"rmStatus"`
}

// The control page, UvmToolsEventControlData: offsets of its words.
const (
	offGetAhead  = 0
	offGetBehind = 4
	offPutAhead  = 8
	offPutBehind = 12
	offDropped   = 16 // UvmEventNumTypesAll counts of 8 bytes
	controlBytes = 4096
)

// An entry of the second version, UvmEventEntry_V2: where a GPU fault
// (UvmEventGpuFaultInfo_V2) has what is read here.
const (
	entryBytes     = 72
	entryType      = 0
	entryAddress   = 8
	entryTime      = 16
	entryTimeGPU   = 24
	entryBatch     = 32
	entryClient    = 36
	entryAccess    = 37
	accessTypeLast = UvmEventMemoryAccessTypePrefetch
)
