package compute

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHeeds: what a task does of whom nobody takes heed changes no gate, and nobody does
// as long as no task comes or goes, and no hint changes.
func TestHeeds(t *testing.T) {
	unheeded := 0
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(rapid.SampledFrom(policies).Draw(t, "first"))
		history := drawn{policies: policies, devices: twoDevices, tasks: 8, steps: 60}.history(t)
		known, before := gates{}, map[seatKey]bool{}
		play(s, history, func(now time.Duration, events []Event, out Outcome) {
			known.follow(s, out)
			if !slices.ContainsFunc(events, func(e Event) bool { return !isEdge(e) }) {
				for k := range before {
					if s.Heeds(k.task, k.device) {
						t.Fatalf("heed is taken of task %d under %s after %+v", k.task, s.Policy().Name(), events)
					}
				}
			}
			clear(before)
			for _, st := range s.State() {
				if s.Heeds(st.Task, st.Device) {
					continue
				}
				unheeded++
				before[seatKey{st.Task, st.Device}] = true
				for _, e := range []Event{Ready{st.Task, st.Device}, Idle{st.Task, st.Device}, Ready{st.Task, st.Device}} {
					if out := s.Apply(now, e); len(out.Grants) > 0 {
						t.Fatalf("%+v under %s moved %+v", e, s.Policy().Name(), out.Grants)
					}
				}
				if !st.Ready {
					s.Apply(now, Idle{st.Task, st.Device})
				}
			}
		})
	})
	if unheeded == 0 {
		t.Error("heed was always taken: the test is not what it says")
	}
}

// TestHeedsWhoFallsLater: heed is taken of the lowest where another falls below it when
// it turns idle, also as long as that is above it.
func TestHeedsWhoFallsLater(t *testing.T) {
	s := NewScheduler(LAX())
	s.Apply(0, TaskAdded{1, "gpu0", Hints{}},
		TaskAdded{2, "gpu0", Hints{Laxity: Laxity{After: time.Millisecond, Low: -1, High: 64}}}, Ready{2, "gpu0"})
	if s.Apply(time.Millisecond); !s.Heeds(1, "gpu0") {
		t.Error("no heed is taken of one who will stop another")
	}
	s.Apply(time.Millisecond, TaskRemoved{2})
	if s.Heeds(1, "gpu0") {
		t.Error("heed is taken of one who is alone")
	}
}

// isEdge says whether an event changes neither tasks nor hints.
func isEdge(e Event) bool {
	switch e.(type) {
	case Ready, Idle, Tick:
		return true
	}
	return false
}
