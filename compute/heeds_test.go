package compute

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHeeds: what a task does of whom nobody takes heed changes no gate.
func TestHeeds(t *testing.T) {
	unheeded := 0
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(rapid.SampledFrom(policies).Draw(t, "first"))
		history := drawn{policies: policies, devices: twoDevices, tasks: 8, steps: 60}.history(t)
		known := gates{}
		play(s, history, func(now time.Duration, events []Event, out Outcome) {
			known.follow(s, out)
			for _, st := range s.State() {
				if s.Heeds(st.Task, st.Device) {
					continue
				}
				unheeded++
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
