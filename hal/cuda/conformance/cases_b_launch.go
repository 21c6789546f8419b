package conformance

import (
	"fmt"

	"xmsched/hal/cuda/abi"
)

// launchAttribute is CUlaunchAttribute: an identifier and a union of 64 bytes.
type launchAttribute struct {
	id    abi.LaunchAttributeID
	_     uint32
	value [16]uint32
}

// launchEx launches with attributes and gives the result.
func (t *transcript) launchEx(f abi.Function, grid, block, shared uint32, s abi.Stream, args uintptr, attributes ...launchAttribute) abi.Result {
	config := abi.CUlaunchConfig{
		GridDimX: grid, GridDimY: 1, GridDimZ: 1, BlockDimX: block, BlockDimY: 1, BlockDimZ: 1,
		SharedMemBytes: shared, HStream: s, NumAttrs: uint32(len(attributes)),
	}
	if len(attributes) > 0 {
		p := &attributes[0]
		ptr(p)
		config.Attrs = address(p)
	}
	return t.quiet("cuLaunchKernelEx", ptr(&config), uintptr(f), args, 0)
}

// launchAttributes asks which attributes a launch takes.
func launchAttributes(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	increment := t.function(m, "xm_increment")
	data, s := t.alloc(4), t.stream(abi.CU_STREAM_NON_BLOCKING)
	t.must("cuMemsetD32_v2", uintptr(data), 0, 1)
	ask := func(what string, grid uint32, attributes ...launchAttribute) {
		r := t.launchEx(increment, grid, 32, 0, s, params(data, 1), attributes...)
		t.line("cuLaunchKernelEx(%s) = %s", what, r.String())
		if r := t.quiet("cuStreamSynchronize", uintptr(s)); r != abi.CUDA_SUCCESS {
			t.note("the stream: %s", r.String())
		}
	}
	with := func(id abi.LaunchAttributeID, value ...uint32) launchAttribute {
		a := launchAttribute{id: id}
		copy(a.value[:], value)
		return a
	}
	ask("no attribute", 1)
	ask("IGNORE", 1, with(abi.CU_LAUNCH_ATTRIBUTE_IGNORE))
	ask("IGNORE twice", 1, with(abi.CU_LAUNCH_ATTRIBUTE_IGNORE), with(abi.CU_LAUNCH_ATTRIBUTE_IGNORE))
	ask("ACCESS_POLICY_WINDOW of zeros", 1, with(abi.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW))
	ask("SYNCHRONIZATION_POLICY 1", 1, with(abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 1))
	ask("MEM_SYNC_DOMAIN 0", 1, with(abi.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 0))
	ask("MEM_SYNC_DOMAIN 1", 1, with(abi.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1))
	ask("MEM_SYNC_DOMAIN 7", 1, with(abi.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 7))
	ask("MEM_SYNC_DOMAIN_MAP 0, 1", 1, with(abi.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, 0x100))
	ask("PROGRAMMATIC_STREAM_SERIALIZATION 0", 1, with(abi.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 0))
	ask("PROGRAMMATIC_STREAM_SERIALIZATION 1", 1, with(abi.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1))
	ask("PREFERRED_SHARED_MEMORY_CARVEOUT 50", 1, with(abi.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50))
	ask("PREFERRED_SHARED_MEMORY_CARVEOUT 101", 1, with(abi.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101))
	ask("DEVICE_UPDATABLE_KERNEL_NODE 1", 1, with(abi.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, 1))
	ask("an unknown attribute", 1, with(1000, 1))
	t.section("priorities")
	for _, p := range []int32{-1000, -6, -5, -1, 0, 1, 1000} {
		ask(fmt.Sprintf("PRIORITY %d", p), 1, with(abi.CU_LAUNCH_ATTRIBUTE_PRIORITY, uint32(p)))
	}
	t.section("clusters")
	for _, c := range []struct {
		grid uint32
		dims [3]uint32
	}{
		{1, [3]uint32{1, 1, 1}},
		{4, [3]uint32{2, 1, 1}},
		{3, [3]uint32{2, 1, 1}},
		{8, [3]uint32{8, 1, 1}},
		{16, [3]uint32{16, 1, 1}},
		{9, [3]uint32{9, 1, 1}},
		{64, [3]uint32{64, 1, 1}},
		{4, [3]uint32{1, 2, 1}},
		{4, [3]uint32{0, 0, 0}},
		{4, [3]uint32{0, 1, 1}},
		{4, [3]uint32{2, 0, 1}},
	} {
		ask(fmt.Sprintf("grid %d, CLUSTER_DIMENSION %d, %d, %d", c.grid, c.dims[0], c.dims[1], c.dims[2]), c.grid,
			with(abi.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, c.dims[:]...))
	}
	for _, p := range []uint32{0, 1, 2, 3} {
		ask(fmt.Sprintf("CLUSTER_SCHEDULING_POLICY_PREFERENCE %d", p), 1, with(abi.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, p))
	}
	ask("grid 4, cluster 2, preferred cluster 4", 4, with(abi.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2, 1, 1),
		with(abi.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, 4, 1, 1))
	t.section("cooperative")
	ask("COOPERATIVE 0", 1, with(abi.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0))
	ask("COOPERATIVE 1", 1, with(abi.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1))
	ask("COOPERATIVE 7", 1, with(abi.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 7))
	ask("grid 1000000, COOPERATIVE 1", 1000000, with(abi.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1))
	ask("grid 4, COOPERATIVE 1, cluster 2", 4, with(abi.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1),
		with(abi.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2, 1, 1))
	t.section("events")
	for _, flags := range []abi.EventFlags{abi.CU_EVENT_DISABLE_TIMING, abi.CU_EVENT_DEFAULT} {
		for _, id := range []abi.LaunchAttributeID{abi.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, abi.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT} {
			var e abi.Event
			t.must("cuEventCreate", ptr(&e), uintptr(flags))
			ask(fmt.Sprintf("attribute %d with an event of flags %d", id, flags), 1, with(id, uint32(e), uint32(e>>32), 0, 0))
			t.note("the event: %s", t.quiet("cuEventQuery", uintptr(e)).String())
		}
	}
	t.section("the configuration")
	t.call("cuLaunchKernelEx", "NULL, f, …", 0, uintptr(increment), params(data, 1), 0)
	config := abi.CUlaunchConfig{GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1, NumAttrs: 1}
	t.call("cuLaunchKernelEx", "1 attribute at NULL, f, …", ptr(&config), uintptr(increment), params(data, 1), 0)
	t.note("data %d", t.words(data, 1))
}

// cooperativeLaunches asks about launches whose blocks must all fit at once.
func cooperativeLaunches(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	fill := t.function(m, "xm_fill")
	const n = 4096
	data, s := t.alloc(4*n), t.stream(abi.CU_STREAM_NON_BLOCKING)
	ask := func(what string, gx, gy, bx, shared uintptr) {
		t.call("cuLaunchCooperativeKernel", what, uintptr(fill), gx, gy, 1, bx, 1, 1, shared, uintptr(s), params(data, 3, n))
		t.call("cuStreamSynchronize", "s", uintptr(s))
	}
	t.must("cuMemsetD32_v2", uintptr(data), 0, n)
	ask("grid 8, block 128", 8, 1, 128, 0)
	t.note("right: %d", count(t.words(data, n), func(_ int, v uint32) bool { return v == 3 }))
	ask("grid 0, block 128", 0, 1, 128, 0)
	ask("grid 1, block 1025", 1, 1, 1025, 0)
	ask("grid 1000000, block 32", 1000000, 1, 32, 0)
	ask("grid 1000, 1000, block 1024", 1000, 1000, 1024, 0)
	ask("grid 1, block 32, 1 MiB shared memory", 1, 1, 32, 1<<20)
	var sms int32
	t.must("cuDeviceGetAttribute", ptr(&sms), uintptr(abi.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 0)
	ask("2 blocks of 1024 a multiprocessor", 2*uintptr(sms), 1, 1024, 0)
	ask("2 blocks of 1024 a multiprocessor, and one more", 2*uintptr(sms)+1, 1, 1024, 0)
	t.call("cuLaunchCooperativeKernel", "NULL, …", 0, 1, 1, 1, 1, 1, 1, 0, uintptr(s), 0)
	t.call("cuLaunchCooperativeKernel", "f, no parameters", uintptr(fill), 1, 1, 1, 1, 1, 1, 0, uintptr(s), 0)
}

// functionAttributes asks what a function says of itself, and what it lets be set.
func functionAttributes(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	empty := t.function(m, "xm_empty")
	var v int32
	for a := abi.FunctionAttribute(0); a <= abi.CU_FUNC_ATTRIBUTE_MAX; a++ {
		v = -99
		r := t.quiet("cuFuncGetAttribute", ptr(&v), uintptr(a), uintptr(empty))
		value := fmt.Sprint(v)
		if a == abi.CU_FUNC_ATTRIBUTE_NUM_REGS {
			value = fmt.Sprintf("from 1 to 255: %v", v >= 1 && v <= 255)
		}
		t.line("cuFuncGetAttribute(&v, %d, xm_empty) = %s, %s", a, r.String(), value)
	}
	t.call("cuFuncGetAttribute", "&v, -1, xm_empty", ptr(&v), word(-1), uintptr(empty))
	t.call("cuFuncGetAttribute", "&v, 0, NULL", ptr(&v), 0, 0)
	t.section("setting")
	for _, c := range []struct {
		a abi.FunctionAttribute
		v int
	}{
		{abi.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 512},
		{abi.CU_FUNC_ATTRIBUTE_NUM_REGS, 32},
		{abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10},
		{abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1},
		{abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20},
		{abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10},
		{abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227<<10 + 1},
		{abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10},
		{abi.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50},
		{abi.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101},
		{abi.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1},
		{abi.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1},
		{abi.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0},
		{abi.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1},
		{abi.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 9},
		{abi.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2},
		{abi.CU_FUNC_ATTRIBUTE_MAX, 1},
	} {
		t.call("cuFuncSetAttribute", fmt.Sprintf("xm_empty, %d, %d", c.a, c.v), uintptr(empty), uintptr(c.a), word(c.v))
		v = -99
		t.quiet("cuFuncGetAttribute", ptr(&v), uintptr(c.a), uintptr(empty))
		if c.a != abi.CU_FUNC_ATTRIBUTE_NUM_REGS {
			t.note("then %d", v)
		}
	}
	t.section("more shared memory than without asking")
	for _, n := range []uintptr{48 << 10, 64 << 10, 64<<10 + 1} {
		t.call("cuLaunchKernel", fmt.Sprintf("xm_empty, %d bytes", n), uintptr(empty), 1, 1, 1, 1, 1, 1, n, 0, 0, 0)
	}
	t.call("cuCtxSynchronize", "")
	t.section("cache configuration")
	t.call("cuFuncSetCacheConfig", "xm_empty, 1", uintptr(empty), 1)
	t.call("cuFuncSetCacheConfig", "xm_empty, 9", uintptr(empty), 9)
	t.call("cuFuncSetCacheConfig", "NULL, 1", 0, 1)
	t.section("name and module")
	var name *byte
	var owner abi.Module
	t.call("cuFuncGetName", "&name, xm_empty", ptr(&name), uintptr(empty))
	t.note("name %s", goString(name))
	t.call("cuFuncGetModule", "&m, xm_empty", ptr(&owner), uintptr(empty))
	t.note("its module: %v", owner == m)
	var state int32 = -1
	t.call("cuFuncIsLoaded", "&state, xm_empty", ptr(&state), uintptr(empty))
	t.note("loaded %d", state)
	t.call("cuFuncLoad", "xm_empty", uintptr(empty))
	t.call("cuFuncIsLoaded", "&state, xm_empty", ptr(&state), uintptr(empty))
	t.note("loaded %d", state)
}

// occupancy asks how many blocks fit.
func occupancy(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	empty := uintptr(t.function(m, "xm_empty"))
	var n, size int32
	var bytes uint64
	for _, c := range [][2]int{{32, 0}, {33, 0}, {64, 0}, {256, 0}, {1000, 0}, {1024, 0}, {1024, 48 << 10}, {256, 48 << 10}, {128, 100 << 10}, {1025, 0}, {0, 0}, {-1, 0}, {32, 1 << 20}} {
		n = -99
		t.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", fmt.Sprintf("&n, xm_empty, %d, %d", c[0], c[1]), ptr(&n), empty, word(c[0]), uintptr(c[1]))
		t.note("%d", n)
	}
	t.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", "&n, NULL, 32, 0", ptr(&n), 0, 32, 0)
	for _, flags := range []uintptr{0, 1, 2} {
		t.call("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", fmt.Sprintf("&n, xm_empty, 256, 0, %d", flags), ptr(&n), empty, 256, 0, flags)
		t.note("%d", n)
	}
	for _, limit := range []uintptr{0, 256, 100, 4096} {
		t.call("cuOccupancyMaxPotentialBlockSize", fmt.Sprintf("&grid, &block, xm_empty, NULL, 0, %d", limit), ptr(&n), ptr(&size), empty, 0, 0, limit)
		t.note("grid %d, block %d", n, size)
	}
	t.call("cuOccupancyMaxPotentialBlockSizeWithFlags", "&grid, &block, xm_empty, NULL, 0, 0, 0", ptr(&n), ptr(&size), empty, 0, 0, 0, 0)
	t.note("grid %d, block %d", n, size)
	for _, c := range [][2]int{{1, 256}, {2, 256}, {8, 256}, {32, 32}, {33, 32}, {0, 256}, {1, 0}} {
		t.call("cuOccupancyAvailableDynamicSMemPerBlock", fmt.Sprintf("&bytes, xm_empty, %d, %d", c[0], c[1]), ptr(&bytes), empty, word(c[0]), word(c[1]))
		t.note("%d", bytes)
	}
}
