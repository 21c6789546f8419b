// Package abi is the CUDA driver's binary interface in Go: result codes,
// attribute and flag values, struct layouts, and handle types.
//
// It holds numbers and names, no behaviour: it opens no library and calls
// nothing (package hal/cuda does). The numbers are facts, read on a machine with
// the driver by abi/collect, kept under facts/, and written out by abi/generate,
// which also writes the C headers of the preload library and of the simulator
// from the same facts. Constants keep the vendor's spelling, here alone.
package abi

import "fmt"

//go:generate go run ./generate -root ../../..

// Handles are opaque words of the driver; the zero value is no object, except
// Stream, where it is the calling convention's default stream.
type (
	Device    int32 // ordinal-like device handle, from cuDeviceGet
	DevicePtr uint64
	Context   uintptr
	Module    uintptr
	Function  uintptr
	Stream    uintptr
	Event     uintptr
)

// Result is a CUresult. It is an error; CUDA_SUCCESS is never returned as one.
type Result int32

// String is the vendor's name of the code, as cuGetErrorName gives it.
func (r Result) String() string {
	if t, ok := resultTexts[r]; ok {
		return t.name
	}
	return fmt.Sprintf("CUresult(%d)", int32(r))
}

// Error is the code's name and the driver's sentence for it.
func (r Result) Error() string {
	if t, ok := resultTexts[r]; ok {
		return t.name + ": " + t.text
	}
	return r.String()
}

// Text is the driver's sentence for the code, as cuGetErrorString gives it;
// empty for a code that the recorded driver does not know.
func (r Result) Text() string { return resultTexts[r].text }

// String is the vendor's name of the attribute.
func (a DeviceAttribute) String() string {
	if n, ok := deviceAttributeNames[a]; ok {
		return n
	}
	return fmt.Sprintf("CUdevice_attribute(%d)", int32(a))
}
