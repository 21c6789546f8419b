package compute

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// standing is a device under RR whose holder is watched.
type standing struct {
	t *testing.T
	s *Scheduler
}

func newStanding(t *testing.T, tasks int) *standing {
	const ms = time.Millisecond
	w := &standing{t, NewScheduler(RR())}
	for i := range tasks {
		id := TaskID(i + 1)
		w.s.Apply(0, TaskAdded{Task: id, Device: "gpu0", Hints: Hints{Quantum: 10 * ms}}, Ready{Task: id, Device: "gpu0"})
	}
	return w
}

// at tells events, and says who has the turn then.
func (w *standing) at(now time.Duration, want TaskID, events ...Event) {
	w.t.Helper()
	w.s.Apply(now, events...)
	if got := holdersOf(w.s); !slices.Equal(got, []TaskID{want}) {
		w.t.Fatalf("at %v tasks %d have the turn, want %d", now, got, want)
	}
}

// holdersOf are the tasks that have the turn.
func holdersOf(s *Scheduler) (list []TaskID) {
	for _, st := range s.State() {
		if st.Ready && st.Open {
			list = append(list, st.Task)
		}
	}
	return list
}

// TestStandingTasksGiveWay: a task that cannot use the device in its turn leaves it to the
// others, and has the rest of it, before anybody else, once it can.
func TestStandingTasksGiveWay(t *testing.T) {
	const ms = time.Millisecond
	stands := func(id TaskID, on bool) Event { return Stands{Task: id, Device: "gpu0", On: on} }
	w := newStanding(t, 3)
	w.at(ms, 1)
	w.at(4*ms, 2, stands(1, true)) // 6 ms are left of its turn
	if slot := timelineOf(w.s, 2); slot[1].Task != 1 || slot[1].Start != 14*ms || slot[1].Length != 6*ms {
		t.Errorf("the timeline has %+v behind the turn", slot[1])
	}
	w.at(6*ms, 2, stands(1, false))
	w.at(13*ms, 2)
	w.at(14*ms, 1) // the rest
	w.at(19*ms, 1)
	w.at(20*ms, 3)
	w.at(21*ms, 2, stands(3, true))
	w.at(30*ms, 2)
	w.at(31*ms, 1) // who stands has no turn
	w.at(41*ms, 2)
	w.at(42*ms, 2, stands(3, false))
	w.at(51*ms, 3)
	w.at(59*ms, 3)
	w.at(60*ms, 1) // 9 of its 10 ms were left
}

// TestStandingTasksOfWhomNobodyWaits: the turn stays where it is if nobody else can use it.
func TestStandingTasksOfWhomNobodyWaits(t *testing.T) {
	const ms = time.Millisecond
	stands := func(id TaskID, on bool) Event { return Stands{Task: id, Device: "gpu0", On: on} }
	w := newStanding(t, 2)
	w.at(ms, 1)
	w.at(2*ms, 2, stands(1, true))
	w.at(3*ms, 2, stands(2, true)) // both stand: it may as well be this one
	w.at(40*ms, 2)
	w.at(41*ms, 1, Idle{Task: 2, Device: "gpu0"})  // who stands is better than nobody
	w.at(42*ms, 2, Ready{Task: 2, Device: "gpu0"}) // neither can
	w.at(43*ms, 1, stands(1, false))
	w.at(44*ms, 2, stands(1, true), stands(2, false))
	w.at(45*ms, 2, Idle{Task: 1, Device: "gpu0"})
	w.at(46*ms, 2, Ready{Task: 1, Device: "gpu0"}, stands(1, false))
}

// TestTurnsThatChangeTheirLength: what is left of a turn to a task that stands follows a
// change of its length as the turn of one that runs does.
func TestTurnsThatChangeTheirLength(t *testing.T) {
	const ms = time.Millisecond
	w := newStanding(t, 2)
	w.at(ms, 1)
	w.at(2*ms, 2, Stands{Task: 1, Device: "gpu0", On: true}) // 8 ms are left
	if slot := timelineOf(w.s, 2); len(slot) != 2 || slot[0].Length != 10*ms || slot[1].Task != 1 || slot[1].Start != 12*ms || slot[1].Length != 8*ms {
		t.Errorf("the timeline is %+v", slot)
	}
	w.at(3*ms, 2, HintsChanged{Task: 1, Hints: Hints{Quantum: 4 * ms}}) // 2 of 4
	w.at(11*ms, 2, HintsChanged{Task: 1, Hints: Hints{Quantum: 10 * ms}})
	w.at(20*ms, 2) // nobody else can use it
	if slot := timelineOf(w.s, 2); len(slot) != 2 || slot[1].Task != 1 {
		t.Errorf("the timeline is %+v", slot)
	}
	w.at(21*ms, 1, Stands{Task: 1, Device: "gpu0"})
	w.at(28*ms, 1)
	w.at(29*ms, 2) // 8 of 10
}

// TestStandingTasksLoseNothing: whatever is told, somebody has the turn as long as anybody
// has work, and all have it again.
func TestStandingTasksLoseNothing(t *testing.T) {
	policies := []Policy{RR(), WRR(), FCFS(), UP(), PUP(), CFS(), MLFQ()}
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(rapid.SampledFrom(policies).Draw(t, "policy"))
		const tasks, ms = 4, time.Millisecond
		for id := TaskID(1); id <= tasks; id++ {
			s.Apply(0, TaskAdded{Task: id, Device: "gpu0"})
		}
		ready := map[TaskID]bool{}
		now := ms
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 20).Draw(t, "ms")) * ms
			id := TaskID(rapid.IntRange(1, tasks).Draw(t, "task"))
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				s.Apply(now, Ready{Task: id, Device: "gpu0"})
				ready[id] = true
			case 1:
				s.Apply(now, Idle{Task: id, Device: "gpu0"})
				delete(ready, id)
			case 2:
				s.Apply(now, Stands{Task: id, Device: "gpu0", On: true})
			case 3:
				s.Apply(now, Stands{Task: id, Device: "gpu0"})
			default:
				s.Apply(now)
			}
			if h := holdersOf(s); len(h) != min(len(ready), 1) {
				t.Fatalf("at %v tasks %d have the turn, %d have work", now, h, len(ready))
			}
		}
		had := map[TaskID]bool{}
		for id := TaskID(1); id <= tasks; id++ {
			s.Apply(now, Stands{Task: id, Device: "gpu0"})
		}
		if s.Policy().Name() == "FCFS" {
			return // the first runs to its end
		}
		for range 20000 {
			now += ms
			s.Apply(now)
			for _, id := range holdersOf(s) {
				had[id] = true
			}
		}
		for id := range ready {
			if !had[id] {
				t.Fatalf("task %d never has the turn again", id)
			}
		}
	})
}

func timelineOf(s *Scheduler, n int) (list []Slot) {
	for slot := range s.Timeline("gpu0") {
		if list = append(list, slot); len(list) == n {
			break
		}
	}
	return list
}
