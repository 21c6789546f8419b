package choose

import (
	"slices"
	"time"

	"xmsched/compute"
)

// Chooser decides for the tasks of one device. The caller tells what happened,
// then asks Decide what follows.
type Chooser struct {
	costs Costs
	now   time.Duration
	tasks []*Task // in order of arrival

	involved int // tasks for which more than a gate is to be decided on

	regime   Regime
	besideAt time.Duration // when it last became Beside
	wasSo    bool          // it ever did

	// The turns of backgrounds of which one runs at a time.
	current *Task
	turns   uint64
	used    time.Duration // of the current one's turn
	counted time.Duration // until when used counts

	// The foreground, over all its tasks.
	busy      bool
	busySince time.Duration
	idleSince time.Duration // 0: was never busy
	gaps      window

	sum     summary
	dirty   []*Task // whose verdict is new, where nobody can be suspended
	changed []*Task
	opened  []*Task
	next    time.Duration
}

// summary is what one look over all tasks tells.
type summary struct {
	tops      int
	busy      bool // a foreground has work
	long      bool // one of those that have is known for long requests
	compared  bool // one of those that have is looked at without backgrounds
	members   int
	sharers   int // those in use that share the device
	strangers int // other backgrounds in use that cannot be prepared
	exclusive bool
	bestRank  int // of members and sharers with work
}

// New makes a chooser for a device of these costs, without tasks. Decisions begin at
// time 0.
func New(costs Costs) *Chooser { return &Chooser{costs: costs.WithDefaults()} }

// SetCosts takes other costs into use.
func (c *Chooser) SetCosts(costs Costs) { c.costs = costs.WithDefaults() }

// Regime is how the backgrounds are prepared at present.
func (c *Chooser) Regime() Regime { return c.regime }

// Add takes a task in. Its order is the zero Order until it is decided on.
func (c *Chooser) Add(id compute.TaskID) *Task {
	t := &Task{id: id}
	c.tasks = append(c.tasks, t)
	c.dirty = append(c.dirty, t)
	return t
}

// Remove forgets a task.
func (c *Chooser) Remove(t *Task) {
	c.weigh(t, false)
	drop := func(x *Task) bool { return x == t }
	c.tasks, c.dirty = slices.DeleteFunc(c.tasks, drop), slices.DeleteFunc(c.dirty, drop)
	if c.current == t {
		c.current = nil
	}
}

// SetAble says what a task can do: whether it can be suspended and have its time
// slice set, and whether a short slice suits it, which is so where it has one
// compute group.
func (c *Chooser) SetAble(t *Task, holds, arms bool) {
	if !holds {
		t.stuck, t.held = false, false
	}
	if t.holds != holds || t.arms != arms {
		t.holds, t.arms = holds, arms
		c.weigh(t, true)
		c.dirty = append(c.dirty, t)
	}
}

// SetShares says whether a task uses the device at the same time as others of which
// that is said, and not in turns with them: a client of MPS.
func (c *Chooser) SetShares(t *Task, shares bool) {
	if t.share != shares {
		t.share = shares
		c.weigh(t, true)
		c.dirty = append(c.dirty, t)
	}
}

// SetAway says whether a task can be reached: one whose process is stopped carries
// nothing out, and what it had on the device goes on.
func (c *Chooser) SetAway(t *Task, away bool) { t.away = away }

// SetKept says whether a task is kept from running by something else, as its memory is not
// there: it has no turns meanwhile, which others could make use of. It tells whether that is
// news.
func (c *Chooser) SetKept(t *Task, kept bool) (news bool) {
	news, t.kept = kept != t.kept, kept
	return news
}

// SetRank gives a task's place among the backgrounds: the larger goes first.
func (c *Chooser) SetRank(t *Task, rank int) { t.rank = rank }

// SetGrain tells the mean length of a task's commands; 0: not known.
func (c *Chooser) SetGrain(t *Task, grain time.Duration) { t.grain = grain }

// Verdict is the policy's word on a task.
func (c *Chooser) Verdict(t *Task, open bool, mode compute.Mode) {
	t.open, t.mode = open, mode
	c.dirty = append(c.dirty, t)
}

// Ready says that a task has work since then.
func (c *Chooser) Ready(t *Task, at time.Duration) {
	if t.ready {
		return
	}
	t.ready, t.fresh, t.readyAt = true, true, at
	if !t.order.Open && at-t.closedAt < late {
		t.quiet = false // it may have passed the gate before it closed
	}
}

// Idle says that a task has had no work since then.
func (c *Chooser) Idle(t *Task, at time.Duration) {
	if !t.ready {
		return
	}
	t.worked = t.workedUntil(at)
	t.ready, t.fresh, t.lastReady = false, false, at
	if t.leads {
		t.requests.add(max(0, at-t.readyAt))
	}
}

// Ran tells of one run of a task: from its first command to the end of the
// synchronisation that it waited in, and how much of that it spent before it
// waited. Unlike what lies between Ready and Idle, a run ends however soon the next
// begins. It ended at that time. Ran says whether Decide is to be asked about it.
func (c *Chooser) Ran(t *Task, at, run, launching time.Duration) bool {
	before := t.bound.verdict()
	if t.leads {
		t.bound.ran(max(at, c.now), run, launching)
	}
	return t.bound.verdict() != before
}

// Launched tells how many commands a task has launched in all, until then. It says
// whether Decide is to be asked about it.
func (c *Chooser) Launched(t *Task, at time.Duration, total uint64) bool {
	before := t.bound.verdict()
	if t.leads {
		t.bound.launched(max(at, c.now), t.workedUntil(at), total)
	}
	return t.bound.verdict() != before
}

// Did tells what was acknowledged of a task's present order.
func (c *Chooser) Did(t *Task, held bool, slice time.Duration) {
	held = held && t.order.Hold
	if t.held && !held {
		t.heldAt = c.now // it lapsed, and is asked for again
	}
	t.held, t.slice, t.stuck = held, slice, false
}

// Decide says whose order changed, those that stop before those that go. The slice
// holds until the next call.
func (c *Chooser) Decide(now time.Duration) []*Task {
	c.now = max(c.now, now)
	c.next = 0
	c.changed, c.opened = c.changed[:0], c.opened[:0]
	if c.involved == 0 {
		for _, t := range c.dirty {
			c.apply(t, c.plain(t))
		}
	} else {
		c.survey()
		c.setRegime()
		c.takeTurns()
		runner := c.runner()
		for _, t := range c.tasks {
			if t != runner {
				c.apply(t, c.order(t, runner))
			}
		}
		if runner != nil {
			c.apply(runner, c.run(runner))
		}
		for _, t := range c.tasks {
			c.setSlice(t)
		}
	}
	clear(c.dirty)
	c.dirty = c.dirty[:0]
	c.changed = append(c.changed, c.opened...)
	return c.changed
}

// Next is when to decide again without news; 0: not before some.
func (c *Chooser) Next() time.Duration { return c.next }

// weigh counts a task among those for which more than a gate is to be decided on, or
// not any more.
func (c *Chooser) weigh(t *Task, there bool) {
	now := there && (t.holds || t.share || t.order.Hold || t.order.Slice != 0)
	switch {
	case now && !t.involves:
		c.involved++
	case !now && t.involves:
		c.involved--
	}
	t.involves = now
}

// OnlyGates says whether nothing but gates is decided on.
func (c *Chooser) OnlyGates() bool { return c.involved == 0 }

func (c *Chooser) wake(at time.Duration) {
	if at > c.now && (c.next == 0 || at < c.next) {
		c.next = at
	}
}

// findLeaders says which tasks are foreground. A task that is none of mode Top leads
// if nobody is of a higher rank, and the policy closed all of a lower one that had
// work when it turned ready, and leaves none of them open beside it.
func (c *Chooser) findLeaders() {
	highest := -1 << 31
	for _, t := range c.tasks {
		highest = max(highest, t.rank)
	}
	for _, t := range c.tasks {
		if t.mode != compute.Bounded || t.rank != highest {
			t.strict = false
		} else if t.ready && t.open {
			over, beside := c.lower(t)
			t.strict = !beside && (t.strict || over && t.fresh)
		}
		t.leads = t.mode == compute.Top || t.strict
	}
	for _, t := range c.tasks {
		t.fresh = false
	}
}

// lower says whether tasks of a lower rank have work and are closed, and whether
// some are open.
func (c *Chooser) lower(t *Task) (closed, open bool) {
	for _, o := range c.tasks {
		if o.rank < t.rank && o.ready {
			closed, open = closed || !o.open, open || o.open
		}
	}
	return closed, open
}

// survey looks over all tasks once.
func (c *Chooser) survey() {
	c.findLeaders()
	s := summary{bestRank: -1 << 31}
	for _, t := range c.tasks {
		if t.order.Hold && !t.held && !t.stuck && t.holds {
			if c.now-t.heldAt >= AckLimit {
				t.stuck = true
			} else {
				c.wake(t.heldAt + AckLimit)
			}
		}
		if !t.order.Open && !t.ready {
			t.quiet = true // what it does next is behind the gate
		}
		s.exclusive = s.exclusive || t.member() && t.armed()
		switch {
		case t.leads:
			s.tops++
			if t.ready && t.open {
				s.busy = true
				s.long = s.long || t.longRequests(c.costs)
				s.compared = s.compared || t.bound.comparison.keepsOut()
			}
		case t.mode != compute.Bounded:
		case t.member():
			s.members++
			if t.ready {
				s.bestRank = max(s.bestRank, t.rank)
			}
		case t.share && !t.away:
			if c.stirs(t) {
				s.sharers++
			}
			if t.ready {
				s.bestRank = max(s.bestRank, t.rank)
			}
		case t.lost() || c.stirs(t):
			s.strangers++
		}
	}
	c.sum = s
	c.follow(s.busy)
}

// inUse says whether a task uses the device, or did until lately.
func (c *Chooser) inUse(t *Task) bool {
	return t.ready || t.lastReady != 0 && c.now-t.lastReady < recent
}

// stirs is inUse, and has it looked at again when that ends.
func (c *Chooser) stirs(t *Task) bool {
	if !c.inUse(t) {
		return false
	}
	if !t.ready {
		c.wake(t.lastReady + recent)
	}
	return true
}

// follow notes when the foreground begins and ends to have work.
func (c *Chooser) follow(busy bool) {
	if busy == c.busy {
		return
	}
	c.busy = busy
	edge := time.Duration(0)
	for _, t := range c.tasks {
		if !t.leads {
			continue
		}
		if busy && t.ready && (edge == 0 || t.readyAt < edge) {
			edge = t.readyAt
		}
		if !busy {
			edge = max(edge, t.lastReady)
		}
	}
	edge = min(edge, c.now)
	if !busy {
		c.idleSince = edge
		return
	}
	c.busySince = edge
	if c.idleSince != 0 {
		c.gaps.add(max(0, edge-c.idleSince))
	}
}

// setRegime decides how the backgrounds are prepared.
func (c *Chooser) setRegime() {
	otherwise, beside := Plain, Plain
	switch s := &c.sum; {
	case s.tops == 0 || s.strangers > 0:
	case s.members > 0 && s.sharers == 0:
		otherwise, beside = Arm, Beside
	case s.members == 0 && s.sharers > 0 && c.leadersShare():
		beside = Share
	}
	want := otherwise
	if beside != Plain && c.cpuBound(beside) {
		want = beside
	}
	if want == c.regime {
		return
	}
	if want != otherwise {
		if at := c.besideAt + settled; c.wasSo && c.now < at {
			c.wake(at)
			want = otherwise
		} else {
			c.besideAt, c.wasSo = c.now, true
		}
	}
	c.regime = want
	for _, t := range c.tasks {
		t.bound.beside(want != otherwise && t.leads)
	}
}

// leadersShare says whether every foreground in use shares the device.
func (c *Chooser) leadersShare() bool {
	for _, t := range c.tasks {
		if t.leads && c.inUse(t) && !t.share {
			return false
		}
	}
	return true
}

// cpuBound says whether every foreground in use waits for the CPU. While none is
// in use, what was found out last holds.
func (c *Chooser) cpuBound(beside Regime) bool {
	some := false
	for _, t := range c.tasks {
		if t.leads && c.inUse(t) {
			if !t.bound.cpu {
				return false
			}
			some = true
		}
	}
	return some || c.regime == beside
}

// allowed says whether a background may run: the policy's word, or what the
// regime makes of it.
func (c *Chooser) allowed(t *Task) bool { return t.open || c.regime == Beside && c.beside(t) }

// beside says whether a background may run at the same time as a foreground that has
// work and is bound by the CPU.
func (c *Chooser) beside(t *Task) bool {
	return c.busy && !c.sum.compared && t.rank >= c.sum.bestRank
}

// eligible says whether a member wants a turn and may have it.
func (c *Chooser) eligible(t *Task) bool {
	return t.ready && t.member() && c.allowed(t) && !t.kept
}

// takeTurns decides which of the members runs, where only one may.
func (c *Chooser) takeTurns() {
	c.sum.exclusive = c.sum.exclusive || c.regime == Arm || c.regime == Beside
	if c.current != nil && (!c.sum.exclusive || !c.current.member()) {
		c.current = nil
	}
	if !c.sum.exclusive {
		return
	}
	cur := c.current
	if cur != nil && cur.ready && cur.order.Open && !cur.order.Hold {
		c.used += c.now - c.counted
	}
	c.counted = c.now
	var next, spare *Task // who waits longest; who could run but has no work, or is kept
	for _, t := range c.tasks {
		switch {
		case t == cur:
		case c.eligible(t):
			if next == nil || t.turn < next.turn {
				next = t
			}
		case spare == nil && t.member() && c.allowed(t):
			spare = t
		}
	}
	switch {
	case next == nil && (cur == nil || !c.allowed(cur) && !c.busy) && spare != nil:
		c.take(spare)
	case next == nil:
		return
	case cur == nil || !c.eligible(cur) || c.used >= c.costs.turn():
		c.take(next)
	}
	c.wake(c.now + c.costs.turn() - c.used) // somebody may wait, or come to
}

func (c *Chooser) take(t *Task) {
	c.turns++
	c.current, t.turn, c.used = t, c.turns, 0
}

// runner is the member that may run now; nil: none may, or all.
func (c *Chooser) runner() *Task {
	if c.current != nil && c.allowed(c.current) {
		return c.current
	}
	return nil
}
