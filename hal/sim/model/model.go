// Package model is the simulated GPU as a pure state machine: who of the queued
// commands runs when. It has no goroutine, no clock, no memory content and no
// I/O; the caller moves the virtual clock and acts on the events.
//
// Model, after what design and measurements of an H200 say:
//   - A context owns one channel group on each engine (compute and three copy
//     engines) and some channels. A channel is a queue in order; its head
//     runs on the engine it names, or on none (a short command of the front end:
//     an event, a wait, a write).
//   - An engine runs one command at a time. Busy groups share it round robin by
//     time slices; taking an unfinished command off costs SwitchCost, and going on
//     with it RefillCost of its slice: two busy groups with slices shorter than
//     that make no progress at all, as on the H200.
//     Kernels of one group serialise: overlap inside a group is not modelled.
//   - A channel can be switched off on an engine: what it runs there stops in
//     mid-flight, and goes on from there when it is switched on. Its front end
//     stands still with the engine that it used last.
//   - Copies to and from the host slow each other down a little when both run.
//   - A command that is through stays at the head of its channel until the
//     caller retires it, so that effects (bytes, gate words) are never late.
//
// Everything is deterministic: same calls, same events. A Machine belongs to one
// goroutine.
package model

import (
	"fmt"
	"time"
)

// Engine is a part of the device that runs commands.
type Engine uint8

// The engines. FrontEnd is none: the command passes time in its own channel.
const (
	Compute  Engine = iota
	CopyIn          // host to device
	CopyOut         // device to host
	CopyPeer        // device to device, and host to host
	FrontEnd
	engines = int(FrontEnd)
)

// ContextID names a context, ChannelID a channel. They are never used again
// within one Machine.
type (
	ContextID uint32
	ChannelID uint32
)

// Command is one entry of a channel.
type Command struct {
	ID      uint64        // the caller's name for it
	Engine  Engine        // where it runs
	Work    time.Duration // at the engine's full rate
	Hold    bool          // when reached, wait for Release, then do the work
	Arrival time.Duration // not before; in the past is now
}

// EventKind says what happened to a command.
type EventKind uint8

// The events of a command, in this order; each at most once.
const (
	Held    EventKind = iota // a Hold was reached: Release lets it go on
	Started                  // an engine began it
	Done                     // its time is over: Retire lets the channel go on
)

// String names the kind.
func (k EventKind) String() string {
	switch k {
	case Held:
		return "held"
	case Started:
		return "started"
	case Done:
		return "done"
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is something that the caller has to act on. At is the virtual time and
// also the machine's clock while the caller acts.
type Event struct {
	Kind    EventKind
	Channel ChannelID
	Command uint64
	At      time.Duration
}

// Machine is the device.
type Machine struct {
	cfg      Config
	now      time.Duration
	engines  [engines]engine
	contexts map[ContextID]*context
	channels []*channel // live ones, in order of creation
	byID     map[ChannelID]*channel
	lastCtx  ContextID
	lastChan ChannelID
	pending  []Event
}

type context struct {
	groups   [engines]*group
	channels []*channel
}

// New makes an idle machine at time 0.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg.withDefaults(), contexts: map[ContextID]*context{}, byID: map[ChannelID]*channel{}}
	for e := range m.engines {
		m.engines[e] = newEngine(Engine(e), m.cfg)
	}
	return m
}

// Now is the virtual clock.
func (m *Machine) Now() time.Duration { return m.now }

// AddContext makes a context with a group on every engine and n channels, at most
// 64.
func (m *Machine) AddContext(n int) (ContextID, []ChannelID) {
	m.lastCtx++
	c := &context{}
	for e := range m.engines {
		c.groups[e] = m.engines[e].addGroup(m.cfg.Slice)
	}
	ids := make([]ChannelID, n)
	for i := range ids {
		m.lastChan++
		ids[i] = m.lastChan
		ch := &channel{id: m.lastChan, ctx: c, index: i}
		c.channels = append(c.channels, ch)
		m.channels = append(m.channels, ch)
		m.byID[ch.id] = ch
		for _, g := range c.groups {
			g.channels = append(g.channels, ch)
		}
	}
	m.contexts[m.lastCtx] = c
	return m.lastCtx, ids
}

// RemoveContext takes a context off the device at once, with all that it has
// queued: no further event names it.
func (m *Machine) RemoveContext(id ContextID) {
	c := m.contexts[id]
	if c == nil {
		return
	}
	delete(m.contexts, id)
	gone := map[ChannelID]bool{}
	for _, ch := range c.channels {
		gone[ch.id] = true
		delete(m.byID, ch.id)
	}
	m.channels = filter(m.channels, func(ch *channel) bool { return ch.ctx != c })
	m.pending = filter(m.pending, func(e Event) bool { return !gone[e.Channel] })
	for e := range m.engines {
		m.engines[e].removeGroup(c.groups[e])
	}
	m.dispatch()
}

// Submit appends a command to a channel; false when there is no such channel.
func (m *Machine) Submit(id ChannelID, c Command) bool {
	ch := m.byID[id]
	if ch == nil {
		return false
	}
	c.Arrival = max(c.Arrival, m.now)
	c.Work = max(c.Work, 0)
	ch.queue = append(ch.queue, c)
	if len(ch.queue) == 1 {
		m.reach(ch)
		m.dispatch()
	}
	return true
}

// Queued is the number of commands of a channel that are not retired.
func (m *Machine) Queued(id ChannelID) int {
	if ch := m.byID[id]; ch != nil {
		return len(ch.queue)
	}
	return 0
}

// Release lets a held command go on; no effect unless the channel is held.
func (m *Machine) Release(id ChannelID) {
	ch := m.byID[id]
	if ch == nil || ch.state != held {
		return
	}
	m.begin(ch)
	m.dispatch()
}

// Retire drops a command that is done, and lets the channel go on; no effect
// unless the channel's head is done.
func (m *Machine) Retire(id ChannelID) {
	ch := m.byID[id]
	if ch == nil || ch.state != done {
		return
	}
	ch.pop()
	m.reach(ch)
	m.dispatch()
}

// Step moves the clock to the next event, but not beyond limit, and returns
// that event. Without one the clock stands at limit (or where it was, when limit
// is in the past).
func (m *Machine) Step(limit time.Duration) (Event, bool) {
	for {
		if len(m.pending) > 0 {
			e := m.pending[0]
			m.pending = m.pending[:copy(m.pending, m.pending[1:])]
			return e, true
		}
		next, ok := m.Next()
		if !ok || next > limit {
			m.advance(limit)
			return Event{}, false
		}
		m.advance(next)
		m.expire()
		m.dispatch()
	}
}

// Next is the time of the machine's next change; false when nothing will happen
// without a call.
func (m *Machine) Next() (time.Duration, bool) {
	if len(m.pending) > 0 {
		return m.now, true
	}
	best, ok := time.Duration(0), false
	consider := func(t time.Duration) {
		if !ok || t < best {
			best, ok = t, true
		}
	}
	for _, ch := range m.channels {
		if ch.state == arriving || ch.state == passing {
			consider(ch.until)
		}
	}
	for e := range m.engines {
		if t, has := m.engines[e].next(m.now); has {
			consider(t)
		}
	}
	return max(best, m.now), ok
}

// advance moves the clock forward and counts the engines' progress.
func (m *Machine) advance(to time.Duration) {
	if to <= m.now {
		return
	}
	for e := range m.engines {
		m.engines[e].progress(to - m.now)
	}
	m.now = to
}

// expire ends whatever ends now.
func (m *Machine) expire() {
	for _, ch := range m.channels {
		if ch.until > m.now {
			continue
		}
		switch ch.state {
		case arriving:
			m.reach(ch)
		case passing:
			m.finish(ch)
		}
	}
	for e := range m.engines {
		eng := &m.engines[e]
		if eng.run != nil && eng.run.left <= 0 && eng.run.refill <= 0 {
			ch := eng.run
			eng.run = nil
			m.finish(ch)
		}
	}
}

// reach looks at a channel's new head.
func (m *Machine) reach(ch *channel) {
	switch {
	case len(ch.queue) == 0:
		ch.state = empty
	case ch.head().Arrival > m.now:
		ch.state, ch.until = arriving, ch.head().Arrival
	case ch.head().Hold:
		ch.state = held
		m.emit(Held, ch)
	default:
		m.begin(ch)
	}
}

// begin makes a channel's head run in the front end, or wait for its engine.
func (m *Machine) begin(ch *channel) {
	c := ch.head()
	if c.Engine >= FrontEnd && ch.off(ch.engine) {
		ch.state = stopped
		return
	}
	if c.Engine >= FrontEnd {
		ch.state, ch.until = passing, m.now+c.Work
		m.emit(Started, ch)
		return
	}
	ch.state, ch.left, ch.refill, ch.fresh, ch.engine = ready, c.Work, 0, true, c.Engine
}

func (m *Machine) finish(ch *channel) {
	ch.state = done
	m.emit(Done, ch)
}

func (m *Machine) emit(k EventKind, ch *channel) {
	m.pending = append(m.pending, Event{Kind: k, Channel: ch.id, Command: ch.head().ID, At: m.now})
}

// dispatch gives every engine something to do and sets the link's rate.
func (m *Machine) dispatch() {
	for e := range m.engines {
		if ch := m.engines[e].dispatch(m.now); ch != nil && ch.fresh {
			ch.fresh = false
			m.emit(Started, ch)
		}
	}
	both := m.engines[CopyIn].run != nil && m.engines[CopyOut].run != nil
	rate := fullRate
	if both {
		rate = m.cfg.bothRate()
	}
	m.engines[CopyIn].setRate(rate)
	m.engines[CopyOut].setRate(rate)
}

func filter[T any](in []T, keep func(T) bool) []T {
	out := in[:0]
	for _, v := range in {
		if keep(v) {
			out = append(out, v)
		}
	}
	clear(in[len(out):])
	return out
}
