package memory

import (
	"slices"
	"time"

	"xmsched/compute"
)

// hold decides whether a task should be Stopped for its memory. One whose turn
// it is not is held as long as anything of it has to move, and does, or it should
// exchange what it will not use for what it will. One whose turn it is
// is held back at the beginning until its memory is there, since what is missing
// costs as much again at every pass over it, and takes the way that others wait for;
// later on only for a short stop, if there is a batch to bring in, or all that is
// missing, and it ran long enough since the last; and at once for an exchange, as what it
// has turned to it reads from the host, if the last one was long enough ago.
func (p *Planner) hold(s *seat, now time.Duration) {
	progress := s.progresses(now)
	out := s.plan < s.Resident && progress
	missing, incoming := s.missing(), s.incoming()
	if s.class == due && p.follower() != nil {
		missing = p.lacks(s)
		incoming = min(incoming, max(0, p.wants(s)-s.Resident))
	}
	in := missing >= Granularity && (progress || p.flows && s.plan <= s.Resident)
	if s.plan < s.Resident || s.incoming() >= Granularity || s.exchanges() {
		p.wake(now, s.turnsAt(now))
	}
	if s.class != due {
		swaps := s.exchanges() && progress
		s.held, s.yields = out || in || swaps, s.yields && swaps
		return
	}
	if s.held && in && now >= s.patience && now < s.limit {
		s.patience = min(s.limit, now+p.patience(missing)) // the way, or the room, was not its own yet
	}
	whole := missing >= Granularity && incoming >= missing
	if now >= s.patience && (incoming >= BatchBytes || whole) {
		in = p.stopsShortly(s, incoming, whole, now) || in
	}
	in = in && now < s.patience
	swaps := p.swaps(s, now)
	s.held = out || in || swaps
	if in {
		p.wake(now, s.patience)
	}
}

// stopsShortly begins a short stop of a task whose turn it is, if one is due: whole says that
// it brings in all that is missing.
func (p *Planner) stopsShortly(s *seat, incoming Bytes, whole bool, now time.Duration) bool {
	again := s.patience + p.between(incoming)
	all := whole && s.Resident+incoming >= p.touches(s)
	if all && !s.caught { // from the host each pass takes as long as that
		again = s.patience + p.config.Link.Time(incoming) + ahead
	}
	p.wake(now, again)
	if now < again {
		return false
	}
	s.patience, s.caught = now+p.patience(incoming), s.caught || all
	if has := [2]Bytes{s.Resident, s.plan}; s.vain != has {
		s.moved, s.vain = now, has // it could not take it while it ran
		return true
	}
	return false // it did not at the last stop either
}

// swaps decides whether a task whose turn it is should be Stopped for an exchange.
func (p *Planner) swaps(s *seat, now time.Duration) bool {
	if s.exchange != 0 && (!s.exchanges() || now >= s.exchange) {
		s.exchanged, s.exchange, s.yields = now, 0, false
	}
	if s.exchange == 0 && s.exchanges() {
		yields, again := p.yields(s), s.exchanged+p.between(s.Exchange)
		if yields {
			again = s.exchanged + 2*ahead // nobody loses more than the switches
		}
		if s.exchanged == 0 || now >= again {
			s.exchange, s.yields = now+min(p.patience(s.Exchange), p.config.WaitCap), yields
		} else {
			p.wake(now, again)
		}
	}
	p.wake(now, s.exchange)
	return s.exchange != 0 && s.progresses(now)
}

// worthYielding is from when on the copies of an exchange, with the stop that it takes beside,
// are longer than the two switches of letting somebody else run meanwhile.
const worthYielding = ahead

// yields says whether somebody else had better run while a task exchanges: one whose memory
// is there.
func (p *Planner) yields(s *seat) bool {
	if p.config.Link.Time(s.Exchange) < worthYielding {
		return false
	}
	next := p.follower()
	return next != nil && p.lacks(next) < Granularity && !next.exchanges()
}

// follower is whose turn comes next by the timeline; nil: nobody's.
func (p *Planner) follower() *seat {
	if i := slices.IndexFunc(p.order, func(s *seat) bool { return s.class == coming }); i >= 0 {
		return p.order[i]
	}
	return nil
}

// between is how long a task runs in its turn between two short stops that each bring in
// so much.
func (p *Planner) between(b Bytes) time.Duration { return 4*p.config.Link.Time(b) + 4*ahead }

// setQuanta sets the lengths of turns. Those that somebody of a higher class keeps out have
// theirs after that, and are not told of another meanwhile: what they foresee goes by it.
func (p *Planner) setQuanta(short bool) {
	quantum := p.quantum(short)
	for _, s := range p.order {
		if s.class != waiting || !short {
			s.quantum = quantum
		}
	}
}

// quantum is the length of a turn that hides the loading of the next task, for
// tasks that do not fit together; 0 leaves it to the policy. All turns are
// equally long, so that tasks of different sizes have equal shares.
func (p *Planner) quantum(short bool) time.Duration {
	if !short {
		return 0
	}
	var longest time.Duration
	waiters := 0
	for _, s := range p.order {
		if s.class == due || s.class == coming {
			longest = max(longest, p.load(s))
		}
		if s.class == coming {
			waiters++
		}
	}
	if waiters == 0 {
		return 0
	}
	// A quarter more than the load: it shares the way with the one that goes out,
	// and the stop itself takes 2 ms.
	q := longest + longest/4 + ahead
	q = min(q, p.config.WaitCap/time.Duration(waiters), compute.MaxQuantum)
	return max(q, compute.DefaultQuantum)
}

// overtime is by how much the turn of a task should end later than by the timeline, or
// earlier: shortly before the memory of the one behind it is there, as far as that comes
// in beside the one that runs, and in time for that one to be stopped and to make room
// for the next. What does not come is waited for no longer than a load takes, and who
// exchanges memory is not: others have their turns meanwhile.
func (p *Planner) overtime(s *seat, now time.Duration) time.Duration {
	if s.class != due || !s.Open {
		return 0
	}
	i := slices.IndexFunc(p.order, func(s *seat) bool { return s.class == coming && !s.exchanges() })
	if i < 0 {
		return 0
	}
	next, there := p.order[i], now
	if missing := p.lacks(next); missing >= Granularity && (next.progresses(now) || p.flows) {
		there = max(now, now+p.config.Link.Time(missing)-ahead)
		if s.latest == 0 {
			s.latest = max(now, next.use) + p.patience(missing)
		}
		there = min(there, s.latest)
	}
	return there - next.use
}
