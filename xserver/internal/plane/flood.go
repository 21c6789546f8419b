package plane

import "time"

// A client may ring as often as it likes; the daemon answers floodRings rings in
// a floodWindow and then looks at the board every floodPoll instead, for one
// window; if nobody else is on its devices, only once after floodAlone. A program
// that launches and synchronises 100,000 times a second is served well enough so,
// and one that rings for the sake of it takes a few percent of a core at most.
const (
	floodWindow = 10 * time.Millisecond
	floodRings  = 64
	floodPoll   = 500 * time.Microsecond
	floodAlone  = 100 * time.Millisecond
)

// flood counts the rings of one process.
type flood struct {
	windowEnd time.Duration
	rings     int
	throttled bool
	lookAt    time.Duration // next look while throttled
}

// heard counts a ring, and throttles the process if it was one too many.
func (p *Plane) heard(pr *process) {
	f := &pr.flood
	if p.now >= f.windowEnd {
		f.windowEnd, f.rings = p.now+floodWindow, 0
	}
	if f.rings++; f.rings <= floodRings || f.throttled {
		return
	}
	f.throttled = true
	if pr.hasRival() {
		f.windowEnd, f.lookAt = p.now+floodWindow, p.now+floodPoll
	} else {
		f.windowEnd, f.lookAt = p.now+floodAlone, p.now+floodAlone
	}
	p.flooding = append(p.flooding, pr)
}

// hasRival says whether another task is on one of the process's devices.
func (pr *process) hasRival() bool {
	for _, s := range pr.sections {
		if s != nil && len(s.seat.device.seats) > 1 {
			return true
		}
	}
	return false
}

// unthrottle looks at the boards of throttled processes, and lets them ring
// again after their window.
func (p *Plane) unthrottle() {
	if len(p.flooding) == 0 {
		return
	}
	list := p.flooding
	p.flooding = nil
	for _, pr := range list {
		f := &pr.flood
		if f.lookAt > p.now {
			p.flooding = append(p.flooding, pr)
			continue
		}
		p.look(pr)
		if p.now >= f.windowEnd {
			*f = flood{}
			continue
		}
		f.lookAt = p.now + floodPoll
		p.flooding = append(p.flooding, pr)
	}
}

// rivalCame has throttled processes on a device looked at, as what was last seen
// of them may be old.
func (p *Plane) rivalCame(d *device) {
	for _, pr := range p.flooding {
		for _, s := range pr.sections {
			if s != nil && s.seat.device == d {
				pr.flood.lookAt = p.now
			}
		}
	}
}

// Throttled says whether a process's rings are ignored for now.
func (p *Plane) Throttled(id ProcessID) bool {
	pr, ok := p.processes[id]
	return ok && pr.flood.throttled
}
