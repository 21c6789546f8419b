package memory

import (
	"cmp"
	"slices"
	"time"
)

const (
	// lead is how much may be on its way out, or in, before the next task is told
	// to give up, or to take, something as well: two batches keep a way busy, and
	// more would evict what a change of plan a moment later would have kept.
	lead = 2 * BatchBytes
	// last is how much of one task's memory may still have to come in when the next one's
	// begins to: less would leave the way idle in between.
	last = 4 * lead
	// spare is how much room is made for what comes in before that has its bytes: it covers
	// the batches that are under way, and the time to stop the next one that is to give up.
	// What goes out without a copy takes no time, and more of it would have to come in again
	// that could have stayed.
	spare = 5 * BatchBytes
	// leastSpare is how much room is made whatever is coming in already: one batch is
	// copied out while the one before is unmapped, the daemon hears of the one before that,
	// and the one after is asked for. With less the way out is idle in between where calls of
	// the driver wait for another's (to unmap a batch takes 0.4 ms, and 5.5 while another
	// process maps).
	leastSpare = 4 * BatchBytes
	// sliver is less than one step of what a short host makes room for (32 MiB): such steps
	// come to a batch in the end.
	sliver = 32 * MiB
	// shareUnit keeps room to grow from changing with every allocation of others.
	shareUnit = 64 * MiB
)

// desire fills the budget in the order of rank: what cannot leave, then what
// each touches, then the rest of what each has: first what is there, as nothing
// is to be moved out for memory that is not touched; then what room there is goes to
// those who run next, as they are stopped and can take it. It says whether there is
// not enough for all.
func (p *Planner) desire() (short bool) {
	left := p.config.Budget - p.pinned
	for _, s := range p.order {
		s.desired = s.Pinned
		short = p.give(s, p.wants(s), &left) || short
	}
	for _, s := range p.order {
		short = p.give(s, s.has(), &left) || short
	}
	for _, s := range p.order {
		if s.class == coming {
			short = p.give(s, s.Footprint+s.Asked, &left) || short
		}
	}
	for _, s := range p.order {
		short = p.give(s, s.Footprint+s.Asked, &left) || short
	}
	return short
}

// wants is what a task uses in its turn, and what it waits for. Less than a batch is not
// brought in as long as there is more on the host, so that it is a batch that it lacks.
func (p *Planner) wants(s *seat) Bytes {
	b := p.touches(s) + s.Asked
	if b > s.Resident {
		b = max(b, min(s.Resident+BatchBytes, s.Footprint+s.Asked))
	}
	return b
}

// lacks is what of that it should have and has not: the rest can wait until it is not its
// turn.
func (p *Planner) lacks(s *seat) Bytes {
	return max(0, min(p.wants(s), s.desired)-s.Resident+s.Loading)
}

// give lets a task want up to b, as far as there is anything left, and says
// whether that is less. A sliver more than it has, and less than it wants, it would not
// bring in before its turn: others would have made room for nothing. While an allocation
// waits for memory whatever there is counts.
func (p *Planner) give(s *seat, b Bytes, left *Bytes) (short bool) {
	if b <= s.desired {
		return false
	}
	if p.config.Mode.Whole() && s.class > due {
		if s.Asked == 0 {
			return true // nothing comes in ahead of its turn
		}
		b, short = max(s.desired, min(b, s.has()+s.Asked)), true // what is new does
	}
	take := min(b-s.desired, max(0, *left))
	if take < b-s.desired {
		take, short = take.Down(), true
		if more := s.desired + take - s.Resident; s.class > due && more > 0 && more < sliver && !p.asked() {
			take = max(0, s.Resident-s.desired)
		}
	}
	s.desired += take
	*left -= take
	return short
}

// asked says whether an allocation waits for memory.
func (p *Planner) asked() bool {
	return slices.ContainsFunc(p.order, func(s *seat) bool { return s.Asked > 0 })
}

// fill works out the targets: it takes back, gives what is free, and tells the
// tasks whose target changed.
func (p *Planner) fill(now time.Duration, short bool) {
	share := Bytes(0)
	if !short {
		share = p.share()
	}
	for _, s := range p.order {
		// What a task has beyond what is desired it keeps until somebody needs it: a
		// change of plan finds it there.
		s.plan = max(s.Resident, min(s.target, s.room(s.desired+2*share)))
	}
	p.flows = p.lower(now)
	free := p.config.Budget
	for _, s := range p.order {
		free -= s.committed()
	}
	if p.config.Mode != Serial || !p.flows {
		p.raise(&free, now)
	}
	for _, s := range p.order {
		if share > 0 && s.plan < s.room(s.desired+share/2) {
			s.grant(s.room(s.desired+share), &free)
		}
		s.set(s.plan, now)
	}
}

// share is the room to grow that each task gets while there is enough for all,
// so that an allocation need not ask; one share is left for a newcomer.
func (p *Planner) share() Bytes {
	slack := p.config.Budget
	for _, s := range p.order {
		slack -= max(s.desired, s.Resident)
	}
	slack = max(0, slack) / Bytes(len(p.order)+1)
	return slack - slack%shareUnit
}

// room is b within the task's limit.
func (s *seat) room(b Bytes) Bytes {
	if s.Limit > 0 {
		return min(b, max(s.Limit, s.desired))
	}
	return b
}

// grant raises the plan to b as far as there are bytes free.
func (s *seat) grant(b Bytes, free *Bytes) {
	have := s.committed()
	if b > have {
		more := b - have
		if more > *free {
			more = max(0, *free).Down()
		}
		*free -= more
		b = have + more
	}
	s.plan = max(s.plan, b)
}

// lower has tasks give up as much as is wanted by those before them, from the
// one that runs last on. The next one is told when what the last one was told
// is nearly out. It says whether anything is on its way that can be counted on, or will
// be as soon as what comes in has use for it.
func (p *Planner) lower(now time.Duration) (out bool) {
	need, all := p.need(now)
	if need <= 0 {
		return all > 0
	}
	p.rankGoers()
	for _, s := range p.goers {
		surplus := s.Resident - s.desired
		if need <= 0 {
			break
		}
		if surplus <= 0 {
			continue
		}
		give := min(surplus, need.Up())
		if p.config.Mode.Whole() {
			give = surplus
		}
		s.plan = s.Resident - give
		if s.target < s.Resident {
			p.wake(now, s.turnsAt(now))
		}
		if !s.leaving(now) {
			continue // somebody else has to make room meanwhile
		}
		need, out = need-give, true
		if give > lead {
			break
		}
	}
	return out
}

// need is by how much what is there exceeds what leaves the room that is wanted now: all
// that others wait for, and of what comes in batch by batch the next ones. Of a task
// that is stuck nothing comes, and all that it may have is lost to those behind it. All
// is what it will come to.
func (p *Planner) need(now time.Duration) (need, all Bytes) {
	need = -p.config.Budget
	comes, loading := Bytes(0), Bytes(0)
	for _, s := range p.order {
		loading += s.Loading
		more := max(0, s.desired-s.Resident)
		switch {
		case s.stuck(now):
			need += max(s.bound, s.desired)
		case s.Stopped && s.Asked == 0:
			need, comes = need+s.Resident, comes+more
		default:
			need += s.Resident + more
		}
	}
	all = need + comes
	if !p.hasty && !p.config.Mode.Whole() {
		comes = min(comes, max(spare-loading, leastSpare))
	}
	return need + comes, all
}

// leaving says whether what the task is told to give up can be counted on.
func (s *seat) leaving(now time.Duration) bool {
	return s.target >= s.Resident || s.progresses(now)
}

// stuck says whether the task does not take what it may have, and what it may have
// stays as it is.
func (s *seat) stuck(now time.Duration) bool {
	return s.bound > s.Resident && s.target == s.plan && !s.progresses(now)
}

// arriving says whether what it may bring in can be counted on.
func (s *seat) arriving(now time.Duration) bool { return s.target != s.plan || s.progresses(now) }

// rankGoers orders the tasks by who gives up first: who runs last, or, for tasks
// that are swapped as a whole, who ran longest ago.
func (p *Planner) rankGoers() {
	p.goers = append(p.goers[:0], p.order...)
	slices.Reverse(p.goers)
	if p.config.Mode.Whole() {
		slices.SortStableFunc(p.goers, func(a, b *seat) int { return cmp.Compare(a.ran, b.ran) })
	}
}

// raise gives what is free to those that should have more, in the order of
// rank. The way in is one task's at a time: the first is not to wait for what
// is loaded for the second, least of all when its turn has come.
func (p *Planner) raise(free *Bytes, now time.Duration) {
	for _, s := range p.order {
		more := s.desired > s.plan
		if more && (s.desired-s.committed() <= *free || *free >= BatchBytes) {
			s.grant(s.desired, free)
		}
		if s.plan < s.desired {
			return
		}
		if (more || s.class == due) && s.Stopped && s.incoming() > last && s.arriving(now) {
			return
		}
	}
}
