package compute

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// job is work of one task, with a deadline.
type job struct{ release, length, deadline time.Duration }

// feasible says whether one device can do all jobs in time: in every interval
// what has to begin and to end in it fits (Horn 1974).
func feasible(jobs []job) bool {
	for _, a := range jobs {
		for _, b := range jobs {
			var demand time.Duration
			for _, j := range jobs {
				if j.release >= a.release && j.deadline <= b.deadline {
					demand += j.length
				}
			}
			if b.deadline > a.release && demand > b.deadline-a.release {
				return false
			}
		}
	}
	return true
}

// TestDeadlinesAreMetIfTheyCanBe: KEDF with K = 1 misses none of a set of jobs
// that some schedule can do in time.
func TestDeadlinesAreMetIfTheyCanBe(t *testing.T) {
	possible := 0
	rapid.Check(t, func(t *rapid.T) {
		ms := func(low, high int, label string) time.Duration {
			return time.Duration(rapid.IntRange(low, high).Draw(t, label)) * time.Millisecond
		}
		jobs := make([]job, rapid.IntRange(1, 8).Draw(t, "jobs"))
		for i := range jobs {
			release, length := ms(0, 40, "release"), ms(1, 10, "length")
			jobs[i] = job{release, length, release + length + ms(0, 40, "slack")}
		}
		if !feasible(jobs) {
			return
		}
		possible++
		s := NewScheduler(KEDF())
		left := map[TaskID]time.Duration{}
		for i, j := range jobs {
			id := TaskID(i + 1)
			left[id] = j.length
			s.Apply(0, TaskAdded{id, "gpu0", Hints{Deadline: j.deadline - j.release}})
		}
		for now := time.Duration(0); len(left) > 0; now += time.Millisecond {
			var events []Event
			for i, j := range jobs {
				if j.release == now {
					events = append(events, Ready{TaskID(i + 1), "gpu0"})
				}
			}
			s.Apply(now, events...)
			for _, st := range s.State() {
				if !st.Ready || !st.Open {
					continue
				}
				if left[st.Task] -= time.Millisecond; left[st.Task] == 0 {
					delete(left, st.Task)
					if end := now + time.Millisecond; end > jobs[st.Task-1].deadline {
						t.Fatalf("job %d of %+v ended at %v", st.Task, jobs, end)
					}
					s.Apply(now+time.Millisecond, Idle{st.Task, "gpu0"})
				}
			}
		}
	})
	if possible == 0 {
		t.Error("no set of jobs was possible")
	}
}

// TestLaxity: a task that renders 25 frames a second and one that needs 1.4 s
// every 3 s, together most of the device: under LAX no frame is late by more
// than the other's last stretch and no period is missed; a fixed priority for
// the frames is no worse for them, and one for the other is.
func TestLaxity(t *testing.T) {
	const frame, render = 40 * time.Millisecond, 16 * time.Millisecond
	const period, work = 3 * time.Second, 1500 * time.Millisecond
	run := func(p Policy, frames, batch Hints) (worst time.Duration, missed int) {
		s := NewScheduler(p)
		s.Apply(0, TaskAdded{1, "gpu0", frames}, TaskAdded{2, "gpu0", batch})
		var leftFrame, leftWork time.Duration
		var sinceFrame time.Duration
		var next time.Duration
		const step = 500 * time.Microsecond
		for now := time.Duration(0); now < 30*time.Second; now += step {
			for next != 0 && next < now {
				next = s.Apply(next).Next
			}
			var events []Event
			if now%frame == 0 && leftFrame == 0 {
				leftFrame, sinceFrame = render, now
				events = append(events, Ready{1, "gpu0"})
			}
			if now%period == 0 {
				if leftWork > 0 {
					missed++
				}
				leftWork = work
				events = append(events, Ready{2, "gpu0"})
			}
			next = s.Apply(now, events...).Next
			open := map[TaskID]bool{}
			for _, st := range s.State() {
				open[st.Task] = st.Ready && st.Open
			}
			share := step
			if open[1] && open[2] {
				share /= 2
			}
			if open[1] {
				if leftFrame -= share; leftFrame <= 0 {
					leftFrame = 0
					worst = max(worst, now+step-sinceFrame)
					next = s.Apply(now+step, Idle{1, "gpu0"}).Next
				}
			}
			if open[2] {
				if leftWork -= share; leftWork <= 0 {
					leftWork = 0
					next = s.Apply(now+step, Idle{2, "gpu0"}).Next
				}
			}
		}
		return worst, missed
	}
	// The frames go first until the other has 1.5 s of work and 1.6 s of time left.
	worst, missed := run(LAX(), Hints{Priority: 5}, Hints{Laxity: Laxity{After: 1400 * time.Millisecond, Low: 0, High: 5}})
	if missed != 0 || worst > 5*render/2 {
		t.Errorf("LAX: a frame took %v, %d periods missed", worst, missed)
	}
	if worst, missed = run(HPF(), Hints{Priority: 1}, Hints{Priority: 2}); worst < work {
		t.Errorf("HPF with the work first: a frame took %v, %d periods missed", worst, missed)
	}
}

// TestPrioritiesWithoutLaxity: who gives LAX two priorities and no time has the high
// one when it has work, and the hint is written as it is read.
func TestPrioritiesWithoutLaxity(t *testing.T) {
	lax, _ := HintByName("laxity")
	var h Hints
	if err := lax.Parse("0:2:7", &h); err != nil || lax.Format(h) != "0s:2:7" || h.Laxity != (Laxity{Low: 2, High: 7}) {
		t.Fatalf("%v: %+v, written %q", err, h, lax.Format(h))
	}
	h.Priority = 9 // is not what LAX goes by then
	s := NewScheduler(LAX())
	s.Apply(0, TaskAdded{1, "gpu0", h}, TaskAdded{2, "gpu0", Hints{Priority: 6}}, TaskAdded{3, "gpu0", Hints{Priority: 8}})
	for _, step := range []struct {
		event Event
		open  [3]bool
	}{
		{Ready{2, "gpu0"}, [3]bool{false, true, true}},
		{Ready{1, "gpu0"}, [3]bool{true, false, true}},
		{Ready{3, "gpu0"}, [3]bool{false, false, true}},
	} {
		s.Apply(s.now+time.Millisecond, step.event)
		for i, st := range s.State() {
			if st.Open != step.open[i] {
				t.Errorf("after %+v task %d is open: %v", step.event, st.Task, st.Open)
			}
		}
	}
}

// TestOneMaximumOverAllDevices: HHPF stops a task for one on another device, HPF
// does not.
func TestOneMaximumOverAllDevices(t *testing.T) {
	for _, policy := range named("HPF", "HHPF") {
		s := NewScheduler(policy)
		s.Apply(0, TaskAdded{1, "gpu0", Hints{}}, TaskAdded{2, "gpu1", Hints{Priority: 3}}, TaskAdded{3, "gpu0", Hints{Priority: 3}},
			Ready{1, "gpu0"}, Ready{2, "gpu1"})
		st := s.State()[0]
		if want := policy.Name() == "HPF"; st.Open != want || st.Mode != Bounded {
			t.Errorf("%s: the low one is %+v", policy.Name(), st)
		}
		s.Apply(0, TaskRemoved{3}, Idle{2, "gpu1"})
		if st = s.State()[0]; !st.Open || st.Mode != map[string]Mode{"HPF": Free, "HHPF": Bounded}[policy.Name()] {
			t.Errorf("%s: with nobody else on its device the low one is %+v", policy.Name(), st)
		}
	}
}

// TestCPUPriority: CHPF follows what it is told of the processor's priorities.
func TestCPUPriority(t *testing.T) {
	s := NewScheduler(CHPF())
	crowd(s, 2, func(TaskID) Hints { return Hints{} })
	open := func() (list []TaskID) {
		for _, st := range s.State() {
			if st.Open {
				list = append(list, st.Task)
			}
		}
		return list
	}
	for _, step := range []struct {
		task     TaskID
		priority int
		want     []TaskID
	}{{1, 0, []TaskID{1, 2}}, {1, 5, []TaskID{1}}, {2, 10, []TaskID{2}}, {2, -19, []TaskID{1}}, {9, 100, []TaskID{1}}} {
		s.Apply(s.now+1, CPUPriorityChanged{step.task, step.priority})
		if have := open(); !slices.Equal(have, step.want) {
			t.Errorf("after %+v: open are %v", step, have)
		}
	}
}

// TestDoNotRun: under every policy a task that is not to run does not, others do
// as if it were not there, and it comes back when it may.
func TestDoNotRun(t *testing.T) {
	for _, policy := range policies {
		s := NewScheduler(policy)
		s.Apply(0, TaskAdded{1, "gpu0", Hints{Priority: 9, Utilization: 50, NoExecute: true}},
			TaskAdded{2, "gpu0", Hints{}}, Ready{1, "gpu0"}, Ready{2, "gpu0"})
		runUntil(s, time.Second)
		if a, b := ranOf(s, 1, "gpu0"), ranOf(s, 2, "gpu0"); a != 0 || b != time.Second {
			t.Errorf("%s: the one ran %v, the other %v", policy.Name(), a, b)
		}
		s.Apply(s.now, HintsChanged{1, Hints{Priority: 9, Utilization: 50}})
		runUntil(s, 2*time.Second)
		a := ranOf(s, 1, "gpu0")
		if name := policy.Name(); a == 0 && name != "FCFS" {
			t.Errorf("%s: it did not come back", name)
		}
		s.Apply(s.now, HintsChanged{1, Hints{NoExecute: true}})
		runUntil(s, 3*time.Second)
		if have := ranOf(s, 1, "gpu0"); have != a {
			t.Errorf("%s: it ran for %v that it was not to", policy.Name(), have-a)
		}
	}
}

// TestFloors: under every strict policy a task that is outranked all the time
// has its floor, within a turn, and what is above has the rest.
func TestFloors(t *testing.T) {
	const minute = time.Minute
	for _, policy := range policies {
		if !policy.Traits().Strict {
			continue
		}
		for _, share := range []float64{0.01, 0.05, 0.5} {
			s := NewScheduler(policy)
			s.Apply(0,
				TaskAdded{1, "gpu0", Hints{Priority: 9, Deadline: time.Millisecond, Window: ":0"}},
				TaskAdded{2, "gpu0", Hints{MinShare: share}}, TaskAdded{3, "gpu0", Hints{}},
				CPUPriorityChanged{1, 5}, Ready{1, "gpu0"}, Ready{2, "gpu0"}, Ready{3, "gpu0"})
			runUntil(s, minute)
			want := time.Duration(share * float64(minute))
			have, above, none := ranOf(s, 2, "gpu0"), ranOf(s, 1, "gpu0"), ranOf(s, 3, "gpu0")
			if have < want-DefaultQuantum || have > want+DefaultQuantum || above != minute-have || none != 0 {
				t.Errorf("%s, floor %v: it ran %v, those above %v, those without %v", policy.Name(), share, have, above, none)
			}
		}
	}
}

// TestFloorsOnRandomHistories: who has a floor and work has at least that part
// of any time in which it was ready throughout, less one turn; and one without
// others above never notices.
func TestFloorsOnRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom(named("HPF", "CHPF", "LAX", "AWF", "KEDF", "FCFS")).Draw(t, "policy")
		share := rapid.SampledFrom([]float64{0.05, 0.2, 0.5, 0.9}).Draw(t, "share")
		s := NewScheduler(policy)
		s.Apply(0, TaskAdded{99, "gpu0", Hints{Priority: MinPriority, MinShare: share}}, CPUPriorityChanged{99, -20}, Ready{99, "gpu0"})
		history := drawn{devices: []Device{"gpu0"}, tasks: 5, steps: 80}.history(t)
		play(s, history, func(now time.Duration, _ []Event, _ Outcome) {
			least := time.Duration(share*float64(now)) - DefaultQuantum
			if have := ranOf(s, 99, "gpu0"); have < least {
				t.Fatalf("at %v under %s: it ran %v with a floor of %v", now, policy.Name(), have, share)
			}
		})
	})
}

// TestCase18GangIsStoppedAsAWhole: two tasks that may wait for each other, as a gang.
func TestCase18GangIsStoppedAsAWhole(t *testing.T) {
	for _, policy := range policies {
		s := NewScheduler(policy)
		s.Apply(0,
			TaskAdded{1, "gpu0", Hints{Gang: "g"}}, TaskAdded{2, "gpu0", Hints{Gang: "g"}}, TaskAdded{3, "gpu0", Hints{Priority: 1}},
			Ready{1, "gpu0"}, Ready{2, "gpu0"}, Ready{3, "gpu0"})
		for now := time.Duration(0); now < 200*time.Millisecond; now += time.Millisecond {
			runUntil(s, now)
			if st := s.State(); st[0].Open != st[1].Open {
				t.Fatalf("%s at %v: %+v", policy.Name(), now, st)
			}
		}
	}
}

// TestOverranOnlyWhatThereIs: a claim is no larger than the time since the gate
// closed, and one for a task or device that is not there is nothing.
func TestOverranOnlyWhatThereIs(t *testing.T) {
	s := NewScheduler(UP())
	crowd(s, 2, func(TaskID) Hints { return Hints{} })
	runUntil(s, 7*time.Millisecond) // the first had 5 ms, the second has had 2
	s.Apply(s.now, Overran{Task: 1, Device: "gpu0", By: math.MaxInt64}, Overran{Task: 7, Device: "gpu0", By: 1}, Overran{Task: 1, Device: "gpu9", By: 1}, Overran{Task: 2, Device: "gpu0", By: -5})
	have := fmt.Sprint(ranOf(s, 1, "gpu0"), ranOf(s, 2, "gpu0"))
	if want := fmt.Sprint(7*time.Millisecond, 0*time.Millisecond); have != want {
		t.Errorf("they ran %s, want %s", have, want)
	}
}

// TestOverranWhileTheOthersWait: who waited for what another had begun has all of its
// turn after that, and nobody is charged for what nobody used.
func TestOverranWhileTheOthersWait(t *testing.T) {
	s := NewScheduler(UP())
	crowd(s, 2, func(TaskID) Hints { return Hints{} })
	runUntil(s, 8*time.Millisecond) // the turn of the second would end at 10 ms
	out := s.Apply(s.now, Overran{Task: 1, Device: "gpu0", By: 3 * time.Millisecond, Unused: time.Millisecond, Late: true})
	if want := 13 * time.Millisecond; out.Next != want {
		t.Errorf("the turn ends at %v, want %v", out.Next, want)
	}
	have := fmt.Sprint(ranOf(s, 1, "gpu0"), ranOf(s, 2, "gpu0"))
	if want := fmt.Sprint(7*time.Millisecond, 0*time.Millisecond); have != want {
		t.Errorf("ran %s, want %s", have, want)
	}
	out = s.Apply(s.now+time.Millisecond, Overran{Task: 1, Device: "gpu0", By: time.Millisecond})
	if want := 13 * time.Millisecond; out.Next != want {
		t.Errorf("with nobody waiting the turn ends at %v, want %v", out.Next, want)
	}
}

// TestProlongedTurns: the present turn ends later, or earlier, by what is told of its
// task, and the next one of that task is as long as ever; what is told of others, of who
// is not there, or under a policy without turns, does nothing.
func TestProlongedTurns(t *testing.T) {
	const ms = time.Millisecond
	for _, policy := range named("RR", "WRR", "UP", "CFS") {
		s := NewScheduler(policy)
		crowd(s, 2, func(TaskID) Hints { return Hints{Quantum: 5 * ms, Weight: 2} })
		out := s.Apply(0)
		end := out.Next
		at := func(now time.Duration, want time.Duration, by ...Event) {
			t.Helper()
			if out = s.Apply(now, by...); out.Next != want {
				t.Errorf("%s: the turn ends at %v, want %v", policy.Name(), out.Next, want)
			}
		}
		at(ms, end+70*ms, Prolonged{Task: 1, Device: "gpu0", By: 70 * ms})
		at(2*ms, end+30*ms, Prolonged{Task: 1, Device: "gpu0", By: -40 * ms})
		at(2*ms, end+30*ms, Prolonged{Task: 2, Device: "gpu0", By: 9 * ms}, Prolonged{Task: 3, Device: "gpu0", By: 9 * ms}, Prolonged{Task: 1, Device: "gpu9", By: 9 * ms})
		for _, slot := range slices.Collect(s.Timeline("gpu0"))[1:] {
			if slot.Start != end+30*ms {
				t.Errorf("%s: planned are %+v", policy.Name(), slot)
			}
		}
		now := out.Next
		out = s.Apply(now)
		if len(out.Grants) != 2 || out.Grants[0] != (Grant{1, "gpu0", false, Bounded}) || out.Grants[1] != (Grant{2, "gpu0", true, Bounded}) {
			t.Errorf("%s: at its end: %+v", policy.Name(), out.Grants)
		}
		if have := out.Next - now; policy.Name() != "CFS" && have != end {
			t.Errorf("%s: the next turn lasts %v, want %v", policy.Name(), have, end)
		}
		inTurn := policy.Name() == "RR" || policy.Name() == "WRR" // by the others' rules it is owed more
		if out = s.Apply(now+ms, Prolonged{Task: 2, Device: "gpu0", By: -time.Second}); inTurn && (len(out.Grants) != 2 || out.Grants[1].Task != 1) {
			t.Errorf("%s: cut short: %+v", policy.Name(), out.Grants)
		}
	}
	s := NewScheduler(HPF())
	crowd(s, 2, func(id TaskID) Hints { return Hints{Priority: int(id)} })
	if out := s.Apply(ms, Prolonged{Task: 2, Device: "gpu0", By: time.Second}); len(out.Grants) != 0 || out.Next != 0 {
		t.Errorf("HPF: %+v", out)
	}
}
