package compute

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var threeDevices = []Device{"gpu0", "gpu1", "gpu2"}

// gangPriority is that of every member.
var gangPriority = map[string]int{"a": 1, "b": 0, "c": 1}

// ganged is a history in which tasks join and leave gangs.
func ganged(t *rapid.T, list []Policy) []step {
	history := drawn{policies: list, devices: threeDevices, tasks: 7, steps: 60}.history(t)
	for i := range history {
		for j, e := range history[i].events {
			gang := func(h Hints) Hints {
				h.Gang = rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "gang")
				h.NoExecute = false
				if p, ok := gangPriority[h.Gang]; ok {
					h.Priority = p
				}
				return h
			}
			switch e := e.(type) {
			case TaskAdded:
				history[i].events[j] = TaskAdded{e.Task, e.Device, gang(e.Hints)}
			case HintsChanged:
				history[i].events[j] = HintsChanged{e.Task, gang(e.Hints)}
			}
		}
	}
	return history
}

// TestGangsRunAndStopTogether under every policy: the gates of a gang are all
// open or all closed, the deciders settle, and a device with work for somebody
// outside gangs does not stand idle.
func TestGangsRunAndStopTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(rapid.SampledFrom(policies).Draw(t, "first"))
		play(s, ganged(t, policies), func(now time.Duration, events []Event, _ Outcome) {
			stale := func(m *domain) bool { return len(m.changed) > 0 }
			if len(s.awake) > 0 || slices.ContainsFunc(s.domains, stale) {
				t.Fatalf("at %v under %s after %+v: the gangs do not settle", now, s.Policy().Name(), events)
			}
			open := map[string]bool{}
			work, served := map[Device]bool{}, map[Device]bool{}
			for _, st := range s.State() {
				gang := st.Hints.Gang
				if was, seen := open[gang]; gang != "" && seen && was != st.Open {
					t.Fatalf("at %v under %s: gang %s has open and closed gates: %+v", now, s.Policy().Name(), gang, s.State())
				}
				open[gang] = st.Open
				work[st.Device] = work[st.Device] || st.Ready && gang == ""
				served[st.Device] = served[st.Device] || st.Open && (st.Ready || gang != "" && s.gangs[gang].ready > 0)
			}
			idles := s.Policy().Name() == "SPUP" || s.Policy().Traits().Machine // by intent
			for d := range work {
				if work[d] && !served[d] && !idles {
					t.Fatalf("at %v under %s: %s has work and runs nobody: %+v", now, s.Policy().Name(), d, s.State())
				}
			}
			checkNoTrace(t, s)
		})
	})
}

// TestGangsUnderHPF compares with the rule itself: from the highest priority
// down, a gang runs if on none of its devices somebody above it does.
func TestGangsUnderHPF(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(HPF())
		play(s, ganged(t, []Policy{HPF()}), func(now time.Duration, events []Event, _ Outcome) {
			busy, runs := greedy(s)
			for _, st := range s.State() {
				if who := whole(st); busy[who] && st.Open != runs[who] {
					t.Fatalf("at %v after %+v: %s, open is %v in\n%+v", now, events, who, st.Open, s.State())
				}
			}
		})
	})
}

// whole names what runs and stops as one.
func whole(st TaskState) string {
	if st.Hints.Gang != "" {
		return "gang " + st.Hints.Gang
	}
	return fmt.Sprint("task ", st.Task, " on ", st.Device)
}

// greedy says who has work, and who of these runs.
func greedy(s *Scheduler) (busy, runs map[string]bool) {
	busy, runs = map[string]bool{}, map[string]bool{}
	priority, devices := map[string]int{}, map[string][]Device{}
	var order []string
	for _, st := range s.State() {
		who := whole(st)
		if devices[who] == nil {
			order = append(order, who)
		}
		busy[who] = busy[who] || st.Ready
		priority[who] = st.Hints.Priority
		devices[who] = append(devices[who], st.Device)
	}
	slices.SortStableFunc(order, func(a, b string) int { return priority[b] - priority[a] })
	top := map[Device]int{} // who runs there
	for _, who := range order {
		free := busy[who]
		for _, d := range devices[who] {
			if above, taken := top[d]; taken && above > priority[who] {
				free = false
			}
		}
		if runs[who] = free; free {
			for _, d := range devices[who] {
				top[d] = priority[who]
			}
		}
	}
	return busy, runs
}

// TestNoGangStarves: with everybody ready all the time, gangs that stand in each
// other's way on three devices and tasks beside them all have their turns.
func TestNoGangStarves(t *testing.T) {
	for _, policy := range named("RR", "WRR", "UP", "PUP", "CFS", "MLFQ") {
		s := NewScheduler(policy)
		id := TaskID(0)
		add := func(gang string, devices ...Device) {
			id++
			for _, d := range devices {
				s.Apply(0, TaskAdded{id, d, Hints{Gang: gang}}, Ready{id, d})
			}
		}
		for _, gang := range []string{"a", "b"} {
			add(gang, "gpu0", "gpu1")
			add(gang, "gpu2")
		}
		add("c", "gpu0", "gpu1")
		add("d", "gpu1", "gpu2")
		add("e", "gpu2", "gpu0")
		for _, d := range threeDevices {
			add("", d)
			add("", d)
		}
		const total = 3 * time.Second
		for next := s.Apply(0).Next; next != 0 && next < total; next = s.Apply(next).Next {
		}
		s.Apply(total)
		used := map[Device]time.Duration{}
		for _, st := range s.State() {
			used[st.Device] += st.RunTime
			if st.RunTime < total/30 {
				t.Errorf("%s: task %d of gang %q ran %v on %s", policy.Name(), st.Task, st.Hints.Gang, st.RunTime, st.Device)
			}
		}
		for d, u := range used {
			if u != total {
				t.Errorf("%s: %s was used for %v of %v", policy.Name(), d, u, total)
			}
		}
	}
}
