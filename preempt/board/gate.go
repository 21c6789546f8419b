package board

import (
	"fmt"
	"time"

	"sync/atomic"

	"xmsched/preempt/board/internal/layout"
)

// Gate is a gate word: epoch << 1 | open. The zero Gate has not been answered
// by the daemon yet and counts as open.
//
// The daemon's epochs are even and move on by two; a client whose lease ran out
// opens its gate with the odd epoch that follows. So a word says who wrote it,
// and the daemon's next word always differs from the client's.
type Gate uint32

// Open says whether commands may pass.
func (g Gate) Open() bool { return g == 0 || g&1 == 1 }

// Epoch counts the changes.
func (g Gate) Epoch() uint32 { return uint32(g) >> 1 }

// ByLease says that the client opened the gate itself.
func (g Gate) ByLease() bool { return g.Epoch()&1 == 1 }

// String is "open@12", "closed@12" or "unanswered".
func (g Gate) String() string {
	switch {
	case g == 0:
		return "unanswered"
	case g.Open():
		return fmt.Sprintf("open@%d", g.Epoch())
	}
	return fmt.Sprintf("closed@%d", g.Epoch())
}

// next is the daemon's word after g: the following even epoch, never 0.
func (g Gate) next(open bool) Gate {
	epoch := (g.Epoch() + 2) &^ 1
	if epoch<<1 == 0 { // 31 bits wrapped; 0 would read as unanswered
		epoch = 2
	}
	word := Gate(epoch << 1)
	if open {
		word |= 1
	}
	return word
}

// Mode says what else holds for a task beside the gate. The values are part of
// the layout.
type Mode uint32

// The modes of a task on a device.
const (
	Free    Mode = iota // no competitor: free run
	Bounded             // a competitor exists: threshold and batch hold
	Top                 // a competitor exists, highest class: not bounded
	Loose               // as Bounded, but nothing waits at the gate on the device
)

// Grant is the daemon's whole answer for one device.
type Grant struct {
	Open      bool
	Mode      Mode
	Threshold uint32 // commands outstanding a queue while bounded
	Batch     uint32 // commands between two sequence number writes while bounded
	Level     uint32 // preemption level in force
	Task      uint64 // the daemon's id of the task
}

// Device is one device section of a board.
type Device struct {
	s    *layout.Device
	more *layout.More
}

// Device gives section i, 0 <= i < Devices.
func (b *Board) Device(i int) Device { return Device{&b.page.Devices[i], &b.page.More[i]} }

// Publish is Store and Wake.
func (d Device) Publish(last Gate, g Grant) Gate {
	word := d.Store(last, g)
	d.Wake()
	return word
}

// Store stores the grant, then the gate word that follows last with release. It
// returns the new word, which the daemon keeps: what stands on the board is the
// client's to scribble on. Those who run or spin see it at once; those who sleep
// need Wake as well, which is a system call and can wait until all words of a
// decision are stored.
func (d Device) Store(last Gate, g Grant) Gate {
	l := &d.s.Daemon
	atomic.StoreUint32(&l.Mode, uint32(g.Mode))
	atomic.StoreUint32(&l.Threshold, g.Threshold)
	atomic.StoreUint32(&l.Batch, g.Batch)
	atomic.StoreUint32(&l.Level, g.Level)
	atomic.StoreUint64(&l.Task, g.Task)
	word := last.next(g.Open)
	atomic.StoreUint32(&l.Gate, uint32(word))
	return word
}

// Wake wakes whoever sleeps on the gate word.
func (d Device) Wake() { wakeAll(&d.s.Daemon.Gate) }

// Watch says whether the daemon waits out an idle edge and will look at the
// section again by itself. The store is ordered before whatever the caller
// reads next, as the client's edge is before its look at this word: of an edge
// and an end of watching at the same time at least one side sees the other.
func (d Device) Watch(on bool) {
	var v uint32
	if on {
		v = 1
	}
	atomic.StoreUint32(&d.s.Daemon.Watching, v)
}

// Watched says whether an edge needs no bell now; see Watch. To be read after
// the edge was stored.
func (d Device) Watched() bool { return atomic.LoadUint32(&d.s.Daemon.Watching) == 1 }

// Gate is the gate word as it stands.
func (d Device) Gate() Gate { return Gate(atomic.LoadUint32(&d.s.Daemon.Gate)) }

// Grant is the daemon's answer as the client reads it: the gate first
// (acquire), then the numbers that were stored before it.
func (d Device) Grant() (Gate, Grant) {
	l := &d.s.Daemon
	gate := d.Gate()
	return gate, Grant{
		Open:      gate.Open(),
		Mode:      Mode(atomic.LoadUint32(&l.Mode)),
		Threshold: atomic.LoadUint32(&l.Threshold),
		Batch:     atomic.LoadUint32(&l.Batch),
		Level:     atomic.LoadUint32(&l.Level),
		Task:      atomic.LoadUint64(&l.Task),
	}
}

// WaitGate sleeps while the gate word is old, at most for limit. It may return
// early; the caller looks again.
func (d Device) WaitGate(old Gate, limit time.Duration) error {
	return waitWhile(&d.s.Daemon.Gate, uint32(old), limit)
}

// OpenByLease opens the closed gate old for a client whose lease ran out, and
// says whether it was this call that did.
func (d Device) OpenByLease(old Gate) bool {
	l := &d.s.Daemon
	if old.Open() || !atomic.CompareAndSwapUint32(&l.Gate, uint32(old), (old.Epoch()+1)<<1|1) {
		return false
	}
	atomic.AddUint32(&d.s.Client.OpenedByLease, 1)
	wakeAll(&l.Gate)
	return true
}
