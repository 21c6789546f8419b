package conformance

import (
	"runtime"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// elsewhere makes a call that does not wait on a thread of its own with the same
// context.
//
//go:uintptrescapes
func (t *transcript) elsewhere(symbol string, args ...uintptr) abi.Result {
	var ctx uintptr
	t.must("cuCtxGetCurrent", ptr(&ctx))
	_, exported := t.proc(symbol)
	_, _ = t.proc("cuCtxSetCurrent") // the map of functions is this thread's
	if !exported {
		return noSymbol
	}
	done := make(chan abi.Result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its state
		r := t.quiet("cuCtxSetCurrent", ctx)
		if r == abi.CUDA_SUCCESS {
			r = t.quiet(symbol, args...)
		}
		done <- r
	}()
	return <-done
}

// situations are captures in whose presence a call is made.
var situations = []struct {
	name   string
	flags  abi.StreamFlags
	mode   abi.StreamCaptureMode
	thread bool                   // the call is another thread's
	own    *abi.StreamCaptureMode // the calling thread's mode, where it is not global
}{
	{name: "global", flags: abi.CU_STREAM_NON_BLOCKING, mode: abi.CU_STREAM_CAPTURE_MODE_GLOBAL},
	{name: "thread-local", flags: abi.CU_STREAM_NON_BLOCKING, mode: abi.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	{name: "relaxed", flags: abi.CU_STREAM_NON_BLOCKING, mode: abi.CU_STREAM_CAPTURE_MODE_RELAXED},
	{name: "global, the caller relaxed", flags: abi.CU_STREAM_NON_BLOCKING, mode: abi.CU_STREAM_CAPTURE_MODE_GLOBAL, own: mode(abi.CU_STREAM_CAPTURE_MODE_RELAXED)},
	{name: "global of another thread", flags: abi.CU_STREAM_NON_BLOCKING, mode: abi.CU_STREAM_CAPTURE_MODE_GLOBAL, thread: true},
	{name: "thread-local of another thread", flags: abi.CU_STREAM_NON_BLOCKING, mode: abi.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, thread: true},
	{name: "relaxed, of a blocking stream", flags: abi.CU_STREAM_DEFAULT, mode: abi.CU_STREAM_CAPTURE_MODE_RELAXED},
}

func mode(m abi.StreamCaptureMode) *abi.StreamCaptureMode { return &m }

// beside is what a call during a capture can use.
type beside struct {
	s, other abi.Stream // the capturing one and one beside it
	data     uint64
	module   abi.Module
	fill     abi.Function
	event    abi.Event // recorded before the capture, and over
	graph    uintptr
	exec     uintptr
}

// duringCapture asks what each call answers while a stream captures, and what
// becomes of the capture.
var duringCapture = func() testCase {
	c := testCase{name: "calls-during-capture"}
	add := func(symbol, what string, args func(t *transcript, b *beside) []uintptr) {
		c.questions = append(c.questions, question{symbol + "(" + what + ")", func(t *transcript) {
			t.duringCapture(symbol, what, args)
		}})
	}
	fixed := func(args ...uintptr) func(*transcript, *beside) []uintptr {
		return func(*transcript, *beside) []uintptr { return args }
	}
	out := func(more ...uintptr) func(*transcript, *beside) []uintptr {
		return func(*transcript, *beside) []uintptr { return append([]uintptr{ptr(new([8]uint64))}, more...) }
	}
	// Memory and modules.
	add("cuMemAlloc_v2", "&p, 4096", out(4096))
	add("cuMemFree_v2", "p", func(t *transcript, _ *beside) []uintptr { return []uintptr{uintptr(t.alloc(4096))} })
	add("cuMemHostAlloc", "&p, 4096, 0", out(4096, 0))
	add("cuMemFreeHost", "p", func(t *transcript, _ *beside) []uintptr {
		var p unsafe.Pointer
		t.must("cuMemHostAlloc", ptr(&p), 4096, 0)
		return []uintptr{uintptr(p)}
	})
	add("cuMemHostRegister_v2", "p, 4096, 0", func(*transcript, *beside) []uintptr { return []uintptr{mapping(4096), 4096, 0} })
	add("cuMemHostUnregister", "p", func(t *transcript, _ *beside) []uintptr {
		p := mapping(4096)
		t.must("cuMemHostRegister_v2", p, 4096, 0)
		return []uintptr{p}
	})
	add("cuMemGetInfo_v2", "&free, &total", func(*transcript, *beside) []uintptr { return []uintptr{ptr(new(uint64)), ptr(new(uint64))} })
	add("cuMemGetAddressRange_v2", "&base, &size, p", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{ptr(new(uint64)), ptr(new(uint64)), uintptr(b.data)}
	})
	add("cuPointerGetAttribute", "&v, MEMORY_TYPE, p", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{ptr(new(uint64)), uintptr(abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE), uintptr(b.data)}
	})
	add("cuModuleLoadData", "&m, the kernels", func(*transcript, *beside) []uintptr { return []uintptr{ptr(new(uint64)), ptxText()} })
	add("cuModuleUnload", "m", func(t *transcript, _ *beside) []uintptr {
		m, _ := t.load()
		return []uintptr{uintptr(m)}
	})
	add("cuModuleGetFunction", "&f, m, \"xm_empty\"", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{ptr(new(uint64)), uintptr(b.module), text("xm_empty")}
	})
	add("cuLibraryLoadData", "&library, the kernels, …", func(*transcript, *beside) []uintptr {
		return []uintptr{ptr(new(uint64)), ptxText(), 0, 0, 0, 0, 0, 0}
	})
	// Contexts and devices.
	add("cuCtxSynchronize", "", fixed())
	add("cuCtxGetCurrent", "&ctx", out())
	add("cuCtxCreate_v2", "&ctx, 0, 0", out(0, 0))
	add("cuDevicePrimaryCtxRetain", "&ctx, 0", out(0))
	add("cuDeviceGetAttribute", "&v, 1, 0", out(1, 0))
	add("cuCtxGetStreamPriorityRange", "&low, &high", func(*transcript, *beside) []uintptr { return []uintptr{ptr(new(uint64)), ptr(new(uint64))} })
	// Streams and events.
	other := func(more ...uintptr) func(*transcript, *beside) []uintptr {
		return func(_ *transcript, b *beside) []uintptr { return append([]uintptr{uintptr(b.other)}, more...) }
	}
	self := func(more ...uintptr) func(*transcript, *beside) []uintptr {
		return func(_ *transcript, b *beside) []uintptr { return append([]uintptr{uintptr(b.s)}, more...) }
	}
	add("cuStreamCreate", "&s, 0", out(0))
	add("cuStreamDestroy_v2", "an idle stream", func(t *transcript, _ *beside) []uintptr {
		return []uintptr{uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))}
	})
	add("cuStreamQuery", "other", other())
	add("cuStreamSynchronize", "other", other())
	add("cuStreamQuery", "NULL", fixed(0))
	add("cuStreamSynchronize", "NULL", fixed(0))
	add("cuStreamIsCapturing", "NULL, &status", func(*transcript, *beside) []uintptr { return []uintptr{0, ptr(new(uint64))} })
	add("cuStreamQuery", "s", self())
	add("cuStreamSynchronize", "s", self())
	add("cuStreamGetFlags", "s, &flags", func(_ *transcript, b *beside) []uintptr { return []uintptr{uintptr(b.s), ptr(new(uint64))} })
	add("cuStreamGetCtx", "s, &ctx", func(_ *transcript, b *beside) []uintptr { return []uintptr{uintptr(b.s), ptr(new(uint64))} })
	add("cuStreamBeginCapture_v2", "s, relaxed", self(uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED)))
	add("cuStreamBeginCapture_v2", "NULL, relaxed", fixed(0, uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED)))
	add("cuEventCreate", "&e, 0", out(0))
	event := func(more ...uintptr) func(*transcript, *beside) []uintptr {
		return func(_ *transcript, b *beside) []uintptr { return append([]uintptr{uintptr(b.event)}, more...) }
	}
	add("cuEventDestroy_v2", "e", event())
	add("cuEventQuery", "e", event())
	add("cuEventSynchronize", "e", event())
	add("cuEventElapsedTime", "&ms, e, e", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{ptr(new(float32)), uintptr(b.event), uintptr(b.event)}
	})
	add("cuEventRecord", "e, NULL", event(0))
	add("cuEventRecord", "e, other", func(_ *transcript, b *beside) []uintptr { return []uintptr{uintptr(b.event), uintptr(b.other)} })
	add("cuStreamWaitEvent", "NULL, e, 0", func(_ *transcript, b *beside) []uintptr { return []uintptr{0, uintptr(b.event), 0} })
	add("cuStreamWaitEvent", "other, e, 0", func(_ *transcript, b *beside) []uintptr { return []uintptr{uintptr(b.other), uintptr(b.event), 0} })
	// Work beside the capture and in it.
	data := func(more ...uintptr) func(*transcript, *beside) []uintptr {
		return func(_ *transcript, b *beside) []uintptr { return append([]uintptr{uintptr(b.data)}, more...) }
	}
	add("cuMemsetD8_v2", "p, 1, 16", data(1, 16))
	add("cuMemcpyHtoD_v2", "p, buffer, 16", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{uintptr(b.data), ptr(new([16]byte)), 16}
	})
	add("cuMemcpyDtoH_v2", "buffer, p, 16", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{ptr(new([16]byte)), uintptr(b.data), 16}
	})
	add("cuMemcpyDtoD_v2", "p, p + 16, 16", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{uintptr(b.data), uintptr(b.data) + 16, 16}
	})
	add("cuMemsetD8Async", "p, 1, 16, NULL", data(1, 16, 0))
	add("cuMemsetD8Async", "p, 1, 16, other", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{uintptr(b.data), 1, 16, uintptr(b.other)}
	})
	add("cuMemcpyHtoDAsync_v2", "p, pageable, 16, s", func(_ *transcript, b *beside) []uintptr {
		return []uintptr{uintptr(b.data), ptr(new([16]byte)), 16, uintptr(b.s)}
	})
	launch := func(s func(b *beside) abi.Stream) func(*transcript, *beside) []uintptr {
		return func(_ *transcript, b *beside) []uintptr {
			return []uintptr{uintptr(b.fill), 1, 1, 1, 1, 1, 1, 0, uintptr(s(b)), params(b.data, 1, 1), 0}
		}
	}
	add("cuLaunchKernel", "xm_fill, NULL", launch(func(*beside) abi.Stream { return 0 }))
	add("cuLaunchKernel", "xm_fill, other", launch(func(b *beside) abi.Stream { return b.other }))
	add("cuLaunchKernel", "xm_fill, s", launch(func(b *beside) abi.Stream { return b.s }))
	add("cuLaunchHostFunc", "other, fn, 0", other(hostFunction(), 0))
	add("cuLaunchHostFunc", "s, fn, 0", self(hostFunction(), 0))
	add("cuStreamAddCallback", "other, fn, 0, 0", other(streamCallback(), 0, 0))
	add("cuStreamAddCallback", "s, fn, 0, 0", self(streamCallback(), 0, 0))
	// Graphs.
	add("cuGraphCreate", "&graph, 0", out(0))
	add("cuGraphInstantiateWithFlags", "&exec, graph, 0", func(_ *transcript, b *beside) []uintptr { return []uintptr{ptr(new(uint64)), b.graph, 0} })
	add("cuGraphLaunch", "exec, other", func(_ *transcript, b *beside) []uintptr { return []uintptr{b.exec, uintptr(b.other)} })
	add("cuGraphUpload", "exec, other", func(_ *transcript, b *beside) []uintptr { return []uintptr{b.exec, uintptr(b.other)} })
	add("cuGraphExecDestroy", "exec", func(_ *transcript, b *beside) []uintptr { return []uintptr{b.exec} })
	add("cuGraphDestroy", "graph", func(_ *transcript, b *beside) []uintptr { return []uintptr{b.graph} })
	return c
}()

// duringCapture makes one call in every situation, each with a capture and
// arguments of its own.
func (t *transcript) duringCapture(symbol, what string, args func(t *transcript, b *beside) []uintptr) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	fill := t.function(m, "xm_fill")
	for _, in := range situations {
		b := &beside{other: t.stream(abi.CU_STREAM_NON_BLOCKING), s: t.stream(in.flags), data: t.alloc(64), module: m, fill: fill}
		t.must("cuEventCreate", ptr(&b.event), 0)
		t.must("cuLaunchKernel", uintptr(fill), 1, 1, 1, 1, 1, 1, 0, uintptr(b.other), params(b.data, 1, 1), 0)
		t.must("cuEventRecord", uintptr(b.event), uintptr(b.other))
		t.must("cuGraphCreate", ptr(&b.graph), 0)
		b.exec = t.instantiate(b.graph)
		list := args(t, b)
		t.must("cuCtxSynchronize")
		t.must("cuStreamBeginCapture_v2", uintptr(b.s), uintptr(in.mode))
		if in.own != nil {
			t.must("cuThreadExchangeStreamCaptureMode", ptr(in.own))
		}
		var r abi.Result
		if in.thread {
			r = t.elsewhere(symbol, list...)
		} else {
			r = t.quiet(symbol, list...)
		}
		if in.own != nil {
			t.must("cuThreadExchangeStreamCaptureMode", ptr(in.own))
		}
		if symbol == "cuCtxCreate_v2" && r == abi.CUDA_SUCCESS && !in.thread {
			t.must("cuCtxPopCurrent_v2", ptr(new(uint64)))
		}
		status := t.capturing(b.s)
		var graph uintptr
		end := t.quiet("cuStreamEndCapture", uintptr(b.s), ptr(&graph))
		t.line("%s(%s; %s) = %s", symbol, what, in.name, r.String())
		t.note("the capture %s, ended %s", status, end.String())
		t.must("cuCtxSynchronize")
	}
}
