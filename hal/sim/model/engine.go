package model

import "time"

// ratio slows an engine down: work per time is num/den.
type ratio struct{ num, den int64 }

var fullRate = ratio{1, 1}

// group is one context's channels on one engine.
type group struct {
	slice    time.Duration
	off      uint64 // channels that may not run here, by their index
	channels []*channel
	turn     int // channel that is asked first
}

// engine runs one command at a time. Invariant: run != nil implies that run
// belongs to cur, is in state running, and is not off there; switching implies run
// == nil.
type engine struct {
	kind       Engine
	groups     []*group // run list
	cur        *group   // whose state is loaded
	run        *channel
	rate       ratio
	switching  bool
	switchEnd  time.Duration
	sliceEnd   time.Duration
	idle       bool // nothing ran: the next command begins a new slice
	carry      int64
	switchCost time.Duration // with a command in mid-flight
	loadCost   time.Duration // without
	refillCost time.Duration
}

func newEngine(kind Engine, cfg Config) engine {
	e := engine{kind: kind, rate: fullRate, idle: true}
	if kind == Compute {
		e.switchCost, e.loadCost, e.refillCost = cfg.SwitchCost, cfg.LoadCost, cfg.RefillCost
	}
	return e
}

func (e *engine) addGroup(slice time.Duration) *group {
	g := &group{slice: slice}
	e.groups = append(e.groups, g)
	return g
}

func (e *engine) removeGroup(g *group) {
	if e.cur == g {
		e.cur, e.run, e.switching, e.idle = nil, nil, false, true
	}
	e.groups = filter(e.groups, func(o *group) bool { return o != g })
}

// candidate is the group's next channel for the engine: one in mid-flight first,
// then in turn.
func (e *engine) candidate(g *group) *channel {
	if g == nil {
		return nil
	}
	var next *channel
	for i := range g.channels {
		ch := g.channels[(g.turn+i)%len(g.channels)]
		if !ch.wants(e.kind) || ch.off(e.kind) {
			continue
		}
		if !ch.fresh {
			return ch
		}
		if next == nil {
			next = ch
		}
	}
	return next
}

func (e *engine) kept(g *group) bool {
	if g == nil {
		return false
	}
	for _, ch := range g.channels {
		if ch.keeps(e.kind) && !ch.off(e.kind) {
			return true
		}
	}
	return false
}

// other is the next busy group after cur, or nil.
func (e *engine) other() *group {
	at := -1
	for i, g := range e.groups {
		if g == e.cur {
			at = i
		}
	}
	for i := range e.groups {
		g := e.groups[(at+1+i)%len(e.groups)]
		if g != e.cur && e.candidate(g) != nil {
			return g
		}
	}
	return nil
}

// next is the time of the engine's next change.
func (e *engine) next(now time.Duration) (time.Duration, bool) {
	if e.switching {
		return e.switchEnd, true
	}
	waiting := e.cur != nil && e.other() != nil
	if e.run == nil {
		// Kept for a front-end command while another group waits.
		return e.sliceEnd, waiting
	}
	t := now + e.run.refill + time.Duration((int64(e.run.left)*e.rate.den-e.carry+e.rate.num-1)/e.rate.num)
	if waiting {
		t = min(t, e.sliceEnd)
	}
	return t, true
}

// progress counts the work done in d.
func (e *engine) progress(d time.Duration) {
	if e.run == nil {
		return
	}
	cold := min(d, e.run.refill)
	e.run.refill -= cold
	d -= cold
	e.carry += int64(d) * e.rate.num
	work := e.carry / e.rate.den
	e.carry -= work * e.rate.den
	e.run.left = max(0, e.run.left-time.Duration(work))
}

// setRate changes the speed from now on. The fraction of a nanosecond counted so
// far is in the old rate's units, and dropped.
func (e *engine) setRate(r ratio) {
	if e.rate != r {
		e.rate, e.carry = r, 0
	}
}

// preempt takes the running command off; it goes on where it stopped.
func (e *engine) preempt() {
	e.run.state = ready
	e.run = nil
}

// dispatch decides what the engine does now. It returns a channel that has just
// been given the engine.
func (e *engine) dispatch(now time.Duration) *channel {
	if e.switching {
		if now < e.switchEnd {
			return nil
		}
		e.switching = false
		e.sliceEnd = now + e.cur.slice
	}
	next := e.other()
	e.renew(now, next)
	if e.run != nil {
		if next == nil || now < e.sliceEnd {
			return nil
		}
		e.preempt()
	}
	own := e.candidate(e.cur)
	expired := next != nil && now >= e.sliceEnd
	switch {
	case own != nil && !expired:
		return e.start(own, now)
	case next == nil || (own == nil && e.kept(e.cur) && !expired):
		e.idle = e.idle || !e.kept(e.cur)
		return nil
	}
	return e.turnTo(next, now)
}

// renew keeps the phase of a group that has the engine to itself: its slices
// follow each other whether or not anybody is waiting.
func (e *engine) renew(now time.Duration, next *group) {
	if e.cur == nil || e.idle || next != nil && e.run == nil {
		return
	}
	if late := now - e.sliceEnd; late > 0 {
		e.sliceEnd += (late + e.cur.slice - 1) / e.cur.slice * e.cur.slice
	}
}

func (e *engine) start(ch *channel, now time.Duration) *channel {
	if e.idle {
		e.idle = false
		e.sliceEnd = now + e.cur.slice
	}
	e.run, e.carry = ch, 0
	ch.state = running
	if !ch.fresh {
		ch.refill = e.refillCost
	}
	for i, c := range e.cur.channels {
		if c == ch {
			e.cur.turn = (i + 1) % len(e.cur.channels)
		}
	}
	return ch
}

// turnTo loads another group.
func (e *engine) turnTo(g *group, now time.Duration) *channel {
	cost := e.loadCost
	if own := e.candidate(e.cur); own != nil && !own.fresh {
		cost = e.switchCost
	}
	if e.cur == nil {
		cost = 0
	}
	e.cur, e.idle = g, false
	if cost > 0 {
		e.switching, e.switchEnd = true, now+cost
		return nil
	}
	e.sliceEnd = now + g.slice
	return e.start(e.candidate(g), now)
}
