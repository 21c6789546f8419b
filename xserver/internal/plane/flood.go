package plane

import "time"

// A client may ring as often as it likes; the daemon answers floodRings rings in
// a floodWindow and then looks at the board every floodPoll instead, for one
// window. A program that launches and synchronises 100,000 times a second is
// served well enough so, and one that rings for the sake of it takes a few
// percent of a core at most from the others.
const (
	floodWindow = 10 * time.Millisecond
	floodRings  = 64
	floodPoll   = 500 * time.Microsecond
)

// flood counts the rings of one process.
type flood struct {
	windowEnd time.Duration
	rings     int
	throttled bool
	lookAt    time.Duration // next look while throttled; 0: not throttled
}

// ring counts one.
func (f *flood) ring(now time.Duration) {
	if now >= f.windowEnd {
		f.windowEnd, f.rings = now+floodWindow, 0
	}
	if f.rings++; f.rings > floodRings && !f.throttled {
		f.throttled = true
		f.windowEnd = now + floodWindow
		f.lookAt = now + floodPoll
	}
}

// unthrottle looks at the boards of throttled processes, and lets them ring
// again after their window.
func (p *Plane) unthrottle() {
	for _, pr := range p.processes {
		f := &pr.flood
		if !f.throttled || f.lookAt > p.now {
			continue
		}
		p.look(pr)
		f.lookAt = p.now + floodPoll
		if p.now >= f.windowEnd {
			*f = flood{}
		}
	}
}

// Throttled says whether a process's rings are ignored for now.
func (p *Plane) Throttled(id ProcessID) bool {
	pr, ok := p.processes[id]
	return ok && pr.flood.throttled
}
