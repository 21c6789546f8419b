package workloads

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestStops(t *testing.T) {
	s := newStopLog(true)
	for _, at := range []int64{1_000, 11_000, 21_000} {
		s.ended(at, at-100)
	}
	s.gate(false, 25_000)
	s.ended(31_000, 30_900) // the one that was running
	s.gate(true, 60_000)
	s.ended(72_000, 71_900)
	s.ended(82_500, 82_400)
	s.gate(false, 82_600) // between two kernels: nothing ends any more
	s.gate(false, 82_700) // another epoch, still closed
	s.gate(true, 100_000)
	s.gate(false, 105_000) // nothing had begun again
	s.gate(true, 120_000)
	s.ended(131_000, 130_900)
	s.gate(false, 140_000) // not opened again: no stop

	got := s.result()
	if want := []float64{6, 0}; !slices.Equal(got.StopUS, want) {
		t.Errorf("stops %v us, want %v", got.StopUS, want)
	}
	if want := []float64{35, 17.4}; !slices.Equal(got.HoldUS, want) {
		t.Errorf("closed for %v us, want %v", got.HoldUS, want)
	}
	if want := []float64{12, 11}; !slices.Equal(got.ResumeUS, want) {
		t.Errorf("resumptions %v us, want %v", got.ResumeUS, want)
	}
	if want := []float64{10, 10, 10.5}; !slices.Equal(got.IntervalUS, want) {
		t.Errorf("intervals %v us, want %v", got.IntervalUS, want)
	}
	if got.Idle != 1 {
		t.Errorf("%d idle closings, want 1", got.Idle)
	}
}

// Between 20 and 50 us the observer did not look. Three kernels ended then, and
// it sees them in a row.
func TestIntervalsOfAnObserverThatPaused(t *testing.T) {
	s := newStopLog(true)
	for _, end := range []struct{ at, running int64 }{
		{1_000, 900}, {11_000, 10_900}, {50_000, 20_000}, {50_100, 20_000}, {50_200, 20_000}, {51_000, 50_900}, {61_000, 60_900}, {73_000, 70_500}, {83_000, 82_900},
	} {
		s.ended(end.at, end.running)
	}
	if got, want := s.result().IntervalUS, []float64{10, 10, 12, 10}; !slices.Equal(got, want) {
		t.Errorf("intervals %v us, want %v", got, want)
	}
}

// What was running before the observer looked says nothing of it.
func TestStopsBeginClosed(t *testing.T) {
	s := newStopLog(false)
	s.ended(1_000, 900)
	s.gate(true, 5_000)
	s.ended(9_000, 8_900)
	if got := s.result(); len(got.StopUS) != 0 || !slices.Equal(got.ResumeUS, []float64{4}) {
		t.Errorf("%+v", got)
	}
}

// Any history: stops lie within their closures, and everything is counted once.
func TestStopsOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStopLog(true)
		at, opened, closed := int64(1), 0, 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			at += rapid.Int64Range(1, 50_000).Draw(t, "ns")
			switch {
			case rapid.Bool().Draw(t, "kernel"):
				s.ended(at, at-rapid.Int64Range(1, at).Draw(t, "late"))
			case s.open:
				closed++
				s.gate(false, at)
			default:
				opened++
				s.gate(true, at)
			}
		}
		got := s.result()
		if len(got.StopUS) != len(got.HoldUS) || len(got.StopUS)+got.Idle > closed || len(got.ResumeUS) > opened {
			t.Fatalf("%d closings, %d openings: %+v", closed, opened, got)
		}
		for i, us := range got.StopUS {
			if us < 0 || us > got.HoldUS[i] {
				t.Fatalf("stop %v us of a closure of %v us", us, got.HoldUS[i])
			}
		}
		for _, us := range slices.Concat(got.ResumeUS, got.IntervalUS) {
			if us <= 0 {
				t.Fatalf("a span of %v us", us)
			}
		}
	})
}

func TestStopLogAllocatesNothing(t *testing.T) {
	s, at := newStopLog(true), int64(1)
	if n := testing.AllocsPerRun(1000, func() {
		s.ended(at, at-1)
		s.gate(false, at+1)
		s.gate(true, at+2)
		at += 3
	}); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
