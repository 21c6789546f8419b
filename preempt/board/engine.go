package board

import (
	"sync/atomic"
	"time"
)

// DidWish is the word of the last wish that the client carried out or refused;
// see HoldView.
func (d Device) DidWish() uint32 { return atomic.LoadUint32(&d.s.Client.Did) }

// WaitDidWish sleeps while that word is old, at most for limit. It may return early;
// the caller looks again.
func (d Device) WaitDidWish(old uint32, limit time.Duration) error {
	return waitWhile(&d.s.Client.Did, old, limit)
}

// WakeDidWish wakes whoever sleeps on that word.
func (d Device) WakeDidWish() { wakeAll(&d.s.Client.Did) }

// SetMemoryForeseen says how many bytes the process's next turn touches, 0 for not
// known, and how many a short stop would exchange for others. The caller rings the
// eventfd afterwards.
func (d Device) SetMemoryForeseen(working, exchange uint64) {
	atomic.StoreUint64(&d.more.Engine.Working, working)
	atomic.StoreUint64(&d.more.Engine.Exchange, exchange)
}

// SetMemoryClean says what was not copied because it had not changed.
func (d Device) SetMemoryClean(c CleanBytes) {
	atomic.StoreUint64(&d.more.Engine.Hashed, c.Hashed)
	atomic.StoreUint64(&d.more.Engine.Spared, c.Spared)
	atomic.StoreUint64(&d.more.Engine.Wrong, c.Wrong)
}
