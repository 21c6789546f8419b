package conformance

import (
	"xmsched/hal/cuda/abi"
)

// one is a question of one call: the label is the line it would write.
//
//go:uintptrescapes
func one(symbol, what string, args ...uintptr) question {
	return question{symbol + "(" + what + ")", func(t *transcript) {
		if t.context() {
			t.call(symbol, what, args...)
		}
	}}
}

// nullPointers are calls with nowhere, or no room, to put the answer. Each may
// end the process.
var nullPointers = testCase{"null-pointers", []question{
	one("cuGetErrorName", "0, NULL", 0, 0),
	one("cuGetErrorString", "0, NULL", 0, 0),
	one("cuDeviceGetCount", "NULL", 0),
	one("cuDeviceGet", "NULL, 0", 0, 0),
	one("cuDeviceGetName", "NULL, 16, 0", 0, 16, 0),
	noRoom("0", 0),
	noRoom("-1", -1),
	one("cuDeviceGetUuid_v2", "NULL, 0", 0, 0),
	one("cuDeviceTotalMem_v2", "NULL, 0", 0, 0),
	one("cuDeviceGetAttribute", "NULL, 1, 0", 0, 1, 0),
	one("cuDevicePrimaryCtxRetain", "NULL, 0", 0, 0),
	one("cuDevicePrimaryCtxGetState", "0, NULL, NULL", 0, 0, 0),
	one("cuCtxCreate_v2", "NULL, 0, 0", 0, 0, 0),
	one("cuCtxGetCurrent", "NULL", 0),
	one("cuCtxGetDevice", "NULL", 0),
	one("cuModuleLoadData", "NULL, NULL", 0, 0),
	one("cuModuleGetFunction", "NULL, NULL, NULL", 0, 0, 0),
	one("cuMemAlloc_v2", "NULL, 4096", 0, 4096),
	one("cuMemGetInfo_v2", "NULL, NULL", 0, 0),
	one("cuMemGetAddressRange_v2", "NULL, NULL, 0x7000000000", 0, 0, 0x7000000000),
	one("cuPointerGetAttribute", "NULL, MEMORY_TYPE, 0x7000000000", 0, uintptr(abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE), 0x7000000000),
	one("cuMemHostGetDevicePointer_v2", "NULL, NULL, 0", 0, 0, 0),
	one("cuMemHostGetFlags", "NULL, NULL", 0, 0),
	one("cuMemHostAlloc", "NULL, 4096, 0", 0, 4096, 0),
	one("cuStreamCreate", "NULL, 0", 0, 0),
	one("cuStreamGetPriority", "NULL, NULL", 0, 0),
	one("cuStreamGetFlags", "NULL, NULL", 0, 0),
	one("cuStreamIsCapturing", "NULL, NULL", 0, 0),
	one("cuStreamGetCtx", "NULL, NULL", 0, 0),
	one("cuEventCreate", "NULL, 0", 0, 0),
	one("cuEventDestroy_v2", "NULL", 0),
	one("cuEventQuery", "NULL", 0),
	one("cuEventRecord", "NULL, NULL", 0, 0),
	one("cuEventSynchronize", "NULL", 0),
	one("cuEventElapsedTime", "NULL, NULL, NULL", 0, 0, 0),
	one("cuStreamWaitEvent", "NULL, NULL, 0", 0, 0, 0),
	one("cuGetProcAddress_v2", "NULL, NULL, 12000, 0, NULL", 0, 0, 12000, 0, 0),
	{"cuGetProcAddress_v2(\"cuInit\", NULL, 12000, 0, NULL)", func(t *transcript) {
		t.call("cuGetProcAddress_v2", "\"cuInit\", NULL, 12000, 0, NULL", text("cuInit"), 0, 12000, 0, 0)
	}},
	{"cuMemcpyHtoD_v2(a, NULL, 32)", func(t *transcript) {
		if t.context() {
			t.call("cuMemcpyHtoD_v2", "a, NULL, 32", uintptr(t.alloc(4096)), 0, 32)
		}
	}},
	{"cuMemcpyDtoH_v2(NULL, a, 32)", func(t *transcript) {
		if t.context() {
			t.call("cuMemcpyDtoH_v2", "NULL, a, 32", 0, uintptr(t.alloc(4096)), 32)
		}
	}},
	{"cuLaunchKernel(xm_fill, no parameters)", func(t *transcript) {
		if !t.context() {
			return
		}
		if m, ok := t.load(); ok {
			t.call("cuLaunchKernel", "xm_fill, no parameters", uintptr(t.function(m, "xm_fill")), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
		}
	}},
}}

// noRoom asks for the device's name in a buffer without room for it. Behind the
// buffer lies memory that nobody can write.
func noRoom(what string, length int) question {
	return question{"cuDeviceGetName(name, " + what + ", 0)", func(t *transcript) {
		if t.context() {
			t.call("cuDeviceGetName", "name, "+what+", 0", guarded(), word(length), 0)
		}
	}}
}

// bogus is an address that is nobody's.
const bogus = 0x1234

// staleHandles are calls with handles that are destroyed or were never made.
// Each may end the process.
var staleHandles = testCase{"stale-handles", []question{
	one("cuCtxSetCurrent", "bogus", bogus),
	one("cuCtxPushCurrent_v2", "bogus", bogus),
	one("cuCtxDestroy_v2", "bogus", bogus),
	one("cuModuleUnload", "bogus", bogus),
	one("cuStreamQuery", "bogus", bogus),
	one("cuStreamSynchronize", "bogus", bogus),
	one("cuStreamDestroy_v2", "bogus", bogus),
	one("cuEventQuery", "bogus", bogus),
	one("cuEventDestroy_v2", "bogus", bogus),
	one("cuLaunchKernel", "bogus, …", bogus, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
	stale("cuStreamQuery", "a destroyed stream", destroyedStream),
	stale("cuStreamSynchronize", "a destroyed stream", destroyedStream),
	stale("cuStreamDestroy_v2", "a destroyed stream", destroyedStream),
	stale("cuEventQuery", "a destroyed event", destroyedEvent),
	stale("cuEventDestroy_v2", "a destroyed event", destroyedEvent),
	stale("cuModuleUnload", "an unloaded module", unloadedModule),
	stale("cuCtxSetCurrent", "a destroyed context", destroyedContext),
	stale("cuCtxDestroy_v2", "a destroyed context", destroyedContext),
}}

func stale(symbol, what string, make func(*transcript) uintptr) question {
	return question{symbol + "(" + what + ")", func(t *transcript) {
		if t.context() {
			t.call(symbol, what, make(t))
		}
	}}
}

func destroyedStream(t *transcript) uintptr {
	s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
	t.must("cuStreamDestroy_v2", s)
	return s
}

func destroyedEvent(t *transcript) uintptr {
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), 0)
	t.must("cuEventDestroy_v2", uintptr(e))
	return uintptr(e)
}

func unloadedModule(t *transcript) uintptr {
	m, _ := t.load()
	t.must("cuModuleUnload", uintptr(m))
	return uintptr(m)
}

func destroyedContext(t *transcript) uintptr {
	var c, popped abi.Context
	t.must("cuCtxCreate_v2", ptr(&c), 0, 0)
	t.must("cuCtxPopCurrent_v2", ptr(&popped))
	t.must("cuCtxDestroy_v2", uintptr(c))
	return uintptr(c)
}
