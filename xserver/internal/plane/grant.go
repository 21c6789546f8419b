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

// carryOut takes in the scheduler's answers. What follows from them is the
// choosers' to say; a change of mode needs no saying.
func (p *Plane) carryOut(grants []compute.Grant) {
	divides := p.divides()
	for _, g := range grants {
		st := p.seat(g)
		if st == nil {
			continue
		}
		if divides && st.known && st.open != g.Open {
			p.tellOverruns(st.device)
			p.passed(st, g.Open)
		}
		if !st.known {
			st.known, st.fresh = true, true
			p.fresh = append(p.fresh, st)
		}
		p.dropRest(st)
		p.takeIn(st, g.Open, g.Mode)
	}
	if len(p.touched) > 0 {
		p.settle()
	}
	for _, g := range grants {
		if st := p.seat(g); st != nil && !st.fresh {
			p.carry(st) // no more than its mode may have changed
		}
	}
}

// takeIn takes in the policy's word on a seat.
func (p *Plane) takeIn(st *seat, open bool, mode compute.Mode) {
	p.shuts(st, !open)
	st.open, st.mode = open, mode
	st.device.chooser.Verdict(st.choice, open, mode)
	p.touch(st.device)
}

// admitFresh stores the first answers of newcomers: after those of the others, so
// that a newcomer's neighbours have their new bounds before he is let in.
func (p *Plane) admitFresh() {
	for _, st := range p.fresh {
		st.fresh = false
		if st.runs() && p.unacknowledged(st) {
			p.hold(st)
		}
		for _, s := range st.sections {
			p.ask(s)
			p.publish(s)
		}
		p.book(st)
	}
	clear(p.fresh)
	p.fresh = p.fresh[:0]
}

// shuts takes in whether a seat is kept out.
func (p *Plane) shuts(st *seat, shut bool) {
	switch {
	case st.shut == shut:
		return
	case shut:
		p.shut++
	default:
		p.shut--
	}
	st.shut = shut
}

func (p *Plane) seat(g compute.Grant) *seat {
	if t, ok := p.tasks[g.Task]; ok {
		for _, st := range t.seats {
			if st.device.id == g.Device {
				return st
			}
		}
	}
	return nil
}

// publish stores a seat's answer on one of its boards. Who sleeps on it is woken
// when all words of the decision are stored.
func (p *Plane) publish(s *section) { p.store(s, p.grantOf(s)) }

func (p *Plane) store(s *section, grant board.Grant) {
	before, answered := s.grant, s.gate != 0
	s.grant = grant
	d := s.process.Board.Device(s.index)
	s.gate = d.Store(s.gate, s.grant)
	p.stats.Grants++
	before.Open = s.grant.Open
	if answered && before == s.grant && s.dozes() && !s.busy() {
		p.doze(s)
		return
	}
	p.stored = append(p.stored, d)
}

// wake wakes those who sleep on words that were stored: first those who are to
// suspend something, as that takes longest.
func (p *Plane) wake() {
	for _, d := range p.asked {
		d.WakeWish()
	}
	p.asked = p.asked[:0]
	if p.mem != nil {
		p.wakeMemory()
	}
	for _, d := range p.stored {
		d.Wake()
	}
	p.stored = p.stored[:0]
}

func (p *Plane) grantOf(s *section) board.Grant {
	st, level := s.seat, s.level()
	threshold, batch := s.process.Settings.Bounds(level)
	if s.mustDrain(level) {
		threshold, batch = 1, 1
	}
	mode := boardMode(st.mode)
	if loose := p.loose(s); loose > 0 {
		mode, threshold = board.Loose, min(threshold, loose)
		batch = max(1, min(batch, threshold/2))
	}
	return board.Grant{
		Open:      st.runs() && st.hold == 0 && s.mayOpen() && !st.device.drains(st),
		Mode:      mode,
		Threshold: threshold,
		Batch:     p.batch(st, threshold, batch),
		Level:     level,
		Task:      uint64(st.id),
	}
}

// loose is how many commands of a section need not wait at the gate on the device; 0:
// all wait there. What passed the gate is in the way of whoever moves memory, and has to
// be accounted for where the policy divides time.
func (p *Plane) loose(s *section) uint32 {
	if s.seat.device.tight() || s.seat.mode != compute.Bounded || p.divides() {
		return 0
	}
	return uint32(s.seat.order().Loose)
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
	for _, other := range st.device.working {
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
	p.note(st)
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
		p.note(st)
		if st.runs() {
			for _, s := range st.sections {
				p.publish(s)
			}
		}
	}
	if p.nextAck <= p.now {
		p.nextAck = p.now + ackPoll
	}
}
