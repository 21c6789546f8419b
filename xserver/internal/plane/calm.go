package plane

import "time"

// Where edges are frequent, most of what one costs is waking the loop's thread for it.
// Those of calm processes need not wake it: nobody's gate depends on them (see
// compute.Scheduler.Heeds), nothing but gates is decided on their devices, and nobody
// has asked for their requests to be timed. While there are many of them the loop
// listens to their bells together, at multiples of patience, as to the timers of those
// for whom nobody waits; of mostPatience while nobody is kept out, so that there is
// nothing that any of them could wait for.

// mostPatience is the most that a calm process's edge is heard late.
const mostPatience = 4 * patience

// lag is how far apart the looks at the calm are.
func (p *Plane) lag() time.Duration {
	if p.shut > 0 || p.now < p.closeUntil {
		return patience
	}
	return mostPatience
}

// nextLook is when the calm are looked at next.
func (p *Plane) nextLook() time.Duration { return after(p.now, p.lag()) }

// after is the first multiple of a time that is later than at.
func after(at, step time.Duration) time.Duration { return (at/step + 1) * step }

// brisk is for how long a process is not calm that has more edges than are seen of one
// that is: its requests would not be counted any more. One that was held up and catches
// up has such edges once: it takes briskLooks looks at it within that time. Looks that
// are far apart are closer first, for as long; for twice as long as the last time where that
// is not long ago, as each time some requests are taken for one.
const (
	brisk        = 200 * time.Millisecond
	briskLooks   = 3
	longestClose = 64 * brisk
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
	if pr.misses++; pr.misses < briskLooks {
		return
	}
	pr.misses = 0
	if p.lag() > patience {
		if p.now-p.closeUntil >= p.closeFor {
			p.closeFor = brisk / 2
		}
		p.closeFor = min(2*p.closeFor, longestClose)
		p.closeUntil = p.now + p.closeFor
	} else {
		pr.briskUntil = p.now + brisk
	}
}

// idleSince is since when a section is idle that was heard to be: where it may have been
// heard late, by its own word.
func (p *Plane) idleSince(s *section) time.Duration {
	if at, told := p.toldIdle(s); told {
		return at
	}
	return p.now
}

func (p *Plane) toldIdle(s *section) (at time.Duration, told bool) {
	us := s.view.IdleUS
	if !s.process.calms || us == 0 || p.cfg.Epoch == 0 {
		return 0, false
	}
	ago := time.Duration(uint32(p.clock(p.now)/1000)-us) * time.Microsecond
	return p.now - ago, ago < believed
}

// wasIdle says whether a section that counts as ready was idle since the edge seen before,
// for long enough, and since when: by its own word, as it was heard after it had begun again.
func (p *Plane) wasIdle(s *section, edge uint32) (since time.Duration, yes bool) {
	if !s.counted || s.view.Edge != edge+2 && (s.idleAt == 0 || s.view.Edge != s.idleEdge+1) {
		return 0, false
	}
	idle, told := p.toldIdle(s)
	ready, toldToo := p.toldReady(s)
	return idle, told && toldToo && idle+p.idleAfter(s) <= ready
}

// hadWork says whether a section that counts as idle had a request since the edge seen
// before, and since when: by its own word, as it was heard after both of its edges.
func (p *Plane) hadWork(s *section, edge uint32) (since time.Duration, yes bool) {
	if s.counted || s.view.Edge != edge+2 {
		return 0, false
	}
	idle, told := p.toldIdle(s)
	ready, toldToo := p.toldReady(s)
	return ready, told && toldToo && ready <= idle
}

// hadMoreWork says whether a section whose idle edge is waited out had a request after that,
// long enough after it, and since when: by its own word, as its edges were silent. It is idle
// again since then.
func (p *Plane) hadMoreWork(s *section, idle time.Duration) (since time.Duration, yes bool) {
	ready, told := p.toldReady(s)
	return ready, told && s.process.calms && s.view.Edge == s.idleEdge+2 && s.idleAt <= ready && ready <= idle
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
