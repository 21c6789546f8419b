package compute

import (
	"slices"
	"time"

	"pgregory.net/rapid"
)

// step is one Apply of a history.
type step struct {
	now    time.Duration
	events []Event
}

// drawn says what a drawn history may contain.
type drawn struct {
	policies []Policy // to change to; none for no changes
	devices  []Device
	tasks    int
	steps    int
	overruns bool // tasks hold the device past their turns
	calm     bool // nobody leaves, and hints are calmHints
}

// calmHints gives each task hints of its own that never change.
func calmHints(id TaskID) Hints {
	return Hints{Priority: int(id) % 3, Quantum: []time.Duration{0, MinQuantum, 700 * time.Microsecond, 3 * time.Millisecond}[id%4]}
}

var twoDevices = []Device{"gpu0", "gpu1"}

func (d drawn) history(t *rapid.T) []step {
	var now time.Duration
	steps := make([]step, rapid.IntRange(1, d.steps).Draw(t, "steps"))
	for i := range steps {
		now += time.Duration(rapid.IntRange(0, 80).Draw(t, "pause")) * 100 * time.Microsecond
		steps[i].now = now
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			steps[i].events = append(steps[i].events, d.event(t))
		}
	}
	return steps
}

func (d drawn) event(t *rapid.T) Event {
	task := TaskID(rapid.IntRange(1, d.tasks).Draw(t, "task"))
	device := rapid.SampledFrom(d.devices).Draw(t, "device")
	kind := rapid.IntRange(0, 21).Draw(t, "kind")
	switch {
	case d.calm && kind < 4:
		return TaskAdded{task, device, calmHints(task)}
	case d.calm && kind > 14:
		return Tick{}
	case kind == 21:
		return CommandLength{task, device, time.Duration(rapid.IntRange(0, 80).Draw(t, "command")) * 100 * time.Microsecond}
	case kind == 20 && d.overruns:
		return Overran{
			Task: task, Device: device, By: time.Duration(rapid.IntRange(0, 60).Draw(t, "over")) * 100 * time.Microsecond,
			Unused: time.Duration(rapid.IntRange(0, 60).Draw(t, "unused")) * 100 * time.Microsecond,
		}
	case kind == 20:
		return CPUPriorityChanged{task, rapid.IntRange(-2, 2).Draw(t, "cpu")}
	case kind < 4:
		return TaskAdded{task, device, drawHints(t)}
	case kind < 11:
		return Ready{task, device}
	case kind < 15:
		return Idle{task, device}
	case kind == 15:
		return HintsChanged{task, drawHints(t)}
	case kind == 16:
		return TaskRemoved{task}
	case kind == 17:
		return DeviceLeft{task, device}
	case kind == 18 && len(d.policies) > 0:
		return PolicyChanged{rapid.SampledFrom(d.policies).Draw(t, "policy")}
	}
	return Tick{}
}

func drawHints(t *rapid.T) Hints {
	h := Hints{
		Priority:  rapid.SampledFrom([]int{MinPriority, -1, 0, 0, 1, 62, 63, 64, 65, MaxPriority}).Draw(t, "priority"),
		Quantum:   rapid.SampledFrom([]time.Duration{0, MinQuantum, 700 * time.Microsecond, 3 * time.Millisecond}).Draw(t, "quantum"),
		NoExecute: rapid.IntRange(0, 15).Draw(t, "off") == 0,
	}
	switch rapid.IntRange(0, 4).Draw(t, "more") {
	case 0:
		h.Utilization = rapid.SampledFrom([]int{1, 10, 30, 60, 100}).Draw(t, "utilization")
	case 1:
		h.Weight = rapid.IntRange(1, 5).Draw(t, "weight")
	case 2:
		h.Deadline = rapid.SampledFrom([]time.Duration{MinDeadline, time.Millisecond, 4 * time.Millisecond}).Draw(t, "deadline")
		h.K = rapid.IntRange(0, 3).Draw(t, "k")
	case 3:
		h.Laxity = Laxity{After: time.Duration(rapid.IntRange(1, 60).Draw(t, "laxity")) * 100 * time.Microsecond}
		h.Laxity.Low = rapid.SampledFrom([]int{0, -1, 62}).Draw(t, "low")
		h.Laxity.High = h.Laxity.Low + rapid.IntRange(0, 64).Draw(t, "rise")
	case 4:
		h.Window = rapid.SampledFrom([]string{"", ":0"}).Draw(t, "window")
	}
	return h
}

// without is a list less some policies.
func without(list []Policy, names ...string) []Policy {
	return slices.DeleteFunc(slices.Clone(list), func(p Policy) bool { return slices.Contains(names, p.Name()) })
}

// named are policies by name.
func named(names ...string) (list []Policy) {
	for _, name := range names {
		p, err := PolicyByName(name)
		if err != nil {
			panic(err)
		}
		list = append(list, p)
	}
	return list
}

// play runs a history, keeping every timer to the point, and shows each Apply
// to look.
func play(s *Scheduler, history []step, look func(now time.Duration, events []Event, out Outcome)) {
	var next time.Duration
	apply := func(now time.Duration, events []Event) {
		out := s.Apply(now, events...)
		next = out.Next
		look(now, events, out)
	}
	for _, st := range history {
		for next != 0 && next < st.now {
			apply(next, nil)
		}
		apply(st.now, st.events)
	}
}

// gates keeps what a caller knows by following the grants.
type gates map[seatKey]Grant

func (g gates) follow(s *Scheduler, out Outcome) {
	for _, gr := range out.Grants {
		g[seatKey{gr.Task, gr.Device}] = gr
	}
	there := map[seatKey]bool{}
	for _, t := range s.State() {
		there[seatKey{t.Task, t.Device}] = true
	}
	for k := range g {
		if !there[k] {
			delete(g, k)
		}
	}
}
