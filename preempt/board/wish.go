package board

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Hold says which channel groups of a process are disabled on a device. The
// values are part of the layout.
type Hold uint32

// What can be held.
const (
	HoldNone    Hold = iota // everything may run
	HoldCompute             // the compute groups stand still; copies go on
	HoldAll                 // nothing runs: stopped hard
)

// String is "none", "compute" or "all".
func (h Hold) String() string {
	switch h {
	case HoldNone:
		return "none"
	case HoldCompute:
		return "compute"
	case HoldAll:
		return "all"
	}
	return fmt.Sprintf("Hold(%d)", uint32(h))
}

// MaxSliceUS is the longest time slice that can be asked for.
const MaxSliceUS = 1_000_000

// Wish is what the daemon wants of a process's channel groups on a device.
type Wish struct {
	Hold    Hold
	SliceUS uint32 // of the compute groups; 0: the driver's own
}

// Ask stores a wish and then, with release, the word that follows last, which it
// returns and the daemon keeps. Who sleeps on it needs WakeWish as well.
func (d Device) Ask(last uint32, w Wish) uint32 {
	l := &d.s.Daemon
	atomic.StoreUint32(&l.Hold, uint32(w.Hold))
	atomic.StoreUint32(&l.SliceUS, w.SliceUS)
	word := last + 1
	if word == 0 { // wrapped; 0 reads as never asked
		word = 1
	}
	atomic.StoreUint32(&l.Want, word)
	return word
}

// WakeWish wakes whoever sleeps on the wish's word.
func (d Device) WakeWish() { wakeAll(&d.s.Daemon.Want) }

// Wish is the daemon's wish as the client reads it: its word first (acquire),
// then what was stored before it. The word is 0 as long as nothing was asked for.
func (d Device) Wish() (want uint32, w Wish) {
	l := &d.s.Daemon
	want = atomic.LoadUint32(&l.Want)
	return want, Wish{Hold: Hold(atomic.LoadUint32(&l.Hold)), SliceUS: atomic.LoadUint32(&l.SliceUS)}
}

// WaitWish sleeps while the wish's word is old, at most for limit. It may return
// early; the caller looks again.
func (d Device) WaitWish(old uint32, limit time.Duration) error {
	return waitWhile(&d.s.Daemon.Want, old, limit)
}

// HoldView is one copy of what a client says it did about a wish.
type HoldView struct {
	Did     uint32 // the word of the last wish that was carried out or refused
	Held    Hold   // what stands still now
	SliceUS uint32 // the slice in force; 0: the driver's own; at most MaxSliceUS
	Error   uint32 // the driver's status that refused the last wish; 0: none
	Holds   uint32 // suspensions carried out

	// How long the last calls took.
	HoldTime, ReleaseTime time.Duration
}

// HoldView copies what the client says about wishes. The word is read first, so
// that what follows is at least as new; a value that there is none of counts as
// nothing held.
func (b *Board) HoldView(device int) HoldView {
	c := &b.page.Devices[device].Client
	v := HoldView{
		Did:         atomic.LoadUint32(&c.Did),
		Held:        Hold(atomic.LoadUint32(&c.Held)),
		SliceUS:     min(atomic.LoadUint32(&c.SliceNow), MaxSliceUS),
		Error:       atomic.LoadUint32(&c.HoldError),
		Holds:       atomic.LoadUint32(&c.Holds),
		HoldTime:    time.Duration(atomic.LoadUint32(&c.HoldNS)),
		ReleaseTime: time.Duration(atomic.LoadUint32(&c.ReleaseNS)),
	}
	if v.Held > HoldAll {
		v.Held = HoldNone
	}
	return v
}

// Did says what a client did about the wish of that word: the fields first, then
// the word with release. It wakes who sleeps on it; the eventfd is the caller's.
func (d Device) Did(v HoldView) {
	c := &d.s.Client
	atomic.StoreUint32(&c.Held, uint32(v.Held))
	atomic.StoreUint32(&c.SliceNow, v.SliceUS)
	atomic.StoreUint32(&c.HoldError, v.Error)
	atomic.StoreUint32(&c.Holds, v.Holds)
	atomic.StoreUint32(&c.HoldNS, clampNS(v.HoldTime))
	atomic.StoreUint32(&c.ReleaseNS, clampNS(v.ReleaseTime))
	atomic.StoreUint32(&c.Did, v.Did)
	wakeAll(&c.Did)
}

func clampNS(d time.Duration) uint32 { return uint32(min(max(d, 0), 1<<32-1)) }
