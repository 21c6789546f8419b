package memory

import "time"

// seat is a task on the device.
type seat struct {
	Claim // as far as it is believed
	round uint64

	target Bytes
	want   uint32
	// bound is the most that the task can have at this moment: its target, what it
	// has, and whatever it may still be making under a target that was since
	// lowered. Invariant: target <= bound, Resident <= bound.
	bound Bytes
	// moved is when the target last changed, or what is resident did.
	moved time.Duration
	// The exchange for which moved was set though nothing did, as it could not before; 0: none.
	renewed Bytes

	// Where it stands among the others; see rank.
	class class
	use   time.Duration
	index int
	// since is when it became clear that nobody knows when it runs next; 0: it is
	// known.
	since    time.Duration
	returned bool // an idle foreground that has given its memory back
	ran      time.Duration

	// due: its turn has come. It is held back for its memory until patience, and as
	// long as that comes in until limit.
	due             bool
	broken          bool     // somebody of a higher class broke its turn off
	caught          bool     // it was stopped in its turn for all that it lacked
	vain            [2]Bytes // what it had and might have when it last was stopped shortly
	patience, limit time.Duration
	missed          Bytes         // what it missed when these were set
	quantum         time.Duration // the length of its turns; 0: the policy's own
	exchange        time.Duration // until then it is held back for an exchange; 0: it is not
	exchanged       time.Duration // when it last was; 0: never
	yields          bool          // somebody else is to run until that is done
	latest          time.Duration // that its turn ends because of the next one's memory; 0: not known

	desired Bytes
	plan    Bytes // the target that is being worked out
	held    bool
}

// stalled is after how long without progress a task's moves are no longer
// waited for: a batch takes 3 ms, 30 if its host memory has to be made first, and
// to stop a task takes 2. It is tried again every retry.
const (
	stalled = 100 * time.Millisecond
	retry   = time.Second
)

// take reads the claims into the seats.
func (p *Planner) take(now time.Duration, claims []Claim) {
	p.round++
	p.order, p.pinned = p.order[:0], 0
	for i := range claims {
		s := p.seats[claims[i].Task]
		fresh := s == nil
		if fresh {
			s = &seat{moved: now}
			p.seats[claims[i].Task] = s
		}
		if s.round == p.round {
			continue // claimed twice: the first counts
		}
		s.round = p.round
		s.believe(claims[i], fresh, p.config.Budget, now)
		p.order = append(p.order, s)
		p.pinned += s.Pinned
	}
	if len(p.order) == len(p.seats) {
		return
	}
	for id, s := range p.seats {
		if s.round != p.round {
			delete(p.seats, id)
		}
	}
}

// believe takes a claim as far as it can be true. A task that was there before,
// in another daemon's time, may have anything up to the budget; one that is known
// has no more than it was given, or holds pinned, which comes about past us.
func (s *seat) believe(c Claim, fresh bool, budget Bytes, now time.Duration) {
	most := MaxBytes
	if c.Limit > 0 {
		most = min(most, c.Limit)
	}
	c.Pinned = within(c.Pinned, min(most, max(budget, s.Pinned)))
	known := max(s.bound, c.Pinned)
	if fresh {
		known = min(most, budget)
	}
	c.Resident = within(c.Resident, known)
	c.Resident = max(c.Resident, c.Pinned)
	c.Loading = within(c.Loading, c.Resident-c.Pinned)
	c.Footprint = max(within(c.Footprint, most), c.Resident)
	if c.Working = within(c.Working, c.Footprint); c.Working > 0 {
		c.Working = max(c.Working, c.Pinned)
	}
	c.Asked = within(c.Asked, most-min(most, c.Footprint))
	c.Exchange = within(c.Exchange, min(c.Footprint, budget))
	if c.Resident != s.Resident || c.Loading != s.Loading || c.Exchange >= BatchBytes && !s.exchanges() {
		s.moved, s.renewed = now, 0
	}
	s.Claim = c
	if fresh {
		s.target, s.bound, s.want = c.Resident, c.Resident, c.Seen
		return
	}
	switch {
	case c.Seen == s.want:
		s.bound = 0
	case c.May > 0:
		s.bound = min(s.bound, c.May)
	}
	s.bound = max(s.bound, s.target, c.Resident)
}

func within(b, most Bytes) Bytes { return max(0, min(b, most)) }

// set gives the task a target.
func (s *seat) set(b Bytes, now time.Duration) {
	if b == s.target {
		return
	}
	s.target, s.moved = b, now
	s.want++
	s.bound = max(s.bound, b)
}

// progresses says whether a move that was asked of the task is to be counted on.
func (s *seat) progresses(now time.Duration) bool { return (now-s.moved)%retry < stalled }

// turnsAt is when progresses changes its answer if nothing moves.
func (s *seat) turnsAt(now time.Duration) time.Duration {
	since := (now - s.moved) % retry
	if since < stalled {
		return now - since + stalled
	}
	return now - since + retry
}

// missing is what the task should have and has not.
func (s *seat) missing() Bytes { return max(0, s.desired-s.Resident+s.Loading) }

// has is what it has, or had before it began to exchange some of that.
func (s *seat) has() Bytes {
	if s.exchanges() && s.held {
		return max(s.Resident, s.target)
	}
	return s.Resident
}

// exchanges says whether the task has a batch to bring in, for others of its own.
func (s *seat) exchanges() bool { return s.Exchange >= BatchBytes }

// incoming is what it may bring in at this moment.
func (s *seat) incoming() Bytes { return max(0, min(s.plan, s.desired)-s.Resident) }

// committed is what it has or may have if it gets its plan.
func (s *seat) committed() Bytes { return max(s.bound, s.plan) }
