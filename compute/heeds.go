package compute

// heeder is a Decider that can say of whom it takes no heed: whether such a task turns
// ready or idle changes nobody's verdict, its own included, as long as tasks and hints
// are what they were at the last decision.
type heeder interface {
	heeds(id TaskID) bool
}

// Heeds says whether anybody's gate may depend on it when a task turns ready or idle on
// a device, as tasks, hints and policy are now. Who asks may hear later of a task of
// whom nobody takes heed.
func (s *Scheduler) Heeds(id TaskID, name Device) bool {
	seat := s.seatOn(name, id)
	if seat == nil {
		return true
	}
	p, d := seat.party, seat.device
	if p == nil || p.gang != nil || d.floors.many > 0 {
		return true
	}
	h, ok := d.domain.decider.(heeder)
	return !ok || h.heeds(p.id)
}

// stirrer is a heeder that can take in by itself that a task of whom it takes no heed
// turned ready or idle. false: it cannot, and has to be asked.
type stirrer interface {
	stir(id TaskID, ready bool) bool
}

// stir takes in that a party turned ready or idle, where nothing follows from it for
// anybody: accounts are kept, and nobody is asked.
func (s *Scheduler) stir(p *party) bool {
	d, m := p.device, p.device.domain
	if p.gang != nil || p.changed || p.touched || m.fresh || m.later || d.floors.many > 0 || d.floors.turn != nil {
		return false
	}
	if h, ok := m.decider.(stirrer); !ok || !h.stir(p.id, p.ready > 0) {
		return false
	}
	p.settle(s.now, p.open)
	m.replanned = true
	return true
}

// heeds is false for those of the lowest class, if all stay in theirs: there is nobody
// whom they stop.
func (h *classes) heeds(id TaskID) bool {
	t, ok := h.tasks[id]
	return !ok || h.movers > 0 || h.taken.from(0) != t.class
}

// stir moves a task whose rank is what it was. There is no class below its own that would
// open or close with it.
func (h *classes) stir(id TaskID, ready bool) bool {
	t, ok := h.tasks[id]
	if !ok || !h.steady || h.taken.from(0) != t.class {
		return false
	}
	h.setReady(t, ready)
	h.topReady = h.ready.highest()
	return true
}
