package choose

import "time"

// window holds the last few samples of something and their median.
type window struct {
	samples [16]time.Duration
	n, next int
	median  time.Duration
}

// add takes a sample in. The median is computed here, and not where it is asked
// for: samples come when requests end, questions when one begins.
func (w *window) add(d time.Duration) {
	w.samples[w.next] = d
	w.next = (w.next + 1) % len(w.samples)
	w.n = min(w.n+1, len(w.samples))
	var sorted [len(w.samples)]time.Duration
	for i, d := range w.samples[:w.n] {
		for ; i > 0 && sorted[i-1] > d; i-- {
			sorted[i] = sorted[i-1]
		}
		sorted[i] = d
	}
	w.median = sorted[w.n/2]
}

// known says whether there are enough samples to judge by: one or two may be a
// program's start.
func (w *window) known() bool { return w.n >= 3 }
