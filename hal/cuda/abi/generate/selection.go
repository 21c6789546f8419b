package main

// enumTypes are the enums whose values we write out, and their names in Go. The
// other enums are integers to us.
var enumTypes = []struct{ c, goName string }{
	{"CUcomputemode", "ComputeMode"},
	{"CUctx_flags", "ContextFlags"},
	{"CUdevice_attribute", "DeviceAttribute"},
	{"CUdriverProcAddressQueryResult", "ProcAddressStatus"},
	{"CUdriverProcAddress_flags", "ProcAddressFlags"},
	{"CUevent_flags", "EventFlags"},
	{"CUevent_record_flags", "EventRecordFlags"},
	{"CUevent_wait_flags", "EventWaitFlags"},
	{"CUexecAffinityType", "ExecAffinityType"},
	{"CUfunc_cache", "FunctionCache"},
	{"CUfunction_attribute", "FunctionAttribute"},
	{"CUgraphNodeType", "GraphNodeType"},
	{"CUjitInputType", "JITInputType"},
	{"CUjit_option", "JITOption"},
	{"CUlaunchAttributeID", "LaunchAttributeID"},
	{"CUlimit", "Limit"},
	{"CUmemAccess_flags", "MemAccessFlags"},
	{"CUmemAllocationGranularity_flags", "MemAllocationGranularityFlags"},
	{"CUmemAllocationHandleType", "MemAllocationHandleType"},
	{"CUmemAllocationType", "MemAllocationType"},
	{"CUmemAttach_flags", "MemAttachFlags"},
	{"CUmemHandleType", "MemHandleType"},
	{"CUmemLocationType", "MemLocationType"},
	{"CUmemOperationType", "MemOperationType"},
	{"CUmemPool_attribute", "MemPoolAttribute"},
	{"CUmem_advise", "MemAdvice"},
	{"CUmemorytype", "MemoryType"},
	{"CUpointer_attribute", "PointerAttribute"},
	{"CUstreamBatchMemOpType", "StreamBatchMemOpType"},
	{"CUstreamCaptureMode", "StreamCaptureMode"},
	{"CUstreamCaptureStatus", "StreamCaptureStatus"},
	{"CUstreamMemoryBarrier_flags", "StreamMemoryBarrierFlags"},
	{"CUstreamWaitValue_flags", "StreamWaitValueFlags"},
	{"CUstreamWriteValue_flags", "StreamWriteValueFlags"},
	{"CUstream_flags", "StreamFlags"},
}

// structTypes are the structs whose layout we write out, with all that they
// hold by value. The other structs stay opaque.
var structTypes = []string{
	"CUDA_BATCH_MEM_OP_NODE_PARAMS_v1",
	"CUDA_KERNEL_NODE_PARAMS_v1",
	"CUDA_KERNEL_NODE_PARAMS_v2",
	"CUDA_LAUNCH_PARAMS_v1",
	"CUDA_MEMCPY2D_v2",
	"CUDA_MEMCPY3D_PEER_v1",
	"CUDA_MEMCPY3D_v2",
	"CUDA_MEMCPY_NODE_PARAMS",
	"CUDA_MEMSET_NODE_PARAMS_v1",
	"CUDA_MEMSET_NODE_PARAMS_v2",
	"CUctxCreateParams",
	"CUdevprop_v1",
	"CUexecAffinityParam_v1",
	"CUipcMemHandle_v1",
	"CUlaunchConfig",
	"CUmemAccessDesc_v1",
	"CUmemAllocationProp_v1",
	"CUmemPoolProps_v1",
	"CUmemcpyAttributes_v1",
	"CUstreamBatchMemOpParams_v1",
	"CUuuid",
}

// macroCasts are the macros that stand for a pointer or handle, and the type of
// it; every other macro is an integer.
var macroCasts = map[string]string{
	"CU_STREAM_LEGACY":               "CUstream",
	"CU_STREAM_PER_THREAD":           "CUstream",
	"CU_LAUNCH_PARAM_END":            "void *",
	"CU_LAUNCH_PARAM_BUFFER_SIZE":    "void *",
	"CU_LAUNCH_PARAM_BUFFER_POINTER": "void *",
	"CU_DEVICE_CPU":                  "CUdevice",
	"CU_DEVICE_INVALID":              "CUdevice",
}

// macroNames are the macros that we write out.
var macroNames = []string{
	"CU_DEVICE_CPU",
	"CU_DEVICE_INVALID",
	"CU_IPC_HANDLE_SIZE",
	"CU_LAUNCH_PARAM_BUFFER_POINTER",
	"CU_LAUNCH_PARAM_BUFFER_SIZE",
	"CU_LAUNCH_PARAM_END",
	"CU_MEMHOSTALLOC_DEVICEMAP",
	"CU_MEMHOSTALLOC_PORTABLE",
	"CU_MEMHOSTALLOC_WRITECOMBINED",
	"CU_MEMHOSTREGISTER_DEVICEMAP",
	"CU_MEMHOSTREGISTER_IOMEMORY",
	"CU_MEMHOSTREGISTER_PORTABLE",
	"CU_MEMHOSTREGISTER_READ_ONLY",
	"CU_MEM_CREATE_USAGE_TILE_POOL",
	"CU_STREAM_LEGACY",
	"CU_STREAM_PER_THREAD",
}
