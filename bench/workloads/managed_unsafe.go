package workloads

import (
	"fmt"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// managedMemory is the driver's own way to more memory than the device has: pages
// that faults, or calls, move between host and device.
type managedMemory struct {
	gpu      *gpu
	alloc    cuda.Proc
	prefetch cuda.Proc
}

// newManagedMemory is for a program that takes so many bytes of it, of those that all
// programs of the run take together. More than a card has free can hang the card for
// everybody, so this keeps to half: of the card, and of what is free now.
func newManagedMemory(g *gpu, own, together uint64) (*managedMemory, error) {
	free, total, err := g.driver.MemInfo()
	if err != nil {
		return nil, err
	}
	if max(own, together) > total/2 || own > free/2 {
		return nil, fmt.Errorf("%d bytes of managed memory, %d in all programs, on a device with %d, %d of them free: more than half is not used", own, together, total, free)
	}
	m := &managedMemory{gpu: g}
	if m.alloc, err = g.driver.Proc("cuMemAllocManaged"); err != nil {
		return nil, err
	}
	m.prefetch, err = g.driver.Proc("cuMemPrefetchAsync_v2")
	return m, err
}

func (m *managedMemory) allocate(n uint64) (abi.DevicePtr, error) {
	var at uint64
	if r := m.alloc.Call(uintptr(unsafe.Pointer(&at)), uintptr(n), uintptr(abi.CU_MEM_ATTACH_GLOBAL)); r != 0 {
		return 0, fmt.Errorf("cuMemAllocManaged: %w", r)
	}
	return abi.DevicePtr(at), nil
}

// send queues that the pages go to the device, or to the host.
func (m *managedMemory) send(at abi.DevicePtr, n uint64, toDevice bool, s cuda.Stream) error {
	// The location, a type and a number of 32 bits each, is passed by value in a
	// register.
	place := uintptr(abi.CU_MEM_LOCATION_TYPE_HOST)
	if toDevice {
		place = uintptr(abi.CU_MEM_LOCATION_TYPE_DEVICE)
	}
	if r := m.prefetch.Call(uintptr(at), uintptr(n), place, 0, uintptr(s.Handle)); r != 0 {
		return fmt.Errorf("cuMemPrefetchAsync: %w", r)
	}
	return nil
}
