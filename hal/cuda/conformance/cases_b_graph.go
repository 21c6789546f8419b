package conformance

import (
	"fmt"
	"slices"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// hostNode is CUDA_HOST_NODE_PARAMS.
type hostNode struct{ fn, data uintptr }

// kernelNode are the parameters of a kernel node of 1D blocks.
func kernelNode(f abi.Function, blocks, threads uint32, args uintptr) *abi.CUDA_KERNEL_NODE_PARAMS {
	return &abi.CUDA_KERNEL_NODE_PARAMS{
		Func: f, GridDimX: blocks, GridDimY: 1, GridDimZ: 1, BlockDimX: threads, BlockDimY: 1, BlockDimZ: 1,
		KernelParams: pointerTo(args),
	}
}

// pointerTo is the pointer that ptr gave as a number.
func pointerTo(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// linearCopy is a copy of n bytes from one place of device memory to another.
func linearCopy(dst, src uint64, n uint64) *abi.CUDA_MEMCPY3D {
	return &abi.CUDA_MEMCPY3D{
		SrcMemoryType: abi.CU_MEMORYTYPE_DEVICE, SrcDevice: abi.DevicePtr(src), SrcPitch: n, SrcHeight: 1,
		DstMemoryType: abi.CU_MEMORYTYPE_DEVICE, DstDevice: abi.DevicePtr(dst), DstPitch: n, DstHeight: 1,
		WidthInBytes: n, Height: 1, Depth: 1,
	}
}

// graphs builds graphs by hand and runs them.
func graphs(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	var ctx abi.Context
	t.must("cuCtxGetCurrent", ptr(&ctx))
	fill, increment := t.function(m, "xm_fill"), t.function(m, "xm_increment")
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	const n = 64
	a, b := t.alloc(4*n), t.alloc(4*n)
	host := new([n]uint32)
	var graph, exec uintptr
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), uintptr(abi.CU_EVENT_DISABLE_TIMING))

	t.section("an empty graph")
	t.call("cuGraphCreate", "&graph, 1", ptr(&graph), 1)
	t.call("cuGraphCreate", "&graph, 0", ptr(&graph), 0)
	t.note("%s", t.contents(graph))
	t.call("cuGraphInstantiateWithFlags", "&exec, graph, 0", ptr(&exec), graph, 0)
	t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.call("cuGraphExecDestroy", "exec", exec)

	t.section("nodes")
	var set, first, second, copied, back, called, empty, record, wait uintptr
	t.call("cuGraphAddMemsetNode", "&set, graph, NULL, 0, a, ctx", ptr(&set), graph, 0, 0,
		ptr(&abi.CUDA_MEMSET_NODE_PARAMS{Dst: abi.DevicePtr(a), Value: 2, ElementSize: 4, Width: n, Height: 1}), uintptr(ctx))
	t.call("cuGraphAddKernelNode_v2", "&first, graph, set, 1, increment a", ptr(&first), graph, ptr(&set), 1, ptr(kernelNode(increment, 1, n, params(a, n))))
	v1 := abi.CUDA_KERNEL_NODE_PARAMS_v1{
		Func: increment, GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: n, BlockDimY: 1, BlockDimZ: 1, KernelParams: pointerTo(params(a, n)),
	}
	t.call("cuGraphAddKernelNode", "&second, graph, first, 1, increment a", ptr(&second), graph, ptr(&first), 1, ptr(&v1))
	t.call("cuGraphAddMemcpyNode", "&copied, graph, second, 1, b from a, ctx", ptr(&copied), graph, ptr(&second), 1, ptr(linearCopy(b, a, 4*n)), uintptr(ctx))
	home := linearCopy(0, b, 4*n)
	home.DstMemoryType, home.DstHost = abi.CU_MEMORYTYPE_HOST, address(host)
	ptr(host)
	t.call("cuGraphAddMemcpyNode", "&back, graph, copied, 1, host from b, ctx", ptr(&back), graph, ptr(&copied), 1, ptr(home), uintptr(ctx))
	t.call("cuGraphAddHostNode", "&called, graph, back, 1, fn 40", ptr(&called), graph, ptr(&back), 1, ptr(&hostNode{hostFunction(), 40}))
	t.call("cuGraphAddEmptyNode", "&empty, graph, called and set, 2", ptr(&empty), graph, ptr(&[2]uintptr{called, set}), 2)
	t.call("cuGraphAddEventRecordNode", "&record, graph, empty, 1, e", ptr(&record), graph, ptr(&empty), 1, uintptr(e))
	t.call("cuGraphAddEventWaitNode", "&wait, graph, record, 1, e", ptr(&wait), graph, ptr(&record), 1, uintptr(e))
	t.note("%s", t.contents(graph))
	for _, node := range []struct {
		name   string
		handle uintptr
	}{{"set", set}, {"first", first}, {"copied", copied}, {"called", called}, {"empty", empty}, {"record", record}, {"wait", wait}} {
		t.note("%s is of kind %s", node.name, t.kind(node.handle))
	}
	var count, roots uint64
	t.call("cuGraphGetRootNodes", "graph, NULL, &n", graph, 0, ptr(&roots))
	t.note("%d roots", roots)
	t.call("cuGraphNodeGetDependencies_v2", "empty, NULL, NULL, &n", empty, 0, 0, ptr(&count))
	t.note("%d dependencies", count)
	t.call("cuGraphNodeGetDependentNodes_v2", "set, NULL, NULL, &n", set, 0, 0, ptr(&count))
	t.note("%d dependents", count)
	count = 3
	some := [16]uintptr{}
	t.call("cuGraphGetNodes", "graph, nodes, &3", graph, ptr(&some), ptr(&count))
	t.note("n %d, set: %v", count, some[2] != 0 && some[3] == 0)
	count = 12
	t.call("cuGraphGetNodes", "graph, nodes, &12", graph, ptr(&some), ptr(&count))
	t.note("n %d, set: %v, the rest: %v", count, some[8] != 0, slices.Contains(some[9:12], 0))

	t.section("launches")
	t.call("cuGraphInstantiateWithFlags", "&exec, graph, 0", ptr(&exec), graph, 0)
	t.call("cuGraphUpload", "exec, s", exec, uintptr(s))
	t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(1)
	t.note("a %d, b %d, host %d", t.words(a, 2), t.words(b, 1), host[n-1])
	t.call("cuEventQuery", "e", uintptr(e))
	t.call("cuGraphLaunch", "exec, NULL", exec, 0)
	t.call("cuGraphLaunch", "exec, per-thread", exec, 2)
	t.call("cuCtxSynchronize", "")
	t.called(2)

	t.section("parameters of an executable graph")
	t.call("cuGraphExecKernelNodeSetParams_v2", "exec, second, fill a with 30", exec, second, ptr(kernelNode(fill, 1, n, params(a, 30, n))))
	t.call("cuGraphExecKernelNodeSetParams", "exec, first, increment b", exec, first, ptr(&abi.CUDA_KERNEL_NODE_PARAMS_v1{
		Func: increment, GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: n, BlockDimY: 1, BlockDimZ: 1, KernelParams: pointerTo(params(b, n)),
	}))
	t.call("cuGraphExecMemsetNodeSetParams", "exec, set, 7", exec, set,
		ptr(&abi.CUDA_MEMSET_NODE_PARAMS{Dst: abi.DevicePtr(a), Value: 7, ElementSize: 4, Width: n, Height: 1}), uintptr(ctx))
	t.call("cuGraphExecHostNodeSetParams", "exec, called, fn 41", exec, called, ptr(&hostNode{hostFunction(), 41}))
	t.call("cuGraphExecMemcpyNodeSetParams", "exec, copied, b from a, half", exec, copied, ptr(linearCopy(b, a, 2*n)), uintptr(ctx))
	t.call("cuGraphExecKernelNodeSetParams_v2", "exec, set, …", exec, set, ptr(kernelNode(fill, 1, n, params(a, 30, n))))
	t.call("cuGraphExecKernelNodeSetParams_v2", "exec, second, grid 0", exec, second, ptr(kernelNode(fill, 0, n, params(a, 30, n))))
	t.must("cuMemsetD32_v2", uintptr(b), 1, n)
	t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("a %d, b %d", t.words(a, 1), t.words(b+2*n-4, 2))
	t.called(1)
	t.section("a node switched off")
	enabled := uint32(9)
	t.call("cuGraphNodeSetEnabled", "exec, second, 0", exec, second, 0)
	t.call("cuGraphNodeGetEnabled", "exec, second, &on", exec, second, ptr(&enabled))
	t.note("on %d", enabled)
	t.call("cuGraphNodeSetEnabled", "exec, called, 0", exec, called, 0)
	t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("a %d", t.words(a, 1))
	t.called(1)

	t.section("the graph's own parameters")
	var got abi.CUDA_KERNEL_NODE_PARAMS
	t.call("cuGraphKernelNodeGetParams_v2", "first, &params", first, ptr(&got))
	t.note("its function: %v, grid %d, block %d", got.Func == increment, got.GridDimX, got.BlockDimX)
	t.call("cuGraphKernelNodeSetParams_v2", "first, fill a with 60", first, ptr(kernelNode(fill, 1, n, params(a, 60, n))))
	t.call("cuGraphKernelNodeGetParams_v2", "set, &params", set, ptr(&got))
	var gotSet abi.CUDA_MEMSET_NODE_PARAMS
	t.call("cuGraphMemsetNodeGetParams", "set, &params", set, ptr(&gotSet))
	t.note("value %d, element %d, width %d, height %d", gotSet.Value, gotSet.ElementSize, gotSet.Width, gotSet.Height)
	var gotHost hostNode
	t.call("cuGraphHostNodeGetParams", "called, &params", called, ptr(&gotHost))
	t.note("its function: %v, %d", gotHost.fn == hostFunction(), gotHost.data)
	t.section("destruction")
	t.call("cuGraphDestroy", "graph", graph)
	t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
	t.call("cuGraphExecDestroy", "exec, running", exec)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(1)
}

// heldGraphs asks, for a graph of one node of each kind, whether its launch waits
// while its stream is held, and what is seen of it then.
var heldGraphs = func() testCase {
	c := testCase{name: "graph-launches-in-held-streams"}
	add := func(what string, capture func(t *transcript, s abi.Stream, p uint64, host uintptr)) {
		c.questions = append(c.questions, question{"cuGraphLaunch(" + what + ", s)", func(t *transcript) { t.heldGraph(what, capture) }})
	}
	add("nothing", func(*transcript, abi.Stream, uint64, uintptr) {})
	add("a memset", func(t *transcript, s abi.Stream, p uint64, _ uintptr) {
		t.must("cuMemsetD32Async", uintptr(p), 1, 1, uintptr(s))
	})
	add("a kernel", func(t *transcript, s abi.Stream, p uint64, _ uintptr) {
		m, _ := t.load()
		t.must("cuLaunchKernel", uintptr(t.function(m, "xm_fill")), 1, 1, 1, 1, 1, 1, 0, uintptr(s), params(p, 1, 1), 0)
	})
	add("a written word", func(t *transcript, s abi.Stream, p uint64, _ uintptr) {
		t.must("cuStreamWriteValue32_v2", uintptr(s), uintptr(p), 1, 0)
	})
	add("a copy within the device", func(t *transcript, s abi.Stream, p uint64, _ uintptr) {
		t.must("cuMemcpyDtoDAsync_v2", uintptr(p), uintptr(p)+64, 64, uintptr(s))
	})
	for _, n := range []uintptr{64, 1 << 20} {
		add(fmt.Sprintf("a copy of %d bytes from pageable memory", n), func(t *transcript, s abi.Stream, p uint64, _ uintptr) {
			t.must("cuMemcpyHtoDAsync_v2", uintptr(p), mapping(int(n)), n, uintptr(s))
		})
		add(fmt.Sprintf("a copy of %d bytes to pageable memory", n), func(t *transcript, s abi.Stream, p uint64, _ uintptr) {
			t.must("cuMemcpyDtoHAsync_v2", mapping(int(n)), uintptr(p), n, uintptr(s))
		})
		add(fmt.Sprintf("a copy of %d bytes from pinned memory", n), func(t *transcript, s abi.Stream, p uint64, host uintptr) {
			t.must("cuMemcpyHtoDAsync_v2", uintptr(p), host, n, uintptr(s))
		})
		add(fmt.Sprintf("a copy of %d bytes to pinned memory", n), func(t *transcript, s abi.Stream, p uint64, host uintptr) {
			t.must("cuMemcpyDtoHAsync_v2", host, uintptr(p), n, uintptr(s))
		})
	}
	add("a host function", func(t *transcript, s abi.Stream, _ uint64, _ uintptr) {
		t.must("cuLaunchHostFunc", uintptr(s), hostFunction(), 1)
	})
	add("an event of the program's", func(t *transcript, s abi.Stream, _ uint64, _ uintptr) {
		var e abi.Event
		t.must("cuEventCreate", ptr(&e), uintptr(abi.CU_EVENT_DISABLE_TIMING))
		t.must("cuEventRecordWithFlags", uintptr(e), uintptr(s), uintptr(abi.CU_EVENT_RECORD_EXTERNAL))
	})
	return c
}()

func (t *transcript) heldGraph(what string, capture func(t *transcript, s abi.Stream, p uint64, host uintptr)) {
	if !t.context() {
		return
	}
	g := t.gates(1)[0]
	s, other := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	p, data := t.alloc(1<<20), t.alloc(4)
	var host, graph uintptr
	t.must("cuMemHostAlloc", ptr(&host), 1<<20, 0)
	t.must("cuStreamBeginCapture_v2", uintptr(s), uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED))
	capture(t, s, p, host)
	t.must("cuStreamEndCapture", uintptr(s), ptr(&graph))
	exec := t.instantiate(graph)
	t.must("cuGraphLaunch", exec, uintptr(s)) // what a first launch brings to the device is there
	t.must("cuCtxSynchronize")
	t.hold(g, s)
	waiting := t.bounded("cuGraphLaunch", what+", s", exec, uintptr(s))
	if waiting == nil {
		t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(other))
		t.note("s %s, a stream beside it %s", t.held(s), t.settles(other))
		waiting = t.bounded("cuGraphLaunch", what+", another stream", exec, uintptr(other))
		if waiting == nil {
			t.note("the other %s", t.held(other))
		}
	}
	g.store(1)
	join(waiting)
	t.must("cuCtxSynchronize")
}

// graphUpdates asks what an executable graph takes over from another graph.
func graphUpdates(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	fill, increment := t.function(m, "xm_fill"), t.function(m, "xm_increment")
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	const n = 32
	a := t.alloc(4 * n)
	t.must("cuMemsetD32_v2", uintptr(a), 0, n)
	kernel := func(f abi.Function, args uintptr) func() {
		return func() {
			t.must("cuLaunchKernel", uintptr(f), 1, 1, 1, n, 1, 1, 0, uintptr(s), args, 0)
		}
	}
	memset := func() { t.must("cuMemsetD32Async", uintptr(a), 3, n, uintptr(s)) }
	build := func(do ...func()) (graph uintptr) {
		t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
		for _, f := range do {
			f()
		}
		t.must("cuStreamEndCapture", uintptr(s), ptr(&graph))
		return graph
	}
	exec := t.instantiate(build(kernel(fill, params(a, 1, n)), kernel(increment, params(a, n))))
	update := func(what string, graph uintptr) {
		// result, padding, the node and what it depended on
		info := [4]uint64{0xffffffff, 1, 1, 1}
		t.call("cuGraphExecUpdate_v2", "exec, "+what+", &info", exec, graph, ptr(&info))
		t.note("result %d, nodes %s and %s", uint32(info[0]), pointerState(uintptr(info[1])), pointerState(uintptr(info[2])))
		t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.note("a %d", t.words(a, 1))
	}
	update("the same with 10", build(kernel(fill, params(a, 10, n)), kernel(increment, params(a, n))))
	update("other functions", build(kernel(increment, params(a, n)), kernel(fill, params(a, 20, n))))
	update("one node more", build(kernel(fill, params(a, 30, n)), kernel(increment, params(a, n)), kernel(increment, params(a, n))))
	update("one node fewer", build(kernel(fill, params(a, 40, n))))
	update("another kind", build(memset, kernel(increment, params(a, n))))
	update("an empty graph", build())
	old := [2]uint64{1, 0xffffffff}
	t.call("cuGraphExecUpdate", "exec, the same with 50, &node, &result", exec,
		build(kernel(fill, params(a, 50, n)), kernel(increment, params(a, n))), ptr(&old[0]), ptr(&old[1]))
	t.note("result %d, node %s", uint32(old[1]), pointerState(uintptr(old[0])))

	t.section("instantiation")
	graph := build(kernel(fill, params(a, 5, n)))
	for _, flags := range []uintptr{1, 2, 4, 8, 16, 1 << 20} {
		var x uintptr
		t.call("cuGraphInstantiateWithFlags", fmt.Sprintf("&exec, graph, %d", flags), ptr(&x), graph, flags)
	}
	var x, bad uintptr
	log := [64]byte{1}
	t.call("cuGraphInstantiate", "&exec, graph, &node, log, 64", ptr(&x), graph, ptr(&bad), ptr(&log), 64)
	t.call("cuGraphInstantiate_v2", "&exec, graph, &node, log, 64", ptr(&x), graph, ptr(&bad), ptr(&log), 64)
	how := [4]uint64{0, 0, 1, 0xffffffff} // flags, stream, node, result
	t.call("cuGraphInstantiateWithParams", "&exec, graph, &params", ptr(&x), graph, ptr(&how))
	t.note("result %d, node %s", uint32(how[3]), pointerState(uintptr(how[2])))
	how = [4]uint64{2, uint64(s), 1, 0xffffffff}
	t.call("cuGraphInstantiateWithParams", "&exec, graph, &upload in s", ptr(&x), graph, ptr(&how))
	t.note("result %d", uint32(how[3]))
	flags := uint64(99)
	t.call("cuGraphExecGetFlags", "exec, &flags", x, ptr(&flags))
	t.note("flags %d", flags)

	t.section("clones and children")
	var clone, outer, child, found uintptr
	t.call("cuGraphClone", "&clone, graph", ptr(&clone), graph)
	t.note("%s", t.contents(clone))
	t.call("cuGraphNodeFindInClone", "&node, a node, clone", ptr(&found), t.firstNode(graph), clone)
	t.note("its own: %v", found != 0 && found != t.firstNode(graph))
	t.must("cuGraphCreate", ptr(&outer), 0)
	t.call("cuGraphAddChildGraphNode", "&child, outer, NULL, 0, graph", ptr(&child), outer, 0, 0, graph)
	t.note("%s", t.contents(outer))
	t.must("cuMemsetD32_v2", uintptr(a), 0, n)
	t.call("cuGraphLaunch", "exec of outer, s", t.instantiate(outer), uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("a %d", t.words(a, 1))
	t.section("edges")
	var p, q uintptr
	foreign := t.firstNode(graph)
	t.must("cuGraphAddEmptyNode", ptr(&p), outer, 0, 0)
	t.must("cuGraphAddEmptyNode", ptr(&q), outer, 0, 0)
	t.call("cuGraphAddDependencies_v2", "outer, p, q, NULL, 1", outer, ptr(&p), ptr(&q), 0, 1)
	t.call("cuGraphAddDependencies_v2", "outer, p, q, NULL, 1, again", outer, ptr(&p), ptr(&q), 0, 1)
	t.note("%s", t.contents(outer))
	t.call("cuGraphAddDependencies_v2", "outer, q, p, NULL, 1, a circle", outer, ptr(&q), ptr(&p), 0, 1)
	t.call("cuGraphInstantiateWithFlags", "&exec, a circle, 0", ptr(&x), outer, 0)
	t.call("cuGraphRemoveDependencies_v2", "outer, q, p, NULL, 1", outer, ptr(&q), ptr(&p), 0, 1)
	t.call("cuGraphDestroyNode", "p", p)
	t.note("%s", t.contents(outer))
	t.call("cuGraphAddEmptyNode", "&p, outer, q twice, 2", ptr(&p), outer, ptr(&[2]uintptr{q, q}), 2)
	t.call("cuGraphAddEmptyNode", "&p, outer, a node of another graph, 1", ptr(&p), outer, ptr(&foreign), 1)
}

// nullGraphs are graph calls with nothing where something belongs. Each may end
// the process.
var nullGraphs = testCase{"null-graphs", []question{
	one("cuGraphCreate", "NULL, 0", 0, 0),
	one("cuGraphDestroy", "NULL", 0),
	one("cuGraphGetNodes", "NULL, NULL, NULL", 0, 0, 0),
	one("cuGraphGetEdges_v2", "NULL, NULL, NULL, NULL, NULL", 0, 0, 0, 0, 0),
	one("cuGraphNodeGetType", "NULL, NULL", 0, 0),
	one("cuGraphDestroyNode", "NULL", 0),
	one("cuGraphAddEmptyNode", "NULL, NULL, NULL, 0", 0, 0, 0, 0),
	one("cuGraphAddKernelNode_v2", "NULL, NULL, NULL, 0, NULL", 0, 0, 0, 0, 0),
	one("cuGraphInstantiateWithFlags", "NULL, NULL, 0", 0, 0, 0),
	one("cuGraphInstantiateWithParams", "NULL, NULL, NULL", 0, 0, 0),
	one("cuGraphLaunch", "NULL, NULL", 0, 0),
	one("cuGraphUpload", "NULL, NULL", 0, 0),
	one("cuGraphExecDestroy", "NULL", 0),
	one("cuGraphClone", "NULL, NULL", 0, 0),
	one("cuGraphExecUpdate_v2", "NULL, NULL, NULL", 0, 0, 0),
	inGraph("cuGraphGetNodes", "graph, NULL, NULL", func(g uintptr) []uintptr { return []uintptr{g, 0, 0} }),
	inGraph("cuGraphAddEmptyNode", "NULL, graph, NULL, 0", func(g uintptr) []uintptr { return []uintptr{0, g, 0, 0} }),
	inGraph("cuGraphAddEmptyNode", "&node, graph, NULL, 1", func(g uintptr) []uintptr { return []uintptr{ptr(new(uint64)), g, 0, 1} }),
	inGraph("cuGraphAddKernelNode_v2", "&node, graph, NULL, 0, NULL", func(g uintptr) []uintptr { return []uintptr{ptr(new(uint64)), g, 0, 0, 0} }),
	inGraph("cuGraphAddKernelNode_v2", "&node, graph, NULL, 0, zeros", func(g uintptr) []uintptr {
		return []uintptr{ptr(new(uint64)), g, 0, 0, ptr(new(abi.CUDA_KERNEL_NODE_PARAMS))}
	}),
	inGraph("cuGraphAddMemcpyNode", "&node, graph, NULL, 0, NULL, NULL", func(g uintptr) []uintptr { return []uintptr{ptr(new(uint64)), g, 0, 0, 0, 0} }),
	inGraph("cuGraphAddMemcpyNode", "&node, graph, NULL, 0, zeros, NULL", func(g uintptr) []uintptr {
		return []uintptr{ptr(new(uint64)), g, 0, 0, ptr(new(abi.CUDA_MEMCPY3D)), 0}
	}),
	inGraph("cuGraphAddMemsetNode", "&node, graph, NULL, 0, NULL, NULL", func(g uintptr) []uintptr { return []uintptr{ptr(new(uint64)), g, 0, 0, 0, 0} }),
	inGraph("cuGraphAddMemsetNode", "&node, graph, NULL, 0, zeros, NULL", func(g uintptr) []uintptr {
		return []uintptr{ptr(new(uint64)), g, 0, 0, ptr(new(abi.CUDA_MEMSET_NODE_PARAMS)), 0}
	}),
	inGraph("cuGraphAddHostNode", "&node, graph, NULL, 0, NULL", func(g uintptr) []uintptr { return []uintptr{ptr(new(uint64)), g, 0, 0, 0} }),
	inGraph("cuGraphAddHostNode", "&node, graph, NULL, 0, no function", func(g uintptr) []uintptr {
		return []uintptr{ptr(new(uint64)), g, 0, 0, ptr(&hostNode{})}
	}),
	inGraph("cuGraphAddEventRecordNode", "&node, graph, NULL, 0, NULL", func(g uintptr) []uintptr { return []uintptr{ptr(new(uint64)), g, 0, 0, 0} }),
	inGraph("cuGraphInstantiateWithFlags", "NULL, graph, 0", func(g uintptr) []uintptr { return []uintptr{0, g, 0} }),
	inGraph("cuGraphNodeGetType", "a node, NULL", func(g uintptr) []uintptr { return []uintptr{g, 0} }),
	{"cuGraphDestroy(graph, twice)", func(t *transcript) {
		if t.context() {
			var g uintptr
			t.must("cuGraphCreate", ptr(&g), 0)
			t.must("cuGraphDestroy", g)
			t.call("cuGraphDestroy", "graph, twice", g)
		}
	}},
	{"cuGraphLaunch(a destroyed one, NULL)", func(t *transcript) {
		if t.context() {
			var g uintptr
			t.must("cuGraphCreate", ptr(&g), 0)
			x := t.instantiate(g)
			t.must("cuGraphExecDestroy", x)
			t.call("cuGraphLaunch", "a destroyed one, NULL", x, 0)
		}
	}},
}}

// inGraph is a question of one call about a fresh graph, or, for a call on a node,
// a node of it.
func inGraph(symbol, what string, args func(graph uintptr) []uintptr) question {
	return question{symbol + "(" + what + ")", func(t *transcript) {
		if !t.context() {
			return
		}
		var g uintptr
		t.must("cuGraphCreate", ptr(&g), 0)
		if symbol == "cuGraphNodeGetType" {
			var n uintptr
			t.must("cuGraphAddEmptyNode", ptr(&n), g, 0, 0)
			g = n
		}
		t.call(symbol, what, args(g)...)
	}}
}
