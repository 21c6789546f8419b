package preempt

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"xmsched/compute"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// perThreadStream is the handle that names another stream on each thread
// (CU_STREAM_PER_THREAD of the driver API).
const perThreadStream abi.Stream = 2

// Stream is a CUDA stream as a hardware queue. Close it after its XQueue.
type Stream struct {
	stream  cuda.Stream
	driver  *cuda.Driver
	context abi.Context
	device  compute.Device
	procs   contextProcs

	mu   sync.Mutex
	idle []*streamMarker // markers to be used again
	made []*streamMarker
}

// contextProcs are the driver's functions for the current context.
type contextProcs struct{ get, push, pop cuda.Proc }

// CUDAStream makes a hardware queue of a stream. The stream stays the program's:
// it must live until Close, and what the program launches on it past the XQueue
// is not scheduled. The driver has been initialised. For the legacy default
// stream (the zero Stream) the context must be current on the calling thread;
// the per-thread default stream is an *UnsupportedError, as a launch from
// another thread would be on another stream.
func CUDAStream(driver *cuda.Driver, stream cuda.Stream) (*Stream, error) {
	if stream.Handle == perThreadStream {
		return nil, &UnsupportedError{"the per-thread default stream", "it is another stream on every thread"}
	}
	s := &Stream{stream: stream, driver: driver}
	if err := s.find(); err != nil {
		return nil, fmt.Errorf("XQueue on a CUDA stream: %w", err)
	}
	return s, nil
}

func (s *Stream) find() error {
	var ctxOf, deviceOf cuda.Proc
	for _, p := range []struct {
		proc *cuda.Proc
		name string
	}{
		{&ctxOf, "cuStreamGetCtx"}, {&deviceOf, "cuCtxGetDevice"},
		{&s.procs.get, "cuCtxGetCurrent"}, {&s.procs.push, "cuCtxPushCurrent_v2"}, {&s.procs.pop, "cuCtxPopCurrent_v2"},
	} {
		var err error
		if *p.proc, err = s.driver.Proc(p.name); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r := ctxOf.Call(uintptr(s.stream.Handle), uintptr(unsafe.Pointer(&s.context))); r != abi.CUDA_SUCCESS {
		return fmt.Errorf("cuStreamGetCtx: %w", r)
	}
	unbind, err := s.Bind()
	if err != nil {
		return err
	}
	defer unbind()
	handle := cuda.Device{}
	if r := deviceOf.Call(uintptr(unsafe.Pointer(&handle.Handle))); r != abi.CUDA_SUCCESS {
		return fmt.Errorf("cuCtxGetDevice: %w", r)
	}
	n, err := s.driver.DeviceCount()
	if err != nil {
		return err
	}
	for ordinal := range n {
		device, err := s.driver.Device(ordinal)
		if err != nil {
			return err
		}
		if device.Handle != handle.Handle {
			continue
		}
		uuid, err := device.UUID()
		s.device = compute.Device(uuid.String())
		return err
	}
	return fmt.Errorf("the context's device %d is none of the %d that the driver shows", handle.Handle, n)
}

// Device is the UUID of the stream's device.
func (s *Stream) Device() compute.Device { return s.device }

// Bind makes the stream's context current on the calling thread.
func (s *Stream) Bind() (unbind func(), err error) {
	var now abi.Context
	if r := s.procs.get.Call(uintptr(unsafe.Pointer(&now))); r == abi.CUDA_SUCCESS && now == s.context {
		return func() {}, nil
	}
	if r := s.procs.push.Call(uintptr(s.context)); r != abi.CUDA_SUCCESS {
		return nil, fmt.Errorf("cuCtxPushCurrent: %w", r)
	}
	return func() {
		var popped abi.Context
		_ = s.procs.pop.Call(uintptr(unsafe.Pointer(&popped))) // ours, or a context that is gone
	}, nil
}

// Synchronize waits for the stream.
func (s *Stream) Synchronize() error { return s.stream.Synchronize() }

// streamMarker is an event, used over and over.
type streamMarker struct {
	of    *Stream
	event cuda.Event
}

// Mark records an event.
func (s *Stream) Mark() (Marker, error) {
	m, err := s.take()
	if err != nil {
		return nil, err
	}
	if err := m.event.Record(s.stream); err != nil {
		s.give(m)
		return nil, err
	}
	return m, nil
}

func (s *Stream) take() (*streamMarker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		m := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return m, nil
	}
	// A thread that waits for the event sleeps; spinning would take a core for
	// each queue.
	event, err := s.driver.NewEvent(uint32(abi.CU_EVENT_BLOCKING_SYNC | abi.CU_EVENT_DISABLE_TIMING))
	if err != nil {
		return nil, err
	}
	m := &streamMarker{s, event}
	s.made = append(s.made, m)
	return m, nil
}

func (s *Stream) give(m *streamMarker) {
	s.mu.Lock()
	s.idle = append(s.idle, m)
	s.mu.Unlock()
}

// Wait waits for the event.
func (m *streamMarker) Wait() error {
	err := m.event.Synchronize()
	m.of.give(m)
	return err
}

// Close destroys the markers; the stream itself is left to the program. The
// stream's XQueue has been closed.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	for _, m := range s.made {
		failed = errors.Join(failed, m.event.Destroy())
	}
	s.made, s.idle = nil, nil
	return failed
}
