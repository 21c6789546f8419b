// Package observe turns what was seen of a program that runs without us (nvx/bpf)
// into what is said about it: its figures, and what sharing the device would
// give it. Numbers in, text or JSON out; it looks at nothing itself.
//
// What is counted is said as a number, what is estimated as an estimate, and
// what cannot be known is not said.
package observe

import (
	"time"

	"xmsched/nvx/bpf"
)

// Subject is a process with what is known of it besides.
type Subject struct {
	bpf.Figures
	Took        time.Duration // how long was observed
	DeviceBytes uint64        // memory of the device it uses; 0: not known
}

// Pattern is how a program uses the device over time.
type Pattern string

// Patterns.
const (
	Silent Pattern = "silent" // it made no command
	Steady Pattern = "steady" // next to no gaps
	Fine   Pattern = "fine"   // many gaps, too short for another program to come in at level 3
	Bursty Pattern = "bursty" // work and gaps that are worth while
	Idle   Pattern = "idle"   // hardly any work
)

// Bounds between the patterns, in percent of the time.
const (
	steadyIdle = 5  // less is steady
	burstyIdle = 10 // so much of it in gaps of a millisecond or more is bursty
	idleIdle   = 90 // more is idle
)

// PatternOf says how a program uses the device.
func PatternOf(f *bpf.Figures) Pattern {
	known := f.Work.Busy + f.Work.Idle
	_, long := f.Work.Gaps.Long()
	switch {
	case f.Commands == 0:
		return Silent
	case percent(f.Work.Idle, known) >= idleIdle:
		return Idle
	case percent(long, known) >= burstyIdle:
		return Bursty
	case percent(f.Work.Idle, known) < steadyIdle:
		return Steady
	}
	return Fine
}

func percent(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * min(1, float64(part)/float64(whole))
}

// longCommand is a command that others would feel: level 3 stops it in 0.6 to 2 ms
// (h200.md), levels 1 and 2 wait for its end.
const longCommand = 5 * time.Millisecond

// sampled says whether commands were looked at only now and then.
func (s *Subject) sampled() bool { return s.Seen-s.Looked > s.Seen/1000 }

// Line is the xrun line for a program: foreground for one whose work comes in
// bursts or has gaps, so that others live in its gaps; background for one that
// always has work. Nothing is set that figures do not speak for.
func (s *Subject) Line() []string {
	line := []string{"xrun"}
	switch PatternOf(&s.Figures) {
	case Bursty, Idle, Fine:
		line = append(line, "--priority", "10")
	case Steady:
		line = append(line, "--priority", "-10")
	}
	line = append(line, "--")
	if len(s.Command) == 0 {
		return append(line, s.Name)
	}
	return append(line, s.Command...)
}

// totals are the calls of one kind together.
func totals(calls []bpf.Call, kind bpf.Kind) (n, bytes uint64) {
	for _, c := range calls {
		if c.Kind == kind {
			n += c.Count
			bytes += c.Bytes
		}
	}
	return n, bytes
}
