package faults

import "encoding/binary"

// Access is what was done to memory: a set.
type Access uint8

// Accesses. An atomic reads and writes; what a kernel prefetches it means to read.
const (
	Read Access = 1 << iota
	Write
)

func (a Access) String() string {
	return [...]string{"none", "read", "write", "read and write"}[a&(Read|Write)]
}

// Event is one fault.
type Event struct {
	Address uint64 // of the page
	Access  Access
	Time    uint64 // ns of the kernel's clock, when the driver began with it
}

// accesses by the driver's numbers.
var accesses = [accessTypeLast + 1]Access{
	UvmEventMemoryAccessTypeRead:     Read,
	UvmEventMemoryAccessTypeWrite:    Write,
	UvmEventMemoryAccessTypeAtomic:   Read | Write,
	UvmEventMemoryAccessTypePrefetch: Read,
}

// Decode reads one entry of a queue. False: it is no fault of a GPU, or of an
// access that nobody knows.
func Decode(entry []byte) (Event, bool) {
	if len(entry) < entryBytes || entry[entryType] != UvmEventTypeGpuFault || entry[entryAccess] > accessTypeLast {
		return Event{}, false
	}
	e := Event{
		Address: binary.LittleEndian.Uint64(entry[entryAddress:]),
		Access:  accesses[entry[entryAccess]],
		Time:    binary.LittleEndian.Uint64(entry[entryTime:]),
	}
	return e, e.Access != 0
}
