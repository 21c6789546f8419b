package board

import (
	"sync/atomic"

	"xmsched/preempt/board/internal/layout"
)

// SlotFlags tell special queues.
type SlotFlags uint32

// The flags of a queue slot. The values are part of the layout.
const (
	Legacy    SlotFlags = 1 // the legacy default stream
	PerThread SlotFlags = 2 // a per-thread default stream
	Destroyed SlotFlags = 4 // destroyed by the program; commands may be outstanding
)

// Slot is one queue slot of a board.
type Slot struct{ s *layout.Slot }

// Slot gives slot i, 0 <= i < Slots.
func (b *Board) Slot(i int) Slot { return Slot{&b.page.Slots[i]} }

// SlotView is one copy of a queue's counters, clamped: Completed <= Marked <=
// Submitted and Synced <= Submitted, whatever the client wrote.
type SlotView struct {
	Handle    uint64 // 0: free
	Device    int    // section index, clamped into the board
	Flags     SlotFlags
	Submitted uint64
	Marked    uint64
	Synced    uint64
	Completed uint64 // extended to 64 bits
}

// Outstanding counts the commands that may still be queued or running.
func (v SlotView) Outstanding() uint64 { return v.Submitted - max(v.Synced, v.Completed) }

// Snapshot copies the slot once. Completion is loaded first, so a command that
// completes in between counts as outstanding, never the other way round.
func (s Slot) Snapshot() SlotView {
	completed := atomic.LoadUint32(&s.s.Completed)
	v := SlotView{
		Synced:    atomic.LoadUint64(&s.s.Synced),
		Marked:    atomic.LoadUint64(&s.s.Marked),
		Submitted: atomic.LoadUint64(&s.s.Submitted),
		Handle:    atomic.LoadUint64(&s.s.Handle),
		Device:    int(min(atomic.LoadUint32(&s.s.Device), Devices-1)),
		Flags:     SlotFlags(atomic.LoadUint32(&s.s.Flags)),
	}
	v.Synced = min(v.Synced, v.Submitted)
	v.Marked = min(v.Marked, v.Submitted)
	v.Completed = Extend(completed, v.Marked)
	return v
}

// Extend gives the whole sequence number whose low 32 bits the GPU wrote: the
// largest one that is not beyond marked, the last number enqueued.
func Extend(low uint32, marked uint64) uint64 {
	n := marked&^0xffffffff | uint64(low)
	if n <= marked {
		return n
	}
	if n < 1<<32 { // a number that was never marked: garbage
		return 0
	}
	return n - 1<<32
}

// Take makes the slot a queue's: everything else first, then the handle.
func (s Slot) Take(handle uint64, device int, flags SlotFlags) {
	atomic.StoreUint32(&s.s.Device, uint32(device))
	atomic.StoreUint32(&s.s.Flags, uint32(flags))
	atomic.StoreUint64(&s.s.Handle, handle)
}

// Submit counts commands handed to the driver.
func (s Slot) Submit(n uint64) { atomic.AddUint64(&s.s.Submitted, n) }

// Mark says that the write of sequence number n was enqueued.
func (s Slot) Mark(n uint64) { atomic.StoreUint64(&s.s.Marked, n) }

// Sync says that all commands up to n are known to be complete.
func (s Slot) Sync(n uint64) { atomic.StoreUint64(&s.s.Synced, n) }

// Complete stores what the GPU would: the low 32 bits of a marked number.
func (s Slot) Complete(n uint64) { atomic.StoreUint32(&s.s.Completed, uint32(n)) }
