package compute

import (
	"cmp"
	"slices"
	"time"
)

// device is one device and who is on it.
type device struct {
	name   Device
	domain *domain
	seats  map[TaskID]*seat
	joint  map[partyKey]*party // those that others may join

	let     queue[party] // whom the policy lets run, with work or not
	running queue[party] // with work and an open gate
	past    runs         // that have ended
	floors  floors

	touched []*seat // whose grants may have changed
}

func newDevice(name Device, m *domain) *device {
	d := &device{name: name, domain: m, seats: map[TaskID]*seat{}, joint: map[partyKey]*party{}}
	d.floors.init()
	return d
}

// mode is Free for a task that has its devices to itself, Top for one that
// nobody can stop, else Bounded.
func (d *device) mode(s *seat) Mode {
	switch {
	case s.party == nil:
		if d.domain.seats == 1 {
			return Free
		}
		return Bounded
	case s.party.gang != nil:
		return s.party.gang.mode()
	}
	return d.ownMode(s.party)
}

// ownMode is a party's mode as far as its decider's domain goes.
func (d *device) ownMode(p *party) Mode {
	switch {
	case d.domain.seats == len(p.members):
		return Free
	case p.verdict.Mode == Top && !d.floors.against(p):
		return Top
	}
	return Bounded
}

func (d *device) touchAll() {
	for _, s := range d.seats {
		d.touch(s)
		if s.party == nil || s.party.gang == nil {
			continue
		}
		for _, p := range s.party.gang.parties {
			for _, m := range p.members {
				p.device.touch(m)
			}
		}
	}
}

func (d *device) touch(s *seat) {
	if !s.touched {
		s.touched = true
		d.touched = append(d.touched, s)
	}
}

// tell appends what the caller does not know yet.
func (d *device) tell(grants []Grant, now time.Duration) []Grant {
	first := len(grants)
	for _, s := range d.touched {
		s.touched = false
		if s.gone {
			continue
		}
		if open := s.party != nil && s.party.open; s.open != open {
			s.account(now)
			s.open = open
		}
		g := Grant{Task: s.task.id, Device: d.name, Open: s.open, Mode: d.mode(s)}
		if s.known && s.told == g {
			continue
		}
		s.told, s.known = g, true
		grants = append(grants, g)
	}
	clear(d.touched)
	d.touched = d.touched[:0]
	slices.SortFunc(grants[first:], func(a, b Grant) int {
		if a.Open != b.Open {
			if b.Open {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Task, b.Task)
	})
	return grants
}
