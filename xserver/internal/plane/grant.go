package plane

import (
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// ackPoll is how often a newcomer's neighbours are asked for acknowledgements.
// They do not ring for one.
const ackPoll = 200 * time.Microsecond

// carryOut stores the scheduler's answers. Those who are on the device already
// come first, so that a newcomer's neighbours have their new bounds before he is
// let in.
func (p *Plane) carryOut(grants []compute.Grant) {
	fresh := 0
	for _, g := range grants {
		st := p.seat(g)
		if st == nil {
			continue
		}
		if !st.known {
			fresh++
			continue
		}
		p.answer(st, g)
	}
	if fresh == 0 {
		return
	}
	for _, g := range grants {
		if st := p.seat(g); st != nil && !st.known {
			st.known = true
			if g.Open && p.unacknowledged(st) {
				p.hold(st)
			}
			p.answer(st, g)
		}
	}
}

func (p *Plane) seat(g compute.Grant) *seat {
	d, ok := p.devices[g.Device]
	if !ok {
		return nil
	}
	for _, st := range d.seats {
		if st.id == g.Task {
			return st
		}
	}
	return nil
}

func (p *Plane) answer(st *seat, g compute.Grant) {
	st.open, st.mode = g.Open, g.Mode
	for _, s := range st.sections {
		p.publish(s)
	}
}

// publish stores a seat's answer on one of its boards. Who sleeps on it is woken
// when all words of the decision are stored.
func (p *Plane) publish(s *section) {
	s.grant = p.grantOf(s)
	d := s.process.Board.Device(s.index)
	s.gate = d.Store(s.gate, s.grant)
	p.stored = append(p.stored, d)
	p.stats.Grants++
}

// wake wakes those who sleep on gate words that were stored.
func (p *Plane) wake() {
	for _, d := range p.stored {
		d.Wake()
	}
	p.stored = p.stored[:0]
}

func (p *Plane) grantOf(s *section) board.Grant {
	st, settings := s.seat, s.process.Settings
	return board.Grant{
		Open:      st.open && st.hold == 0,
		Mode:      boardMode(st.mode),
		Threshold: settings.Threshold,
		Batch:     min(settings.Batch, settings.Threshold),
		Level:     s.level(),
		Task:      uint64(st.id),
	}
}

func boardMode(m compute.Mode) board.Mode {
	switch m {
	case compute.Bounded:
		return board.Bounded
	case compute.Top:
		return board.Top
	}
	return board.Free
}

// unacknowledged says whether somebody else who has work on the device has not
// seen his present gate word yet. Idle and stopped ones launch nothing before
// they do.
func (p *Plane) unacknowledged(st *seat) bool {
	for _, other := range st.device.seats {
		if other == st {
			continue
		}
		for _, s := range other.sections {
			if s.counted && !s.process.stopped && s.gate != 0 &&
				s.process.Board.Snapshot(s.index).Acked != s.gate {
				return true
			}
		}
	}
	return false
}

// hold keeps a newcomer's gates closed until the others know their bounds.
func (p *Plane) hold(st *seat) {
	st.hold = p.now + p.cfg.AckLimit
	p.nextAck = p.now + ackPoll
	p.held = append(p.held, st)
}

func (p *Plane) unhold(st *seat) {
	if st.hold != 0 {
		st.hold = 0
		p.held = slices.DeleteFunc(p.held, func(x *seat) bool { return x == st })
	}
}

// admitNewcomers lets those in whose neighbours have acknowledged, or who have
// waited long enough.
func (p *Plane) admitNewcomers() {
	if len(p.held) == 0 {
		return
	}
	waiting := p.held
	p.held = nil
	for _, st := range waiting {
		if st.hold > p.now && p.unacknowledged(st) {
			p.held = append(p.held, st)
			continue
		}
		st.hold = 0
		if st.open {
			for _, s := range st.sections {
				p.publish(s)
			}
		}
	}
	if p.nextAck <= p.now {
		p.nextAck = p.now + ackPoll
	}
}
