package compute

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestApplyFirst: what is left for later are gates of tasks without work alone, and
// with the rest everything is as it is after one Apply.
func TestApplyFirst(t *testing.T) {
	left := 0
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom(policies).Draw(t, "first")
		s, whole, known, parts := NewScheduler(first), NewScheduler(first), gates{}, gates{}
		history := drawn{policies: policies, devices: twoDevices, tasks: 8, steps: 60}.history(t)
		play(whole, history, func(now time.Duration, events []Event, out Outcome) {
			known.follow(whole, out)
			got, more := s.ApplyFirst(now, events...)
			parts.follow(s, got)
			for _, st := range s.State() {
				key := seatKey{st.Task, st.Device}
				if st.Ready && parts[key] != known[key] {
					t.Fatalf("at %v after %+v: first %+v, want %+v", now, events, parts[key], known[key])
				}
			}
			if more {
				left++
				got = s.Apply(now)
				parts.follow(s, got)
			}
			if !maps.Equal(parts, known) {
				t.Fatalf("at %v after %+v under %s:\n got %+v\nwant %+v", now, events, s.Policy().Name(), parts, known)
			}
			if got.Next != out.Next {
				t.Fatalf("at %v: next timer %v, want %v", now, got.Next, out.Next)
			}
		})
	})
	if left == 0 {
		t.Error("nothing was ever left for later: the test is not what it says")
	}
}
