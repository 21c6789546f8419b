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

// heeds is false for those of the lowest class, if all stay in theirs: there is nobody
// whom they stop.
func (h *classes) heeds(id TaskID) bool {
	t, ok := h.tasks[id]
	return !ok || h.movers > 0 || h.taken.from(0) != t.class
}
