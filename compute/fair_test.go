package compute

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fair are the policies that starve nobody.
func fair() []Policy { return named("RR", "WRR", "UP", "PUP", "SPUP", "CFS", "MLFQ") }

// crowd puts tasks on gpu0 that have work from now on.
func crowd(s *Scheduler, n int, hints func(TaskID) Hints) {
	for id := TaskID(1); id <= TaskID(n); id++ {
		s.Apply(s.now, TaskAdded{id, "gpu0", hints(id)}, Ready{id, "gpu0"})
	}
}

// runUntil keeps every timer until a time and counts them.
func runUntil(s *Scheduler, until time.Duration) (timers int) {
	for next := s.Apply(s.now).Next; next != 0 && next < until; next = s.Apply(next).Next {
		timers++
	}
	s.Apply(until)
	return timers
}

func ranOf(s *Scheduler, id TaskID, d Device) time.Duration {
	for _, st := range s.State() {
		if st.Task == id && st.Device == d {
			return st.RunTime
		}
	}
	return 0
}

// TestBoundedWait: whatever the others do, a task with work runs within the time
// in which all could have had the longest turn twice, and what its share makes
// of that.
func TestBoundedWait(t *testing.T) {
	const tasks = 6
	bound := map[string]time.Duration{
		"RR":   tasks * DefaultQuantum,
		"WRR":  tasks * 5 * DefaultQuantum,
		"UP":   2 * 100 * tasks * DefaultQuantum, // a share of 1 % of all who come and go
		"PUP":  2 * 100 * tasks * DefaultQuantum,
		"SPUP": 2 * 100 * tasks * DefaultQuantum,
		"CFS":  2 * tasks * cfsLatency,
		"MLFQ": mlfqLevels*mlfqBoost + 2*tasks*allotment(mlfqLevels-1),
	}
	for _, policy := range fair() {
		t.Run(policy.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := NewScheduler(policy)
				history := drawn{devices: []Device{"gpu0"}, tasks: tasks, steps: 120, calm: true}.history(t)
				waits := map[TaskID]time.Duration{} // since when
				play(s, history, func(now time.Duration, _ []Event, _ Outcome) {
					for _, st := range s.State() {
						if !st.Ready || st.Open {
							delete(waits, st.Task)
							continue
						}
						since, ok := waits[st.Task]
						if !ok {
							waits[st.Task] = now
						}
						if ok && now-since > bound[policy.Name()] {
							t.Fatalf("at %v: task %d waits since %v", now, st.Task, since)
						}
					}
				})
			})
		})
	}
}

// TestNoStarvation: among 300 tasks that always have work and ask for different
// things, everybody has run after a while, and twice as much after twice that.
func TestNoStarvation(t *testing.T) {
	for _, policy := range fair() {
		s := NewScheduler(policy)
		crowd(s, 120, func(id TaskID) Hints {
			return Hints{Priority: int(id%11) - 5, Weight: int(id % 4), Utilization: []int{0, 0, 0, 1}[id%4]}
		})
		const round = 30 * time.Second
		runUntil(s, round)
		first := map[TaskID]time.Duration{}
		for _, st := range s.State() {
			if first[st.Task] = st.RunTime; st.RunTime == 0 {
				t.Errorf("%s: task %d has not run in %v", policy.Name(), st.Task, round)
			}
		}
		runUntil(s, 3*round)
		for _, st := range s.State() {
			if st.RunTime < 2*first[st.Task] {
				t.Errorf("%s: task %d ran %v in %v, and %v in %v", policy.Name(), st.Task, first[st.Task], round, st.RunTime, 3*round)
			}
		}
	}
}

// TestTimersDoNotGrow: with 10,000 tasks on a device a second needs no more
// timers than turns of a millisecond, and there is one timer at a time.
func TestTimersDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 tasks under every policy")
	}
	for _, policy := range policies {
		s := NewScheduler(policy)
		crowd(s, 10_000, func(id TaskID) Hints {
			return Hints{Laxity: Laxity{After: 300 * time.Millisecond}, Deadline: time.Second}
		})
		if timers := runUntil(s, time.Second); timers > 2000 {
			t.Errorf("%s: %d timers in a second", policy.Name(), timers)
		}
		for id := TaskID(1); id <= 10_000; id++ {
			s.Apply(s.now, TaskRemoved{id})
		}
		if out := s.Apply(s.now + time.Hour); out.Next != 0 || len(s.devices)+len(s.domains)+len(s.tasks) != 0 {
			t.Errorf("%s: something is left of 10,000 tasks: timer at %v, %d devices, %d domains, %d tasks",
				policy.Name(), out.Next, len(s.devices), len(s.domains), len(s.tasks))
		}
	}
}

// TestCase36SleeperIsClamped: under every fair policy one that slept for ten
// seconds keeps the other out for no longer than a turn or two at a time, and
// has no more than its half in the second after.
func TestCase36SleeperIsClamped(t *testing.T) {
	for _, policy := range fair() {
		s := NewScheduler(policy)
		s.Apply(0, TaskAdded{Task: 1, Device: "gpu0"}, TaskAdded{Task: 2, Device: "gpu0"}, Ready{1, "gpu0"}, Ready{2, "gpu0"})
		runUntil(s, 100*time.Millisecond)
		s.Apply(s.now, Idle{2, "gpu0"})
		const woke = 10 * time.Second
		runUntil(s, woke)
		before := ranOf(s, 2, "gpu0")
		s.Apply(woke, Ready{2, "gpu0"})
		longest, since := time.Duration(0), woke
		for next := s.Apply(s.now).Next; next != 0 && next < woke+time.Second; next = s.Apply(next).Next {
			for _, st := range s.State() {
				if st.Task == 1 && st.Open {
					since = s.now
				}
			}
			longest = max(longest, s.now-since)
		}
		s.Apply(woke + time.Second)
		got := ranOf(s, 2, "gpu0") - before
		limit := 500*time.Millisecond + cfsLatency
		if policy.Name() == "MLFQ" {
			limit += 2 * allotment(mlfqLevels-1) // it is let in for what it seems to be at first
		}
		if longest > 2*cfsLatency && policy.Name() != "MLFQ" || got > limit {
			t.Errorf("%s: the sleeper kept the other out for %v and had %v of a second", policy.Name(), longest, got)
		}
	}
}

// TestLearns: under MLFQ a task that wants 2 ms now and then is served at once
// beside one that always wants all.
func TestLearns(t *testing.T) {
	s := NewScheduler(MLFQ())
	s.Apply(0, TaskAdded{Task: 1, Device: "gpu0"}, TaskAdded{Task: 2, Device: "gpu0"}, Ready{1, "gpu0"})
	for now := 100 * time.Millisecond; now < 10*time.Second; now += 50 * time.Millisecond {
		runUntil(s, now)
		s.Apply(now, Ready{2, "gpu0"})
		for _, st := range s.State() {
			if st.Task == 2 && !st.Open {
				t.Fatalf("at %v: the short one waits", now)
			}
		}
		runUntil(s, now+2*time.Millisecond)
		s.Apply(s.now, Idle{2, "gpu0"})
	}
}

// TestStrictShares: under SPUP a task has its part of the device and no more,
// alone or not, and the rest is divided among those that ask for nothing.
func TestStrictShares(t *testing.T) {
	s := NewScheduler(SPUP())
	s.Apply(0, TaskAdded{1, "gpu0", Hints{Utilization: 30}}, TaskAdded{2, "gpu0", Hints{Utilization: 50}},
		TaskAdded{3, "gpu0", Hints{}}, Ready{1, "gpu0"})
	check := func(until time.Duration, want map[TaskID]int) {
		t.Helper()
		before, start := map[TaskID]time.Duration{}, s.now
		for id := range want {
			before[id] = ranOf(s, id, "gpu0")
		}
		runUntil(s, until)
		for id, percent := range want {
			have := 100 * float64(ranOf(s, id, "gpu0")-before[id]) / float64(until-start)
			if have < float64(percent)-0.5 || have > float64(percent)+0.5 {
				t.Errorf("until %v: task %d has %.2f %%, want %d", until, id, have, percent)
			}
		}
	}
	check(10*time.Second, map[TaskID]int{1: 30, 2: 0, 3: 0})
	s.Apply(s.now, Ready{2, "gpu0"})
	check(20*time.Second, map[TaskID]int{1: 30, 2: 50, 3: 0})
	s.Apply(s.now, Ready{3, "gpu0"})
	check(30*time.Second, map[TaskID]int{1: 30, 2: 50, 3: 20})
	s.Apply(s.now, Idle{1, "gpu0"}, Idle{2, "gpu0"})
	check(40*time.Second, map[TaskID]int{1: 0, 2: 0, 3: 20})
}

// TestProcessesShare: PUP counts the queues of a process as one and has them run
// together; UP counts each.
func TestProcessesShare(t *testing.T) {
	for policy, want := range map[string]time.Duration{"PUP": 500 * time.Millisecond, "UP": 250 * time.Millisecond} {
		s := NewScheduler(named(policy)[0])
		crowd(s, 4, func(id TaskID) Hints {
			if id < 4 {
				return Hints{Process: 7}
			}
			return Hints{Process: 8}
		})
		runUntil(s, time.Second)
		for id := TaskID(1); id <= 4; id++ {
			if have := ranOf(s, id, "gpu0"); have < want-DefaultQuantum || have > want+DefaultQuantum {
				t.Errorf("%s: task %d ran %v of a second, want %v", policy, id, have, want)
			}
		}
	}
}

// TestWeights: WRR and CFS divide by weight, CFS by priority as well.
func TestWeights(t *testing.T) {
	for _, policy := range named("WRR", "CFS") {
		s := NewScheduler(policy)
		crowd(s, 3, func(id TaskID) Hints { return Hints{Weight: int(id)} })
		runUntil(s, 6*time.Second)
		for id := TaskID(1); id <= 3; id++ {
			want := time.Duration(id) * time.Second
			if have := ranOf(s, id, "gpu0"); have < want-2*cfsLatency || have > want+2*cfsLatency {
				t.Errorf("%s: task %d ran %v, want %v", policy.Name(), id, have, want)
			}
		}
	}
	s := NewScheduler(CFS())
	crowd(s, 2, func(id TaskID) Hints { return Hints{Priority: int(id-1) * 10} })
	runUntil(s, 10*time.Second)
	ratio := float64(ranOf(s, 2, "gpu0")) / float64(ranOf(s, 1, "gpu0"))
	if ratio < 6.1 || ratio > 6.3 { // 1.2^10 = 6.19
		t.Errorf("ten steps of priority are a factor of %.2f", ratio)
	}
}
