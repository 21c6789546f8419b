package predictor

import (
	"slices"
	"time"
)

// Working is what is touched before a horizon.
type Working struct {
	// Ranges are stretches in blocks of 2 MiB, by first touch; none overlap.
	Ranges []Range
	// Bytes is their sum.
	Bytes uint64
	// Until is how far ahead is known; less than the horizon where the commands
	// repeat sooner, or there were fewer.
	Until time.Duration

	seen []span // by address
}

// WorkingSet works out what is touched before the horizon: the order in which a
// task's memory should come in, and how much of it. w is used again.
func (p *Plan) WorkingSet(w *Working, horizon time.Duration) {
	w.Ranges, w.Bytes, w.Until, w.seen = w.Ranges[:0], 0, 0, w.seen[:0]
	w.Until = p.Ahead(horizon, func(u Use) bool {
		if u.Count > 1 && u.Stride >= u.Bytes+Block {
			for i := range uint64(u.Count) {
				base := u.Base + i*u.Stride
				w.add(base, base+u.Bytes)
			}
			return true
		}
		s := u.Span()
		w.add(s.Base, s.End())
		return true
	})
}

// add takes in a stretch: what of it was not there comes next in the order.
func (w *Working) add(base, end uint64) {
	if base >= end {
		return
	}
	s := widen(base, end, 0, Block)
	// All that overlap or touch it become one.
	i, _ := slices.BinarySearchFunc(w.seen, s.base, func(a span, b uint64) int {
		if a.end < b {
			return -1
		}
		return 1
	})
	j, at, all := i, s.base, s
	for ; j < len(w.seen) && w.seen[j].base <= s.end; j++ {
		w.emit(at, min(w.seen[j].base, s.end))
		at = max(at, w.seen[j].end)
		all.base, all.end = min(all.base, w.seen[j].base), max(all.end, w.seen[j].end)
	}
	w.emit(at, s.end)
	if j == i+1 && all == w.seen[i] {
		return
	}
	w.seen = slices.Replace(w.seen, i, j, all)
}

func (w *Working) emit(base, end uint64) {
	if base >= end {
		return
	}
	w.Bytes += end - base
	if n := len(w.Ranges); n > 0 && w.Ranges[n-1].End() == base {
		w.Ranges[n-1].Bytes += end - base
		return
	}
	w.Ranges = append(w.Ranges, Range{base, end - base})
}
