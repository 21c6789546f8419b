package compute

import (
	"cmp"
	"slices"
	"time"
)

// join finds the seat's party, or makes one. A task that is not to run has none.
func (s *Scheduler) join(seat *seat) {
	h, d := &seat.task.hints, seat.device
	if h.NoExecute {
		return
	}
	key := partyKey{task: seat.task.id}
	switch {
	case h.Gang != "":
		key = partyKey{gang: h.Gang}
	case h.Process != 0 && s.traits.ByProcess:
		key = partyKey{process: h.Process}
	}
	p := d.joint[key]
	if p == nil {
		p = &party{id: seat.task.id, key: key, device: d, since: s.now}
		p.members, p.running.owner, p.let.owner = p.one[:0], p, p
		if key.task == 0 || s.traits.Machine {
			s.lastJoint++
			p.id = joint | s.lastJoint
		}
		if key.task == 0 {
			d.joint[key] = p
		}
		p.readySince = seat.readySince
		if key.gang != "" {
			s.enlist(p)
		}
		d.domain.add(p)
	}
	p.add(seat)
	s.tellOf(p) // its hints may be another's now
	if seat.ready {
		s.count(p, true)
		if p.ready == 1 {
			p.readySince = seat.readySince
		}
	}
	s.touch(p)
}

// part takes a seat out of its party.
func (s *Scheduler) part(who *seat) {
	p := who.party
	if p == nil {
		return
	}
	if who.ready {
		s.count(p, false)
	}
	who.account(s.now)
	who.party = nil
	s.touch(p)
	p.members = slices.DeleteFunc(p.members, func(x *seat) bool { return x == who })
	if len(p.members) > 0 {
		s.tellOf(p)
		return
	}
	d := p.device
	p.settle(s.now, false)
	d.past.forget(p)
	d.domain.remove(p)
	delete(d.joint, p.key)
	if g := p.gang; g != nil {
		g.remove(p)
		s.wakeGang(g)
		for _, other := range g.parties {
			other.device.domain.change(other)
		}
		if len(g.parties) == 0 {
			delete(s.gangs, g.name)
		}
	}
}

// tellOf has the deciders told of a party, and of all of its gang.
func (s *Scheduler) tellOf(p *party) {
	p.device.domain.change(p)
	if p.gang != nil {
		for _, other := range p.gang.parties {
			other.device.domain.change(other)
		}
	}
}

// competitors has the modes told again where somebody may have become alone or
// stopped being it. With more than two neither can be.
func (s *Scheduler) competitors(m *domain) {
	if len(m.parties) > 2 {
		return
	}
	for _, d := range s.devices {
		if d.domain == m {
			d.touchAll()
		}
	}
}

// enlist takes a party into its gang.
func (s *Scheduler) enlist(p *party) {
	g := s.gangs[p.key.gang]
	if g == nil {
		s.lastSerial++
		g = &gang{name: p.key.gang, serial: s.lastSerial}
		s.gangs[g.name] = g
	}
	g.add(p)
	// Ids break ties: on all devices the same way, or gangs would go in circles.
	g.members++
	p.id = jointGang | TaskID(g.serial)<<20 | g.members
	g.newcomer(p)
	s.wakeGang(g)
}

func (s *Scheduler) touch(p *party) {
	if !p.touched {
		p.touched = true
		s.touched = append(s.touched, p)
	}
}

func (s *Scheduler) wakeGang(g *gang) {
	if !g.awake {
		g.awake = true
		s.awake = append(s.awake, g)
	}
}

// maxRounds bounds how often gangs may send the deciders back to work in one
// step, against deciders that contradict themselves.
const maxRounds = 10_000

// decide asks every decider that has to be asked, and lets gangs follow what was
// decided, one after the other, until nothing moves any more. The one that has
// waited longest goes first: what it gets nobody takes away. Where there are none,
// verdicts on tasks without work may be left for later, which more says.
func (s *Scheduler) decide(mayLeave bool) (more bool) {
	mayLeave = mayLeave && len(s.gangs) == 0
	for range maxRounds {
		for _, m := range s.domains {
			if m.stale(s.now) {
				m.decide(s.now, s, mayLeave)
				more = more || m.later
			}
		}
		if len(s.awake) == 0 {
			return more
		}
		oldest := slices.MinFunc(s.awake, func(a, b *gang) int {
			return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.serial, b.serial))
		})
		s.awake = slices.DeleteFunc(s.awake, func(g *gang) bool { return g == oldest })
		oldest.awake = false
		oldest.step(s.now)
		for _, p := range oldest.parties {
			s.touch(p)
		}
	}
	return more
}

// settle has gates and accounts follow what was decided.
func (s *Scheduler) settle() {
	for _, p := range s.touched {
		p.device.floors.keep(p, s.now)
	}
	if s.traits.Strict {
		for _, d := range s.devices {
			s.ruleFloors(d)
		}
	}
	for _, p := range s.touched { // grows: a gang's parties follow each other
		p.touched = false
		open := p.allowed()
		if p.gang != nil {
			open = p.gang.open()
		}
		if !p.gone {
			p.settle(s.now, open)
		}
		for _, seat := range p.members {
			p.device.touch(seat)
		}
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// ruleFloors begins and ends turns by floors on a device. Who runs stops for
// one, and goes on after it.
func (s *Scheduler) ruleFloors(d *device) {
	f := &d.floors
	if f.many == 0 && f.turn == nil {
		return
	}
	before, changed := f.rule(s.now)
	if !changed {
		return
	}
	for _, p := range []*party{before, f.turn} {
		if p != nil {
			f.keep(p, s.now)
			s.touch(p)
		}
	}
	for p := range d.let.all() {
		s.touch(p)
		if p.gang != nil {
			for _, other := range p.gang.parties {
				s.touch(other)
			}
		}
	}
}

// outcome collects what the caller does not know yet.
func (s *Scheduler) outcome() Outcome {
	s.grants, s.replanned = s.grants[:0], s.replanned[:0]
	var next time.Duration
	sooner := func(t time.Duration) {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	for _, d := range s.devices {
		s.grants = d.tell(s.grants, s.now)
		if d.domain.replanned {
			s.replanned = append(s.replanned, d.name)
		}
		sooner(d.floors.next())
	}
	if s.emptied {
		s.forgetEmpty()
	}
	for _, m := range s.domains {
		m.replanned = false
		sooner(m.next)
	}
	return Outcome{Grants: s.grants, Next: next, Replanned: s.replanned}
}

// forgetEmpty drops devices on which nobody is any more, and what decided for them.
func (s *Scheduler) forgetEmpty() {
	s.emptied, s.recent = false, nil
	s.devices = slices.DeleteFunc(s.devices, func(d *device) bool { return len(d.seats) == 0 })
	used := func(m *domain) bool {
		return slices.ContainsFunc(s.devices, func(d *device) bool { return d.domain == m })
	}
	s.domains = slices.DeleteFunc(s.domains, func(m *domain) bool { return len(m.parties) == 0 && !used(m) })
}
