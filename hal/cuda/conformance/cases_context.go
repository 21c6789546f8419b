package conformance

import (
	"runtime"

	"xmsched/hal/cuda/abi"
)

// current says which of the known contexts is the thread's, by name.
func (t *transcript) current(known map[abi.Context]string) {
	var ctx abi.Context
	r := t.quiet("cuCtxGetCurrent", ptr(&ctx))
	name, ok := known[ctx]
	switch {
	case ctx == 0:
		name = "NULL"
	case !ok:
		name = "another"
	}
	t.note("current (%s): %s", r.String(), name)
}

func noContext(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var p uint64
	var n int32
	t.current(nil)
	t.call("cuCtxGetDevice", "&dev", ptr(&n))
	t.call("cuCtxGetFlags", "&flags", ptr(&n))
	t.call("cuCtxGetApiVersion", "NULL, &version", 0, ptr(&n))
	t.call("cuCtxPopCurrent_v2", "&ctx", ptr(&p))
	t.call("cuCtxSynchronize", "")
	t.call("cuCtxGetStreamPriorityRange", "&low, &high", ptr(&n), ptr(new(int32)))
	t.call("cuModuleLoadData", "&module, text", ptr(&p), text("not a module"))
	t.call("cuMemAlloc_v2", "&p, 4096", ptr(&p), 4096)
	t.call("cuMemFree_v2", "4096", 4096)
	t.call("cuMemFree_v2", "0", 0)
	t.call("cuMemGetInfo_v2", "&free, &total", ptr(&p), ptr(new(uint64)))
	t.call("cuMemHostAlloc", "&p, 4096, 0", ptr(&p), 4096, 0)
	t.call("cuMemFreeHost", "NULL", 0)
	t.call("cuMemHostRegister_v2", "page, 4096, 0", mapping(4096), 4096, 0)
	t.call("cuMemsetD8_v2", "4096, 0, 16", 4096, 0, 16)
	t.call("cuMemcpyHtoD_v2", "4096, buffer, 16", 4096, ptr(new([16]byte)), 16)
	t.call("cuStreamCreate", "&stream, 0", ptr(&p), 0)
	t.call("cuStreamQuery", "NULL", 0)
	t.call("cuStreamSynchronize", "NULL", 0)
	t.call("cuStreamIsCapturing", "NULL, &status", 0, ptr(&n))
	t.call("cuEventCreate", "&event, 0", ptr(&p), 0)
	t.call("cuLaunchKernel", "NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL", 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
}

// state writes what the driver says of device 0's primary context.
func (t *transcript) state() {
	var flags uint32
	var active int32
	r := t.quiet("cuDevicePrimaryCtxGetState", 0, ptr(&flags), ptr(&active))
	t.note("primary state (%s): flags %#x, active %d", r.String(), flags, active)
}

func primaryContext(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var a, b abi.Context
	t.state()
	t.call("cuDevicePrimaryCtxRelease_v2", "0, never retained", 0)
	t.call("cuDevicePrimaryCtxSetFlags_v2", "0, BLOCKING_SYNC", 0, uintptr(abi.CU_CTX_SCHED_BLOCKING_SYNC))
	t.state()
	t.call("cuDevicePrimaryCtxSetFlags_v2", "0, 0x8000", 0, 0x8000)
	t.call("cuDevicePrimaryCtxRetain", "&a, 99", ptr(&a), 99)
	t.call("cuDevicePrimaryCtxRetain", "&a, 0", ptr(&a), 0)
	known := map[abi.Context]string{a: "the primary"}
	t.state()
	t.current(known)
	t.call("cuDevicePrimaryCtxRetain", "&b, 0", ptr(&b), 0)
	t.note("the same context: %v", a == b)
	t.call("cuCtxSetCurrent", "a", uintptr(a))
	t.current(known)
	var dev int32 = -1
	t.call("cuCtxGetDevice", "&dev", ptr(&dev))
	t.note("device %d", dev)
	var flags uint32
	t.call("cuCtxGetFlags", "&flags", ptr(&flags))
	t.note("flags %#x", flags)
	t.call("cuCtxSynchronize", "")

	t.section("release")
	t.call("cuDevicePrimaryCtxRelease_v2", "0", 0)
	t.state()
	t.call("cuCtxSynchronize", "")
	t.call("cuDevicePrimaryCtxRelease_v2", "0", 0)
	t.state()
	t.call("cuCtxSynchronize", "")
	t.call("cuDevicePrimaryCtxRelease_v2", "0, once too often", 0)
	t.current(known)

	t.section("again")
	t.call("cuDevicePrimaryCtxRetain", "&b, 0", ptr(&b), 0)
	t.state()
	t.call("cuCtxSetCurrent", "b", uintptr(b))
	t.call("cuCtxSynchronize", "")
	t.call("cuDevicePrimaryCtxReset_v2", "0", 0)
	t.state()
}

func createdContexts(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var a, b, popped abi.Context
	t.call("cuCtxCreate_v2", "&a, 0, 99", ptr(&a), 0, 99)
	t.call("cuCtxCreate_v2", "&a, 0x80000000, 0", ptr(&a), 0x80000000, 0)
	t.call("cuCtxCreate_v2", "&a, SCHED_SPIN|BLOCKING_SYNC, 0", ptr(&a), 5, 0)
	t.call("cuCtxCreate_v2", "&a, 0, 0", ptr(&a), 0, 0)
	t.call("cuCtxCreate_v4", "&b, NULL, SCHED_YIELD, 0", ptr(&b), 0, uintptr(abi.CU_CTX_SCHED_YIELD), 0)
	known := map[abi.Context]string{a: "a", b: "b"}
	t.current(known)
	var flags, version uint32
	t.call("cuCtxGetFlags", "&flags", ptr(&flags))
	t.note("flags %#x", flags)
	t.call("cuCtxGetApiVersion", "a, &version", uintptr(a), ptr(&version))
	t.note("version of a: %d", version)
	t.call("cuCtxGetApiVersion", "b, &version", uintptr(b), ptr(&version))
	t.note("version of b: %d", version)

	t.section("the stack")
	t.call("cuCtxPopCurrent_v2", "&popped", ptr(&popped))
	t.note("popped b: %v", popped == b)
	t.current(known)
	t.call("cuCtxPopCurrent_v2", "NULL", 0)
	t.current(known)
	t.call("cuCtxPopCurrent_v2", "&popped, nothing left", ptr(&popped))
	t.call("cuCtxPushCurrent_v2", "a", uintptr(a))
	t.call("cuCtxPushCurrent_v2", "a", uintptr(a))
	t.call("cuCtxSetCurrent", "b", uintptr(b))
	t.current(known)
	t.call("cuCtxPopCurrent_v2", "&popped", ptr(&popped))
	t.note("popped b: %v", popped == b)
	t.current(known)
	t.call("cuCtxSetCurrent", "NULL", 0)
	t.current(known)
	t.call("cuCtxPopCurrent_v2", "&popped", ptr(&popped))
	t.call("cuCtxPushCurrent_v2", "NULL", 0)

	t.section("memory and streams belong to one")
	var p uint64
	t.call("cuCtxSetCurrent", "a", uintptr(a))
	t.call("cuMemAlloc_v2", "&p, 4096", ptr(&p), 4096)
	t.call("cuCtxSetCurrent", "b", uintptr(b))
	t.call("cuMemsetD8_v2", "p of a, 1, 4096", uintptr(p), 1, 4096)
	t.call("cuMemFree_v2", "p of a", uintptr(p))

	t.section("destruction")
	t.call("cuCtxDestroy_v2", "b, current", uintptr(b))
	t.current(known)
	t.call("cuCtxDestroy_v2", "a, not current", uintptr(a))
	t.call("cuCtxDestroy_v2", "NULL", 0)
	t.current(known)
}

func contextThreads(t *transcript) {
	if !t.context() {
		return
	}
	var ctx abi.Context
	t.must("cuCtxGetCurrent", ptr(&ctx))
	known := map[abi.Context]string{ctx: "the primary"}
	t.current(known)
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its state
		defer close(done)
		t.section("another thread")
		t.current(known)
		t.call("cuCtxSynchronize", "")
		t.call("cuCtxSetCurrent", "ctx", uintptr(ctx))
		t.call("cuCtxSynchronize", "")
		t.current(known)
	}()
	<-done
	t.section("the first thread")
	t.current(known)
}
