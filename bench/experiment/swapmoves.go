package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// Of what an observer saw of memory that moves, how fast it did.

// transfer is memory of one process that went one way without a long pause.
type transfer struct {
	who    int
	begun  int64 // ns: when the process was told, or where that is not seen, began
	ended  int64
	bytes  uint64
	before uint64 // bytes of earlier ones
}

func (t transfer) perS() float64 {
	return float64(t.bytes) / time.Duration(t.ended-t.begun).Seconds()
}

// stillFor ends a transfer: nothing moved for so long. Pinning a batch of 128 MiB
// takes up to 90 ms.
const stillFor = 250 * time.Millisecond

// transfers finds those of one way. A transfer begins when the process is told of
// another target, not with the first bytes that are seen to have moved, which is when
// a batch of them has. What another process begins at a cut begins there for all others:
// what came in before, as there was room, has nothing to do with it.
func transfers(moves []workloads.Move, out bool, cuts []transfer) []transfer {
	counter := func(m workloads.Move) uint64 {
		if out {
			return m.Out
		}
		return m.In
	}
	type state struct {
		seen bool
		last workloads.Move
		told int64 // of the last target in this direction, since the last transfer
		open *transfer
	}
	states := map[int]*state{}
	var all []*transfer
	for _, m := range moves {
		s := states[m.Who]
		if s == nil {
			s = &state{}
			states[m.Who] = s
		}
		if !s.seen {
			s.seen, s.last = true, m
			continue
		}
		for _, c := range cuts {
			if c.who != m.Who && s.last.AtNS < c.begun && c.begun <= m.AtNS {
				s.open, s.told = nil, c.begun
			}
		}
		lower := m.Target < s.last.Target
		switch {
		case m.Target == s.last.Target:
		case lower != out:
			s.told = 0 // what was told before is taken back
		case s.told == 0:
			s.told = m.AtNS
		}
		if n := counter(m) - counter(s.last); n > 0 {
			if s.open == nil || m.AtNS-s.open.ended > stillFor.Nanoseconds() {
				begun := s.told
				if begun == 0 {
					begun = s.last.AtNS
				}
				s.open = &transfer{who: m.Who, begun: begun, before: counter(s.last)}
				all = append(all, s.open)
			}
			s.open.bytes += n
			s.open.ended = m.AtNS
			s.told = 0
		}
		s.last = m
	}
	var ended []transfer
	for _, t := range all {
		if t.ended > t.begun {
			ended = append(ended, *t)
		}
	}
	return ended
}

// whole is the part of the memory that a transfer must have moved to count: of little
// memory much may remain on the device, as the budget has something to spare.
const whole = 0.5

// swapped are the transfers of memory of a size. The first so many bytes of each process
// that go to the host are cold: there memory is pinned for them.
type swapped struct {
	out, in []float64 // GB/s of whole ones, the cold ones left out
	longest time.Duration
	cold    uint64
	coldFor time.Duration
	outs    []transfer // all
	ins     []transfer
}

func swapsOf(moves []workloads.Move, size uint64) (s swapped) {
	least := uint64(whole * float64(size))
	s.outs = transfers(moves, true, nil)
	s.ins = transfers(moves, false, slices.DeleteFunc(slices.Clone(s.outs), func(t transfer) bool { return t.bytes < least }))
	for _, t := range s.outs {
		took := time.Duration(t.ended - t.begun)
		switch {
		case t.before < least:
			s.cold, s.coldFor = s.cold+t.bytes, s.coldFor+took
		case t.bytes >= least:
			s.out, s.longest = append(s.out, t.perS()/1e9), max(s.longest, took)
		}
	}
	for _, t := range s.ins {
		if t.bytes >= least {
			s.in = append(s.in, t.perS()/1e9)
			s.longest = max(s.longest, time.Duration(t.ended-t.begun))
		}
	}
	return s
}

// n is how many swaps were seen to their end.
func (s swapped) n() int { return min(len(s.out), len(s.in)) }

// swapMetrics takes the whole transfers of memory of a size.
func swapMetrics(moves []workloads.Move, size uint64) (m rows.Metrics, n int, err error) {
	s := swapsOf(moves, size)
	if s.n() == 0 {
		return nil, 0, fmt.Errorf("no swap was seen to its end: of %d bytes, %d warm ones went and %d came as a whole; all that went: %s; that came: %s",
			size, len(s.out), len(s.in), listed(s.outs), listed(s.ins))
	}
	m = rows.Metrics{
		"out_gb_per_s": median(s.out), "in_gb_per_s": median(s.in), "longest_ms": float64(s.longest) / float64(time.Millisecond),
		"worst_out_gb_per_s": slices.Min(s.out), "worst_in_gb_per_s": slices.Min(s.in),
	}
	if s.coldFor > 0 {
		m["cold_out_gb_per_s"] = float64(s.cold) / s.coldFor.Seconds() / 1e9
	}
	return m, s.n(), nil
}

// median of samples; 0 of none.
func median(of []float64) float64 {
	m, err := stats.Median(of)
	if err != nil {
		return 0
	}
	return m
}

// listed names transfers for a message, the last ten.
func listed(all []transfer) string {
	var parts []string
	for _, t := range all[max(0, len(all)-10):] {
		parts = append(parts, fmt.Sprintf("%d bytes of process %d in %s", t.bytes, t.who+1, time.Duration(t.ended-t.begun).Round(time.Millisecond)))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
