package plane

import "time"

const (
	shareSpan = 60          // samples that are kept
	shareStep = time.Second // between two
)

// shared is the time of a device as those see it who share it: it passes the more
// slowly the more of them run. So a change costs the same however many there are.
type shared struct {
	running int
	clock   time.Duration // time that each who ran all along had of the device
	at      time.Duration // when the clock was read
}

func (s *shared) advance(now time.Duration) {
	if s.running > 0 {
		s.clock += (now - s.at) / time.Duration(s.running)
	}
	s.at = now
}

// use is how much of a device a seat had.
type use struct {
	had     time.Duration // until it last began to run
	from    time.Duration // by the device's shared clock; while it runs
	runs    bool
	sampled time.Duration // of what it had, this much is in samples
	samples [shareSpan]uint16
	n       int // samples taken
}

// uses takes in that a seat begins or ceases to run.
func (p *Plane) uses(st *seat, runs bool) {
	u, s := &st.use, &st.device.shared
	if u.runs == runs {
		return
	}
	s.advance(p.now)
	u.runs = runs
	if runs {
		s.running++
		u.from = s.clock
		return
	}
	s.running--
	u.had += s.clock - u.from
}

// sampleShares takes a sample of every seat, once a shareStep.
func (p *Plane) sampleShares() {
	passed := p.now - p.sampledAt
	if passed < shareStep {
		return
	}
	p.sampledAt = p.now
	for _, d := range p.list {
		d.shared.advance(p.now)
		for _, st := range d.seats {
			u := &st.use
			had := u.had
			if u.runs {
				had += d.shared.clock - u.from
			}
			u.samples[u.n%shareSpan] = uint16(min(1000*(had-u.sampled)/passed, 1000))
			u.n++
			u.sampled = had
		}
	}
}

// list copies the samples, the newest last.
func (u *use) list() []uint32 {
	n := min(u.n, shareSpan)
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(u.samples[(u.n-n+i)%shareSpan])
	}
	return out
}
