package compute

import (
	"cmp"
	"slices"
	"time"
)

// reference is the scheduler as one would write it who cared for nothing but
// being right: it keeps plain lists, looks at all of them at every step, and
// computes every gate from the rule. Only the order of the turns, which is
// what round robin is about, is state.
type reference struct {
	policy string
	now    time.Duration
	tasks  map[TaskID]Hints
	seats  []*refSeat
	turns  map[Device]*refTurns
}

type refSeat struct {
	task       TaskID
	device     Device
	ready      bool
	readySince time.Duration
	open       bool
	ran        time.Duration
}

type refTurns struct {
	fresh   bool // nobody has been placed yet
	turn    TaskID
	since   time.Duration
	waiting []TaskID
}

// seatKey names a gate.
type seatKey struct {
	task   TaskID
	device Device
}

func newReference(policy string) *reference {
	return &reference{policy: policy, tasks: map[TaskID]Hints{}, turns: map[Device]*refTurns{}}
}

// apply takes one step and returns every gate as it stands then.
func (r *reference) apply(now time.Duration, events ...Event) map[seatKey]Grant {
	for _, s := range r.seats {
		if s.ready && s.open {
			s.ran += now - r.now
		}
	}
	r.now = now
	var named []seatKey
	for _, e := range events {
		named = append(named, r.take(e)...)
	}
	if r.policy == "RR" {
		r.place(named)
	}
	gates := map[seatKey]Grant{}
	for _, s := range r.seats {
		g := Grant{Task: s.task, Device: s.device, Open: r.open(s), Mode: r.mode(s)}
		s.open = g.Open
		gates[seatKey{s.task, s.device}] = g
	}
	return gates
}

// take takes an event and names the gates about which it changed something.
func (r *reference) take(e Event) (named []seatKey) {
	leave := func(gone func(*refSeat) bool) {
		r.seats = slices.DeleteFunc(r.seats, gone)
		for id := range r.tasks {
			if !slices.ContainsFunc(r.seats, func(s *refSeat) bool { return s.task == id }) {
				delete(r.tasks, id)
			}
		}
	}
	switch e := e.(type) {
	case TaskAdded:
		named = r.hint(e.Task, e.Hints)
		r.tasks[e.Task] = e.Hints
		if r.seat(e.Task, e.Device) == nil {
			r.seats = append(r.seats, &refSeat{task: e.Task, device: e.Device})
			named = append(named, seatKey{e.Task, e.Device})
		}
		return named
	case HintsChanged:
		return r.hint(e.Task, e.Hints)
	case TaskRemoved:
		named = r.allOf(e.Task)
		leave(func(s *refSeat) bool { return s.task == e.Task })
		r.forget(named)
		return nil
	case DeviceLeft:
		leave(func(s *refSeat) bool { return s.task == e.Task && s.device == e.Device })
		r.forget([]seatKey{{e.Task, e.Device}})
		return nil
	case Ready:
		if s := r.seat(e.Task, e.Device); s != nil && !s.ready {
			s.ready, s.readySince = true, r.now
			return []seatKey{{e.Task, e.Device}}
		}
	case Idle:
		if s := r.seat(e.Task, e.Device); s != nil && s.ready {
			s.ready = false
			return []seatKey{{e.Task, e.Device}}
		}
	case PolicyChanged:
		r.policy, r.turns = e.Policy.Name(), map[Device]*refTurns{}
	}
	return nil
}

func (r *reference) hint(id TaskID, h Hints) []seatKey {
	if old, ok := r.tasks[id]; !ok || old == h {
		return nil
	}
	r.tasks[id] = h
	return r.allOf(id)
}

func (r *reference) seat(id TaskID, d Device) *refSeat {
	for _, s := range r.seats {
		if s.task == id && s.device == d {
			return s
		}
	}
	return nil
}

func (r *reference) on(d Device) (seats []*refSeat) {
	for _, s := range r.seats {
		if s.device == d {
			seats = append(seats, s)
		}
	}
	return seats
}

func (r *reference) allOf(id TaskID) (keys []seatKey) {
	for _, s := range r.seats {
		if s.task == id {
			keys = append(keys, seatKey{s.task, s.device})
		}
	}
	return keys
}

// forget takes the dead out of the turns.
func (r *reference) forget(dead []seatKey) {
	for _, k := range dead {
		if t := r.turns[k.device]; t != nil {
			t.drop(k.task)
		}
	}
}

func (t *refTurns) drop(id TaskID) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w TaskID) bool { return w == id })
	if t.turn == id {
		t.turn = 0
	}
}

// place brings every device's turns up to date.
func (r *reference) place(named []seatKey) {
	for _, s := range r.seats {
		if r.turns[s.device] == nil {
			r.turns[s.device] = &refTurns{fresh: true}
		}
	}
	for d, t := range r.turns {
		order := named
		if t.fresh {
			t.fresh = false
			seats := r.on(d)
			slices.SortFunc(seats, func(a, b *refSeat) int {
				return cmp.Or(cmp.Compare(a.readySince, b.readySince), cmp.Compare(a.task, b.task))
			})
			order = nil
			for _, s := range seats {
				order = append(order, seatKey{s.task, d})
			}
		}
		for _, k := range order {
			s := r.seat(k.task, d)
			switch placed := k.task == t.turn || slices.Contains(t.waiting, k.task); {
			case k.device != d || s == nil:
			case s.ready && !placed:
				t.waiting = append(t.waiting, k.task)
			case !s.ready:
				t.drop(k.task)
			}
		}
		if t.turn != 0 && len(t.waiting) > 0 && r.now >= t.since+r.quantum(t.turn) {
			t.waiting = append(t.waiting, t.turn)
			t.turn = 0
		}
		if t.turn == 0 && len(t.waiting) > 0 {
			t.turn, t.since, t.waiting = t.waiting[0], r.now, t.waiting[1:]
		}
	}
}

func (r *reference) quantum(id TaskID) time.Duration {
	return cmp.Or(r.tasks[id].Quantum, DefaultQuantum)
}

func (r *reference) open(s *refSeat) bool {
	if r.policy == "RR" {
		turn := r.turns[s.device].turn
		return turn == 0 || turn == s.task
	}
	for _, other := range r.on(s.device) {
		if other.ready && r.tasks[other.task].Priority > r.tasks[s.task].Priority {
			return false
		}
	}
	return true
}

func (r *reference) mode(s *refSeat) Mode {
	others := r.on(s.device)
	if len(others) == 1 {
		return Free
	}
	if r.policy == "RR" {
		return Bounded
	}
	for _, other := range others {
		if r.tasks[other.task].Priority > r.tasks[s.task].Priority {
			return Bounded
		}
	}
	return Top
}

// next is when some turn is used up with somebody waiting.
func (r *reference) next() (next time.Duration) {
	if r.policy != "RR" {
		return 0
	}
	for _, t := range r.turns {
		if t.turn != 0 && len(t.waiting) > 0 {
			if end := t.since + r.quantum(t.turn); next == 0 || end < next {
				next = end
			}
		}
	}
	return next
}
