package compute

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDecision is one ready or idle edge, or one timer, from the event to
// the grants, with 10, 1,000 and 10,000 tasks on the device. The cases differ in
// what it changes, since a decision has to pay for every gate that it moves:
// "quiet" moves none, "turn" hands a turn on, "preempt" moves one gate, and
// "preempt-all" closes and opens all the others.
func BenchmarkDecision(b *testing.B) {
	type edges struct {
		name   string
		policy Policy
		hints  func(i int) Hints // of task i, 1 to n
		// ready tasks besides the one that comes and goes, which is task 1
		ready func(i int) bool
		tick  bool // let the timer run out instead
	}
	cases := []edges{
		{"HPF/quiet", HPF(), func(i int) Hints { return Hints{Priority: min(i-1, 1)} }, all, false},
		{"HPF/preempt", HPF(), func(i int) Hints { return Hints{Priority: 2 - min(i, 3)} }, two, false},
		{"HPF/preempt-all", HPF(), func(i int) Hints { return Hints{Priority: -min(i-1, 1)} }, all, false},
		{"HHPF/quiet", HHPF(), func(i int) Hints { return Hints{Priority: min(i-1, 1)} }, all, false},
		{"LAX/quiet", LAX(), func(i int) Hints { return Hints{Laxity: Laxity{After: time.Minute}, Priority: i % 200} }, all, false},
		{"KEDF/quiet", KEDF(), func(i int) Hints { return Hints{Deadline: time.Second / time.Duration(i)} }, all, false},
		{"FCFS/quiet", FCFS(), nothing, all, false},
		{"HPF-floor/turn", HPF(), func(i int) Hints { return Hints{Priority: max(3-i, 0), MinShare: 0.0001} }, all, true},
	}
	for _, p := range named("RR", "WRR", "UP", "PUP", "SPUP", "CFS", "MLFQ") {
		cases = append(cases,
			edges{p.Name() + "/quiet", p, nothing, all, false},
			edges{p.Name() + "/turn", p, nothing, all, true})
	}
	for _, n := range []int{10, 1000, 10000} {
		for _, c := range cases {
			b.Run(fmt.Sprintf("%s/tasks=%d", c.name, n), func(b *testing.B) {
				s := NewScheduler(c.policy)
				for i := 1; i <= n; i++ {
					s.Apply(0, TaskAdded{TaskID(i), "gpu0", c.hints(i)})
					if i > 1 && c.ready(i) {
						s.Apply(0, Ready{TaskID(i), "gpu0"})
					}
				}
				ready, idle := []Event{Ready{1, "gpu0"}}, []Event{Idle{1, "gpu0"}}
				out := s.Apply(1)
				now, granted := time.Duration(1), 0
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					switch {
					case c.tick:
						if out.Next == 0 {
							b.Fatal("nobody has a turn")
						}
						now = out.Next
						out = s.Apply(now)
					case i%2 == 0:
						now++
						out = s.Apply(now, ready...)
					default:
						now++
						out = s.Apply(now, idle...)
					}
					granted += len(out.Grants)
				}
				b.ReportMetric(float64(granted)/float64(b.N), "grants/op")
			})
		}
	}
}

func all(int) bool      { return true }
func two(i int) bool    { return i == 2 }
func nothing(int) Hints { return Hints{} }

// TestDecisionAllocatesNothing, with the events made once, as the daemon does.
func TestDecisionAllocatesNothing(t *testing.T) {
	for _, p := range policies {
		s := NewScheduler(p)
		crowd(s, 100, func(id TaskID) Hints {
			return Hints{Priority: int(id), Deadline: time.Second, Laxity: Laxity{After: time.Millisecond}}
		})
		ready, idle := []Event{Ready{50, "gpu0"}}, []Event{Idle{50, "gpu0"}}
		step := func() {
			s.Apply(s.now+time.Millisecond, idle...)
			next := s.Apply(s.now+time.Millisecond, ready...).Next
			s.Apply(max(next, s.now))
		}
		for range 200 {
			step() // grows what is reused
		}
		if n := testing.AllocsPerRun(500, step); n != 0 {
			t.Errorf("%s: %v allocations", p.Name(), n)
		}
	}
}
