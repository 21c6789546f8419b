package faults

import (
	"sync/atomic"
	"unsafe"
)

// queue is a queue as its reader has it. The driver writes entries and the put
// indices, which are below the number of entries, and leaves one place free; we
// write the get indices. Neither is believed further than that.
type queue struct {
	control []byte // controlBytes
	entries []byte // a power of two of them
	mask    uint32
	get     uint32 // ours; what lies in the control page is for the driver
}

func newQueue(control, entries []byte) *queue {
	return &queue{control: control, entries: entries, mask: uint32(len(entries)/entryBytes - 1)}
}

func (q *queue) word(offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(q.control[offset : offset+4])))
}

// drain reads what there is, at most one queue's worth, and gives the places back as
// it goes. An entry is read behind the index that says it is there, and before the
// one that gives its place away (atomics order both).
func (q *queue) drain(take func(entry []byte)) (n int) {
	put := q.word(offPutBehind).Load() & q.mask
	for q.get != put {
		var entry [entryBytes]byte
		copy(entry[:], q.entries[int(q.get)*entryBytes:])
		take(entry[:])
		n++
		q.get = (q.get + 1) & q.mask
		q.word(offGetAhead).Store(q.get)
		q.word(offGetBehind).Store(q.get)
	}
	return n
}

// dropped is how many faults found no place so far.
func (q *queue) dropped() uint64 {
	const at = offDropped + 8*UvmEventTypeGpuFault
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(q.control[at : at+8]))).Load()
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
