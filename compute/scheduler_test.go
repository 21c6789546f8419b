package compute

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCase36DevicesAreIndependent plays a history on two devices, and again
// only what concerns the first: the first must not notice.
func TestCase36DevicesAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := without(policies, "HHPF", "CHPF") // one is there for what they do to each other; the other's priority is a task's on all of them
		first := rapid.SampledFrom(list).Draw(t, "first")
		history := drawn{policies: list, devices: twoDevices, tasks: 6, steps: 60}.history(t)
		grants := func(history []step) (all []Grant, when []time.Duration) {
			play(NewScheduler(first), history, func(now time.Duration, _ []Event, out Outcome) {
				for _, g := range out.Grants {
					if g.Device == "gpu0" {
						all, when = append(all, g), append(when, now)
					}
				}
			})
			return all, when
		}
		alone := make([]step, len(history))
		known := NewScheduler(first)
		for i, st := range history {
			alone[i].now = st.now
			for _, e := range st.events {
				known.Apply(st.now, e)
				if e, ok := onFirst(known, e); ok {
					alone[i].events = append(alone[i].events, e)
				}
			}
		}
		both, bothWhen := grants(history)
		one, oneWhen := grants(alone)
		if !reflect.DeepEqual(both, one) || !reflect.DeepEqual(bothWhen, oneWhen) {
			t.Fatalf("beside gpu1:\n%+v\nalone:\n%+v", both, one)
		}
	})
}

// onFirst is what an event means for gpu0 by itself. Registering on the other
// device matters only by the hints that it brings.
func onFirst(s *Scheduler, e Event) (Event, bool) {
	switch e := e.(type) {
	case TaskAdded:
		if e.Device == "gpu1" {
			return HintsChanged{e.Task, e.Hints}, true
		}
	case DeviceLeft:
		return e, e.Device == "gpu0"
	case Ready:
		return e, e.Device == "gpu0"
	case Idle:
		return e, e.Device == "gpu0"
	}
	return e, true
}

// TestCase35HintsSurvivePolicyChange: whatever the policies were in between,
// the hints are those last given, and HPF decides by them at once.
func TestCase35HintsSurvivePolicyChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(HPF())
		given := map[TaskID]Hints{}
		for id := TaskID(1); id <= 5; id++ {
			given[id] = drawHints(t)
			s.Apply(0, TaskAdded{id, "gpu0", given[id]}, Ready{id, "gpu0"})
		}
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			s.Apply(s.now+time.Millisecond, PolicyChanged{rapid.SampledFrom(policies).Draw(t, "policy")})
			id := TaskID(rapid.IntRange(1, 5).Draw(t, "task"))
			given[id] = drawHints(t)
			s.Apply(s.now+time.Millisecond, HintsChanged{id, given[id]})
		}
		s.Apply(s.now, PolicyChanged{HPF()})
		top := MinPriority
		for _, h := range given {
			if !h.NoExecute {
				top = max(top, h.Priority)
			}
		}
		for _, st := range s.State() {
			if st.Hints != given[st.Task] {
				t.Fatalf("task %d has %+v, given %+v", st.Task, st.Hints, given[st.Task])
			}
			if st.Open != (st.Hints.Priority == top && !st.Hints.NoExecute) {
				t.Fatalf("right after the change: %+v with the top at %d", st, top)
			}
		}
	})
}

// TestPolicyChangeAtOnce: the Apply that changes the policy has the new
// policy's gates.
func TestPolicyChangeAtOnce(t *testing.T) {
	s := NewScheduler(RR())
	s.Apply(0,
		TaskAdded{1, "gpu0", Hints{Priority: 1}}, TaskAdded{2, "gpu0", Hints{Priority: 2}},
		Ready{1, "gpu0"}, Ready{2, "gpu0"})
	out := s.Apply(time.Millisecond, PolicyChanged{HPF()})
	want := []Grant{{1, "gpu0", false, Bounded}, {2, "gpu0", true, Top}}
	if !slices.Equal(out.Grants, want) || out.Next != 0 {
		t.Errorf("grants %+v, next %v; want %+v and no timer", out.Grants, out.Next, want)
	}
	if s.Policy().Name() != "HPF" {
		t.Errorf("policy is %s", s.Policy().Name())
	}
}

func TestPolicyByName(t *testing.T) {
	for _, name := range []string{"HPF", "hpf", "Rr"} {
		if _, err := PolicyByName(name); err != nil {
			t.Errorf("PolicyByName(%q): %v", name, err)
		}
	}
	for _, name := range []string{"", "HPF ", "FIFO"} {
		_, err := PolicyByName(name)
		var unknown *UnknownPolicyError
		if !errors.As(err, &unknown) {
			t.Fatalf("PolicyByName(%q): error %v", name, err)
		}
		if unknown.Name != name || !slices.Equal(unknown.Allowed, PolicyNames()) {
			t.Errorf("PolicyByName(%q): %+v", name, unknown)
		}
	}
}

func TestHintRanges(t *testing.T) {
	for _, test := range []struct {
		hints Hints
		hint  string // which is refused; empty for none
		want  Hints  // what the scheduler makes of it
	}{
		{Hints{}, "", Hints{}},
		{Hints{Priority: MaxPriority, Quantum: MaxQuantum, IdleAfter: MaxIdleAfter}, "", Hints{Priority: MaxPriority, Quantum: MaxQuantum, IdleAfter: MaxIdleAfter}},
		{Hints{Priority: MinPriority, Quantum: MinQuantum, IdleAfter: MinIdleAfter}, "", Hints{Priority: MinPriority, Quantum: MinQuantum, IdleAfter: MinIdleAfter}},
		{Hints{Priority: MaxPriority + 1}, "priority", Hints{Priority: MaxPriority}},
		{Hints{Priority: MinPriority - 1}, "priority", Hints{Priority: MinPriority}},
		{Hints{Quantum: 1}, "quantum", Hints{Quantum: MinQuantum}},
		{Hints{Quantum: -1}, "quantum", Hints{Quantum: MinQuantum}},
		{Hints{Quantum: MaxQuantum + 1}, "quantum", Hints{Quantum: MaxQuantum}},
		{Hints{IdleAfter: 1}, "idle-after", Hints{IdleAfter: MinIdleAfter}},
		{Hints{IdleAfter: MaxIdleAfter + 1}, "idle-after", Hints{IdleAfter: MaxIdleAfter}},
	} {
		err := test.hints.Validate()
		var r *RangeError
		if errors.As(err, &r); (r == nil) != (test.hint == "") || r != nil && r.Hint != test.hint {
			t.Errorf("%+v: error %v, want one about %q", test.hints, err, test.hint)
		}
		s := NewScheduler(HPF())
		s.Apply(0, TaskAdded{1, "gpu0", test.hints})
		if got := s.State()[0].Hints; got != test.want {
			t.Errorf("%+v was taken as %+v, want %+v", test.hints, got, test.want)
		}
	}
	err := Hints{Quantum: 20 * time.Second}.Validate()
	if want := "quantum 20s is out of range: 100µs to 10s"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestModeNames(t *testing.T) {
	for mode, want := range map[Mode]string{Free: "free", Bounded: "bounded", Top: "top", 7: "invalid"} {
		if got := mode.String(); got != want {
			t.Errorf("mode %d is %q, want %q", mode, got, want)
		}
	}
}
