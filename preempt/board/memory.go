package board

import (
	"sync/atomic"
	"time"

	"xmsched/preempt/board/internal/layout"
)

// MemoryFlags of the daemon for one device. The values are part of the layout.
type MemoryFlags uint32

const (
	// MemoryManaged: allocations are to be made of segments that can be moved.
	MemoryManaged MemoryFlags = 1
	// MemoryDrained: memory may be taken away while the gate is closed and nothing
	// is outstanding. Before the gate opens the daemon clears it and waits until
	// the client has no memory gone.
	MemoryDrained MemoryFlags = 2
	// MemoryPrepare: memory is nearly all given away, and what moves it is to be made
	// ready, which takes a tenth of a second.
	MemoryPrepare MemoryFlags = 4
	// MemoryGentle: somebody on the device must not wait, and pinning host memory keeps
	// the driver from others; it is to be done with pauses.
	MemoryGentle MemoryFlags = 8
	// MemoryPredict: memory is short and planned by what commands touch; they are to be
	// looked at.
	MemoryPredict MemoryFlags = 16
)

// MemoryState is what a client says of how its memory is handled on a device.
// The values are part of the layout.
type MemoryState uint32

const (
	MemoryActive MemoryState = 1 // its allocations are made of segments
	MemoryLate   MemoryState = 2 // it had allocated before it knew of a daemon that manages memory
	MemoryUnable MemoryState = 4 // the driver has no virtual memory management
	MemoryGone   MemoryState = 8 // a move is under way, or memory is mapped to nothing
)

// Movable says whether the client's memory can be moved at all.
func (s MemoryState) Movable() bool {
	return s&MemoryActive != 0 && s&(MemoryLate|MemoryUnable) == 0
}

// Memory is the daemon's whole answer for a client's memory on one device.
type Memory struct {
	Flags  MemoryFlags
	Target uint64 // bytes of managed memory that may be on the device
	Limit  uint64 // bytes that the process may allocate there; 0: the card
	Total  uint64 // what the process is told that the card has; 0: what it has
	Host   uint64 // bytes of host memory that its segments there may take; 0: no bound
	// Turn is how long the process's next turn is expected to be, in whole
	// microseconds; 0: nobody knows.
	Turn time.Duration
}

// maxMemory is the most that is believed of a client's figure: 1 PiB, beyond every
// machine's memory and far enough from the end of the type for sums.
const maxMemory = 1 << 50

// MemoryView is one copy of a client's claims about its memory on one device. The
// amounts are in bytes, at most 1 PiB each.
type MemoryView struct {
	Did   uint32 // the word of the last answer that was taken note of
	State MemoryState

	Allocated uint64 // managed memory that exists
	Resident  uint64 // of it on the device, at most Allocated
	Loading   uint64 // of that still on its way in, at most Resident
	Host      uint64 // of it in host memory, at most what is left of Allocated
	Pinned    uint64 // other memory of the process on the device
	Asked     uint64 // room that an allocation waits for
	Waste     uint64 // of Allocated, asked for by nobody

	In, Out uint64        // moved so far
	Stall   time.Duration // stood still for it so far

	Working  uint64 // that its next turn touches, at most Allocated; 0: not known
	Exchange uint64 // that a short stop would bring in, for what is not used soon; at most Allocated

	Slots    uint64                    // host memory of its segments in all, what is kept for later included
	Kept     uint64                    // of that, clean copies of what is on the device; at most Slots
	PinnedBy [layout.MemoryPins]uint64 // Pinned, by MemoryPinNames
	Clean    CleanBytes                // what was not copied because it had not changed
}

// CleanBytes are sums of bytes so far.
type CleanBytes struct {
	Hashed uint64 // compared with their clean copies
	Spared uint64 // of those: the same, and not copied
	Wrong  uint64 // of those: changed
}

// MemoryPinNames name what cannot be moved, in the order of MemoryView.PinnedBy.
var MemoryPinNames = [layout.MemoryPins]string{"pools", "mapped by the program", "arrays", "unified memory", "allocated under peer access, or with --pin-memory"}

// SetMemory stores the daemon's answer and then, with release, the word that follows
// last, which it returns and the daemon keeps. Who sleeps on it needs WakeMemory as
// well. The store is ordered before whatever the caller reads next: of a flag that
// is cleared and memory that is taken away at the same time at least one side sees
// the other.
func (d Device) SetMemory(last uint32, m Memory) uint32 {
	l := &d.s.DaemonMemory
	atomic.StoreUint64(&l.Target, m.Target)
	atomic.StoreUint64(&l.Limit, m.Limit)
	atomic.StoreUint64(&l.Total, m.Total)
	atomic.StoreUint64(&l.Host, m.Host)
	atomic.StoreUint32(&l.TurnUS, uint32(min(max(m.Turn, 0)/time.Microsecond, 1<<32-1)))
	atomic.StoreUint32(&l.Flags, uint32(m.Flags))
	word := last + 1
	if word == 0 { // wrapped; 0 reads as never answered
		word = 1
	}
	atomic.StoreUint32(&l.Want, word)
	return word
}

// WakeMemory wakes whoever sleeps on the answer's word.
func (d Device) WakeMemory() { wakeAll(&d.s.DaemonMemory.Want) }

// Memory is the daemon's answer as the client reads it: its word first (acquire),
// then what was stored before it. The word is 0 as long as there is no answer.
func (d Device) Memory() (want uint32, m Memory) {
	l := &d.s.DaemonMemory
	want = atomic.LoadUint32(&l.Want)
	return want, Memory{
		Flags:  MemoryFlags(atomic.LoadUint32(&l.Flags)),
		Target: atomic.LoadUint64(&l.Target),
		Limit:  atomic.LoadUint64(&l.Limit),
		Total:  atomic.LoadUint64(&l.Total),
		Host:   atomic.LoadUint64(&l.Host),
		Turn:   time.Duration(atomic.LoadUint32(&l.TurnUS)) * time.Microsecond,
	}
}

// WaitMemory sleeps while the answer's word is old, at most for limit. It may return
// early; the caller looks again.
func (d Device) WaitMemory(old uint32, limit time.Duration) error {
	return waitWhile(&d.s.DaemonMemory.Want, old, limit)
}

// MemoryView copies what a client says of its memory and clamps it. The word is read
// first, so that what follows is at least as new.
func (b *Board) MemoryView(device int) MemoryView {
	s := &b.page.Devices[device]
	c, e, l := &s.ClientMemory, &b.page.More[device].Engine, &b.page.More[device].Library
	v := MemoryView{
		Did:       atomic.LoadUint32(&c.Did),
		State:     MemoryState(atomic.LoadUint32(&c.Flags)),
		Allocated: amount(&c.Allocated),
		Resident:  amount(&c.Resident),
		Loading:   amount(&s.Client.MemLoading),
		Host:      amount(&c.Host),
		Pinned:    amount(&c.Pinned),
		Asked:     amount(&c.Asked),
		Waste:     amount(&s.Client.MemWaste),
		In:        atomic.LoadUint64(&c.In),
		Out:       atomic.LoadUint64(&c.Out),
		Stall:     time.Duration(min(atomic.LoadUint64(&s.Client.MemStallNS), 1<<62)),
		Working:   amount(&e.Working),
		Exchange:  amount(&e.Exchange),
		Slots:     amount(&l.Slots),
		Kept:      amount(&l.Kept),
		Clean: CleanBytes{
			Hashed: atomic.LoadUint64(&e.Hashed),
			Spared: atomic.LoadUint64(&e.Spared),
			Wrong:  atomic.LoadUint64(&e.Wrong),
		},
	}
	for i := range v.PinnedBy {
		v.PinnedBy[i] = amount(&l.PinnedBy[i])
	}
	// The fields are read one by one while the client changes them: what is on the
	// device counts, and a sum that does not fit is the other fields' fault.
	v.Allocated = max(v.Allocated, v.Resident)
	v.Host = min(v.Host, v.Allocated-v.Resident)
	v.Loading = min(v.Loading, v.Resident)
	v.Waste = min(v.Waste, v.Allocated)
	v.Working = min(v.Working, v.Allocated)
	v.Exchange = min(v.Exchange, v.Allocated)
	v.Kept = min(v.Kept, v.Slots)
	return v
}

func amount(p *uint64) uint64 { return min(atomic.LoadUint64(p), maxMemory) }

// TellMemory stores a client's figures: all of them first, then Did with release. It
// wakes who sleeps on that; the eventfd is the caller's.
func (d Device) TellMemory(v MemoryView) {
	c := &d.s.ClientMemory
	atomic.StoreUint32(&c.Flags, uint32(v.State))
	atomic.StoreUint64(&c.Allocated, v.Allocated)
	atomic.StoreUint64(&c.Resident, v.Resident)
	atomic.StoreUint64(&c.Host, v.Host)
	atomic.StoreUint64(&c.Pinned, v.Pinned)
	atomic.StoreUint64(&c.Asked, v.Asked)
	atomic.StoreUint64(&c.In, v.In)
	atomic.StoreUint64(&c.Out, v.Out)
	atomic.StoreUint64(&d.s.Client.MemLoading, v.Loading)
	atomic.StoreUint64(&d.s.Client.MemWaste, v.Waste)
	atomic.StoreUint64(&d.s.Client.MemStallNS, uint64(max(v.Stall, 0)))
	atomic.StoreUint64(&d.more.Library.Slots, v.Slots)
	atomic.StoreUint64(&d.more.Library.Kept, v.Kept)
	for i, n := range v.PinnedBy {
		atomic.StoreUint64(&d.more.Library.PinnedBy[i], n)
	}
	d.SetMemoryForeseen(v.Working, v.Exchange)
	d.SetMemoryClean(v.Clean)
	d.SetMemoryDid(v.Did)
}

// SetMemoryDid says that the answer of that word was taken note of.
func (d Device) SetMemoryDid(word uint32) {
	c := &d.s.ClientMemory
	atomic.StoreUint32(&c.Did, word)
	wakeAll(&c.Did)
}

// SetMemoryStall tells how long the process stood still for its memory so far.
func (d Device) SetMemoryStall(total time.Duration) {
	atomic.StoreUint64(&d.s.Client.MemStallNS, uint64(max(total, 0)))
}
