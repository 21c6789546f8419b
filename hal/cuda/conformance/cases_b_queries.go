package conformance

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"xmsched/hal/cuda/abi"
)

// otherThread is a thread of the process that does what it is told, with the
// context that was current where it was made.
type otherThread struct {
	id         int
	work, done chan func()
}

// thread starts one. It ends with end; its per-thread stream with it.
func (t *transcript) thread() *otherThread {
	var ctx uintptr
	t.must("cuCtxGetCurrent", ptr(&ctx))
	o := &otherThread{work: make(chan func()), done: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its state
		for do := range o.work {
			do()
			o.done <- nil
		}
		close(o.done)
	}()
	o.do(func() {
		o.id = syscall.Gettid()
		t.must("cuCtxSetCurrent", ctx)
	})
	return o
}

// do has the thread do something and waits for it: one at a time uses the
// transcript.
func (o *otherThread) do(f func()) {
	o.work <- f
	<-o.done
}

func (o *otherThread) end() {
	close(o.work)
	<-o.done
}

// gone says whether the thread is no more, or still ending: the driver may keep it.
func (o *otherThread) gone() bool {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(o.id)); err != nil {
			return true
		}
	}
	return false
}

// legacyQueries asks what a question to the legacy stream says of work in other
// streams, the per-thread stream of another thread above all: nobody but that thread
// has a name for it. The legacy stream waits for it (case order); whether it says so
// before it has got a command of its own is what is asked here.
var legacyQueries = func() testCase {
	c := testCase{name: "legacy-query-and-other-threads-per-thread-streams"}
	for _, held := range []struct {
		name string
		// hold holds a stream and puts a command behind that; ended is called once the
		// answers are there and the gate is open.
		hold func(t *transcript, put func(abi.Stream)) (ended func())
	}{
		{"nothing", func(*transcript, func(abi.Stream)) func() { return func() {} }},
		{"another thread's per-thread stream", func(t *transcript, put func(abi.Stream)) func() {
			o := t.thread()
			o.do(func() { put(abi.CU_STREAM_PER_THREAD) })
			return o.end
		}},
		{"another thread's per-thread stream, the legacy stream used before", func(t *transcript, put func(abi.Stream)) func() {
			t.must("cuMemsetD32Async", uintptr(t.alloc(4)), 1, 1, uintptr(abi.CU_STREAM_LEGACY))
			t.must("cuStreamSynchronize", uintptr(abi.CU_STREAM_LEGACY))
			o := t.thread()
			o.do(func() { put(abi.CU_STREAM_PER_THREAD) })
			return o.end
		}},
		{"another thread's per-thread stream, by the default stream's twin", func(t *transcript, _ func(abi.Stream)) func() {
			o := t.thread()
			g := t.gates(1)[0]
			g.store(0)
			data := uintptr(t.alloc(4))
			o.do(func() {
				t.must("cuStreamWaitValue32_v2_ptsz", 0, uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
				t.must("cuMemsetD32Async_ptsz", data, 1, 1, 0)
			})
			return func() {
				g.store(1)
				o.end()
			}
		}},
		{"the per-thread stream of a thread that has ended", func(t *transcript, put func(abi.Stream)) func() {
			o := t.thread()
			o.do(func() { put(abi.CU_STREAM_PER_THREAD) })
			o.end()
			t.note("the thread is gone: %v", o.gone())
			return func() {}
		}},
		{"this thread's per-thread stream", func(_ *transcript, put func(abi.Stream)) func() {
			put(abi.CU_STREAM_PER_THREAD)
			return func() {}
		}},
		{"a blocking stream", func(t *transcript, put func(abi.Stream)) func() {
			put(t.stream(abi.CU_STREAM_DEFAULT))
			return func() {}
		}},
		{"a non-blocking stream", func(t *transcript, put func(abi.Stream)) func() {
			put(t.stream(abi.CU_STREAM_NON_BLOCKING))
			return func() {}
		}},
	} {
		c.questions = append(c.questions, question{"held: " + held.name, func(t *transcript) { t.legacyQuery(held.name, held.hold) }})
	}
	return c
}()

func (t *transcript) legacyQuery(name string, hold func(*transcript, func(abi.Stream)) func()) {
	if !t.context() {
		return
	}
	g, data := t.gates(1)[0], t.alloc(4)
	beside := t.stream(abi.CU_STREAM_DEFAULT)
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	t.must("cuCtxSynchronize")
	t.section("held: " + name)
	ended := hold(t, func(s abi.Stream) {
		t.hold(g, s)
		t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(s))
	})
	t.call("cuStreamQuery", "legacy", uintptr(abi.CU_STREAM_LEGACY))
	t.call("cuStreamQuery", "NULL", 0)
	t.call("cuStreamQuery_ptsz", "NULL", 0)
	t.call("cuStreamQuery", "a blocking stream beside it", uintptr(beside))
	t.note("legacy, asked on a fresh thread: %s", t.elsewhere("cuStreamQuery", uintptr(abi.CU_STREAM_LEGACY)).String())
	t.note("per-thread, asked on a fresh thread: %s", t.elsewhere("cuStreamQuery", uintptr(abi.CU_STREAM_PER_THREAD)).String())
	t.note("legacy, asked again: %s", t.held(abi.CU_STREAM_LEGACY))
	t.section("with an event in the legacy stream")
	t.call("cuEventRecord", "e, legacy", uintptr(e), uintptr(abi.CU_STREAM_LEGACY))
	t.note("legacy %s, event %s", t.settles(abi.CU_STREAM_LEGACY), t.quiet("cuEventQuery", uintptr(e)).String())
	g.store(1)
	ended()
	t.must("cuCtxSynchronize")
	t.note("the gate open: legacy %s", t.held(abi.CU_STREAM_LEGACY))
}
