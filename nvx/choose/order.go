package choose

import "time"

// plain is the order of a task of which nothing but the gate is decided.
func (c *Chooser) plain(t *Task) Order {
	o := Order{Open: t.open, Slice: t.order.Slice, Reason: Outranked}
	switch {
	case t.open:
		o.Reason = Runs
	case c.regime == Share && t.coexists(c.costs) && c.beside(t):
		o.Open, o.Reason = true, RunsBeside
	case c.sum.compared && (c.regime == Share && t.coexists(c.costs) || c.regime == Beside):
		o.Reason = Compared
	}
	return o
}

// order is that of a task which is not the runner.
func (c *Chooser) order(t, runner *Task) Order {
	o := c.plain(t)
	if !t.holds {
		return o
	}
	if !c.sum.exclusive || !t.member() {
		if !o.Open && t.behind() {
			o.Hold, o.Reason = c.suspends(t)
		}
		return o
	}
	o.Open = false
	switch {
	case runner != nil:
		o.Reason = NotItsTurn
		o.Hold = t.order.Hold || t.stays()
	case c.allowed(t):
		o.Reason, o.Hold = NotItsTurn, t.order.Hold
	default:
		o.Hold, o.Reason = c.suspends(t)
	}
	return o
}

// suspends says whether a task that the policy keeps out is to be suspended as
// well. What is suspended stays so.
func (c *Chooser) suspends(t *Task) (bool, Reason) {
	compared := c.regime == Beside && c.sum.compared
	switch {
	case t.order.Hold && t.order.Reason == Compared && !compared:
		return true, Unarmed
	case t.order.Hold:
		return true, t.order.Reason
	}
	if !t.stays() {
		return false, Outranked
	}
	if !c.busy {
		return c.suspendsForTurn(t)
	}
	if compared {
		return true, Compared
	}
	if !t.sureArmed() {
		return true, Unarmed
	}
	if c.sum.long {
		return true, LongRequest
	}
	at := c.busySince + c.costs.holdAfter()
	if c.now >= at {
		return true, RequestGrew
	}
	c.wake(at)
	return false, Switched
}

// suspendsForTurn says so for one that is kept out by its equals: where commands
// are short the gate is enough, and a suspension would take more than it gives.
func (c *Chooser) suspendsForTurn(t *Task) (bool, Reason) {
	if t.grain != 0 && t.grain <= c.costs.Suspend {
		return false, Outranked
	}
	closed := t.closedAt
	if t.order.Open {
		closed = c.now // now, that is
	}
	if at := closed + c.costs.holdAfter(); c.now < at {
		c.wake(at)
		return false, Outranked
	}
	return true, LongKernels
}

// run is the runner's order: it goes, unless another armed one may still be on the
// device, or the foreground is back before it would be worth it.
func (c *Chooser) run(t *Task) Order {
	o := Order{Open: true, Slice: t.order.Slice, Reason: Runs}
	if !t.open {
		o.Reason = RunsBeside
	}
	if c.regime == Beside && c.busy && t.armed() {
		// With the shortest slice it would get nothing, and every pause of the
		// foreground would cost two switches.
		return Order{Hold: t.order.Hold || t.stays(), Slice: t.order.Slice, Reason: WaitsForSlice}
	}
	if t.order.Open && !t.order.Hold {
		return o
	}
	if t.armed() && c.armedBeside(t) {
		return Order{Hold: t.order.Hold, Slice: t.order.Slice, Reason: WaitsForStop}
	}
	if c.overGap(t) {
		return Order{Hold: true, Slice: t.order.Slice, Reason: OverGap}
	}
	return o
}

// armedBeside says whether another armed task may be on the device. One that
// cannot be stopped is not waited for.
func (c *Chooser) armedBeside(t *Task) bool {
	for _, o := range c.tasks {
		if o != t && o.member() && o.armed() && o.runnable() {
			return true
		}
	}
	return false
}

// overGap says whether a suspended background stays so after the foreground's
// request, as the next is near and long as well; but never for longer than it may
// lose a request.
func (c *Chooser) overGap(t *Task) bool {
	if !t.order.Hold || c.busy || !c.gaps.known() || c.gaps.median >= c.costs.Suspend+c.costs.Resume || !c.longForeground() {
		return false
	}
	until := c.idleSince + Loss - c.costs.Resume
	if c.now >= until {
		return false
	}
	c.wake(until)
	return true
}

// longForeground says whether a foreground in use is known for long requests.
func (c *Chooser) longForeground() bool {
	for _, t := range c.tasks {
		if t.leads && t.longRequests(c.costs) && c.inUse(t) {
			return true
		}
	}
	return false
}

// loose is how many commands of a task need not wait at the gate on the device: a
// power of two, so that it changes rarely.
func (c *Chooser) loose(t *Task) int {
	beside := c.regime == Beside && t.background() || c.regime == Share && t.coexists(c.costs)
	if !beside || !t.short(c.costs) {
		return 0
	}
	n := looseMost
	for n > looseLeast && time.Duration(n)*t.grain > looseFor {
		n /= 2
	}
	return n
}

// apply makes an order the task's.
func (c *Chooser) apply(t *Task, o Order) {
	if o.Open {
		o.Loose = c.loose(t)
	}
	if o == t.order {
		return
	}
	before := t.order
	t.order = o
	c.weigh(t, true)
	switch {
	case o.Open:
		t.quiet = false
	case before.Open:
		t.closedAt, t.quiet = c.now, !t.ready
	}
	if o.Hold && !before.Hold {
		t.heldAt = c.now
		c.wake(c.now + AckLimit)
	}
	if !o.Hold {
		t.held = false
	}
	if before.Open && !o.Open || o.Hold && !before.Hold {
		c.changed = append(c.changed, t)
	} else {
		c.opened = append(c.opened, t)
	}
}

// setSlice brings a task's time slice to what the regime wants: rarely, not beside
// a short request, and never so that two armed tasks are on the device at a time.
func (c *Chooser) setSlice(t *Task) {
	want := c.wantedSlice(t)
	if want == t.order.Slice {
		return
	}
	// A background that waits to run beside stands still until then, and that regime is
	// entered rarely itself.
	if at := t.slicedAt + c.costs.sliceEvery(); t.sliced && c.now < at && want != Besides {
		c.wake(at)
		return
	}
	if c.busy && c.now < c.busySince+patience {
		c.wake(c.busySince + patience)
		return
	}
	if isShort(want) && t.runnable() && c.armedBeside(t) {
		return // an acknowledgement will come
	}
	t.sliced, t.slicedAt = true, c.now
	t.order.Slice = want
	c.weigh(t, true)
	c.note(t)
}

// note has a task among those whose order changed.
func (c *Chooser) note(t *Task) {
	for _, list := range [][]*Task{c.changed, c.opened} {
		for _, x := range list {
			if x == t {
				return
			}
		}
	}
	c.opened = append(c.opened, t)
}

func (c *Chooser) wantedSlice(t *Task) time.Duration {
	if !t.background() {
		return 0
	}
	switch c.regime {
	case Arm:
		return Armed
	case Beside:
		return Besides
	}
	return 0
}
