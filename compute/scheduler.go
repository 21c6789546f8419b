package compute

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Scheduler holds the tasks of all devices and decides, by one policy, who may
// run. The zero value is not usable; see [NewScheduler].
type Scheduler struct {
	now     time.Duration
	policy  Policy
	tasks   map[TaskID]*task
	devices []*device // by name

	grants    []Grant  // reused for outcomes
	replanned []Device // the same
}

type task struct {
	id    TaskID
	hints Hints
	seats int
}

// NewScheduler returns a scheduler with no tasks, at time 0.
func NewScheduler(p Policy) *Scheduler {
	return &Scheduler{policy: p, tasks: make(map[TaskID]*task)}
}

// Policy returns the present policy.
func (s *Scheduler) Policy() Policy { return s.policy }

// Apply takes the events in their order, all as of now, decides once, and
// returns what changed. now is the time since some fixed point, and never goes
// back: an earlier value counts as the latest one seen.
func (s *Scheduler) Apply(now time.Duration, events ...Event) Outcome {
	s.now = max(s.now, now)
	for _, e := range events {
		s.take(e)
	}
	s.grants, s.replanned = s.grants[:0], s.replanned[:0]
	var next time.Duration
	for _, d := range s.devices {
		d.decide(s.now)
		s.grants = d.tell(s.grants)
		if d.replanned {
			d.replanned = false
			s.replanned = append(s.replanned, d.name)
		}
		if d.next != 0 && (next == 0 || d.next < next) {
			next = d.next
		}
	}
	s.devices = slices.DeleteFunc(s.devices, func(d *device) bool { return len(d.seats) == 0 })
	return Outcome{Grants: s.grants, Next: next, Replanned: s.replanned}
}

func (s *Scheduler) take(e Event) {
	switch e := e.(type) {
	case TaskAdded:
		s.add(e)
	case TaskRemoved:
		for _, d := range s.devices {
			s.leave(d, e.Task)
		}
	case DeviceLeft:
		if d := s.device(e.Device); d != nil {
			s.leave(d, e.Task)
		}
	case Ready:
		s.setReady(e.Task, e.Device, true)
	case Idle:
		s.setReady(e.Task, e.Device, false)
	case HintsChanged:
		if t, ok := s.tasks[e.Task]; ok {
			s.hint(t, e.Hints)
		}
	case PolicyChanged:
		s.policy = e.Policy
		for _, d := range s.devices {
			d.setPolicy(e.Policy)
		}
	}
}

func (s *Scheduler) add(e TaskAdded) {
	t, ok := s.tasks[e.Task]
	if ok {
		s.hint(t, e.Hints)
	} else {
		t = &task{id: e.Task, hints: e.Hints.clamped()}
		s.tasks[e.Task] = t
	}
	i, ok := s.search(e.Device)
	if !ok {
		s.devices = slices.Insert(s.devices, i, newDevice(e.Device, s.policy))
	}
	if d := s.devices[i]; d.seats[t.id] == nil {
		d.add(t)
		t.seats++
	}
}

func (s *Scheduler) leave(d *device, id TaskID) {
	seat, ok := d.seats[id]
	if !ok {
		return
	}
	d.remove(seat)
	if seat.task.seats--; seat.task.seats == 0 {
		delete(s.tasks, id)
	}
}

func (s *Scheduler) setReady(id TaskID, name Device, ready bool) {
	d := s.device(name)
	if d == nil {
		return
	}
	if seat, ok := d.seats[id]; ok {
		d.setReady(seat, ready, s.now)
	}
}

func (s *Scheduler) hint(t *task, h Hints) {
	h = h.clamped()
	if t.hints == h {
		return
	}
	t.hints = h
	for _, d := range s.devices {
		if seat, ok := d.seats[t.id]; ok {
			d.change(seat)
		}
	}
}

func (s *Scheduler) device(name Device) *device {
	if i, ok := s.search(name); ok {
		return s.devices[i]
	}
	return nil
}

func (s *Scheduler) search(name Device) (int, bool) {
	return slices.BinarySearchFunc(s.devices, name, func(d *device, n Device) int { return cmp.Compare(d.name, n) })
}

// State lists every task on every device, by device and task, as of the last
// Apply.
func (s *Scheduler) State() []TaskState {
	states := make([]TaskState, 0, len(s.tasks))
	for _, d := range s.devices {
		first := len(states)
		for _, seat := range d.seats {
			states = append(states, d.state(seat, s.now))
		}
		slices.SortFunc(states[first:], func(a, b TaskState) int { return cmp.Compare(a.Task, b.Task) })
	}
	return states
}

// Timeline yields who runs on a device from the last Apply on if no event
// comes, in order of start. It is computed as it is read, so that who needs
// the next few pays for no more, and it holds until the next Apply.
func (s *Scheduler) Timeline(name Device) iter.Seq[Slot] {
	d := s.device(name)
	if d == nil {
		return func(func(Slot) bool) {}
	}
	return d.decider.Plan(s.now)
}
