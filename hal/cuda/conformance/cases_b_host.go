package conformance

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"xmsched/hal/cuda/abi"
)

// calledBack is what host functions have done, by the number that each was given.
// A driver's thread calls; purego lends only some callbacks to a process, so there
// is one of each kind.
var calledBack struct {
	mu     sync.Mutex
	order  []uint64
	status []string
	within func() // what the next call does inside, once
	done   atomic.Int64
}

func onHost(n uint64, status abi.Result) {
	calledBack.mu.Lock()
	calledBack.order = append(calledBack.order, n)
	calledBack.status = append(calledBack.status, status.String())
	within := calledBack.within
	calledBack.within = nil
	calledBack.mu.Unlock()
	if within != nil {
		within()
	}
	calledBack.done.Add(1)
}

// hostFunction is a CUhostFn, streamCallback a CUstreamCallback.
var hostFunction = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(n uintptr) uintptr {
		onHost(uint64(n), abi.CUDA_SUCCESS)
		return 0
	})
})

var streamCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(_ uintptr, status uintptr, n uintptr) uintptr {
		onHost(uint64(n), abi.Result(int32(uint32(status))))
		return 0
	})
})

// inside sets what the next host function does.
func inside(do func()) {
	calledBack.mu.Lock()
	defer calledBack.mu.Unlock()
	calledBack.within = do
}

// called writes which host functions ran since it was last asked, once n have.
func (t *transcript) called(n int) {
	for end := time.Now().Add(settleLimit); calledBack.done.Load() < int64(n) && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	calledBack.mu.Lock()
	defer calledBack.mu.Unlock()
	t.note("called %v, status %v", calledBack.order, calledBack.status)
	calledBack.order, calledBack.status = nil, nil
	calledBack.done.Store(0)
}

// began waits for a host function to run.
func (t *transcript) began(started chan struct{}) {
	select {
	case <-started:
	case <-time.After(settleLimit):
		t.note("not called")
	}
}

// hostFunctions asks when the driver calls the program.
func hostFunctions(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(2)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	other := t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(4)
	t.call("cuLaunchHostFunc", "s, fn, 1", uintptr(s), hostFunction(), 1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(1)
	t.call("cuStreamAddCallback", "s, fn, 2, 0", uintptr(s), streamCallback(), 2, 0)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(1)
	t.call("cuLaunchHostFunc", "NULL, fn, 3", 0, hostFunction(), 3)
	t.call("cuLaunchHostFunc", "per-thread, fn, 4", 2, hostFunction(), 4)
	t.call("cuStreamSynchronize", "per-thread", 2)
	t.call("cuStreamSynchronize", "NULL", 0)
	t.called(2)

	t.section("refusals")
	t.call("cuLaunchHostFunc", "s, NULL, 0", uintptr(s), 0, 0)
	t.call("cuStreamAddCallback", "s, NULL, 0, 0", uintptr(s), 0, 0, 0)
	t.call("cuStreamAddCallback", "s, fn, 5, 1", uintptr(s), streamCallback(), 5, 1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(0)

	t.section("in the stream's order, behind a gate")
	t.hold(g[0], s)
	for i := uintptr(10); i < 14; i++ {
		t.must("cuLaunchHostFunc", uintptr(s), hostFunction(), i)
		t.must("cuStreamAddCallback", uintptr(s), streamCallback(), i+10, 0)
	}
	t.must("cuMemsetD32Async", uintptr(data), 5, 1, uintptr(s))
	t.note("s %s", t.held(s))
	t.called(0)
	g[0].store(1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(8)
	t.note("data %d", t.words(data, 1))

	t.section("a stream stands while its function runs; another does not")
	started, release := make(chan struct{}), make(chan struct{})
	inside(func() { close(started); <-release })
	t.must("cuMemsetD32_v2", uintptr(data), 0, 1)
	t.call("cuLaunchHostFunc", "s, fn that waits, 30", uintptr(s), hostFunction(), 30)
	t.must("cuStreamWriteValue32_v2", uintptr(s), uintptr(g[1].device), 7, 0)
	t.began(started)
	t.note("s %s, word %d", t.held(s), g[1].load())
	t.must("cuMemsetD32Async", uintptr(data), 6, 1, uintptr(other))
	t.note("other %s", t.settles(other))
	close(release)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("word %d", g[1].load())
	t.called(1)

	t.section("an event behind a function")
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	started, release = make(chan struct{}), make(chan struct{})
	inside(func() { close(started); <-release })
	t.must("cuLaunchHostFunc", uintptr(s), hostFunction(), 31)
	t.must("cuEventRecord", uintptr(e), uintptr(s))
	t.began(started)
	t.call("cuEventQuery", "e", uintptr(e))
	close(release)
	t.call("cuEventSynchronize", "e", uintptr(e))
	t.called(1)
}

// callsInside asks what the driver answers to a host function that calls it.
var callsInside = testCase{"calls-inside-host-functions", callsInsideQuestions()}

func callsInsideQuestions() []question {
	var out []question
	for _, kind := range []string{"cuLaunchHostFunc", "cuStreamAddCallback"} {
		for _, symbol := range []string{
			"cuDriverGetVersion", "cuDeviceGetCount", "cuCtxGetCurrent", "cuStreamQuery", "cuMemAlloc_v2", "cuEventCreate", "cuMemGetInfo_v2", "cuCtxSynchronize", "cuMemsetD32Async",
		} {
			what := symbol + " inside " + kind
			out = append(out, question{"from " + kind + ": " + symbol, func(t *transcript) { t.callInside(kind, symbol, what) }})
		}
	}
	return out
}

// abandon ends the child: the driver is stuck, and the next question must find
// another. The transcript says so behind what was answered.
func abandon() { _ = unix.Kill(unix.Getpid(), unix.SIGABRT); select {} }

func (t *transcript) callInside(kind, symbol, what string) {
	if !t.context() {
		return
	}
	s, other := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(4)
	p, ok := t.proc(symbol)
	if !ok {
		return
	}
	args := map[string][]uintptr{
		"cuStreamQuery":    {uintptr(other)},
		"cuMemAlloc_v2":    {ptr(new(uint64)), 4096},
		"cuEventCreate":    {ptr(new(uint64)), 0},
		"cuMemGetInfo_v2":  {ptr(new(uint64)), ptr(new(uint64))},
		"cuCtxSynchronize": {},
		"cuMemsetD32Async": {uintptr(data), 1, 1, uintptr(other)},
	}[symbol]
	if args == nil {
		args = []uintptr{ptr(new(uint64))}
	}
	answer := make(chan abi.Result, 1)
	inside(func() { answer <- p.Call(args...) })
	if kind == "cuLaunchHostFunc" {
		t.must(kind, uintptr(s), hostFunction(), 1)
	} else {
		t.must(kind, uintptr(s), streamCallback(), 1, 0)
	}
	select {
	case r := <-answer:
		t.line("from %s: %s = %s", kind, symbol, r.String())
	case <-time.After(settleLimit):
		t.line("from %s: %s = (waits)", kind, symbol)
		abandon()
	}
	t.must("cuStreamSynchronize", uintptr(s))
}

// callbackOfFailure and hostFunctionOfFailure ask what becomes of a function
// behind a kernel that fails.
func callbackOfFailure(t *transcript)     { t.afterFault("cuStreamAddCallback") }
func hostFunctionOfFailure(t *transcript) { t.afterFault("cuLaunchHostFunc") }

func (t *transcript) afterFault(kind string) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	g, s := t.gates(1)[0], t.stream(abi.CU_STREAM_NON_BLOCKING)
	fill := t.function(m, "xm_fill")
	t.section(kind + " behind a fault")
	t.hold(g, s)
	t.launch("xm_fill", fill, 1, 32, s, params(0xdead0000000, 1, 8))
	if kind == "cuLaunchHostFunc" {
		t.call(kind, "s, fn, 1", uintptr(s), hostFunction(), 1)
	} else {
		t.call(kind, "s, fn, 1, 0", uintptr(s), streamCallback(), 1, 0)
	}
	g.store(1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.called(1)
}
