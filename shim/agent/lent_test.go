package agent

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

// lentTable is the preload library's struct xm_memory in this process, called
// without cgo: what shim/cuda/agent does in C's terms.
type lentTable uintptr

// Functions of struct xm_memory by their place in it; testdata/host.c checks.
const (
	fnList = iota
	fnDevice
	fnBegin
	fnEnd
	fnWanted
	fnSlots
	fnTrim
	fnSlot
	fnAway
	fnLoad
	fnLoaded
	fnUnheld
	fnDriver
	fnPool
	fnSpare
	fnForgo
	fnFlight
	fnHome
	fnGive
	fnGiven
	fnAccept
)

// segmentView is struct xm_segment.
type segmentView struct {
	id, address, bytes uint64
	state, flags       uint32
	allocation, used   uint64
	version            uint64
}

// at reads a word of C's.
func at(address uintptr) uintptr {
	return **(**uintptr)(unsafe.Pointer(&address))
}

func (l lentTable) call(fn int, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(at(uintptr(l)+8+8*uintptr(fn)), args...)
	return r
}

func (l lentTable) status(fn int, args ...uintptr) error {
	switch r := int32(l.call(fn, args...)); {
	case r < 0:
		return syscall.Errno(-r)
	case r > 0:
		return abi.Result(r)
	}
	return nil
}

func (l lentTable) List(section int, into []memory.Segment) ([]memory.Segment, error) {
	views := make([]segmentView, 4096)
	n := int32(l.call(fnList, uintptr(section), uintptr(unsafe.Pointer(&views[0])), uintptr(len(views))))
	runtime.KeepAlive(views)
	into = into[:0]
	if n < 0 {
		return into, syscall.Errno(-n)
	}
	for _, v := range views[:n] {
		s := memory.Segment{
			ID: memory.ID(v.id), Address: v.address, Bytes: memory.Bytes(v.bytes), State: memory.State(v.state),
			Arena: v.flags&2 != 0, Allocation: v.allocation, Used: v.used, Kept: v.flags&8 != 0, Version: v.version,
		}
		if v.flags&5 != 0 {
			s.Pin = memory.Asked
		}
		into = append(into, s)
	}
	return into, nil
}

func (l lentTable) Device(section int) (int, error) {
	return int(l.call(fnDevice, uintptr(section))), nil
}
func (l lentTable) Begin(section int) error { return l.status(fnBegin, uintptr(section)) }
func (l lentTable) End(section int) error   { return l.status(fnEnd, uintptr(section)) }
func (l lentTable) Wanted(section int) bool { return int32(l.call(fnWanted, uintptr(section))) != 0 }

func (l lentTable) Slots(section, count int, size memory.Bytes) error {
	return l.status(fnSlots, uintptr(section), uintptr(count), uintptr(size))
}

func (l lentTable) Trim(section int, keep memory.Bytes) error {
	return l.status(fnTrim, uintptr(section), uintptr(keep))
}

func (l lentTable) Pool(section int) (all, idle memory.Bytes, err error) {
	bytes := new([2]uint64)
	err = l.status(fnPool, uintptr(section), uintptr(unsafe.Pointer(&bytes[0])), uintptr(unsafe.Pointer(&bytes[1])))
	runtime.KeepAlive(bytes)
	return memory.Bytes(bytes[0]), memory.Bytes(bytes[1]), err
}

func (l lentTable) Slot(section int, id memory.ID) (uint64, error) {
	address := new(uint64)
	err := l.status(fnSlot, uintptr(section), uintptr(id), uintptr(unsafe.Pointer(address)))
	runtime.KeepAlive(address)
	return *address, err
}

func (l lentTable) batch(fn, section int, ids []memory.ID) error {
	err := l.status(fn, uintptr(section), uintptr(unsafe.Pointer(&ids[0])), uintptr(len(ids)))
	runtime.KeepAlive(ids)
	return err
}

func (l lentTable) Forgo(section int, keep memory.Bytes) (memory.Bytes, error) {
	kept := new(uint64)
	err := l.status(fnForgo, uintptr(section), uintptr(keep), uintptr(unsafe.Pointer(kept)))
	runtime.KeepAlive(kept)
	return memory.Bytes(*kept), err
}

func (l lentTable) Give(section int) (fd int, bytes memory.Bytes, err error) {
	d, n := int32(-1), uint64(0)
	err = l.status(fnGive, uintptr(section), uintptr(unsafe.Pointer(&d)), uintptr(unsafe.Pointer(&n)))
	return int(d), memory.Bytes(n), err
}

func (l lentTable) Given(section int, bytes memory.Bytes) error {
	return l.status(fnGiven, uintptr(section), uintptr(bytes))
}

func (l lentTable) Accept(section, fd int, bytes memory.Bytes) error {
	return l.status(fnAccept, uintptr(section), uintptr(fd), uintptr(bytes))
}

func (l lentTable) Home(section int, ids []memory.ID) error   { return l.batch(fnHome, section, ids) }
func (l lentTable) Spare(section int, ids []memory.ID) error  { return l.batch(fnSpare, section, ids) }
func (l lentTable) Away(section int, ids []memory.ID) error   { return l.batch(fnAway, section, ids) }
func (l lentTable) Load(section int, ids []memory.ID) error   { return l.batch(fnLoad, section, ids) }
func (l lentTable) Loaded(section int, ids []memory.ID) error { return l.batch(fnLoaded, section, ids) }

func (l lentTable) Flight(section int, begin bool) error {
	if begin {
		return l.status(fnFlight, uintptr(section), 1)
	}
	return l.status(fnFlight, uintptr(section), 0)
}

func (l lentTable) Unheld(section int, begin bool) error {
	if begin {
		return l.status(fnUnheld, uintptr(section), 1)
	}
	return l.status(fnUnheld, uintptr(section), 0)
}

func (l lentTable) Driver(symbol string) uintptr {
	name := append([]byte(symbol), 0)
	address := l.call(fnDriver, uintptr(unsafe.Pointer(&name[0])))
	runtime.KeepAlive(name)
	return address
}
