package memory

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"xmsched/compute"
)

// class is the first thing by which tasks are ordered.
type class uint8

const (
	kept      class = iota // a foreground that is idle for a moment
	due                    // its turn has come
	coming                 // the timeline has its start
	waiting                // behind somebody whose end nobody knows
	idle                   // expected at a known time
	unknown                // nobody knows when
	forbidden              // not to run at all
)

// never is the use of a task of which nothing is known.
const never = time.Duration(math.MaxInt64)

// rank orders the tasks by who runs soonest: those whose turn it is, then by the
// timeline's starts, then by what the policy expects of the others. An idle
// task that outranks those that run is the exception: it keeps its memory, or
// gives it back, by when it is expected; see keeps.
func (p *Planner) rank(now time.Duration, timeline iter.Seq[compute.Slot], expected []compute.Expectation) {
	for _, s := range p.order {
		s.class, s.use, s.index = unknown, never, len(expected)
	}
	top := p.place(now, timeline)
	for i, e := range expected {
		if s := p.seats[e.Task]; s != nil && s.class == unknown {
			p.expect(s, e, i, now, top)
		}
	}
	for _, s := range p.order {
		p.turn(s, now)
	}
	slices.SortFunc(p.order, func(a, b *seat) int {
		return cmp.Or(
			cmp.Compare(a.class, b.class),
			first(a, b),
			cmp.Compare(a.use, b.use),
			cmp.Compare(a.index, b.index),
			cmp.Compare(a.Task, b.Task),
		)
	})
}

// first lets rank decide among tasks that run at the same time.
func first(a, b *seat) int {
	if a.class > due {
		return 0
	}
	return -cmp.Compare(a.Rank, b.Rank)
}

// place gives the tasks on the timeline their places and returns the highest
// rank among those whose turn it is.
func (p *Planner) place(now time.Duration, timeline iter.Seq[compute.Slot]) (top int) {
	p.reading = reading{now: now, left: len(p.order), top: math.MinInt}
	if timeline != nil {
		// Not a loop: its body would be a new function at every decision.
		timeline(p.slot)
	}
	return p.reading.top
}

// reading is how far a timeline has been read.
type reading struct {
	now         time.Duration
	slots, left int // read, and tasks without a place
	top         int
}

// readSlot takes a slot of the timeline; false: that was enough. A timeline ends
// after a round; one that does not is left.
func (p *Planner) readSlot(slot compute.Slot) bool {
	r := &p.reading
	if r.slots++; r.left == 0 || r.slots > 16*len(p.order)+16 {
		return false
	}
	s := p.seats[slot.Task]
	if s == nil || s.class != unknown {
		return true
	}
	r.left--
	s.class, s.use, s.index = coming, slot.Start, r.slots
	if slot.Start <= r.now {
		s.class, s.use = due, r.now
		r.top = max(r.top, s.Rank)
	}
	return true
}

// expect places a task that is not on the timeline.
func (p *Planner) expect(s *seat, e compute.Expectation, index int, now time.Duration, top int) {
	s.index = index
	switch {
	case e.Keep == math.MinInt:
		s.class = forbidden
	case s.Ready:
		s.class = waiting
	case e.NextReady > now:
		s.class, s.use, s.since = idle, e.NextReady, 0
		if s.Rank > top && p.keeps(s, e.NextReady-now, now) {
			s.class = kept
		}
	default:
		// Unknown, or overdue: as long as it has not been so for longer than moving
		// its memory takes, it counts as about to come. Whenever it does come, that
		// costs at most twice what the best choice would have cost.
		if s.since == 0 {
			s.since = max(now, 1)
		}
		if end := s.since + 2*p.load(s); now < end {
			p.wake(now, end)
			s.class, s.use = idle, now
			if s.Rank > top && !s.returned {
				s.class = kept
			}
		} else {
			s.returned = true
		}
	}
}

// keeps says whether an idle foreground that comes back after left keeps its
// memory. It gives it back if others could use it for longer than it takes to
// move it away and back, and gets it back just before it is due.
func (p *Planner) keeps(s *seat, left time.Duration, now time.Duration) bool {
	load := p.load(s)
	back := load + load/4 + ahead
	if left <= back {
		s.returned = false
	}
	if !s.returned && left <= max(back, 4*load) {
		p.wake(now, now+left) // it may not come
		return true
	}
	s.returned = true
	p.wake(now, now+left-back)
	return false
}

// ahead is how much earlier than by arithmetic memory is asked back: to stop
// whoever runs takes about 2 ms, to decide and to map as much again.
const ahead = 5 * time.Millisecond

// turn notes when a task's turn came, and until when it waits for its memory. A turn that
// somebody of a higher class breaks off goes on after that, and so does the waiting: with a
// request every 50 ms it would begin anew in each gap, and the gap be over before it had run.
func (p *Planner) turn(s *seat, now time.Duration) {
	if s.class > due || s.class == kept {
		s.broken = (s.due || s.broken) && s.class == waiting
		if s.due && s.exchanges() && s.Exchange != s.renewed {
			s.moved, s.renewed = now, s.Exchange // it was not Stopped for that before
		}
		if s.due && s.yields {
			s.exchanged = now
		}
		s.due, s.latest, s.exchange = false, 0, 0
		return
	}
	s.since, s.returned, s.ran = 0, false, now
	if s.due {
		return
	}
	broken := s.broken
	s.due, s.broken, s.yields, s.caught = true, false, false, s.caught && broken
	missing := p.misses(s)
	if broken && missing <= s.missed {
		return
	}
	s.missed = missing
	if missing == 0 {
		s.patience, s.limit = now, now
		return
	}
	s.patience = now + p.patience(missing)
	s.limit = now + 3*p.patience(missing)
}

// patience is how long a task is held at most for what it misses.
func (p *Planner) patience(missing Bytes) time.Duration {
	load := p.config.Link.Time(missing)
	if p.config.Mode == Serial {
		load *= 2
	}
	return load + load/2 + 2*ahead
}

// touches is what the task will use in its turn, by the mode.
func (p *Planner) touches(s *seat) Bytes {
	if p.config.Mode == Predict && s.Working > 0 {
		return s.Working
	}
	return s.Footprint
}

// misses is what is not there of that.
func (p *Planner) misses(s *seat) Bytes {
	return max(0, min(p.touches(s), p.config.Budget)-s.Resident+s.Loading)
}

// load is how long all that the task touches takes to come in.
func (p *Planner) load(s *seat) time.Duration {
	return p.config.Link.Time(min(p.touches(s), p.config.Budget))
}
