package compute

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDecision is one ready or idle edge, from the event to the grants,
// with 10, 1,000 and 10,000 tasks on the device. The cases differ in what the
// edge changes, since a decision has to pay for every gate that it moves:
// "quiet" moves none, "turn" hands a turn on, "preempt" moves one gate, and
// "preempt-all" closes and opens all the others.
func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		for _, c := range []struct {
			name   string
			policy Policy
			hints  func(i int) Hints // of task i, 1 to n
			// ready tasks besides the one that comes and goes, which is task 1
			ready func(i int) bool
			tick  bool // let the timer run out instead
		}{
			{"HPF/quiet", HPF(), func(i int) Hints { return Hints{Priority: min(i-1, 1)} }, all, false},
			{"HPF/preempt", HPF(), func(i int) Hints { return Hints{Priority: 2 - min(i, 3)} }, two, false},
			{"HPF/preempt-all", HPF(), func(i int) Hints { return Hints{Priority: -min(i-1, 1)} }, all, false},
			{"RR/quiet", RR(), func(int) Hints { return Hints{} }, all, false},
			{"RR/turn", RR(), func(int) Hints { return Hints{} }, all, true},
		} {
			b.Run(fmt.Sprintf("%s/tasks=%d", c.name, n), func(b *testing.B) {
				s := NewScheduler(c.policy)
				for i := 1; i <= n; i++ {
					s.Apply(0, TaskAdded{TaskID(i), "gpu0", c.hints(i)})
					if i > 1 && c.ready(i) {
						s.Apply(0, Ready{TaskID(i), "gpu0"})
					}
				}
				now, granted := time.Duration(1), 0
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					var out Outcome
					now++
					switch {
					case c.tick:
						now += DefaultQuantum
						out = s.Apply(now)
					case i%2 == 0:
						out = s.Apply(now, Ready{1, "gpu0"})
					default:
						out = s.Apply(now, Idle{1, "gpu0"})
					}
					granted += len(out.Grants)
				}
				b.ReportMetric(float64(granted)/float64(b.N), "grants/op")
			})
		}
	}
}

func all(int) bool   { return true }
func two(i int) bool { return i == 2 }
