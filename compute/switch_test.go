package compute

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sharesOf runs tasks of kernels for a minute on a device with a switch cost, of which
// the policy is told known, and returns the part of the useful time of each, in percent.
func sharesOf(policy Policy, shares []int, kernels []time.Duration, cost, known time.Duration) (parts []float64, used time.Duration) {
	s := NewScheduler(policy)
	s.Apply(0, SwitchCost{"gpu0", known})
	var workers []*worker
	for i, share := range shares {
		w := &worker{id: TaskID(i + 1), kernel: kernels[i]}
		s.Apply(0, TaskAdded{w.id, "gpu0", Hints{Utilization: share}})
		workers = append(workers, w)
	}
	simulate(s, workers, cost, time.Minute)
	for _, w := range workers {
		used += w.took
	}
	for _, w := range workers {
		parts = append(parts, 100*float64(w.took)/float64(used))
	}
	return parts, used
}

// TestSharesWithSwitches: shares of the useful time come out right though turning from
// one task to another costs time: within 0.6 % where that is known, and so much farther
// as what is not known makes of the smallest turn.
func TestSharesWithSwitches(t *testing.T) {
	lengths := []time.Duration{50 * time.Microsecond, time.Millisecond, 5 * time.Millisecond}
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SampledFrom([][]int{{75, 25}, {90, 10}, {50, 30, 20}, {50, 50}}).Draw(t, "shares")
		kernels := make([]time.Duration, len(shares))
		for i := range kernels {
			kernels[i] = rapid.SampledFrom(lengths).Draw(t, "kernel")
		}
		cost := time.Duration(rapid.IntRange(100, 500).Draw(t, "cost")) * time.Microsecond
		factor := rapid.SampledFrom([]float64{1, 0.7, 1.3, 0}).Draw(t, "known")
		policy := rapid.SampledFrom(named("UP", "PUP", "SPUP")).Draw(t, "policy")
		parts, used := sharesOf(policy, shares, kernels, cost, time.Duration(factor*float64(cost)))
		bound := 0.006 + math.Abs(1-factor)*float64(cost)/float64(calmTurn)
		for i, have := range parts {
			if want := float64(shares[i]); math.Abs(have/want-1) > bound {
				t.Errorf("%s: task %d has %.3f %%, want %v within %.1f %%", policy.Name(), i+1, have, want, 100*bound)
			}
		}
		if least := time.Minute - time.Minute*cost*3/(2*calmTurn); used < least {
			t.Errorf("%s: the device was used for %v of a minute, want %v", policy.Name(), used, least)
		}
	})
}

// TestTheRowShare: with the switch of an H200, known to a third or not at all, ratios
// are within the bounds of the row.
func TestTheRowShare(t *testing.T) {
	const cost = 155 * time.Microsecond
	short, long := 50*time.Microsecond, 5*time.Millisecond
	for _, kernels := range [][]time.Duration{{short, short}, {long, long}, {short, long}} {
		for _, known := range []time.Duration{cost, cost * 2 / 3, cost * 4 / 3} {
			for _, shares := range [][]int{{75, 25}, {90, 10}} {
				parts, _ := sharesOf(PUP(), shares, kernels, cost, known)
				want := float64(shares[0]) / float64(shares[1])
				if ratio := parts[0] / parts[1]; math.Abs(ratio/want-1) > 0.01 {
					t.Errorf("shares %v, kernels %v, %v known: ratio %.3f, want %.2f", shares, kernels, known, ratio, want)
				}
			}
		}
	}
}

// TestShortRequestsPay: who comes for less than a switch each time pays half of what it
// ran, and cannot have the device for nothing; who stays gets all of the switch back.
func TestShortRequestsPay(t *testing.T) {
	for ran, want := range map[time.Duration]time.Duration{
		200 * time.Microsecond: 100 * time.Microsecond, time.Millisecond: 500 * time.Microsecond,
		2 * time.Millisecond: time.Millisecond, 9 * time.Millisecond: 8 * time.Millisecond,
	} {
		s := NewScheduler(UP())
		s.Apply(0, SwitchCost{"gpu0", time.Millisecond}, TaskAdded{1, "gpu0", Hints{Utilization: 100}}, Ready{1, "gpu0"})
		s.Apply(ran, Idle{1, "gpu0"})
		if have := s.domains[0].decider.(*turns).tasks[1].clock; have != clockOf(want, 100*percent) {
			t.Errorf("who ran for %v is charged for %v, want %v", ran, time.Duration(have>>clockShift)*100*percent, want)
		}
	}
}

// TestLongTurns: turns become long once nobody has woken for a while, those of a task
// that asks for its own do not, and who wakes is kept waiting no longer than before.
func TestLongTurns(t *testing.T) {
	for _, policy := range named("UP", "PUP", "SPUP") {
		s := NewScheduler(policy)
		s.Apply(0, TaskAdded{1, "gpu0", Hints{Utilization: 80}}, TaskAdded{2, "gpu0", Hints{Utilization: 10}},
			TaskAdded{3, "gpu0", Hints{Utilization: 10}}, Ready{1, "gpu0"}, Ready{2, "gpu0"})
		longest := func(until time.Duration) (longest time.Duration) {
			began, holder := s.now, TaskID(0)
			for next := s.Apply(s.now).Next; next != 0 && next < until; next = s.Apply(next).Next {
				for _, st := range s.State() {
					if st.Ready && st.Open && st.Task != holder {
						if holder != 0 {
							longest = max(longest, s.now-began)
						}
						holder, began = st.Task, s.now
					}
				}
			}
			return longest
		}
		if l := longest(calmAfter - time.Millisecond); l > 2*DefaultQuantum {
			t.Errorf("%s: a turn of %v at first", policy.Name(), l)
		}
		if l := longest(2 * calmAfter); l < 4*calmTurn || l > calmRound {
			t.Errorf("%s: the longest turn is %v when nobody comes and goes", policy.Name(), l)
		}
		for ready := false; !ready; { // until the first has its turn
			runUntil(s, s.now+time.Millisecond)
			for _, st := range s.State() {
				ready = ready || st.Task == 1 && st.Open
			}
		}
		woke := s.now
		s.Apply(woke, Ready{3, "gpu0"})
		for ranOf(s, 3, "gpu0") == 0 && s.now < woke+time.Second {
			runUntil(s, s.now+100*time.Microsecond)
		}
		if waited := s.now - woke; waited > 3*DefaultQuantum {
			t.Errorf("%s: who woke waited for %v", policy.Name(), waited)
		}
	}
}

// TestNobodyFallsBehindForTheDead: under SPUP a task of a small share that ran for a second, and
// has left since, does not have others who work all the time fall behind by their switches,
// for which whoever wakes would have to wait.
func TestNobodyFallsBehindForTheDead(t *testing.T) {
	s := NewScheduler(SPUP())
	often := Hints{Utilization: 49, Quantum: time.Millisecond}
	s.Apply(0, SwitchCost{"gpu0", 150 * time.Microsecond}, TaskAdded{1, "gpu0", often}, TaskAdded{2, "gpu0", often},
		TaskAdded{3, "gpu0", Hints{Utilization: 1}}, TaskAdded{4, "gpu0", Hints{Utilization: 1}}, Ready{3, "gpu0"})
	s.Apply(time.Millisecond, Ready{1, "gpu0"}, Ready{2, "gpu0"})
	for _, ran := range []time.Duration{40 * time.Millisecond, time.Second} { // the kernel that it had begun
		runUntil(s, s.now+ran)
		s.Apply(s.now, Overran{Task: 3, Device: "gpu0", By: ran})
	}
	s.Apply(s.now, TaskRemoved{3})
	runUntil(s, 50*time.Second)
	woke := s.now
	s.Apply(woke, Ready{4, "gpu0"})
	for ranOf(s, 4, "gpu0") == 0 && s.now < woke+20*time.Second {
		runUntil(s, s.now+time.Millisecond)
	}
	if waited := s.now - woke; waited > 20*time.Millisecond {
		t.Errorf("who woke waited for %v", waited)
	}
}

// TestSleepersAreForgiven: under SPUP who has used up its share, and sleeps for as long as
// that takes to come back, has it when it wakes, whoever has left meanwhile.
func TestSleepersAreForgiven(t *testing.T) {
	s := NewScheduler(SPUP())
	s.Apply(0, TaskAdded{1, "gpu0", Hints{Utilization: 1}}, TaskAdded{2, "gpu0", Hints{Utilization: 1}}, Ready{1, "gpu0"})
	runUntil(s, 10*time.Millisecond)
	s.Apply(s.now, Overran{Task: 1, Device: "gpu0", By: 5 * time.Millisecond})
	s.Apply(s.now, Idle{1, "gpu0"})
	s.Apply(s.now, TaskRemoved{2})
	ran := ranOf(s, 1, "gpu0")
	s.Apply(time.Second, Ready{1, "gpu0"})
	if runUntil(s, s.now+time.Millisecond); ranOf(s, 1, "gpu0") == ran {
		t.Error("who slept for longer than its debt has to wait for that")
	}
}
