package cuda

import (
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// MemHandle is physical memory that can be mapped: what CreateMem gives.
type MemHandle uint64

// onDevice describes pinned memory of a device.
func onDevice(dev Device) abi.CUmemAllocationProp {
	var p abi.CUmemAllocationProp
	p.Type = abi.CU_MEM_ALLOCATION_TYPE_PINNED
	p.Location.Type = abi.CU_MEM_LOCATION_TYPE_DEVICE
	p.Location.Id = int32(dev.Handle)
	return p
}

// Granularity is the unit, in bytes, of sizes and addresses of a device's
// mappable memory.
func (d *Driver) Granularity(dev Device) (uint64, error) {
	p := onDevice(dev)
	var n uint64
	err := d.call(procMemGranularity, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&p)), uintptr(abi.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
	return n, err
}

// ReserveAddress reserves n bytes of addresses, mapped to nothing.
func (d *Driver) ReserveAddress(n uint64) (abi.DevicePtr, error) {
	var p abi.DevicePtr
	err := d.call(procMemAddressReserve, uintptr(unsafe.Pointer(&p)), uintptr(n), 0, 0, 0)
	return p, err
}

// FreeAddress gives reserved addresses back; nothing may be mapped there.
func (d *Driver) FreeAddress(p abi.DevicePtr, n uint64) error {
	return d.call(procMemAddressFree, uintptr(p), uintptr(n))
}

// CreateMem makes n bytes of physical memory on a device.
func (d *Driver) CreateMem(dev Device, n uint64) (MemHandle, error) {
	p := onDevice(dev)
	var h MemHandle
	err := d.call(procMemCreate, uintptr(unsafe.Pointer(&h)), uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	return h, err
}

// CreateHostMem makes n bytes of physical memory on a NUMA node of the host, pinned,
// that can be mapped like a device's.
func (d *Driver) CreateHostMem(node int, n uint64) (MemHandle, error) {
	var p abi.CUmemAllocationProp
	p.Type = abi.CU_MEM_ALLOCATION_TYPE_PINNED
	p.Location.Type = abi.CU_MEM_LOCATION_TYPE_HOST_NUMA
	p.Location.Id = int32(node)
	var h MemHandle
	err := d.call(procMemCreate, uintptr(unsafe.Pointer(&h)), uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	return h, err
}

// ReleaseMem gives the handle up; the memory goes with its last mapping.
func (d *Driver) ReleaseMem(h MemHandle) error { return d.call(procMemRelease, uintptr(h)) }

// Map maps h at reserved addresses. n is its whole size: for a part the driver
// says that it is not supported. Nobody may use the addresses before SetAccess.
func (d *Driver) Map(at abi.DevicePtr, n uint64, h MemHandle) error {
	return d.call(procMemMap, uintptr(at), uintptr(n), 0, uintptr(h), 0)
}

// SetAccess lets a device read and write a mapped range.
func (d *Driver) SetAccess(at abi.DevicePtr, n uint64, dev Device) error {
	var a abi.CUmemAccessDesc
	a.Location.Type = abi.CU_MEM_LOCATION_TYPE_DEVICE
	a.Location.Id = int32(dev.Handle)
	a.Flags = abi.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	return d.call(procMemSetAccess, uintptr(at), uintptr(n), uintptr(unsafe.Pointer(&a)), 1)
}

// Unmap maps a range to nothing again. Work that uses it must be done.
func (d *Driver) Unmap(at abi.DevicePtr, n uint64) error {
	return d.call(procMemUnmap, uintptr(at), uintptr(n))
}
