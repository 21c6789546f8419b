package compute

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// turnWatch watches one device under RR and checks, step by step, that one task
// at a time has the turn, that it has it for its quantum, and that nobody is
// passed over.
type turnWatch struct {
	steps     int
	holder    TaskID
	start     time.Duration
	contended bool // somebody waited after the last step

	began map[TaskID]int   // step at which a waiting task began to wait
	taken map[TaskID][]int // steps at which a task's turns started
}

func (w *turnWatch) look(t *rapid.T, s *Scheduler, now time.Duration) {
	w.steps++
	state := map[TaskID]TaskState{}
	var holder TaskID
	for _, st := range s.State() {
		state[st.Task] = st
		if st.Ready && st.Open {
			if holder != 0 {
				t.Fatalf("at %v: tasks %d and %d both have the turn", now, holder, st.Task)
			}
			holder = st.Task
		}
	}

	if w.holder != 0 && holder != w.holder && state[w.holder].Ready {
		end := w.start + quantumOf(w.holder)
		if now < end || now > end && w.contended {
			t.Fatalf("the turn of task %d, from %v with %v, was ended at %v", w.holder, w.start, quantumOf(w.holder), now)
		}
	}
	if holder != 0 && holder != w.holder {
		w.start = now
		w.taken[holder] = append(w.taken[holder], w.steps)
	}
	w.holder, w.contended = holder, false

	for id, st := range state {
		if !st.Ready || st.Open {
			delete(w.began, id)
			continue
		}
		w.contended = true
		if _, ok := w.began[id]; !ok {
			w.began[id] = w.steps
		}
	}
	w.nobodyTwice(t, now)
}

// nobodyTwice: while a task waits, no other starts a second turn. With turns
// that end on time this bounds the wait by the sum of the others' quanta.
func (w *turnWatch) nobodyTwice(t *rapid.T, now time.Duration) {
	for waiting, began := range w.began {
		for other, taken := range w.taken {
			started := 0
			for _, step := range taken {
				if step > began {
					started++
				}
			}
			if started > 1 {
				t.Fatalf("at %v: task %d had %d turns while task %d waited", now, other, started, waiting)
			}
		}
	}
}

func quantumOf(id TaskID) time.Duration {
	if q := calmHints(id).Quantum; q != 0 {
		return q
	}
	return DefaultQuantum
}

func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(RR())
		w := turnWatch{began: map[TaskID]int{}, taken: map[TaskID][]int{}}
		history := drawn{devices: []Device{"gpu0"}, tasks: 7, steps: 80, calm: true}.history(t)
		play(s, history, func(now time.Duration, _ []Event, _ Outcome) { w.look(t, s, now) })
	})
}

// TestShares: tasks that always have work get the device by their quanta, to
// within one quantum, and the timers are one a turn.
func TestShares(t *testing.T) {
	const tasks, rounds = 7, 40
	s := NewScheduler(RR())
	var round time.Duration
	for id := TaskID(1); id <= tasks; id++ {
		s.Apply(0, TaskAdded{id, "gpu0", calmHints(id)}, Ready{id, "gpu0"})
		round += quantumOf(id)
	}
	applied := 0
	for next := s.Apply(0).Next; next <= rounds*round; next = s.Apply(next).Next {
		if next == 0 {
			t.Fatal("turns ended with everybody ready")
		}
		applied++
	}
	if applied != tasks*rounds {
		t.Errorf("%d timers for %d turns", applied, tasks*rounds)
	}
	for _, st := range s.State() {
		if want := rounds * quantumOf(st.Task); st.RunTime != want {
			t.Errorf("task %d ran %v, want %v", st.Task, st.RunTime, want)
		}
	}
}

// TestNoTimerWithoutNeed: whatever happened, with at most one task ready there
// is nothing to wake up for, and a timer lies ahead. Under LAX a single one may
// rise above others and keep them out.
func TestNoTimerWithoutNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := without(policies, "SPUP") // which ends turns with nobody waiting
		s := NewScheduler(rapid.SampledFrom(list).Draw(t, "first"))
		history := drawn{policies: list, devices: twoDevices, tasks: 6, steps: 60}.history(t)
		play(s, history, func(now time.Duration, _ []Event, out Outcome) {
			ready, most := map[Device]int{}, 0
			for _, st := range s.State() {
				if st.Ready {
					ready[st.Device]++
					most = max(most, ready[st.Device])
				}
			}
			if out.Next != 0 && (out.Next <= now || most < 1 || most < 2 && s.Policy().Name() != "LAX") {
				t.Fatalf("at %v: next timer at %v with %v ready", now, out.Next, ready)
			}
		})
	})
}

// TestCase36SleeperGetsOneTurn: who slept for ten seconds gets its quantum,
// not ten seconds.
func TestCase36SleeperGetsOneTurn(t *testing.T) {
	s := NewScheduler(RR())
	s.Apply(0, TaskAdded{Task: 1, Device: "gpu0"}, TaskAdded{Task: 2, Device: "gpu0"}, Ready{1, "gpu0"})
	const woke = 10 * time.Second
	for now := s.Apply(woke, Ready{2, "gpu0"}).Next; now < woke+100*DefaultQuantum; now = s.Apply(now).Next {
	}
	s.Apply(woke + 100*DefaultQuantum)
	for _, st := range s.State() {
		want := 50 * DefaultQuantum
		if st.Task == 1 {
			want += woke
		}
		if st.RunTime != want {
			t.Errorf("task %d ran %v, want %v", st.Task, st.RunTime, want)
		}
	}
}
