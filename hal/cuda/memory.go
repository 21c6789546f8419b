package cuda

import (
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// MemAlloc allocates n bytes of device memory in the current context.
func (d *Driver) MemAlloc(n uint64) (abi.DevicePtr, error) {
	var p abi.DevicePtr
	err := d.call(procMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

// MemFree frees what MemAlloc gave. The driver waits for work that may use it.
func (d *Driver) MemFree(p abi.DevicePtr) error { return d.call(procMemFree, uintptr(p)) }

// MemInfo is the free and the total memory of the current context's device, in
// bytes.
func (d *Driver) MemInfo() (free, total uint64, err error) {
	err = d.call(procMemGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

// HostAlloc allocates n bytes of pinned host memory; flags are CU_MEMHOSTALLOC_….
// It is no Go memory: HostFree it, and do not use the slice after that.
func (d *Driver) HostAlloc(n uint64, flags uint32) ([]byte, error) {
	var p unsafe.Pointer
	if err := d.call(procMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(flags)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// HostFree frees what HostAlloc gave.
func (d *Driver) HostFree(b []byte) error { return d.call(procMemFreeHost, address(b)) }

// HostRegister pins memory that is not Go's (a mapping, say); flags are
// CU_MEMHOSTREGISTER_….
func (d *Driver) HostRegister(b []byte, flags uint32) error {
	return d.call(procMemHostRegister, address(b), uintptr(len(b)), uintptr(flags))
}

// HostUnregister undoes HostRegister.
func (d *Driver) HostUnregister(b []byte) error { return d.call(procMemHostUnregister, address(b)) }

// HostDevicePointer is the device's address of pinned host memory.
func (d *Driver) HostDevicePointer(b []byte) (abi.DevicePtr, error) {
	var p abi.DevicePtr
	err := d.call(procMemHostGetDevicePointer, uintptr(unsafe.Pointer(&p)), address(b), 0)
	return p, err
}

// address is 0 for an empty slice, so that the driver gets to refuse it.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// MemcpyHtoD copies src to the device and returns when src may be reused.
func (d *Driver) MemcpyHtoD(dst abi.DevicePtr, src []byte) error {
	return d.call(procMemcpyHtoD, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
}

// MemcpyDtoH fills dst from the device.
func (d *Driver) MemcpyDtoH(dst []byte, src abi.DevicePtr) error {
	return d.call(procMemcpyDtoH, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)))
}

// MemcpyDtoD copies n bytes on the device.
func (d *Driver) MemcpyDtoD(dst, src abi.DevicePtr, n uint64) error {
	return d.call(procMemcpyDtoD, uintptr(dst), uintptr(src), uintptr(n))
}

// MemcpyHtoDAsync queues a copy to the device. src must stay as it is, and if it
// is Go memory reachable, until the copy is done.
func (d *Driver) MemcpyHtoDAsync(dst abi.DevicePtr, src []byte, s Stream) error {
	return d.call(procMemcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s.Handle))
}

// MemcpyDtoHAsync queues a copy from the device. dst, if it is Go memory, must
// stay reachable until the copy is done.
func (d *Driver) MemcpyDtoHAsync(dst []byte, src abi.DevicePtr, s Stream) error {
	return d.call(procMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)), uintptr(s.Handle))
}

// MemcpyDtoDAsync queues a copy of n bytes on the device.
func (d *Driver) MemcpyDtoDAsync(dst, src abi.DevicePtr, n uint64, s Stream) error {
	return d.call(procMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s.Handle))
}

// MemcpyAsync queues a copy of n bytes between two addresses of the one address
// space; the driver finds out what lies there.
func (d *Driver) MemcpyAsync(dst, src abi.DevicePtr, n uint64, s Stream) error {
	return d.call(procMemcpyAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s.Handle))
}

// MemsetD8 sets n bytes.
func (d *Driver) MemsetD8(dst abi.DevicePtr, value uint8, n uint64) error {
	return d.call(procMemsetD8, uintptr(dst), uintptr(value), uintptr(n))
}

// MemsetD32 sets n words of 32 bits.
func (d *Driver) MemsetD32(dst abi.DevicePtr, value uint32, n uint64) error {
	return d.call(procMemsetD32, uintptr(dst), uintptr(value), uintptr(n))
}

// MemsetD8Async queues MemsetD8.
func (d *Driver) MemsetD8Async(dst abi.DevicePtr, value uint8, n uint64, s Stream) error {
	return d.call(procMemsetD8Async, uintptr(dst), uintptr(value), uintptr(n), uintptr(s.Handle))
}

// MemsetD32Async queues MemsetD32.
func (d *Driver) MemsetD32Async(dst abi.DevicePtr, value uint32, n uint64, s Stream) error {
	return d.call(procMemsetD32Async, uintptr(dst), uintptr(value), uintptr(n), uintptr(s.Handle))
}
