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
