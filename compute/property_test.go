package compute

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAgainstReference plays random histories, with changes of policy in them,
// to the scheduler and to the plain one, and wants the same gates, modes, run
// times and timers after every step; and no grant that changes nothing.
func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := named("HPF", "HHPF", "CHPF", "LAX", "AWF", "KEDF", "RR", "WRR", "FCFS")
		first := rapid.SampledFrom(plain).Draw(t, "first")
		s, ref, known := NewScheduler(first), newReference(first.Name()), gates{}
		history := drawn{policies: plain, devices: twoDevices, tasks: 6, steps: 60}.history(t)
		play(s, history, func(now time.Duration, events []Event, out Outcome) {
			for _, g := range out.Grants {
				if known[seatKey{g.Task, g.Device}] == g && !reborn(events, g) {
					t.Fatalf("at %v: grant %+v says nothing new", now, g)
				}
			}
			known.follow(s, out)
			want := ref.apply(now, events...)
			if !maps.Equal(known, want) {
				t.Fatalf("at %v after %+v under %s:\n got %+v\nwant %+v", now, events, ref.policy, known, want)
			}
			if out.Next != ref.next() {
				t.Fatalf("at %v: next timer %v, want %v", now, out.Next, ref.next())
			}
			for _, st := range s.State() {
				seat := ref.seat(st.Task, st.Device)
				if st.RunTime != seat.ran || st.Ready != seat.ready || st.Hints != ref.tasks[st.Task] {
					t.Fatalf("at %v: state %+v, want %+v with %+v", now, st, *seat, ref.tasks[st.Task])
				}
			}
			checkNoTrace(t, s)
		})
	})
}

// reborn tells that a task left and came back in one step: it is a new one,
// and its first grant is news though it may read the same.
func reborn(events []Event, g Grant) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		return e == TaskRemoved{g.Task} || e == DeviceLeft{g.Task, g.Device}
	})
}

// registered is how many tasks a decider knows.
func registered(d Decider) int {
	switch d := d.(type) {
	case *classes:
		return len(d.tasks)
	case *kedf:
		return len(d.tasks)
	case *turns:
		return len(d.tasks)
	}
	return -1
}

// checkNoTrace looks into the scheduler for what should not be there any more.
func checkNoTrace(t *rapid.T, s *Scheduler) {
	seats, known := 0, map[*domain]int{}
	for _, d := range s.devices {
		seats += len(d.seats)
		parties := map[*party]bool{}
		for _, seat := range d.seats {
			if seat.party != nil {
				parties[seat.party] = true
			}
		}
		known[d.domain] += len(parties)
		if len(d.seats) == 0 || len(d.touched) != 0 || len(d.joint) > len(parties) {
			t.Fatalf("%s: %d tasks, left over %d %d", d.name, len(d.seats), len(d.touched), len(d.joint))
		}
	}
	if len(s.domains) != len(known) || len(s.touched)+len(s.awake) != 0 {
		t.Fatalf("%d domains, %d in use; left over %d %d", len(s.domains), len(known), len(s.touched), len(s.awake))
	}
	for m, n := range known {
		if len(m.parties) != n || registered(m.decider) != n || len(m.changed)+len(m.gone) != 0 {
			t.Fatalf("%d parties, the domain knows %d, its decider %d; left over %d %d",
				n, len(m.parties), registered(m.decider), len(m.changed), len(m.gone))
		}
	}
	counted := 0
	for id, task := range s.tasks {
		if task.seats == 0 {
			t.Fatalf("task %d is nowhere and still known", id)
		}
		counted += task.seats
	}
	if counted != seats {
		t.Fatalf("tasks count %d seats, there are %d", counted, seats)
	}
}

// TestWorkConservation: a device that has work has somebody to do it, and one
// that has none holds nobody back. SPUP is there to do otherwise; HHPF looks at
// all devices, of which one at least is served then.
func TestWorkConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := without(policies, "SPUP")
		s := NewScheduler(rapid.SampledFrom(list).Draw(t, "first"))
		history := drawn{policies: list, devices: twoDevices, tasks: 6, steps: 60}.history(t)
		play(s, history, func(now time.Duration, _ []Event, _ Outcome) {
			work, served, closed := map[Device]bool{}, map[Device]bool{}, map[Device]bool{}
			for _, st := range s.State() {
				where := st.Device
				if s.Policy().Traits().Machine {
					where = "all"
				}
				if st.Hints.NoExecute {
					if st.Open {
						t.Fatalf("at %v: task %d may run and is not to", now, st.Task)
					}
					continue
				}
				work[where] = work[where] || st.Ready
				served[where] = served[where] || st.Ready && st.Open
				closed[where] = closed[where] || !st.Open
			}
			for d, w := range work {
				if w && !served[d] {
					t.Fatalf("at %v under %s: %s has work and runs nobody", now, s.Policy().Name(), d)
				}
			}
			for d, c := range closed {
				if c && !work[d] {
					t.Fatalf("at %v under %s: %s holds somebody back for nobody", now, s.Policy().Name(), d)
				}
			}
		})
	})
}

// TestReplay: the same history gives the same outcomes, to the order.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom(policies).Draw(t, "first")
		history := drawn{policies: policies, devices: twoDevices, tasks: 8, steps: 60}.history(t)
		record := func() (all []Outcome) {
			play(NewScheduler(first), history, func(_ time.Duration, _ []Event, out Outcome) {
				all = append(all, Outcome{slices.Clone(out.Grants), out.Next, slices.Clone(out.Replanned)})
			})
			return all
		}
		if a, b := record(), record(); !reflect.DeepEqual(a, b) {
			t.Fatalf("two runs differ:\n%+v\n%+v", a, b)
		}
	})
}

// TestTimeline: what a timeline says is what happens when no event comes.
func TestTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(rapid.SampledFrom(policies).Draw(t, "first"))
		var next time.Duration
		history := drawn{policies: policies, devices: []Device{"gpu0"}, tasks: 6, steps: 40}.history(t)
		play(s, history, func(_ time.Duration, _ []Event, out Outcome) { next = out.Next })

		plan := slices.Collect(s.Timeline("gpu0"))
		checkPlaced(t, s, plan)
		for i, slot := range plan {
			if slot.Start > s.now { // timers on the way may change nothing
				for next != 0 && next < slot.Start {
					next = s.Apply(next).Next
				}
				if next != slot.Start {
					t.Fatalf("slot %+v of %+v under %s: the next timer is at %v", slot, plan, s.Policy().Name(), next)
				}
				next = s.Apply(next).Next
			}
			for _, st := range s.State() {
				runs := slices.ContainsFunc(plan[:i+1], func(o Slot) bool {
					return o.Task == st.Task && (o.Length == 0 || s.now < o.Start+o.Length)
				})
				later := slices.ContainsFunc(plan[i+1:], func(o Slot) bool { return o.Task == st.Task && o.Start <= s.now })
				if running := st.Ready && st.Open; running != (runs || later) {
					t.Fatalf("at %v: task %d running is %v, planned %+v", s.now, st.Task, running, plan)
				}
			}
		}
		if len(plan) > 0 && plan[len(plan)-1].Length == 0 && next != 0 {
			t.Fatalf("an open-ended plan %+v with a timer at %v", plan, next)
		}
	})
}

// checkPlaced: timeline and expectations together have every task once.
func checkPlaced(t *rapid.T, s *Scheduler, plan []Slot) {
	var have, want []TaskID
	for _, slot := range plan {
		have = append(have, slot.Task)
	}
	for _, e := range s.Expected("gpu0") {
		have = append(have, e.Task)
		if e.NextReady != 0 && e.NextReady < s.now {
			t.Fatalf("expectation %+v lies before %v", e, s.now)
		}
	}
	for _, st := range s.State() {
		want = append(want, st.Task)
	}
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Fatalf("timeline and expectations have %v, want %v", have, want)
	}
}
