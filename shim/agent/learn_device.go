package agent

import (
	"fmt"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/nvx/faults"
)

// managedDevice is Device by the CUDA driver's own functions, never a hook.
type managedDevice struct {
	setCurrent, exchangeMode, synchronize          cuda.Proc
	streamCreate, streamDestroy, streamSynchronize cuda.Proc
	prefetch, advise                               cuda.Proc

	relaxed bool
	stream  abi.Stream
}

// NewDevice is the Device of the program's driver.
func NewDevice(find faults.Find) (Device, error) {
	d, err := cuda.Adopt(find)
	if err != nil {
		return nil, err
	}
	m := &managedDevice{}
	for symbol, into := range map[string]*cuda.Proc{
		"cuCtxSetCurrent": &m.setCurrent, "cuThreadExchangeStreamCaptureMode": &m.exchangeMode, "cuCtxSynchronize": &m.synchronize,
		"cuStreamCreate": &m.streamCreate, "cuStreamDestroy_v2": &m.streamDestroy, "cuStreamSynchronize": &m.streamSynchronize,
		"cuMemPrefetchAsync": &m.prefetch, "cuMemAdvise": &m.advise,
	} {
		if *into, err = d.Proc(symbol); err != nil {
			return nil, err
		}
	}
	return m, nil
}

//go:uintptrescapes
func call(p cuda.Proc, args ...uintptr) error {
	if r := p.Call(args...); r != abi.CUDA_SUCCESS {
		return fmt.Errorf("%s: %w", p.Symbol, r)
	}
	return nil
}

const (
	onHost           = ^uintptr(0) // CU_DEVICE_CPU
	captureRelaxed   = 2           // CU_STREAM_CAPTURE_MODE_RELAXED
	setReadMostly    = 1           // CU_MEM_ADVISE_SET_READ_MOSTLY
	unsetReadMostly  = 2
	streamNotBlocked = 1 // CU_STREAM_NON_BLOCKING
)

// Enter implements Device. The stream is made anew for each sample: the program may
// end its context between two.
func (m *managedDevice) Enter(context uint64) error {
	if !m.relaxed { // no capture of the program's is to mind what we do
		mode := new(uint32)
		*mode = captureRelaxed
		if err := call(m.exchangeMode, uintptr(unsafe.Pointer(mode))); err != nil {
			return err
		}
		m.relaxed = true
	}
	if err := call(m.setCurrent, uintptr(context)); err != nil {
		return err
	}
	stream := new(abi.Stream)
	if err := call(m.streamCreate, uintptr(unsafe.Pointer(stream)), streamNotBlocked); err != nil {
		m.Leave()
		return err
	}
	m.stream = *stream
	return nil
}

// Leave implements Device. What is under way in the stream goes on.
func (m *managedDevice) Leave() {
	if m.stream != 0 {
		_ = call(m.streamDestroy, uintptr(m.stream))
		m.stream = 0
	}
	_ = call(m.setCurrent, 0)
}

func (m *managedDevice) Quiet() error { return call(m.synchronize) }

func (m *managedDevice) each(ranges []faults.Range, do func(base, bytes uintptr) error) error {
	for _, r := range ranges {
		if err := do(uintptr(r.Base), uintptr(r.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

// Away implements Device. The advice comes after the way to the host: given before,
// the device would keep a copy, and read that without a fault.
func (m *managedDevice) Away(ranges []faults.Range) error {
	err := m.each(ranges, func(base, bytes uintptr) error { return call(m.prefetch, base, bytes, onHost, uintptr(m.stream)) })
	if wait := call(m.streamSynchronize, uintptr(m.stream)); err == nil {
		err = wait
	}
	if err != nil {
		return err
	}
	return m.each(ranges, func(base, bytes uintptr) error { return call(m.advise, base, bytes, setReadMostly, 0) })
}

// Plain implements Device.
func (m *managedDevice) Plain(ranges []faults.Range) error {
	return m.each(ranges, func(base, bytes uintptr) error { return call(m.advise, base, bytes, unsetReadMostly, 0) })
}

// Home implements Device.
func (m *managedDevice) Home(ranges []faults.Range, device int) error {
	return m.each(ranges, func(base, bytes uintptr) error {
		return call(m.prefetch, base, bytes, uintptr(device), uintptr(m.stream))
	})
}
