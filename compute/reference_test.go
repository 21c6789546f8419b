package compute

import (
	"cmp"
	"math"
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
	cpu    map[TaskID]int
	seats  []*refSeat
	turns  map[Device]*refTurns
	dead   []seatKey // gates that an event did away with
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
	return &reference{policy: policy, tasks: map[TaskID]Hints{}, cpu: map[TaskID]int{}, turns: map[Device]*refTurns{}}
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
		r.dead = nil
		fresh := r.take(e)
		named = slices.DeleteFunc(named, func(k seatKey) bool { return slices.Contains(r.dead, k) })
		named = append(named, fresh...)
	}
	if r.takesTurns() {
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
				delete(r.cpu, id)
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
	case CommandLength:
		if r.seat(e.Task, e.Device) != nil && !r.tasks[e.Task].NoExecute {
			return []seatKey{{e.Task, e.Device}}
		}
	case CPUPriorityChanged:
		if _, ok := r.tasks[e.Task]; ok && r.cpu[e.Task] != e.Priority {
			r.cpu[e.Task] = e.Priority
			return r.allOf(e.Task)
		}
	case PolicyChanged:
		r.policy, r.turns = e.Policy.Name(), map[Device]*refTurns{}
	}
	return nil
}

func (r *reference) hint(id TaskID, h Hints) []seatKey {
	old, ok := r.tasks[id]
	if !ok || old == h {
		return nil
	}
	r.tasks[id] = h
	if old.NoExecute != h.NoExecute {
		r.forget(r.allOf(id)) // it comes anew, or not at all
	}
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
	r.dead = append(r.dead, dead...)
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
			case k.device != d || s == nil || r.tasks[k.task].NoExecute:
			case s.ready && !placed:
				t.waiting = append(t.waiting, k.task)
			case !s.ready:
				t.drop(k.task)
			}
		}
		if q := r.quantum(t.turn); t.turn != 0 && len(t.waiting) > 0 && q > 0 && r.now >= t.since+q {
			t.waiting = append(t.waiting, t.turn)
			t.turn = 0
		}
		if t.turn == 0 && len(t.waiting) > 0 {
			t.turn, t.waiting = t.waiting[0], t.waiting[1:]
			t.since = r.now
		}
	}
}

// quantum of a task's turns; 0 is without end.
func (r *reference) quantum(id TaskID) time.Duration {
	q := cmp.Or(r.tasks[id].Quantum, DefaultQuantum)
	switch r.policy {
	case "WRR":
		return min(MaxQuantum, q*time.Duration(max(1, r.tasks[id].Weight)))
	case "FCFS":
		return 0
	}
	return q
}

func (r *reference) takesTurns() bool {
	return slices.Contains([]string{"RR", "WRR", "FCFS"}, r.policy)
}

// rivals are the seats that count for s: those that may run, on its device or
// where the policy looks at all of them.
func (r *reference) rivals(s *refSeat) (seats []*refSeat) {
	for _, other := range r.seats {
		if (other.device == s.device || r.policy == "HHPF") && !r.tasks[other.task].NoExecute {
			seats = append(seats, other)
		}
	}
	return seats
}

// rank of a seat under the strict policies: at its lowest, now, at its highest.
func (r *reference) rank(s *refSeat) (low, now, peak int) {
	h := r.tasks[s.task]
	switch r.policy {
	case "CHPF":
		return r.cpu[s.task], r.cpu[s.task], r.cpu[s.task]
	case "AWF":
		if h.Window != "" {
			return 1, 1, 1
		}
		return 0, 0, 0
	case "LAX":
		if h.Laxity.After == 0 {
			break
		}
		low, high := h.Laxity.Low, h.Laxity.High
		if low == 0 && high == 0 {
			high = max(1, h.Priority)
		}
		if s.ready && r.now >= s.readySince+h.Laxity.After {
			return low, high, high
		}
		return low, low, high
	}
	return h.Priority, h.Priority, h.Priority
}

func (r *reference) open(s *refSeat) bool {
	switch {
	case r.tasks[s.task].NoExecute:
		return false
	case r.takesTurns():
		turn := r.turns[s.device].turn
		return turn == 0 || turn == s.task
	case r.policy == "KEDF":
		return r.early(s)
	}
	_, mine, _ := r.rank(s)
	for _, other := range r.rivals(s) {
		if _, theirs, _ := r.rank(other); other.ready && theirs > mine {
			return false
		}
	}
	return true
}

// early says whether s is among the first K, or idle with a place free.
func (r *reference) early(s *refSeat) bool {
	k, before, ready := 1, 0, 0
	for _, other := range r.rivals(s) {
		k = max(k, r.tasks[other.task].K)
		if !other.ready {
			continue
		}
		ready++
		a, b := r.deadline(other), r.deadline(s)
		if a < b || a == b && (other.readySince < s.readySince || other.readySince == s.readySince && other.task < s.task) {
			before++
		}
	}
	if !s.ready {
		return ready < k
	}
	return before < k
}

func (r *reference) deadline(s *refSeat) time.Duration {
	if d := r.tasks[s.task].Deadline; d != 0 {
		return s.readySince + d
	}
	return math.MaxInt64
}

func (r *reference) mode(s *refSeat) Mode {
	if len(r.on(s.device)) == 1 && (r.policy != "HHPF" || len(r.seats) == 1) {
		return Free
	}
	if r.takesTurns() || r.policy == "KEDF" || r.tasks[s.task].NoExecute {
		return Bounded
	}
	low, _, _ := r.rank(s)
	for _, other := range r.rivals(s) {
		if _, _, peak := r.rank(other); peak > low {
			return Bounded
		}
	}
	return Top
}

// next is when some turn is used up with somebody waiting, or somebody rises
// with somebody else ready.
func (r *reference) next() (next time.Duration) {
	sooner := func(t time.Duration) {
		if next == 0 || t < next {
			next = t
		}
	}
	for _, t := range r.turns {
		if r.takesTurns() && t.turn != 0 && len(t.waiting) > 0 && r.quantum(t.turn) > 0 {
			sooner(t.since + r.quantum(t.turn))
		}
	}
	for _, s := range r.seats {
		h := r.tasks[s.task]
		if r.policy == "LAX" && s.ready && len(r.rivals(s)) > 1 && !h.NoExecute && h.Laxity.After != 0 && s.readySince+h.Laxity.After > r.now {
			sooner(s.readySince + h.Laxity.After)
		}
	}
	return next
}
