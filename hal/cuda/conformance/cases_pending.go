package conformance

import (
	"runtime"
	"time"
	"unsafe"

	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// settleLimit is how long a stream that nothing holds may take, and how long a
// call may take before it counts as waiting. Both take a driver microseconds;
// the limit is for machines with something else to do.
const settleLimit = time.Second / 2

// held says whether a stream is still waiting.
func (t *transcript) held(s abi.Stream) string {
	switch r := t.quiet("cuStreamQuery", uintptr(s)); r {
	case abi.CUDA_ERROR_NOT_READY:
		return "held"
	case abi.CUDA_SUCCESS:
		return "passed"
	default:
		return r.String()
	}
}

// settles is held for a stream that may still be at work: it gives it time to
// pass.
func (t *transcript) settles(s abi.Stream) string {
	for end := time.Now().Add(settleLimit); ; time.Sleep(time.Millisecond) {
		if state := t.held(s); state != "held" || time.Now().After(end) {
			return state
		}
	}
}

// hold closes the gate and lets a stream wait for it.
func (t *transcript) hold(g gate, s abi.Stream) {
	g.store(0)
	t.must("cuStreamWaitValue32_v2", uintptr(s), uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
}

// pendingWork holds a stream behind a gate and asks what is seen of it. The
// kernel has run before.
func pendingWork(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	g := t.gates(1)[0]
	a, b, c := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), 0)
	data, other := t.alloc(4), t.alloc(4)
	t.must("cuMemsetD32_v2", uintptr(data), 4, 1)
	increment := t.function(m, "xm_increment")
	t.launch("xm_increment", increment, 1, 32, a, params(data, 1))
	t.call("cuStreamSynchronize", "a", uintptr(a))

	t.section("a gate, a kernel, an event; another stream behind the event")
	t.hold(g, a)
	t.launch("xm_increment", increment, 1, 32, a, params(data, 1))
	t.call("cuEventRecord", "e, a", uintptr(e), uintptr(a))
	t.call("cuStreamWaitEvent", "b, e, 0", uintptr(b), uintptr(e), 0)
	t.call("cuMemsetD32Async", "data, 100, 1, b", uintptr(data), 100, 1, uintptr(b))
	t.call("cuStreamQuery", "a", uintptr(a))
	t.call("cuStreamQuery", "b", uintptr(b))
	t.call("cuEventQuery", "e", uintptr(e))
	t.section("a stream beside them")
	t.call("cuMemsetD32Async", "other, 3, 1, c", uintptr(other), 3, 1, uintptr(c))
	t.note("c %s", t.settles(c))
	t.note("a %s, b %s", t.held(a), t.held(b))

	t.section("the gate opens")
	g.store(1)
	t.call("cuStreamSynchronize", "b", uintptr(b))
	t.call("cuStreamSynchronize", "c", uintptr(c))
	t.call("cuStreamQuery", "a", uintptr(a))
	t.call("cuEventQuery", "e", uintptr(e))
	t.note("data %d", t.words(data, 1))

	t.section("destroyed with work in it")
	t.hold(g, a)
	t.launch("xm_increment", increment, 1, 32, a, params(data, 1))
	waiting := t.bounded("cuStreamDestroy_v2", "a", uintptr(a))
	g.store(1)
	join(waiting)
	t.call("cuCtxSynchronize", "")
	t.note("data %d", t.words(data, 1))
}

// besides asks whether a stream beside a held one passes, by what was put into
// the held one and what the other one does.
func besides(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	g := t.gates(2)
	data, other := t.alloc(4), t.alloc(4)
	t.must("cuMemsetD32_v2", uintptr(data), 0, 1)
	fill := t.function(m, "xm_fill")
	t.launch("xm_fill", fill, 1, 32, 0, params(data, 0, 1))
	t.call("cuCtxSynchronize", "")

	type action struct {
		name string
		do   func(s abi.Stream)
	}
	memset := func(p uint64) action {
		return action{"a memset", func(s abi.Stream) { t.must("cuMemsetD32Async", uintptr(p), 1, 1, uintptr(s)) }}
	}
	launch := func(name string, f abi.Function, args uintptr) action {
		return action{name, func(s abi.Stream) {
			t.must("cuLaunchKernel", uintptr(f), 1, 1, 1, 32, 1, 1, 0, uintptr(s), args, 0)
		}}
	}
	write := action{"a written word", func(s abi.Stream) {
		t.must("cuStreamWriteValue32_v2", uintptr(s), uintptr(g[1].device), 1, 0)
	}}
	nothing := action{"nothing", func(abi.Stream) {}}
	beside := func(inHeld, inOther action) {
		a, b := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
		t.hold(g[0], a)
		inHeld.do(a)
		inOther.do(b)
		t.line("held: %s; beside it: %s: %s", inHeld.name, inOther.name, t.settles(b))
		g[0].store(1)
		t.must("cuCtxSynchronize")
		t.must("cuStreamDestroy_v2", uintptr(a))
		t.must("cuStreamDestroy_v2", uintptr(b))
	}
	known := func(p uint64) action { return launch("a kernel that has run", fill, params(p, 1, 1)) }
	for _, held := range []action{nothing, memset(data), known(data), write} {
		for _, free := range []action{memset(other), known(other), write} {
			beside(held, free)
		}
	}
}

// firstLaunches asks the same of kernels that have not run: a first launch may
// have to bring the code to the device.
var firstLaunches = testCase{"first-launch-beside-held-work", []question{
	{"held: nothing; beside it: a first launch", func(t *transcript) {
		t.firstLaunch("nothing", false, "a first launch", func(fill, _, s, data uintptr) (string, []uintptr) {
			return "cuLaunchKernel", []uintptr{fill, 1, 1, 1, 32, 1, 1, 0, s, params(uint64(data), 1, 1), 0}
		})
	}},
	{"held: a first launch; beside it: a memset", func(t *transcript) {
		t.firstLaunch("a first launch", true, "a memset", func(_, _, s, data uintptr) (string, []uintptr) {
			return "cuMemsetD32Async", []uintptr{data, 1, 1, s}
		})
	}},
	{"held: a first launch; beside it: another first launch", func(t *transcript) {
		t.firstLaunch("a first launch", true, "another first launch", func(fill, _, s, data uintptr) (string, []uintptr) {
			return "cuLaunchKernel", []uintptr{fill, 1, 1, 1, 32, 1, 1, 0, s, params(uint64(data), 1, 1), 0}
		})
	}},
	{"held: a first launch; beside it: the same kernel", func(t *transcript) {
		t.firstLaunch("a first launch", true, "the same kernel", func(_, increment, s, data uintptr) (string, []uintptr) {
			return "cuLaunchKernel", []uintptr{increment, 1, 1, 1, 32, 1, 1, 0, s, params(uint64(data), 1), 0}
		})
	}},
	{"held: a first launch; beside it: a written word", func(t *transcript) {
		t.firstLaunch("a first launch", true, "a written word", func(_, _, s, data uintptr) (string, []uintptr) {
			return "cuStreamWriteValue32_v2", []uintptr{s, data, 1, 0}
		})
	}},
}}

// firstLaunch holds a stream, launches into it a kernel of a fresh module if
// told to, and does something else in another stream.
func (t *transcript) firstLaunch(held string, launch bool, beside string, do func(fill, increment, s, data uintptr) (string, []uintptr)) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	g := t.gates(1)[0]
	a, b := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(8)
	t.must("cuMemsetD32_v2", uintptr(data), 0, 2)
	fill, increment := t.function(m, "xm_fill"), t.function(m, "xm_increment")
	t.line("held: %s; beside it: %s", held, beside)
	t.hold(g, a)
	var waiting func()
	if launch {
		waiting = t.bounded("cuLaunchKernel", "a first launch", uintptr(increment), 1, 1, 1, 32, 1, 1, 0, uintptr(a), params(data+4, 1), 0)
	}
	if waiting == nil {
		symbol, args := do(uintptr(fill), uintptr(increment), uintptr(b), uintptr(data))
		waiting = t.bounded(symbol, beside, args...)
	}
	if waiting == nil {
		t.note("%s", t.settles(b))
	}
	g.store(1)
	join(waiting)
	t.must("cuCtxSynchronize")
}

// madeWhileHeld asks whether a stream passes beside held work when something it
// uses was made after the hold.
var madeWhileHeld = testCase{"made-while-held", []question{
	{"a stream made while another is held", func(t *transcript) {
		t.madeWhileHeld("a stream", func(abi.Module) (abi.Stream, uint64) {
			return t.stream(abi.CU_STREAM_NON_BLOCKING), 0
		})
	}},
	{"memory allocated while a stream is held", func(t *transcript) {
		t.madeWhileHeld("memory", func(abi.Module) (abi.Stream, uint64) { return 0, t.alloc(4) })
	}},
	{"a function taken while a stream is held", func(t *transcript) {
		t.madeWhileHeld("a function", func(m abi.Module) (abi.Stream, uint64) {
			t.function(m, "xm_increment")
			return 0, 0
		})
	}},
	{"a function taken and launched while a stream is held", func(t *transcript) {
		t.madeWhileHeld("a function, launched", func(m abi.Module) (abi.Stream, uint64) {
			s := t.stream(abi.CU_STREAM_NON_BLOCKING)
			t.launch("xm_empty", t.function(m, "xm_empty"), 1, 32, s, 0)
			t.note("the launch: %s", t.settles(s))
			return 0, 0
		})
	}},
}}

// madeWhileHeld holds a stream, makes something, and sets memory in another
// stream, with what was made where it fits.
func (t *transcript) madeWhileHeld(what string, made func(abi.Module) (abi.Stream, uint64)) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	g := t.gates(1)[0]
	a, b := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(4)
	t.must("cuMemsetD32_v2", uintptr(data), 0, 1)
	t.section("made while held: " + what)
	t.hold(g, a)
	if s, p := made(m); s != 0 {
		b = s
	} else if p != 0 {
		data = p
	}
	t.call("cuMemsetD32Async", "data, 1, 1, b", uintptr(data), 1, 1, uintptr(b))
	t.note("%s", t.settles(b))
	g.store(1)
	t.must("cuCtxSynchronize")
}

// folding holds one stream of many and asks which of the others are held with
// it: streams are many, and hardware queues are few.
func folding(t *transcript) {
	if !t.context() {
		return
	}
	const n = 40
	g := t.gates(1 + n)
	streams := make([]abi.Stream, n)
	for i := range streams {
		streams[i] = t.stream(abi.CU_STREAM_NON_BLOCKING)
	}
	data := t.alloc(4 * n)
	t.must("cuMemsetD32_v2", uintptr(data), 0, n)
	for _, kind := range []struct {
		name string
		do   func(i int)
	}{
		{"written words", func(i int) {
			t.must("cuStreamWriteValue32_v2", uintptr(streams[i]), uintptr(g[1+i].device), 1, 0)
		}},
		{"memsets", func(i int) {
			t.must("cuMemsetD32Async", uintptr(data)+uintptr(4*i), 1, 1, uintptr(streams[i]))
		}},
	} {
		for _, first := range []int{0, 3} {
			t.hold(g[0], streams[first])
			for i := range streams {
				if i != first {
					kind.do(i)
				}
			}
			t.line("%s, stream %d held: held with it %v", kind.name, first, t.stillHeld(streams, first))
			g[0].store(1)
			t.must("cuCtxSynchronize")
		}
	}
}

// stillHeld are the indices of the streams that do not pass, without one.
func (t *transcript) stillHeld(streams []abi.Stream, without int) []int {
	for end := time.Now().Add(settleLimit); ; time.Sleep(time.Millisecond) {
		held := []int{}
		for i, s := range streams {
			if i != without && t.held(s) == "held" {
				held = append(held, i)
			}
		}
		if len(held) == 0 || time.Now().After(end) {
			return held
		}
	}
}

// bounded makes a call that may wait for the device, on a thread of its own with
// the same context. It writes the result and gives nil, or writes that the call
// waits; then the function that it gives writes the result, once what the call
// waits for was let go. Until then nobody else may call the driver: the waiting
// call may hold its locks.
//
//go:uintptrescapes
func (t *transcript) bounded(symbol, text string, args ...uintptr) (waiting func()) {
	var ctx uintptr
	t.must("cuCtxGetCurrent", ptr(&ctx))
	_, exported := t.proc(symbol)
	_, _ = t.proc("cuCtxSetCurrent") // the map of functions is this thread's
	done := make(chan abi.Result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its state
		if !exported {
			done <- noSymbol
		} else if r := t.quiet("cuCtxSetCurrent", ctx); r != abi.CUDA_SUCCESS {
			done <- r
		} else {
			done <- t.quiet(symbol, args...)
		}
	}()
	select {
	case r := <-done:
		t.line("%s(%s) = %s", symbol, text, r.String())
		return nil
	case <-time.After(settleLimit):
		t.line("%s(%s) = (waits)", symbol, text)
		return func() { t.note("then %s", (<-done).String()) }
	}
}

// join ends what bounded began.
func join(waiting func()) {
	if waiting != nil {
		waiting()
	}
}

// waiters asks which calls wait while a non-blocking stream is held.
var waiters = func() testCase {
	c := testCase{name: "calls-beside-held-work"}
	add := func(symbol, what string, args func(t *transcript) []uintptr) {
		c.questions = append(c.questions, question{symbol + "(" + what + ")", func(t *transcript) {
			if !t.context() {
				return
			}
			list := args(t)
			g, s := t.gates(1)[0], t.stream(abi.CU_STREAM_NON_BLOCKING)
			data := t.alloc(4)
			t.hold(g, s)
			t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(s))
			waiting := t.bounded(symbol, what, list...)
			g.store(1)
			join(waiting)
			t.must("cuCtxSynchronize")
		}})
	}
	// Arguments that need no call first.
	fixed := func(args ...uintptr) func(*transcript) []uintptr {
		return func(*transcript) []uintptr { return args }
	}
	out := func(more ...uintptr) func(*transcript) []uintptr {
		return func(*transcript) []uintptr { return append([]uintptr{ptr(new(uint64))}, more...) }
	}
	add("cuMemAlloc_v2", "&p, 4096", out(4096))
	add("cuMemAlloc_v2", "&p, 64 MiB", out(64<<20))
	add("cuMemFree_v2", "p, 4096 bytes", func(t *transcript) []uintptr { return []uintptr{uintptr(t.alloc(4096))} })
	add("cuMemFree_v2", "p, 64 MiB", func(t *transcript) []uintptr { return []uintptr{uintptr(t.alloc(64 << 20))} })
	add("cuMemHostAlloc", "&p, 4096, 0", out(4096, 0))
	add("cuMemHostAlloc", "&p, 16 MiB, 0", out(16<<20, 0))
	add("cuMemFreeHost", "p, 16 MiB", func(t *transcript) []uintptr {
		var p unsafe.Pointer
		t.must("cuMemHostAlloc", ptr(&p), 16<<20, 0)
		return []uintptr{uintptr(p)}
	})
	add("cuMemHostRegister_v2", "p, 4096, 0", func(*transcript) []uintptr { return []uintptr{mapping(4096), 4096, 0} })
	add("cuMemHostUnregister", "p", func(t *transcript) []uintptr {
		p := mapping(4096)
		t.must("cuMemHostRegister_v2", p, 4096, 0)
		return []uintptr{p}
	})
	add("cuModuleLoadData", "&m, the kernels", func(*transcript) []uintptr {
		return []uintptr{ptr(new(uint64)), text(string(kernels.PTX()))}
	})
	add("cuModuleUnload", "m", func(t *transcript) []uintptr {
		m, _ := t.load()
		return []uintptr{uintptr(m)}
	})
	add("cuModuleGetFunction", "&f, m, \"xm_empty\"", func(t *transcript) []uintptr {
		m, _ := t.load()
		return []uintptr{ptr(new(uint64)), uintptr(m), text("xm_empty")}
	})
	add("cuStreamCreate", "&s, 0", out(0))
	add("cuStreamDestroy_v2", "an idle stream", func(t *transcript) []uintptr {
		return []uintptr{uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))}
	})
	add("cuEventCreate", "&e, 0", out(0))
	add("cuMemGetInfo_v2", "&free, &total", func(*transcript) []uintptr { return []uintptr{ptr(new(uint64)), ptr(new(uint64))} })
	add("cuCtxSynchronize", "", fixed())
	add("cuStreamSynchronize", "NULL", fixed(0))
	add("cuStreamQuery", "NULL", fixed(0))
	device := func(more ...uintptr) func(t *transcript) []uintptr {
		return func(t *transcript) []uintptr { return append([]uintptr{uintptr(t.alloc(4096))}, more...) }
	}
	add("cuMemsetD8_v2", "p, 1, 4096", device(1, 4096))
	add("cuMemcpyHtoD_v2", "p, buffer, 64", func(t *transcript) []uintptr {
		return []uintptr{uintptr(t.alloc(4096)), ptr(new([64]byte)), 64}
	})
	add("cuMemcpyDtoH_v2", "buffer, p, 64", func(t *transcript) []uintptr {
		return []uintptr{ptr(new([64]byte)), uintptr(t.alloc(4096)), 64}
	})
	add("cuMemcpyDtoD_v2", "p, q, 64", func(t *transcript) []uintptr {
		return []uintptr{uintptr(t.alloc(4096)), uintptr(t.alloc(4096)), 64}
	})
	add("cuMemcpyHtoDAsync_v2", "p, pageable, 128 KiB, another stream", func(t *transcript) []uintptr {
		return []uintptr{uintptr(t.alloc(128 << 10)), mapping(128 << 10), 128 << 10, uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))}
	})
	add("cuDevicePrimaryCtxRetain", "&ctx, 0", out(0))
	add("cuCtxCreate_v2", "&ctx, 0, 0", out(0, 0))
	return c
}()
