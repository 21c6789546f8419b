package plane

import (
	"time"

	"xmsched/preempt/board"
)

// poll is the adaptive polling of a device's boards. It runs only while a task
// with work is kept out, or one that was presumed idle may stir: a client says
// itself when it turns idle, but only when it synchronises.
type poll struct {
	at       time.Duration // next look; 0: nobody waits
	interval time.Duration
}

// quiet remembers how long a section's queues have been empty.
type quiet struct {
	since     time.Duration // 0: not empty at the last look
	submitted uint64        // over all queues of the section
}

// pollDevices looks at the boards of those who are in somebody's way.
func (p *Plane) pollDevices() {
	for _, d := range p.list {
		p.release(d)
		if !d.needsPolling() {
			d.poll = poll{}
			continue
		}
		if d.poll.at == 0 {
			d.poll = poll{at: p.now + p.cfg.PollMin, interval: p.cfg.PollMin}
			continue
		}
		if d.poll.at > p.now {
			continue
		}
		if p.pollSeats(d) {
			d.poll.interval = p.cfg.PollMin
		} else {
			d.poll.interval = min(2*d.poll.interval, p.cfg.PollMax)
		}
		if d.overrunPoll() != 0 {
			p.tellOverruns(d)
			p.release(d)
		}
		d.poll.at = p.now + d.poll.interval
		if soon := d.overrunPoll(); soon != 0 {
			d.poll.at = min(d.poll.at, p.now+soon)
		}
	}
}

// needsPolling says whether somebody with work is kept out, or runs only
// because somebody else is presumed idle.
func (d *device) needsPolling() bool {
	if len(d.seats) < 2 {
		return false
	}
	if d.presumed > 0 {
		return true
	}
	for _, st := range d.working {
		if st.known && !st.runs() {
			return true
		}
	}
	return false
}

// pollSeats looks at everybody who runs or is presumed idle, and says whether
// anything changed.
func (p *Plane) pollSeats(d *device) (changed bool) {
	p.looked = append(p.looked[:0], d.working...) // which a look may change
	if d.presumed > 0 {
		p.looked = append(p.looked[:0], d.seats...)
	}
	for _, st := range p.looked {
		for _, s := range st.sections {
			if s.process.stopped || !(s.counted && st.runs()) && !s.presumed {
				continue
			}
			if p.pollSection(s) {
				changed = true
			}
		}
	}
	return changed
}

// pollSection presumes a section idle whose queues have been empty for long
// enough, and counts one again that stirs.
func (p *Plane) pollSection(s *section) (changed bool) {
	counted := s.counted
	edge := s.view.Edge
	p.lookAt(s)
	empty, submitted := p.emptyQueues(s)
	stirred := submitted != s.quiet.submitted
	s.quiet.submitted = submitted
	switch {
	case s.presumed:
		if !empty || stirred || s.view.Waiting > 0 {
			s.presume(false)
			s.quiet.since = 0
			p.count(s, true, p.now)
		}
	case !s.counted || s.idleAt != 0:
		s.quiet.since = 0
	case !empty || stirred || s.view.Waiting > 0 || s.view.Edge != edge:
		s.quiet.since = 0
	case s.quiet.since == 0:
		s.quiet.since = p.now
	case p.now-s.quiet.since >= p.idleAfter(s):
		since := s.quiet.since
		s.presume(true)
		s.quiet.since = 0
		p.count(s, false, since)
	}
	return s.counted != counted || stirred
}

// freeRun is how many free slots in a row end the search for queues: a process
// takes the lowest free slot, so that those in use lie together.
const freeRun = 64

// scan is one pass over a process's queue slots.
type scan struct {
	at       time.Duration // when; 0: never
	shared   bool          // queues share slot 0 and cannot be told apart
	sections [board.Devices]struct {
		queues      int
		submitted   uint64
		outstanding bool
	}
}

// emptyQueues says whether the section has queues and all of them are known to
// be empty.
func (p *Plane) emptyQueues(s *section) (empty bool, submitted uint64) {
	sc := &s.process.scan
	if sc.at != p.now {
		sc.take(s.process.Board, p.now)
	}
	q := &sc.sections[s.index]
	return !sc.shared && q.queues > 0 && !q.outstanding, q.submitted
}

func (sc *scan) take(b *board.Board, now time.Duration) {
	*sc = scan{at: now, shared: b.Slot(0).Snapshot().Handle != 0}
	eachSlot(b, func(v board.SlotView) {
		q := &sc.sections[v.Device]
		q.queues++
		q.submitted += v.Submitted
		q.outstanding = q.outstanding || v.Outstanding() > 0
	})
}

// eachSlot looks at the queues that have a slot of their own.
func eachSlot(b *board.Board, look func(board.SlotView)) {
	for i, free := 1, 0; i < board.Slots && free < freeRun; i++ {
		v := b.Slot(i).Snapshot()
		if v.Handle == 0 {
			free++
			continue
		}
		free = 0
		look(v)
	}
}
