package conformance

import (
	"fmt"
	"slices"

	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// The modes of a capture, by name.
var captureModes = []struct {
	name string
	mode abi.StreamCaptureMode
}{
	{"global", abi.CU_STREAM_CAPTURE_MODE_GLOBAL},
	{"thread-local", abi.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	{"relaxed", abi.CU_STREAM_CAPTURE_MODE_RELAXED},
}

// capturing says what cuStreamIsCapturing answers.
func (t *transcript) capturing(s abi.Stream) string {
	status := int32(-1)
	if r := t.quiet("cuStreamIsCapturing", uintptr(s), ptr(&status)); r != abi.CUDA_SUCCESS {
		return r.String()
	}
	if names := []string{"none", "active", "invalidated"}; status >= 0 && int(status) < len(names) {
		return names[status]
	}
	return fmt.Sprint(status)
}

// endCapture ends a capture and writes what it gave.
func (t *transcript) endCapture(s abi.Stream) (graph uintptr) {
	graph = 1
	t.call("cuStreamEndCapture", "s, &graph", uintptr(s), ptr(&graph))
	if graph > 1 {
		t.note("%s", t.contents(graph))
		return graph
	}
	t.note("graph %s", pointerState(graph))
	return 0
}

// nodes are a graph's nodes, in the driver's order.
func (t *transcript) nodes(graph uintptr) []uintptr {
	var n uint64
	if t.quiet("cuGraphGetNodes", graph, 0, ptr(&n)) != abi.CUDA_SUCCESS || n == 0 {
		return nil
	}
	list := make([]uintptr, n)
	t.must("cuGraphGetNodes", graph, ptr(&list[0]), ptr(&n))
	return list
}

// firstNode is one of a graph's nodes, 0 when it has none.
func (t *transcript) firstNode(graph uintptr) uintptr {
	if list := t.nodes(graph); len(list) > 0 {
		return list[0]
	}
	return 0
}

var nodeKinds = map[abi.GraphNodeType]string{
	abi.CU_GRAPH_NODE_TYPE_KERNEL: "kernel", abi.CU_GRAPH_NODE_TYPE_MEMCPY: "memcpy", abi.CU_GRAPH_NODE_TYPE_MEMSET: "memset",
	abi.CU_GRAPH_NODE_TYPE_HOST: "host", abi.CU_GRAPH_NODE_TYPE_GRAPH: "graph", abi.CU_GRAPH_NODE_TYPE_EMPTY: "empty",
	abi.CU_GRAPH_NODE_TYPE_WAIT_EVENT: "wait-event", abi.CU_GRAPH_NODE_TYPE_EVENT_RECORD: "event-record",
	abi.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: "batch-mem-op",
}

func (t *transcript) kind(node uintptr) string {
	kind := abi.GraphNodeType(0xffff)
	if r := t.quiet("cuGraphNodeGetType", node, ptr(&kind)); r != abi.CUDA_SUCCESS {
		return r.String()
	}
	if name, ok := nodeKinds[kind]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", kind)
}

// contents counts a graph's nodes, by kind, and its edges.
func (t *transcript) contents(graph uintptr) string {
	kinds := []string{}
	for _, n := range t.nodes(graph) {
		kinds = append(kinds, t.kind(n))
	}
	slices.Sort(kinds)
	var edges uint64
	r := t.quiet("cuGraphGetEdges_v2", graph, 0, 0, 0, ptr(&edges))
	if r != abi.CUDA_SUCCESS {
		return fmt.Sprintf("nodes %v, edges: %s", kinds, r.String())
	}
	return fmt.Sprintf("nodes %v, edges %d", kinds, edges)
}

// instantiate makes an executable graph that later calls need.
func (t *transcript) instantiate(graph uintptr) (exec uintptr) {
	t.must("cuGraphInstantiateWithFlags", ptr(&exec), graph, 0)
	return exec
}

// captures asks about beginning and ending.
func captures(t *transcript) {
	if !t.context() {
		return
	}
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	blocking := t.stream(abi.CU_STREAM_DEFAULT)
	t.section("ending what was not begun")
	t.endCapture(s)
	t.section("empty captures")
	for _, m := range captureModes {
		t.call("cuStreamBeginCapture_v2", "s, "+m.name, uintptr(s), uintptr(m.mode))
		t.note("%s", t.capturing(s))
		t.endCapture(s)
		t.note("%s", t.capturing(s))
	}
	t.call("cuStreamBeginCapture", "s", uintptr(s))
	t.note("%s", t.capturing(s))
	t.endCapture(s)
	t.call("cuStreamBeginCapture_v2", "s, mode 3", uintptr(s), 3)
	t.call("cuStreamBeginCapture_v2", "s, mode -1", uintptr(s), word(-1))
	t.note("%s", t.capturing(s))
	t.section("a blocking stream")
	t.call("cuStreamBeginCapture_v2", "blocking, global", uintptr(blocking), 0)
	t.endCapture(blocking)
	t.section("the default streams")
	t.call("cuStreamBeginCapture_v2", "NULL, relaxed", 0, uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED))
	t.call("cuStreamBeginCapture_v2", "legacy, relaxed", 1, uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED))
	t.call("cuStreamBeginCapture_v2", "per-thread, global", 2, 0)
	t.note("%s", t.capturing(2))
	t.endCapture(2)
	t.section("twice")
	t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
	t.call("cuStreamBeginCapture_v2", "s, global", uintptr(s), 0)
	t.note("%s", t.capturing(s))
	t.endCapture(s)
	t.section("with work outstanding")
	g := t.gates(1)[0]
	t.hold(g, s)
	t.call("cuStreamBeginCapture_v2", "s, global", uintptr(s), 0)
	t.note("%s", t.capturing(s))
	t.endCapture(s)
	g.store(1)
	t.must("cuCtxSynchronize")

	t.section("a thread's mode")
	mode := int32(abi.CU_STREAM_CAPTURE_MODE_RELAXED)
	t.call("cuThreadExchangeStreamCaptureMode", "&relaxed", ptr(&mode))
	t.note("before: %d", mode)
	mode = int32(abi.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
	t.call("cuThreadExchangeStreamCaptureMode", "&thread-local", ptr(&mode))
	t.note("before: %d", mode)
	mode = 3
	t.call("cuThreadExchangeStreamCaptureMode", "&3", ptr(&mode))
	t.note("before: %d", mode)

	t.section("ended by another thread")
	mode = int32(abi.CU_STREAM_CAPTURE_MODE_GLOBAL)
	t.must("cuThreadExchangeStreamCaptureMode", ptr(&mode))
	for _, m := range captureModes {
		var graph uintptr
		t.must("cuStreamBeginCapture_v2", uintptr(s), uintptr(m.mode))
		r := t.elsewhere("cuStreamEndCapture", uintptr(s), ptr(&graph))
		t.line("cuStreamEndCapture(%s, by another thread) = %s", m.name, r.String())
		t.note("%s", t.capturing(s))
		if graph == 0 {
			t.endCapture(s)
		}
	}
	t.section("a stream destroyed while it captures")
	t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
	t.call("cuStreamDestroy_v2", "s", uintptr(s))
}

// capturedCalls asks what becomes of a call in a capturing stream: the nodes, and
// that nothing happens before the launch.
func capturedCalls(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	s, other := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	g := t.gates(2)
	const n = 64
	a, b := t.alloc(4*n), t.alloc(4*n)
	host := new([n]uint32)
	ptr(host)
	for i := range host {
		host[i] = uint32(i)
	}
	fill, increment := t.function(m, "xm_fill"), t.function(m, "xm_increment")
	capture := func(what string, do func()) (graph uintptr) {
		t.section(what)
		t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
		do()
		return t.endCapture(s)
	}
	run := func(graph uintptr) {
		if graph == 0 {
			return
		}
		exec := t.instantiate(graph)
		t.call("cuGraphLaunch", "exec, s", exec, uintptr(s))
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.call("cuGraphExecDestroy", "exec", exec)
		t.call("cuGraphDestroy", "graph", graph)
	}
	t.must("cuMemsetD32_v2", uintptr(a), 0, n)
	graph := capture("two kernels", func() {
		t.launch("xm_fill", fill, 1, n, s, params(a, 3, n))
		t.launch("xm_increment", increment, 1, n, s, params(a, n))
	})
	t.note("before the launch %d", t.words(a, 1))
	run(graph)
	t.note("after it %d", t.words(a, 2))
	run(capture("memsets", func() {
		t.call("cuMemsetD8Async", "a, 1, 4, s", uintptr(a), 1, 4, uintptr(s))
		t.call("cuMemsetD16Async", "a + 4, 2, 2, s", uintptr(a)+4, 2, 2, uintptr(s))
		t.call("cuMemsetD32Async", "a + 8, 3, 1, s", uintptr(a)+8, 3, 1, uintptr(s))
	}))
	t.note("%#x", t.words(a, 3))
	graph = capture("pageable copies", func() {
		t.call("cuMemcpyHtoDAsync_v2", "a, host, 256, s", uintptr(a), ptr(host), 4*n, uintptr(s))
		t.call("cuMemcpyDtoDAsync_v2", "b, a, 256, s", uintptr(b), uintptr(a), 4*n, uintptr(s))
		t.call("cuMemcpyDtoHAsync_v2", "host, b, 128, s", ptr(&host[n/2]), uintptr(b), 2*n, uintptr(s))
	})
	host[0] = 77 // read when the graph runs, not when it was captured
	run(graph)
	t.note("device %d, host %d", t.words(b, 3), host[n/2:n/2+3])
	run(capture("memory operations", func() {
		t.call("cuStreamWriteValue32_v2", "s, word, 5, 0", uintptr(s), uintptr(g[0].device), 5, 0)
		t.call("cuStreamWaitValue32_v2", "s, word, 5, EQ", uintptr(s), uintptr(g[0].device), 5, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
		t.batch("cuStreamBatchMemOp_v2", "s, 2 writes", s, 0,
			memOp(abi.CU_STREAM_MEM_OP_WRITE_VALUE_32, g[0].device, 6, 0), memOp(abi.CU_STREAM_MEM_OP_WRITE_VALUE_32, g[1].device, 7, 0))
	}))
	t.note("words %d %d", g[0].load(), g[1].load())
	graph = capture("host functions", func() {
		t.call("cuLaunchHostFunc", "s, fn, 5", uintptr(s), hostFunction(), 5)
	})
	t.called(0)
	run(graph)
	t.called(1)
	run(capture("a callback", func() {
		t.call("cuStreamAddCallback", "s, fn, 6, 0", uintptr(s), streamCallback(), 6, 0)
	}))
	t.called(0)
	run(capture("a refused launch", func() {
		t.launch("xm_fill", fill, 0, n, s, params(a, 3, n))
		t.note("%s", t.capturing(s))
	}))
	var e, f abi.Event
	t.must("cuEventCreate", ptr(&e), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	t.must("cuEventCreate", ptr(&f), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	run(capture("an event, recorded", func() {
		t.call("cuEventRecord", "e, s", uintptr(e), uintptr(s))
		t.note("%s", t.capturing(s))
	}))
	t.call("cuEventQuery", "e", uintptr(e))
	t.call("cuStreamWaitEvent", "other, e, 0", uintptr(other), uintptr(e), 0)
	t.call("cuEventSynchronize", "e", uintptr(e))
	t.call("cuEventRecord", "e, other", uintptr(e), uintptr(other))
	t.call("cuEventSynchronize", "e", uintptr(e))
	run(capture("an external event, recorded and waited for", func() {
		t.call("cuEventRecordWithFlags", "f, s, EXTERNAL", uintptr(f), uintptr(s), uintptr(abi.CU_EVENT_RECORD_EXTERNAL))
		t.call("cuStreamWaitEvent", "s, f, EXTERNAL", uintptr(s), uintptr(f), uintptr(abi.CU_EVENT_WAIT_EXTERNAL))
	}))
	t.call("cuEventQuery", "f", uintptr(f))
	run(capture("an event of outside", func() {
		t.call("cuStreamWaitEvent", "s, f, 0", uintptr(s), uintptr(f), 0)
		t.note("%s", t.capturing(s))
	}))
	run(capture("an event that was never recorded", func() {
		var fresh abi.Event
		t.must("cuEventCreate", ptr(&fresh), uintptr(abi.CU_EVENT_DISABLE_TIMING))
		t.call("cuStreamWaitEvent", "s, fresh, 0", uintptr(s), uintptr(fresh), 0)
		t.note("%s", t.capturing(s))
	}))
	graph = capture("a graph in a capture", func() { t.must("cuMemsetD32Async", uintptr(a), 50, 1, uintptr(s)) })
	inner := t.instantiate(graph)
	run(capture("the launch of a graph", func() { t.call("cuGraphLaunch", "exec, s", inner, uintptr(s)) }))
	t.note("%d", t.words(a, 1))
	run(capture("a cooperative launch, and one with an attribute", func() {
		t.call("cuLaunchCooperativeKernel", "xm_fill, …", uintptr(fill), 1, 1, 1, n, 1, 1, 0, uintptr(s), params(a, 4, n))
		r := t.launchEx(increment, 1, n, 0, s, params(a, n), launchAttribute{id: abi.CU_LAUNCH_ATTRIBUTE_PRIORITY})
		t.line("cuLaunchKernelEx(xm_increment, PRIORITY 0) = %s", r.String())
	}))
	t.note("%d", t.words(a, 1))
}

// forkAndJoin asks about captures that spread over streams by events.
func forkAndJoin(t *transcript) {
	if !t.context() {
		return
	}
	a, b, c := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	var e, f, g abi.Event
	for _, p := range []*abi.Event{&e, &f, &g} {
		t.must("cuEventCreate", ptr(p), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	}
	data := t.alloc(16)
	memset := func(i, v int, s abi.Stream) {
		t.must("cuMemsetD32Async", uintptr(data)+uintptr(4*i), uintptr(v), 1, uintptr(s))
	}
	record := func(e abi.Event, s abi.Stream) { t.must("cuEventRecord", uintptr(e), uintptr(s)) }
	wait := func(name string, s abi.Stream, e abi.Event) {
		t.call("cuStreamWaitEvent", name, uintptr(s), uintptr(e), 0)
	}
	t.must("cuMemsetD32_v2", uintptr(data), 0, 4)
	t.section("a fork and a join")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	memset(0, 1, a)
	record(e, a)
	t.note("b %s", t.capturing(b))
	wait("b, e, 0", b, e)
	t.note("b %s", t.capturing(b))
	memset(1, 2, b)
	memset(2, 3, a)
	record(f, b)
	wait("a, f, 0", a, f)
	memset(3, 4, a)
	graph := t.endCapture(a)
	t.note("b %s", t.capturing(b))
	exec := t.instantiate(graph)
	t.call("cuGraphLaunch", "exec, c", exec, uintptr(c))
	t.call("cuStreamSynchronize", "c", uintptr(c))
	t.note("%d", t.words(data, 4))

	t.section("no join")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	record(e, a)
	wait("b, e, 0", b, e)
	memset(1, 2, b)
	t.endCapture(a)
	t.note("a %s, b %s", t.capturing(a), t.capturing(b))

	t.section("a fork without work, and no join")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	memset(0, 1, a)
	record(e, a)
	wait("b, e, 0", b, e)
	t.endCapture(a)
	t.note("a %s, b %s", t.capturing(a), t.capturing(b))

	t.section("ended in the other stream")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	record(e, a)
	wait("b, e, 0", b, e)
	memset(1, 2, b)
	t.endCapture(b)
	t.note("a %s, b %s", t.capturing(a), t.capturing(b))
	t.call("cuEventRecord", "f, b", uintptr(f), uintptr(b))
	wait("a, f, 0", a, f)
	t.endCapture(a)
	t.note("a %s, b %s", t.capturing(a), t.capturing(b))

	t.section("two captures that meet")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	t.must("cuStreamBeginCapture_v2", uintptr(b), 0)
	memset(0, 1, a)
	record(e, a)
	wait("b, e, 0", b, e)
	t.note("a %s, b %s", t.capturing(a), t.capturing(b))
	t.endCapture(a)
	t.endCapture(b)

	t.section("the legacy stream behind a captured event")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	memset(0, 1, a)
	record(e, a)
	wait("NULL, e, 0", 0, e)
	t.note("a %s", t.capturing(a))
	t.endCapture(a)

	t.section("captured events")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	record(e, a)
	t.call("cuEventQuery", "e", uintptr(e))
	t.note("a %s", t.capturing(a))
	t.endCapture(a)
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	record(e, a)
	t.call("cuEventSynchronize", "e", uintptr(e))
	t.note("a %s", t.capturing(a))
	t.endCapture(a)
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	record(g, a)
	t.call("cuEventDestroy_v2", "g", uintptr(g))
	t.note("a %s", t.capturing(a))
	t.endCapture(a)

	t.section("a join by way of a third stream")
	t.must("cuStreamBeginCapture_v2", uintptr(a), 0)
	record(e, a)
	wait("b, e, 0", b, e)
	memset(1, 1, b)
	record(f, b)
	wait("c, f, 0", c, f)
	memset(2, 1, c)
	record(f, c)
	wait("a, f, 0", a, f)
	t.endCapture(a)
	t.note("a %s, b %s, c %s", t.capturing(a), t.capturing(b), t.capturing(c))
}

// captureInfo asks the versions of cuStreamGetCaptureInfo.
func captureInfo(t *transcript) {
	if !t.context() {
		return
	}
	s, other := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(4)
	var last uint64
	ask := func(s abi.Stream) {
		for _, symbol := range []string{"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"} {
			status, id, graph, n := int32(-1), uint64(0), uintptr(1), uint64(99)
			deps, edges := uintptr(1), uintptr(1)
			args := []uintptr{uintptr(s), ptr(&status), ptr(&id)}
			switch symbol {
			case "cuStreamGetCaptureInfo_v2":
				args = append(args, ptr(&graph), ptr(&deps), ptr(&n))
			case "cuStreamGetCaptureInfo_v3":
				args = append(args, ptr(&graph), ptr(&deps), ptr(&edges), ptr(&n))
			}
			t.call(symbol, "s, …", args...)
			t.note("status %d, id %s, graph %s, dependencies %s, edge data %s, n %d",
				status, newness(id, last), pointerState(graph), pointerState(deps), pointerState(edges), n)
			if id != 0 {
				last = id
			}
		}
	}
	t.section("none")
	ask(s)
	t.section("begun")
	t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
	ask(s)
	t.section("with a node")
	t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(s))
	ask(s)
	t.section("invalidated")
	t.call("cuStreamQuery", "s", uintptr(s))
	ask(s)
	t.endCapture(s)
	t.section("another capture")
	t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
	ask(s)
	t.section("another stream meanwhile")
	ask(other)
	t.section("the legacy stream meanwhile")
	ask(0)
	t.endCapture(s)
}

// newness compares an identifier with the one before.
func newness(id, last uint64) string {
	switch id {
	case 0:
		return "0"
	case last:
		return "the same"
	}
	return "new"
}

// captureToGraph asks about captures into a graph that is there.
func captureToGraph(t *transcript) {
	if !t.context() {
		return
	}
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(8)
	var graph, node, got uintptr
	t.must("cuGraphCreate", ptr(&graph), 0)
	t.must("cuGraphAddEmptyNode", ptr(&node), graph, 0, 0)
	t.call("cuStreamBeginCaptureToGraph", "s, graph, &node, NULL, 1, global", uintptr(s), graph, ptr(&node), 0, 1, 0)
	t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(s))
	t.call("cuStreamEndCapture", "s, &graph", uintptr(s), ptr(&got))
	t.note("the same: %v, %s", got == graph, t.contents(graph))
	t.section("other dependencies")
	t.must("cuStreamBeginCapture_v2", uintptr(s), 0)
	t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(s))
	t.call("cuStreamUpdateCaptureDependencies", "s, NULL, 0, SET", uintptr(s), 0, 0, 1)
	t.must("cuMemsetD32Async", uintptr(data)+4, 1, 1, uintptr(s))
	t.endCapture(s)
}

// nullCaptures are capture calls with nothing where something belongs. Each may
// end the process.
var nullCaptures = testCase{"null-captures", []question{
	one("cuThreadExchangeStreamCaptureMode", "NULL", 0),
	one("cuStreamEndCapture", "NULL, NULL", 0, 0),
	one("cuStreamBatchMemOp_v2", "NULL, 1, NULL, 0", 0, 1, 0, 0),
	one("cuLaunchKernelEx", "NULL, NULL, NULL, NULL", 0, 0, 0, 0),
	one("cuStreamGetAttribute", "NULL, SYNCHRONIZATION_POLICY, NULL", 0, uintptr(abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY), 0),
	one("cuStreamSetAttribute", "NULL, SYNCHRONIZATION_POLICY, NULL", 0, uintptr(abi.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY), 0),
	one("cuFuncGetAttribute", "NULL, 0, NULL", 0, 0, 0),
	one("cuOccupancyMaxActiveBlocksPerMultiprocessor", "NULL, NULL, 32, 0", 0, 0, 32, 0),
	one("cuCtxAttach", "NULL, 0", 0, 0),
	one("cuCtxDetach", "NULL", 0),
	inCapture("cuStreamEndCapture", "s, NULL", func(s uintptr) []uintptr { return []uintptr{s, 0} }),
	inCapture("cuStreamIsCapturing", "s, NULL", func(s uintptr) []uintptr { return []uintptr{s, 0} }),
	inCapture("cuStreamGetCaptureInfo", "s, NULL, NULL", func(s uintptr) []uintptr { return []uintptr{s, 0, 0} }),
	inCapture("cuStreamGetCaptureInfo_v2", "s, NULL, NULL, NULL, NULL, NULL", func(s uintptr) []uintptr { return []uintptr{s, 0, 0, 0, 0, 0} }),
	inCapture("cuStreamGetCaptureInfo_v2", "s, &status, NULL, NULL, NULL, NULL", func(s uintptr) []uintptr {
		return []uintptr{s, ptr(new(uint64)), 0, 0, 0, 0}
	}),
	inCapture("cuStreamBatchMemOp_v2", "s, 1, NULL, 0", func(s uintptr) []uintptr { return []uintptr{s, 1, 0, 0} }),
	inCapture("cuStreamUpdateCaptureDependencies", "s, NULL, 1, ADD", func(s uintptr) []uintptr { return []uintptr{s, 0, 1, 0} }),
}}

// inCapture is a question of one call about a capturing stream.
func inCapture(symbol, what string, args func(s uintptr) []uintptr) question {
	return question{symbol + "(" + what + ")", func(t *transcript) {
		if !t.context() {
			return
		}
		s := t.stream(abi.CU_STREAM_NON_BLOCKING)
		t.must("cuStreamBeginCapture_v2", uintptr(s), uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED))
		t.call(symbol, what, args(uintptr(s))...)
		var graph uintptr
		t.quiet("cuStreamEndCapture", uintptr(s), ptr(&graph))
	}}
}

// ptxText is the kernels' text, once: every question of a table loads it.
func ptxText() uintptr { return text(string(kernels.PTX())) }
