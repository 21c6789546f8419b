package experiment

import (
	"testing"
	"time"

	"xmsched/bench/workloads"
	"xmsched/memory"
)

// TestSpans are how long the parts of the row oversub take: turns before what is measured
// are as long as loads take, by the link, and no shorter.
func TestSpans(t *testing.T) {
	const gib = memory.GiB
	for _, c := range []struct {
		name                string
		o                   Oversub
		g                   group
		slice               time.Duration
		least, most         time.Duration // to settle
		leastSpan, mostSpan time.Duration
	}{
		{"three of 60 GiB", Oversub{Task: 60 * gib, Span: 18 * time.Second, Cycles: 3}, group{workload: workloads.PatternRead, tasks: 3}, 2 * time.Second, 8 * time.Second, 10 * time.Second, 18 * time.Second, 18 * time.Second},
		{"short turns", Oversub{Task: 8 * gib, Budget: 16 * gib, Span: 3 * time.Second, Cycles: 2}, group{workload: workloads.PatternRead, tasks: 3}, 50 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 3 * time.Second, 4 * time.Second},
		{"fits", Oversub{Task: 8 * gib, Budget: 16 * gib, Span: 3 * time.Second, Cycles: 2}, group{workload: workloads.PatternRead, tasks: 2}, time.Second, 6 * time.Second, 6 * time.Second, 4 * time.Second, 4 * time.Second},
		{"phases", Oversub{Task: 8 * gib, Budget: 16 * gib, Span: 3 * time.Second, Cycles: 2}, group{workload: workloads.PatternSparse, tasks: 4}, 100 * time.Millisecond, 8 * time.Second, 10 * time.Second, 3 * time.Second, 4 * time.Second},
	} {
		r := &oversubscribed{lab: &Lab{Facts: workloads.Facts{Memory: uint64(139 * gib)}}, o: c.o, link: linkRates{in: 50e9, out: 50e9}}
		settle, span := r.spans(c.g, c.slice)
		if settle < c.least || settle > c.most || span < c.leastSpan || span > c.mostSpan {
			t.Errorf("%s: %v to settle, %v measured", c.name, settle, span)
		}
	}
}
