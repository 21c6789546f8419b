package cuda

// procID names a driver function of this binding.
type procID int

const (
	procInit procID = iota
	procDriverGetVersion
	procDeviceGetCount
	procDeviceGet
	procDeviceGetName
	procDeviceGetUUID
	procDeviceTotalMem
	procDeviceGetAttribute
	procPrimaryRetain
	procPrimaryRelease
	procCtxSetCurrent
	procCtxSynchronize
	procCtxGetPriorityRange
	procModuleLoadData
	procModuleUnload
	procModuleGetFunction
	procLaunchKernel
	procStreamCreate
	procStreamCreateWithPriority
	procStreamDestroy
	procStreamSynchronize
	procStreamQuery
	procStreamWaitEvent
	procStreamWaitValue32
	procStreamWriteValue32
	procEventCreate
	procEventDestroy
	procEventRecord
	procEventSynchronize
	procEventQuery
	procEventElapsedTime
	procMemAlloc
	procMemFree
	procMemGetInfo
	procMemHostAlloc
	procMemFreeHost
	procMemHostRegister
	procMemHostUnregister
	procMemHostGetDevicePointer
	procMemcpyHtoD
	procMemcpyDtoH
	procMemcpyDtoD
	procMemcpyHtoDAsync
	procMemcpyDtoHAsync
	procMemcpyDtoDAsync
	procMemcpyAsync
	procMemsetD8
	procMemsetD32
	procMemsetD8Async
	procMemsetD32Async
	procMemGranularity
	procMemAddressReserve
	procMemAddressFree
	procMemCreate
	procMemRelease
	procMemMap
	procMemSetAccess
	procMemUnmap
	procCtxCreate
	procCtxDestroy
	procCount
)

// procNames are the exported symbols: the newest ABI of each that drivers from
// CUDA 12.0 on have. A test holds them to the recorded exports.
var procNames = [procCount]string{
	procInit:                     "cuInit",
	procDriverGetVersion:         "cuDriverGetVersion",
	procDeviceGetCount:           "cuDeviceGetCount",
	procDeviceGet:                "cuDeviceGet",
	procDeviceGetName:            "cuDeviceGetName",
	procDeviceGetUUID:            "cuDeviceGetUuid_v2",
	procDeviceTotalMem:           "cuDeviceTotalMem_v2",
	procDeviceGetAttribute:       "cuDeviceGetAttribute",
	procPrimaryRetain:            "cuDevicePrimaryCtxRetain",
	procPrimaryRelease:           "cuDevicePrimaryCtxRelease_v2",
	procCtxSetCurrent:            "cuCtxSetCurrent",
	procCtxSynchronize:           "cuCtxSynchronize",
	procCtxGetPriorityRange:      "cuCtxGetStreamPriorityRange",
	procModuleLoadData:           "cuModuleLoadData",
	procModuleUnload:             "cuModuleUnload",
	procModuleGetFunction:        "cuModuleGetFunction",
	procLaunchKernel:             "cuLaunchKernel",
	procStreamCreate:             "cuStreamCreate",
	procStreamCreateWithPriority: "cuStreamCreateWithPriority",
	procStreamDestroy:            "cuStreamDestroy_v2",
	procStreamSynchronize:        "cuStreamSynchronize",
	procStreamQuery:              "cuStreamQuery",
	procStreamWaitEvent:          "cuStreamWaitEvent",
	procStreamWaitValue32:        "cuStreamWaitValue32_v2",
	procStreamWriteValue32:       "cuStreamWriteValue32_v2",
	procEventCreate:              "cuEventCreate",
	procEventDestroy:             "cuEventDestroy_v2",
	procEventRecord:              "cuEventRecord",
	procEventSynchronize:         "cuEventSynchronize",
	procEventQuery:               "cuEventQuery",
	procEventElapsedTime:         "cuEventElapsedTime",
	procMemAlloc:                 "cuMemAlloc_v2",
	procMemFree:                  "cuMemFree_v2",
	procMemGetInfo:               "cuMemGetInfo_v2",
	procMemHostAlloc:             "cuMemHostAlloc",
	procMemFreeHost:              "cuMemFreeHost",
	procMemHostRegister:          "cuMemHostRegister_v2",
	procMemHostUnregister:        "cuMemHostUnregister",
	procMemHostGetDevicePointer:  "cuMemHostGetDevicePointer_v2",
	procMemcpyHtoD:               "cuMemcpyHtoD_v2",
	procMemcpyDtoH:               "cuMemcpyDtoH_v2",
	procMemcpyDtoD:               "cuMemcpyDtoD_v2",
	procMemcpyHtoDAsync:          "cuMemcpyHtoDAsync_v2",
	procMemcpyDtoHAsync:          "cuMemcpyDtoHAsync_v2",
	procMemcpyDtoDAsync:          "cuMemcpyDtoDAsync_v2",
	procMemcpyAsync:              "cuMemcpyAsync",
	procMemsetD8:                 "cuMemsetD8_v2",
	procMemsetD32:                "cuMemsetD32_v2",
	procMemsetD8Async:            "cuMemsetD8Async",
	procMemsetD32Async:           "cuMemsetD32Async",
	procMemGranularity:           "cuMemGetAllocationGranularity",
	procMemAddressReserve:        "cuMemAddressReserve",
	procMemAddressFree:           "cuMemAddressFree",
	procMemCreate:                "cuMemCreate",
	procMemRelease:               "cuMemRelease",
	procMemMap:                   "cuMemMap",
	procMemSetAccess:             "cuMemSetAccess",
	procMemUnmap:                 "cuMemUnmap",
	procCtxCreate:                "cuCtxCreate_v2",
	procCtxDestroy:               "cuCtxDestroy_v2",
}
