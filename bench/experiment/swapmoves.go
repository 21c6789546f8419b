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
// a batch of them has.
func transfers(moves []workloads.Move, out bool) []transfer {
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
		lower := m.Target < s.last.Target
		if m.Target != s.last.Target && lower == out && s.told == 0 {
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

// swapMetrics takes the whole transfers of memory of a size. The first so many bytes
// of each process that go to the host are cold: there memory is pinned for them.
func swapMetrics(moves []workloads.Move, size uint64) (m rows.Metrics, n int, err error) {
	least := uint64(whole * float64(size))
	var warm, in []float64
	var longest, coldFor time.Duration
	cold := uint64(0)
	for _, t := range transfers(moves, true) {
		took := time.Duration(t.ended - t.begun)
		switch {
		case t.before < least:
			cold, coldFor = cold+t.bytes, coldFor+took
		case t.bytes >= least:
			warm, longest = append(warm, t.perS()/1e9), max(longest, took)
		}
	}
	for _, t := range transfers(moves, false) {
		if t.bytes >= least {
			in = append(in, t.perS()/1e9)
			longest = max(longest, time.Duration(t.ended-t.begun))
		}
	}
	if len(warm) == 0 || len(in) == 0 {
		return nil, 0, fmt.Errorf("no swap was seen to its end: of %d bytes, %d warm ones went and %d came as a whole; all that moved: %s",
			size, len(warm), len(in), listed(append(transfers(moves, true), transfers(moves, false)...)))
	}
	m = rows.Metrics{
		"out_gb_per_s": median(warm), "in_gb_per_s": median(in), "longest_ms": float64(longest) / float64(time.Millisecond),
		"worst_out_gb_per_s": slices.Min(warm), "worst_in_gb_per_s": slices.Min(in),
	}
	if coldFor > 0 {
		m["cold_out_gb_per_s"] = float64(cold) / coldFor.Seconds() / 1e9
	}
	return m, min(len(warm), len(in)), nil
}

// median of samples; 0 of none.
func median(of []float64) float64 {
	m, err := stats.Median(of)
	if err != nil {
		return 0
	}
	return m
}

// listed names transfers for a message, at most ten.
func listed(all []transfer) string {
	var parts []string
	for _, t := range all[:min(len(all), 10)] {
		parts = append(parts, fmt.Sprintf("%d bytes of process %d in %s", t.bytes, t.who+1, time.Duration(t.ended-t.begun).Round(time.Millisecond)))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
