package bpf

import (
	"time"
)

// Snapshot is what has been seen until a moment.
type Snapshot struct {
	Took      time.Duration // since the hooks were in
	Looked    time.Duration // of it, at commands (Options.LimitPercent)
	Processes []Figures     // by number; also those that have the driver mapped and made no call
	Missing   []Missing     // hooks that this kernel lacks
	Failed    []string      // libraries that could not be hooked
	LostHits  uint64        // hits of processes that there was no room for
	LostNews  uint64        // rare things that nobody was told of
	Cost      Cost          // of a hit, measured here
}

// Figures are one process's. Times of work are estimates (see the package).
type Figures struct {
	PID     int
	Name    string        // as the kernel has it: 15 bytes at most
	Command []string      // line that it was started with; nil: not known
	Devices int           // GPUs that it has open; 0: not known
	Ours    bool          // it runs under the preload library, and was seen at its probe sites
	Before  time.Duration // of observing, until its first call
	Seen    time.Duration // from then until now, or its end
	Looked  time.Duration // of that, at commands
	Left    bool          // it has ended

	Calls    []Call // by function, most hits first
	Commands uint64 // launches, copies, memsets and the like, together

	Work   Work
	Memory Memory
	Gate   Held

	Cost time.Duration // what the hooks cost its threads, estimated from hits
	Hits uint64
}

// Call is a function of the driver, or a probe site, that was called.
type Call struct {
	Function string
	Kind     Kind
	Count    uint64
	Bytes    uint64 // that it copies or fills, all calls together
}

// Work is when the device had something of the process to do, as far as the calls tell.
type Work struct {
	Busy        time.Duration // commands were outstanding: at most
	Idle        time.Duration // nothing was: at least
	CutBusy     time.Duration // of Busy, in no block: a window ended in it
	CutIdle     time.Duration // of Idle, in no gap
	Unknown     time.Duration // until the first call that tells
	Waited      time.Duration // threads waited for commands: so long it was busy at least
	Waits       uint64
	Blocks      Spans         // stretches of outstanding commands
	Gaps        Spans         // between them
	Longest     time.Duration // the longest block, also one that still lasts
	InLongest   uint64        // commands in it
	Singles     uint64        // blocks of one command
	Single      time.Duration // the longest of these
	Command     time.Duration // some command took at least so long
	Busying     bool          // a block has not ended
	LostStreams uint64        // streams that there was no room for
}

// Memory is what was allocated on devices while somebody looked. What was there
// before is not known.
type Memory struct {
	Now            int64  // bytes more, or less, than at the beginning
	High           uint64 // the most of what was allocated since
	Allocations    uint64
	Frees          uint64
	UnknownFrees   uint64 // of what was allocated before
	Refused        uint64 // allocations that the driver refused
	LargestRefused uint64 // bytes
	Untracked      uint64 // that there was no room for
}

// Held is what a program under us waited for its turn.
type Held struct {
	Waits   uint64
	Time    time.Duration // of all threads together
	Longest time.Duration
}

// Spans are lengths of time, by powers of two of a nanosecond: those of slot n
// are at least 2^(n-1) and less than 2^n.
type Spans struct {
	Number [40]uint64
	Total  [40]time.Duration
}

// Count is how many there are.
func (s *Spans) Count() (n uint64) {
	for _, m := range s.Number {
		n += m
	}
	return n
}

// Sum is how long all are together.
func (s *Spans) Sum() (d time.Duration) {
	for _, t := range s.Total {
		d += t
	}
	return d
}

// Millisecond is the bound between short and long gaps: the power of two next to one.
const Millisecond = 1 << 20 * time.Nanosecond

// Long are those of at least Millisecond.
func (s *Spans) Long() (n uint64, d time.Duration) {
	for i := range s.Number {
		if i > 20 {
			n += s.Number[i]
			d += s.Total[i]
		}
	}
	return n, d
}

// add puts one in.
func (s *Spans) add(d time.Duration) {
	slot := 0
	for n := d; n > 0; n >>= 1 {
		slot++
	}
	slot = min(slot, len(s.Number)-1)
	s.Number[slot]++
	s.Total[slot] += d
}
