package conformance

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// gate is a word of pinned memory that streams wait for.
type gate struct {
	host   *uint32
	device uint64
}

// gate makes n words, all 0.
func (t *transcript) gates(n int) []gate {
	var p unsafe.Pointer
	var d uint64
	if !t.must("cuMemHostAlloc", ptr(&p), uintptr(4*n), abi.CU_MEMHOSTALLOC_PORTABLE|abi.CU_MEMHOSTALLOC_DEVICEMAP) ||
		!t.must("cuMemHostGetDevicePointer_v2", ptr(&d), uintptr(p), 0) {
		return make([]gate, n)
	}
	out := make([]gate, n)
	for i := range out {
		out[i] = gate{(*uint32)(unsafe.Add(p, 4*i)), d + uint64(4*i)}
		atomic.StoreUint32(out[i].host, 0)
	}
	return out
}

func (g gate) store(v uint32) {
	if g.host != nil {
		atomic.StoreUint32(g.host, v)
	}
}

func (g gate) load() uint32 {
	if g.host == nil {
		return 0xffffffff
	}
	return atomic.LoadUint32(g.host)
}

// stream makes a stream that later calls need.
func (t *transcript) stream(flags abi.StreamFlags) abi.Stream {
	var s abi.Stream
	t.must("cuStreamCreate", ptr(&s), uintptr(flags))
	return s
}

func streams(t *transcript) {
	if !t.context() {
		return
	}
	var s abi.Stream
	var low, high, priority int32
	var flags uint32
	t.call("cuCtxGetStreamPriorityRange", "&low, &high", ptr(&low), ptr(&high))
	t.note("lowest %d, highest %d", low, high)
	t.call("cuCtxGetStreamPriorityRange", "NULL, NULL", 0, 0)
	for _, f := range []uint32{0, 1, 2, 3, 0x80000000} {
		if t.call("cuStreamCreate", fmt.Sprintf("&s, %#x", f), ptr(&s), uintptr(f)) == abi.CUDA_SUCCESS {
			t.call("cuStreamGetFlags", "s, &flags", uintptr(s), ptr(&flags))
			t.call("cuStreamGetPriority", "s, &priority", uintptr(s), ptr(&priority))
			t.note("flags %#x, priority %d", flags, priority)
			t.call("cuStreamDestroy_v2", "s", uintptr(s))
		}
	}
	for _, p := range []int{-1000, -6, -5, -4, -3, -2, -1, 0, 1, 7} {
		if t.call("cuStreamCreateWithPriority", fmt.Sprintf("&s, 1, %d", p), ptr(&s), 1, word(p)) == abi.CUDA_SUCCESS {
			t.must("cuStreamGetPriority", uintptr(s), ptr(&priority))
			t.note("priority %d", priority)
			t.must("cuStreamDestroy_v2", uintptr(s))
		}
	}
	t.call("cuStreamCreateWithPriority", "&s, 2, 0", ptr(&s), 2, 0)

	t.section("an idle stream")
	s = t.stream(abi.CU_STREAM_NON_BLOCKING)
	t.call("cuStreamQuery", "s", uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	var capture int32 = -1
	t.call("cuStreamIsCapturing", "s, &status", uintptr(s), ptr(&capture))
	t.note("status %d", capture)
	var ctx, mine abi.Context
	t.call("cuStreamGetCtx", "s, &ctx", uintptr(s), ptr(&ctx))
	t.must("cuCtxGetCurrent", ptr(&mine))
	t.note("the current context: %v", ctx == mine)
	t.call("cuStreamDestroy_v2", "s", uintptr(s))
	t.call("cuStreamDestroy_v2", "NULL", 0)
}

// streamHandles asks what the three default handles answer.
func streamHandles(t *transcript) {
	if !t.context() {
		return
	}
	for _, h := range []struct {
		name   string
		handle uintptr
	}{{"NULL", 0}, {"legacy", uintptr(abi.CU_STREAM_LEGACY)}, {"per-thread", uintptr(abi.CU_STREAM_PER_THREAD)}} {
		var flags uint32
		var priority, capture int32 = -99, -1
		var ctx, mine abi.Context
		t.call("cuStreamQuery", h.name, h.handle)
		t.call("cuStreamSynchronize", h.name, h.handle)
		t.call("cuStreamGetFlags", h.name+", &flags", h.handle, ptr(&flags))
		t.call("cuStreamGetPriority", h.name+", &priority", h.handle, ptr(&priority))
		t.note("flags %#x, priority %d", flags, priority)
		t.call("cuStreamIsCapturing", h.name+", &status", h.handle, ptr(&capture))
		t.note("status %d", capture)
		t.call("cuStreamGetCtx", h.name+", &ctx", h.handle, ptr(&ctx))
		t.must("cuCtxGetCurrent", ptr(&mine))
		t.note("the current context: %v", ctx == mine)
	}
	t.call("cuStreamDestroy_v2", "legacy", uintptr(abi.CU_STREAM_LEGACY))
	t.call("cuStreamDestroy_v2", "per-thread", uintptr(abi.CU_STREAM_PER_THREAD))
}

func waitValues(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(1)[0]
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	try := func(name string, flags abi.StreamWaitValueFlags, want uint32, held, open uint32) {
		g.store(held)
		t.call("cuStreamWaitValue32_v2", fmt.Sprintf("s, word, %#x, %s", want, name), uintptr(s), uintptr(g.device), uintptr(want), uintptr(flags))
		t.note("at %#x: %s", held, t.held(s))
		g.store(open)
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.note("at %#x: %s", open, t.held(s))
	}
	try("EQ", abi.CU_STREAM_WAIT_VALUE_EQ, 7, 8, 7)
	try("GEQ", abi.CU_STREAM_WAIT_VALUE_GEQ, 7, 6, 9)
	try("GEQ across the wrap", abi.CU_STREAM_WAIT_VALUE_GEQ, 2, 0xfffffff0, 3)
	try("AND", abi.CU_STREAM_WAIT_VALUE_AND, 1, 0xfffffffe, 3)
	try("NOR", abi.CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0, 0x0f, 0)

	t.section("already true")
	g.store(5)
	t.call("cuStreamWaitValue32_v2", "s, word, 5, EQ", uintptr(s), uintptr(g.device), 5, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.call("cuStreamSynchronize", "s", uintptr(s))

	t.section("the legacy and the per-thread stream")
	for _, h := range []abi.Stream{abi.CU_STREAM_LEGACY, abi.CU_STREAM_PER_THREAD} {
		g.store(2)
		t.call("cuStreamWaitValue32_v2", fmt.Sprintf("%d, word, 1, AND", h), uintptr(h), uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_AND))
		t.note("%s", t.held(h))
		g.store(3)
		t.call("cuStreamSynchronize", fmt.Sprint(h), uintptr(h))
	}

	t.section("a word on the device, 64 bits")
	d := t.alloc(8)
	t.must("cuMemsetD8_v2", uintptr(d), 0, 8)
	t.call("cuStreamWaitValue32_v2", "s, device word, 1, EQ", uintptr(s), uintptr(d), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.note("%s", t.held(s))
	other := t.stream(abi.CU_STREAM_NON_BLOCKING)
	t.call("cuStreamWriteValue32_v2", "other, device word, 1, 0", uintptr(other), uintptr(d), 1, 0)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.call("cuStreamWaitValue64_v2", "s, device word, 2^40, EQ", uintptr(s), uintptr(d), 1<<40, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.note("%s", t.held(s))
	t.call("cuStreamWriteValue64_v2", "other, device word, 2^40, 0", uintptr(other), uintptr(d), 1<<40, 0)
	t.call("cuStreamSynchronize", "s", uintptr(s))
}

func writeValues(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(2)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	t.call("cuStreamWriteValue32_v2", "s, word, 42, 0", uintptr(s), uintptr(g[0].device), 42, 0)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("word %d", g[0].load())
	t.call("cuStreamWriteValue32_v2", "s, word, 43, NO_MEMORY_BARRIER", uintptr(s), uintptr(g[0].device), 43, uintptr(abi.CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("word %d", g[0].load())

	t.section("after what is before it")
	t.must("cuStreamWaitValue32_v2", uintptr(s), uintptr(g[1].device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.call("cuStreamWriteValue32_v2", "s, word, 44, 0", uintptr(s), uintptr(g[0].device), 44, 0)
	t.note("word %d", g[0].load())
	g[1].store(1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("word %d", g[0].load())

	t.section("a stream that opens another's gate")
	a, b := s, t.stream(0)
	g[0].store(0)
	t.call("cuStreamWaitValue32_v2", "a, word, 9, EQ", uintptr(a), uintptr(g[0].device), 9, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.call("cuStreamWriteValue32_v2", "b, word, 9, 0", uintptr(b), uintptr(g[0].device), 9, 0)
	t.call("cuStreamSynchronize", "a", uintptr(a))
}

func valueRefusals(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(2)
	s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
	t.call("cuStreamWaitValue32_v2", "s, word + 1, 0, GEQ", s, uintptr(g[0].device+1), 0, 0)
	t.call("cuStreamWaitValue32_v2", "s, word + 2, 0, GEQ", s, uintptr(g[0].device+2), 0, 0)
	t.call("cuStreamWaitValue32_v2", "s, 0, 0, GEQ", s, 0, 0, 0)
	t.call("cuStreamWaitValue32_v2", "s, word, 0, flags 8", s, uintptr(g[0].device), 0, 8)
	t.call("cuStreamWaitValue32_v2", "s, word, 0, flags 0x100", s, uintptr(g[0].device), 0, 0x100)
	t.call("cuStreamWriteValue32_v2", "s, word + 1, 0, 0", s, uintptr(g[0].device+1), 0, 0)
	t.call("cuStreamWriteValue32_v2", "s, 0, 0, 0", s, 0, 0, 0)
	t.call("cuStreamWriteValue32_v2", "s, word, 0, flags 2", s, uintptr(g[0].device), 0, 2)
	t.call("cuStreamWaitValue64_v2", "s, word + 4, 0, GEQ", s, uintptr(g[0].device+4), 0, 0)
	t.call("cuStreamSynchronize", "s", s)
}

func events(t *transcript) {
	if !t.context() {
		return
	}
	var e, f, plain abi.Event
	var ms float32
	for _, flags := range []uint32{0, 1, 2, 3, 8, 0x80000000} {
		if t.call("cuEventCreate", fmt.Sprintf("&e, %#x", flags), ptr(&e), uintptr(flags)) == abi.CUDA_SUCCESS {
			t.call("cuEventDestroy_v2", "e", uintptr(e))
		}
	}
	t.call("cuEventCreate", "&e, INTERPROCESS", ptr(&e), uintptr(abi.CU_EVENT_INTERPROCESS))
	t.section("never recorded")
	t.must("cuEventCreate", ptr(&e), 0)
	t.must("cuEventCreate", ptr(&f), uintptr(abi.CU_EVENT_BLOCKING_SYNC))
	t.must("cuEventCreate", ptr(&plain), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	t.call("cuEventQuery", "e", uintptr(e))
	t.call("cuEventSynchronize", "e", uintptr(e))
	t.call("cuEventElapsedTime", "&ms, e, f", ptr(&ms), uintptr(e), uintptr(f))
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	t.call("cuStreamWaitEvent", "s, e, 0", uintptr(s), uintptr(e), 0)
	t.call("cuStreamQuery", "s", uintptr(s))

	t.section("recorded behind a closed gate")
	g := t.gates(1)[0]
	t.call("cuEventRecord", "e, s", uintptr(e), uintptr(s))
	t.must("cuStreamWaitValue32_v2", uintptr(s), uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.call("cuEventRecord", "f, s", uintptr(f), uintptr(s))
	t.call("cuEventSynchronize", "e", uintptr(e))
	t.call("cuEventQuery", "e", uintptr(e))
	t.call("cuEventQuery", "f", uintptr(f))
	t.call("cuEventElapsedTime", "&ms, e, f", ptr(&ms), uintptr(e), uintptr(f))
	t.call("cuEventElapsedTime_v2", "&ms, e, f", ptr(&ms), uintptr(e), uintptr(f))
	g.store(1)
	t.call("cuEventSynchronize", "f", uintptr(f))
	t.call("cuEventQuery", "f", uintptr(f))
	t.call("cuEventElapsedTime", "&ms, e, f", ptr(&ms), uintptr(e), uintptr(f))
	t.note("not negative: %v", ms >= 0)
	t.call("cuEventElapsedTime", "&ms, f, e", ptr(&ms), uintptr(f), uintptr(e))
	t.note("not positive: %v", ms <= 0)

	t.section("recorded again")
	g.store(0)
	t.must("cuStreamWaitValue32_v2", uintptr(s), uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.call("cuEventRecord", "f, s", uintptr(f), uintptr(s))
	t.call("cuEventQuery", "f", uintptr(f))
	g.store(1)
	t.call("cuEventSynchronize", "f", uintptr(f))

	t.section("without timing, on the legacy stream, destroyed early")
	t.call("cuEventRecord", "plain, NULL", uintptr(plain), 0)
	t.call("cuEventSynchronize", "plain", uintptr(plain))
	t.call("cuEventElapsedTime", "&ms, e, plain", ptr(&ms), uintptr(e), uintptr(plain))
	g.store(0)
	t.must("cuStreamWaitValue32_v2", uintptr(s), uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	t.call("cuEventRecordWithFlags", "e, s, 0", uintptr(e), uintptr(s), 0)
	t.call("cuEventRecordWithFlags", "e, s, 2", uintptr(e), uintptr(s), 2)
	t.call("cuStreamWaitEvent", "s, e, 2", uintptr(s), uintptr(e), 2)
	t.call("cuEventDestroy_v2", "e", uintptr(e))
	g.store(1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
}
