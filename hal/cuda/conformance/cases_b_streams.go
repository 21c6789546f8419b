package conformance

import (
	"fmt"

	"xmsched/hal/cuda/abi"
)

// contextVersions asks the ways to make a context, and what differs between them.
func contextVersions(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var ctx, popped abi.Context
	made := func() {
		var version, flags uint32
		t.call("cuCtxGetApiVersion", "ctx, &version", uintptr(ctx), ptr(&version))
		t.call("cuCtxGetFlags", "&flags", ptr(&flags))
		t.note("version %d, flags %#x", version, flags)
		t.must("cuCtxPopCurrent_v2", ptr(&popped))
		t.call("cuCtxDestroy_v2", "ctx", uintptr(ctx))
	}
	if t.call("cuCtxCreate", "&ctx, 0, 0", ptr(&ctx), 0, 0) == abi.CUDA_SUCCESS {
		made()
	}
	if t.call("cuCtxCreate_v3", "&ctx, NULL, 0, 0, 0", ptr(&ctx), 0, 0, 0, 0) == abi.CUDA_SUCCESS {
		made()
	}
	affinity := abi.CUexecAffinityParam{Type: abi.CU_EXEC_AFFINITY_TYPE_SM_COUNT, Param: [1]uint32{8}}
	if t.call("cuCtxCreate_v3", "&ctx, 8 multiprocessors, 1, 0, 0", ptr(&ctx), ptr(&affinity), 1, 0, 0) == abi.CUDA_SUCCESS {
		made()
	}
	t.call("cuCtxCreate_v3", "&ctx, NULL, 1, 0, 0", ptr(&ctx), 0, 1, 0, 0)
	if t.call("cuCtxCreate_v4", "&ctx, zeros, 0, 0", ptr(&ctx), ptr(new(abi.CUctxCreateParams)), 0, 0) == abi.CUDA_SUCCESS {
		made()
	}
	for _, flags := range []uintptr{1, 4, 8, 16, 32, 64, 128} {
		if t.call("cuCtxCreate_v2", fmt.Sprintf("&ctx, %#x, 0", flags), ptr(&ctx), flags, 0) == abi.CUDA_SUCCESS {
			made()
		}
	}

	t.section("attached and detached")
	t.must("cuCtxCreate_v2", ptr(&ctx), 0, 0)
	var attached abi.Context
	t.call("cuCtxAttach", "&ctx, 1", ptr(&attached), 1)
	t.call("cuCtxAttach", "&ctx, 0", ptr(&attached), 0)
	t.note("the current one: %v", attached == ctx)
	t.call("cuCtxDetach", "ctx", uintptr(ctx))
	t.call("cuCtxSynchronize", "")
	t.call("cuCtxDetach", "ctx, again", uintptr(ctx))
	t.call("cuCtxSynchronize", "")
	var now abi.Context
	t.call("cuCtxGetCurrent", "&ctx", ptr(&now))
	t.note("NULL: %v", now == 0)

	t.section("flags and identity")
	t.must("cuCtxCreate_v2", ptr(&ctx), 0, 0)
	var id, other uint64
	t.call("cuCtxGetId", "ctx, &id", uintptr(ctx), ptr(&id))
	t.call("cuCtxGetId", "NULL, &id", 0, ptr(&other))
	t.note("the same: %v, not 0: %v", id == other, id != 0)
	var flags uint32
	for _, f := range []uintptr{2, 1, 3, 8, 0, 1 << 20} {
		t.call("cuCtxSetFlags", fmt.Sprintf("%#x", f), f)
		t.must("cuCtxGetFlags", ptr(&flags))
		t.note("flags %#x", flags)
	}
	var device int32 = -1
	t.call("cuCtxGetDevice", "&device", ptr(&device))
	t.call("cuCtxGetDevice_v2", "&device, ctx", ptr(&device), uintptr(ctx))
	t.note("device %d", device)

	t.section("limits")
	for limit := uintptr(0); limit < 10; limit++ {
		value := uint64(0)
		r := t.quiet("cuCtxGetLimit", ptr(&value), limit)
		t.line("cuCtxGetLimit(&value, %d) = %s, %d", limit, r.String(), value)
	}
	t.call("cuCtxSetLimit", "STACK_SIZE, 4096", 0, 4096)
	value := uint64(0)
	t.call("cuCtxGetLimit", "&value, STACK_SIZE", ptr(&value), 0)
	t.note("%d", value)
	t.call("cuCtxSetLimit", "99, 1", 99, 1)
	t.section("caches and banks")
	config := int32(-1)
	t.call("cuCtxGetCacheConfig", "&config", ptr(&config))
	t.note("%d", config)
	t.call("cuCtxSetCacheConfig", "1", 1)
	t.call("cuCtxGetCacheConfig", "&config", ptr(&config))
	t.note("%d", config)
	t.call("cuCtxSetCacheConfig", "9", 9)
	t.call("cuCtxResetPersistingL2Cache", "")
	t.section("the names of before version 4")
	t.call("cuCtxPopCurrent", "&ctx", ptr(&popped))
	t.note("the current one: %v", popped == ctx)
	t.call("cuCtxPushCurrent", "ctx", uintptr(ctx))
	t.call("cuCtxDestroy", "ctx", uintptr(ctx))
	t.section("contexts and events across contexts")
	var a, b abi.Context
	var s abi.Stream
	var e abi.Event
	t.must("cuCtxCreate_v2", ptr(&a), 0, 0)
	t.must("cuStreamCreate", ptr(&s), uintptr(abi.CU_STREAM_NON_BLOCKING))
	t.must("cuEventCreate", ptr(&e), 0)
	t.must("cuCtxCreate_v2", ptr(&b), 0, 0)
	t.call("cuEventRecord", "e of a, s of a, b current", uintptr(e), uintptr(s))
	t.call("cuEventRecord", "e of a, NULL of b", uintptr(e), 0)
	t.call("cuStreamWaitEvent", "NULL of b, e of a, 0", 0, uintptr(e), 0)
	t.call("cuStreamSynchronize", "s of a", uintptr(s))
	t.call("cuCtxSynchronize_v2", "a", uintptr(a))
	t.call("cuCtxRecordEvent", "a, e", uintptr(a), uintptr(e))
	t.call("cuCtxWaitEvent", "b, e", uintptr(b), uintptr(e))
	t.call("cuCtxSynchronize", "")
}

// streamAttributes asks what a stream says of itself and what can be set.
func streamAttributes(t *transcript) {
	if !t.context() {
		return
	}
	var s, to abi.Stream
	t.must("cuStreamCreateWithPriority", ptr(&s), uintptr(abi.CU_STREAM_NON_BLOCKING), word(-2))
	to = t.stream(abi.CU_STREAM_NON_BLOCKING)
	var value [16]uint32
	for id := uintptr(0); id <= uintptr(abi.CU_LAUNCH_ATTRIBUTE_MAX); id++ {
		value = [16]uint32{}
		r := t.quiet("cuStreamGetAttribute", uintptr(s), id, ptr(&value))
		t.line("cuStreamGetAttribute(s, %d, &value) = %s, %d %d %d", id, r.String(), int32(value[0]), value[1], value[2])
	}
	set := func(what string, id abi.LaunchAttributeID, v ...uint32) {
		value = [16]uint32{}
		copy(value[:], v)
		t.call("cuStreamSetAttribute", "s, "+what, uintptr(s), uintptr(id), ptr(&value))
		value = [16]uint32{}
		if t.quiet("cuStreamGetAttribute", uintptr(s), uintptr(id), ptr(&value)) == abi.CUDA_SUCCESS {
			t.note("then %d", int32(value[0]))
		}
	}
	for _, policy := range []uint32{0, 1, 2, 3, 4, 5} {
		set(fmt.Sprintf("SYNCHRONIZATION_POLICY %d", policy), abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, policy)
	}
	for _, p := range []int32{-1, -5, -6, 0, 1} {
		set(fmt.Sprintf("PRIORITY %d", p), abi.CU_LAUNCH_ATTRIBUTE_PRIORITY, uint32(p))
		var priority int32
		t.must("cuStreamGetPriority", uintptr(s), ptr(&priority))
		t.note("its priority %d", priority)
	}
	set("MEM_SYNC_DOMAIN 1", abi.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1)
	set("MEM_SYNC_DOMAIN 2", abi.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 2)
	set("COOPERATIVE 1", abi.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)
	set("an unknown one", 1000, 1)
	set("SYNCHRONIZATION_POLICY 2", abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 2)
	t.call("cuStreamCopyAttributes", "to, s", uintptr(to), uintptr(s))
	value = [16]uint32{}
	t.call("cuStreamGetAttribute", "to, SYNCHRONIZATION_POLICY, &value", uintptr(to), uintptr(abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY), ptr(&value))
	t.note("%d", value[0])
	t.call("cuStreamCopyAttributes", "NULL, s", 0, uintptr(s))
	t.call("cuStreamCopyAttributes", "to, NULL", uintptr(to), 0)
	t.call("cuStreamGetAttribute", "NULL, SYNCHRONIZATION_POLICY, &value", 0, uintptr(abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY), ptr(&value))

	t.section("identity")
	var a, b, legacy, perThread uint64
	var device int32 = -1
	t.call("cuStreamGetId", "s, &id", uintptr(s), ptr(&a))
	t.must("cuStreamGetId", uintptr(to), ptr(&b))
	t.call("cuStreamGetId", "NULL, &id", 0, ptr(&legacy))
	t.call("cuStreamGetId", "per-thread, &id", 2, ptr(&perThread))
	t.note("two streams differ: %v, legacy %d, per-thread %d", a != b, legacy, perThread)
	t.call("cuStreamGetDevice", "s, &device", uintptr(s), ptr(&device))
	t.note("device %d", device)

	t.section("events recorded with flags")
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), 0)
	for _, flags := range []uintptr{0, 1, 2} {
		t.call("cuEventRecordWithFlags", fmt.Sprintf("e, s, %d", flags), uintptr(e), uintptr(s), flags)
		t.call("cuEventSynchronize", "e", uintptr(e))
	}
	for _, flags := range []uintptr{0, 1, 2} {
		t.call("cuStreamWaitEvent", fmt.Sprintf("s, e, %d", flags), uintptr(s), uintptr(e), flags)
	}
	t.call("cuStreamSynchronize", "s", uintptr(s))
}

// primaryState asks about the primary context's flags and its resets.
func primaryState(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var flags uint32
	var active int32
	state := func() {
		t.must("cuDevicePrimaryCtxGetState", 0, ptr(&flags), ptr(&active))
		t.note("flags %#x, active %d", flags, active)
	}
	t.call("cuDevicePrimaryCtxReset_v2", "0, never retained", 0)
	t.call("cuDevicePrimaryCtxSetFlags_v2", "0, BLOCKING_SYNC", 0, 4)
	state()
	t.call("cuDevicePrimaryCtxSetFlags_v2", "0, 0x1000", 0, 0x1000)
	t.call("cuDevicePrimaryCtxSetFlags_v2", "0, 3", 0, 3)
	state()
	var ctx abi.Context
	t.must("cuDevicePrimaryCtxRetain", ptr(&ctx), 0)
	t.must("cuCtxSetCurrent", uintptr(ctx))
	state()
	t.call("cuDevicePrimaryCtxSetFlags_v2", "0, SPIN, while active", 0, 1)
	state()
	t.call("cuDevicePrimaryCtxSetFlags", "0, YIELD, while active", 0, 2)
	state()
	var own uint32
	t.must("cuCtxGetFlags", ptr(&own))
	t.note("the context's %#x", own)
	p := t.alloc(4096)
	t.call("cuDevicePrimaryCtxReset_v2", "0", 0)
	state()
	t.call("cuMemFree_v2", "what it held", uintptr(p))
	t.call("cuCtxSynchronize", "")
	t.call("cuDevicePrimaryCtxRelease_v2", "0", 0)
	state()
	t.call("cuDevicePrimaryCtxRetain", "&ctx, 0", ptr(&ctx), 0)
	state()
	t.call("cuCtxSynchronize", "")
}
