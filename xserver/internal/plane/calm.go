package plane

import "time"

// Where edges are frequent, most of what one costs is waking the loop's thread for it.
// Those of calm processes need not wake it: nobody's gate depends on them (see
// compute.Scheduler.Heeds), nothing but gates is decided on their devices, and nobody
// has asked for their requests to be timed. While there are many of them the loop
// listens to their bells together, at multiples of patience, as to the timers of those
// for whom nobody waits.

// brisk is for how long a process is not calm that has more edges than are seen of one
// that is: its requests would not be counted any more. One that was held up and catches
// up has such edges once: it takes briskLooks looks at it within that time.
const (
	brisk      = 200 * time.Millisecond
	briskLooks = 3
)

// calm says whether a process's edges may be heard late, by up to patience.
func (p *Plane) calm(pr *process) bool {
	if pr.gone || pr.stopped || p.now < pr.briskUntil {
		return false
	}
	some := false
	for _, s := range pr.sections[:pr.reach] {
		if s == nil {
			continue
		}
		st, h := s.seat, &s.seat.task.hints
		if st.device.tight() || !st.known || st.fresh || st.hold != 0 || h.SLO != 0 || h.Deadline != 0 ||
			!st.device.chooser.OnlyGates() || p.sched.Heeds(st.id, st.device.id) {
			return false
		}
		some = true
	}
	return some
}

// missed takes in that a section had edges since the last look that nobody saw: more
// than its idle and its ready edge. Where the loop itself came late that says nothing.
func (p *Plane) missed(s *section, edges uint32) {
	pr := s.process
	if !pr.calms || edges <= 2 || p.delayed {
		return
	}
	if p.now >= pr.missesEnd {
		pr.missesEnd, pr.misses = p.now+brisk, 0
	}
	if pr.misses++; pr.misses >= briskLooks {
		pr.briskUntil, pr.misses = p.now+brisk, 0
	}
}

// busy says whether a section's process has work by what its board says now, where a
// bell that told of it may not have been heard yet.
func (s *section) busy() bool {
	if !s.process.calms {
		return false
	}
	v := s.process.Board.Snapshot(s.index)
	return v.Ready || v.Waiting > 0
}
