package compute

import (
	"cmp"
	"reflect"
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

// asked is a policy whose deciders are asked about every edge.
type asked struct{ Policy }

func (p asked) Fresh() Decider { return struct{ Decider }{p.Policy.Fresh()} }

// TestStirs: where nobody is asked about an edge everything comes out as if he were.
func TestStirs(t *testing.T) {
	stirred := 0
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom(policies).Draw(t, "first")
		history := drawn{policies: policies, devices: twoDevices, tasks: 8, steps: 60}.history(t)
		type look struct {
			now   time.Duration
			out   Outcome
			state []TaskState
			plans [][]Slot
		}
		run := func(wrap func(Policy) Policy) (looks []look) {
			steps := slices.Clone(history)
			for i := range steps {
				steps[i].events = slices.Clone(steps[i].events)
				for j, e := range steps[i].events {
					if c, ok := e.(PolicyChanged); ok {
						steps[i].events[j] = PolicyChanged{wrap(c.Policy)}
					}
				}
			}
			s := NewScheduler(wrap(first))
			play(s, steps, func(now time.Duration, events []Event, out Outcome) {
				l := look{now: now, state: s.State()}
				l.out = Outcome{slices.Clone(out.Grants), out.Next, slices.Clone(out.Replanned)}
				for _, d := range twoDevices {
					plan := slices.Collect(s.Timeline(d))
					slices.SortFunc(plan, func(a, b Slot) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Task, b.Task)) })
					l.plans = append(l.plans, plan)
				}
				seen := 0 // by deciders
				for _, d := range s.domains {
					seen += len(d.states)
					d.states = d.states[:0]
				}
				if len(events) > 0 && len(out.Replanned) > 0 && seen == 0 {
					stirred++
				}
				looks = append(looks, l)
			})
			return looks
		}
		quick := run(func(p Policy) Policy { return p })
		for i, l := range run(func(p Policy) Policy { return asked{p} }) {
			if !reflect.DeepEqual(quick[i], l) {
				t.Fatalf("step %d:\n%+v\nasked:\n%+v", i, quick[i], l)
			}
		}
	})
	if stirred == 0 {
		t.Error("everybody was always asked: the test is not what it says")
	}
}
