package experiment

import (
	"slices"
	"testing"

	"xmsched/bench/rows"
)

func TestGated(t *testing.T) {
	// Two bursts of four requests of 100 us, 10 us apart; a kernel of the
	// background ends within the second request of the first burst, and others
	// between the bursts.
	r := PairResult{EndedNS: []int64{900_000, 1_150_000, 1_900_000, 1_990_000, 3_000_000}}
	for _, start := range []int64{1_000_000, 2_000_000} {
		for i := range int64(4) {
			r.StartNS = append(r.StartNS, start+i*110_000)
			r.LatencyUS = append(r.LatencyUS, float64(len(r.LatencyUS)+100))
		}
	}
	if got, want := r.gated(rows.ModeXmsched, 4), []float64{102, 103, 105, 106, 107}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := r.gated(rows.ModeNative, 4); got != nil {
		t.Errorf("without us %v were gated", got)
	}
	if got := r.gated(rows.ModeXmsched, 0); got != nil {
		t.Errorf("without bursts %v were gated", got)
	}
	// A load that is not stopped leaves none.
	r.EndedNS = []int64{1_050_000, 1_400_000, 2_100_000, 2_400_000}
	if got := r.gated(rows.ModeXmsched, 4); len(got) != 0 {
		t.Errorf("%v are said to be gated", got)
	}
	// Alone: all but the first of each burst, also of one cut short.
	r.EndedNS, r.StartNS, r.LatencyUS = nil, r.StartNS[:7], r.LatencyUS[:7]
	if got, want := r.gated(rows.ModeAlone, 4), []float64{101, 102, 103, 105, 106}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLastWithin(t *testing.T) {
	times := []int64{10, 20, 30}
	for _, c := range []struct{ from, to, want int64 }{
		{0, 5, 0}, {0, 10, 10}, {0, 25, 20}, {15, 25, 20}, {21, 25, 0}, {21, 99, 30}, {31, 99, 0},
	} {
		if got := lastWithin(times, c.from, c.to); got != c.want {
			t.Errorf("last in %d..%d is %d, want %d", c.from, c.to, got, c.want)
		}
	}
	if got := lastWithin(nil, 0, 99); got != 0 {
		t.Errorf("none at all: %d", got)
	}
}
