package bpf

import "unsafe"

// addressOf is where memory that the collector does not move begins.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
