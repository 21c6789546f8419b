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
	traits  Traits // of the policy
	tasks   map[TaskID]*task
	devices []*device // by name
	recent  *device   // the one of them that was asked for last, or nil
	emptied bool      // some of them has nobody left
	domains []*domain // of the devices, by their names; under a machine policy one
	gangs   map[string]*gang
	costs   map[Device]time.Duration // of a switch, as told

	lastJoint  TaskID // id of a joint party
	lastSerial uint64 // of a gang

	touched   []*party // whose gates may have changed
	awake     []*gang
	grants    []Grant  // reused for outcomes
	replanned []Device // the same
}

type task struct {
	id    TaskID
	hints Hints
	cpu   int
	seats int
}

// NewScheduler returns a scheduler with no tasks, at time 0.
func NewScheduler(p Policy) *Scheduler {
	return &Scheduler{policy: p, traits: p.Traits(), tasks: map[TaskID]*task{}, gangs: map[string]*gang{}, costs: map[Device]time.Duration{}}
}

// Policy returns the present policy.
func (s *Scheduler) Policy() Policy { return s.policy }

// Apply takes the events in their order, all as of now, decides once, and
// returns what changed. now is the time since some fixed point, and never goes
// back: an earlier value counts as the latest one seen.
func (s *Scheduler) Apply(now time.Duration, events ...Event) Outcome {
	out, _ := s.apply(now, events, false)
	return out
}

// ApplyFirst is Apply for a caller who has somebody waiting for an answer: the gates of
// tasks without work, of which there may be many, may be left as they were. Then more
// is true, and an Apply without events gives the rest.
func (s *Scheduler) ApplyFirst(now time.Duration, events ...Event) (out Outcome, more bool) {
	return s.apply(now, events, true)
}

func (s *Scheduler) apply(now time.Duration, events []Event, mayLeave bool) (Outcome, bool) {
	s.now = max(s.now, now)
	for _, e := range events {
		s.take(e)
	}
	more := s.decide(mayLeave)
	s.settle()
	return s.outcome(), more
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
	case CPUPriorityChanged:
		s.setCPU(e)
	case Prolonged:
		s.prolonged(e)
	case Overran:
		s.overran(e)
	case CommandLength:
		s.tellDecider(e.Device, e.Task, func(seat *seat) { seat.command = max(e.Length, 0) })
	case Stands:
		s.tellDecider(e.Device, e.Task, func(seat *seat) { seat.stands = e.On })
	case SwitchCost:
		s.costs[e.Device] = max(e.Cost, 0)
		s.setCosts()
	case PolicyChanged:
		s.setPolicy(e.Policy)
	}
}

// tellDecider notes something of a task on a device of which the decider is to hear.
func (s *Scheduler) tellDecider(name Device, id TaskID, note func(*seat)) {
	seat := s.seatOn(name, id)
	if seat == nil {
		return
	}
	note(seat)
	if seat.party != nil {
		seat.device.domain.change(seat.party)
	}
}

// seatOn is a task's seat on a device; nil: it has none.
func (s *Scheduler) seatOn(name Device, id TaskID) *seat {
	if d := s.device(name); d != nil {
		return d.seats[id]
	}
	return nil
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
		s.devices = slices.Insert(s.devices, i, newDevice(e.Device, s.domainOf()))
		s.devices[i].floors.strict = s.traits.Strict
		s.setCosts()
	}
	d := s.devices[i]
	if d.seats[t.id] != nil {
		return
	}
	seat := &seat{task: t, device: d}
	d.seats[t.id] = seat
	t.seats++
	d.domain.seats++
	s.join(seat)
	d.touch(seat)
	s.competitors(d.domain)
}

func (s *Scheduler) leave(d *device, id TaskID) {
	seat, ok := d.seats[id]
	if !ok {
		return
	}
	seat.gone = true
	delete(d.seats, id)
	s.emptied = s.emptied || len(d.seats) == 0
	d.domain.seats--
	s.part(seat)
	if seat.task.seats--; seat.task.seats == 0 {
		delete(s.tasks, id)
	}
	s.competitors(d.domain)
}

func (s *Scheduler) setReady(id TaskID, name Device, ready bool) {
	d := s.device(name)
	if d == nil {
		return
	}
	seat, ok := d.seats[id]
	if !ok || seat.ready == ready {
		return
	}
	seat.account(s.now)
	seat.ready = ready
	if ready {
		seat.expect(s.now)
		seat.readySince = s.now
	}
	if seat.party != nil {
		s.count(seat.party, ready)
	}
}

// count has one more or one less member of a party be ready.
func (s *Scheduler) count(p *party, ready bool) {
	p.account(s.now)
	step := 1
	if !ready {
		step = -1
	}
	p.ready += step
	if p.ready == 1 && ready {
		p.readySince = s.now
	}
	if s.stir(p) {
		return
	}
	s.touch(p)
	if p.gang != nil {
		p.gang.ready += step
		s.wakeGang(p.gang)
		return
	}
	p.device.domain.change(p)
}

func (s *Scheduler) hint(t *task, h Hints) {
	h = h.clamped()
	if t.hints == h {
		return
	}
	before := t.hints
	t.hints = h
	regroup := before.Gang != h.Gang || before.NoExecute != h.NoExecute || before.Process != h.Process
	for _, d := range s.devices {
		seat, ok := d.seats[t.id]
		if !ok {
			continue
		}
		if regroup {
			s.part(seat)
			s.join(seat)
			d.touch(seat)
			s.competitors(d.domain)
		} else if seat.party != nil {
			s.tellOf(seat.party)
			s.touch(seat.party)
		}
	}
}

func (s *Scheduler) setCPU(e CPUPriorityChanged) {
	t, ok := s.tasks[e.Task]
	if !ok || t.cpu == e.Priority {
		return
	}
	t.cpu = min(max(e.Priority, MinPriority), MaxPriority)
	for _, d := range s.devices {
		if seat, ok := d.seats[t.id]; ok && seat.party != nil {
			s.tellOf(seat.party)
		}
	}
}

func (s *Scheduler) setPolicy(p Policy) {
	s.policy, s.traits = p, p.Traits()
	for _, g := range s.gangs {
		g.rest()
	}
	s.domains = s.domains[:0]
	for _, d := range s.devices {
		d.domain = s.domainOf()
		d.domain.seats += len(d.seats)
		d.floors.strict = s.traits.Strict
	}
	s.setCosts()
	for _, d := range s.devices {
		seats := make([]*seat, 0, len(d.seats))
		for _, seat := range d.seats {
			seats = append(seats, seat)
		}
		slices.SortFunc(seats, func(a, b *seat) int { return cmp.Compare(a.task.id, b.task.id) })
		for _, seat := range seats {
			s.part(seat)
		}
		for _, seat := range seats {
			s.join(seat)
			d.touch(seat)
		}
		d.domain.gone = d.domain.gone[:0] // it has seen nobody yet
	}
}

// setCosts has the domains follow what switches cost on their devices.
func (s *Scheduler) setCosts() {
	for _, m := range s.domains {
		m.cost = 0
	}
	for _, d := range s.devices {
		d.domain.cost = max(d.domain.cost, s.costs[d.name])
	}
}

// domainOf finds or makes the domain of a further device.
func (s *Scheduler) domainOf() *domain {
	if s.traits.Machine && len(s.domains) > 0 {
		return s.domains[0]
	}
	m := newDomain(s.policy)
	s.domains = append(s.domains, m)
	return m
}

func (s *Scheduler) device(name Device) *device {
	if d := s.recent; d != nil && d.name == name {
		return d
	}
	if i, ok := s.search(name); ok {
		s.recent = s.devices[i]
		return s.recent
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
			states = append(states, seat.state(s.now))
		}
		slices.SortFunc(states[first:], func(a, b TaskState) int { return cmp.Compare(a.Task, b.Task) })
	}
	return states
}

// RunTime is TaskState.RunTime of one task on one device as of now, which is not before
// the last Apply; 0 if it is not there.
func (s *Scheduler) RunTime(now time.Duration, id TaskID, name Device) time.Duration {
	seat := s.seatOn(name, id)
	if seat == nil {
		return 0
	}
	seat.account(max(now, s.now))
	return max(seat.ran, 0)
}

// Timeline yields who runs on a device from the last Apply on if no event
// comes, in order of start. It is computed as it is read, so that who needs
// the next few pays for no more, and it holds until the next Apply. What a gang
// of several devices does is planned where it waits or runs.
func (s *Scheduler) Timeline(name Device) iter.Seq[Slot] {
	d := s.device(name)
	if d == nil {
		return func(func(Slot) bool) {}
	}
	plan := d.domain.decider.Plan(s.now)
	if s.traits.Strict {
		plan = d.floors.plan(s.now, plan)
	}
	return func(yield func(Slot) bool) {
		for slot := range plan {
			p := d.domain.parties[slot.Task]
			if p == nil || p.device != d {
				continue
			}
			for _, seat := range p.members {
				slot.Task = seat.task.id
				if !yield(slot) {
					return
				}
			}
		}
	}
}
