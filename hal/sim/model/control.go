package model

import (
	"fmt"
	"time"
)

// Control is what a driver asks of a channel group.
type Control uint8

// The controls that take time.
const (
	Suspend  Control = iota // takes channels off
	Resume                  // lets them go on
	SetSlice                // sets a time slice
)

// ControlCost is how long the driver is busy with a control of an engine's groups,
// when own are the contexts of the process that asks. It depends on who is busy
// there now.
func (m *Machine) ControlCost(c Control, e Engine, own func(ContextID) bool) time.Duration {
	switch c {
	case Suspend:
		if m.busy(e, func(id ContextID) bool { return !own(id) }) {
			return m.cfg.SuspendBeside
		}
		return m.cfg.SuspendAlone
	case SetSlice:
		if m.busy(e, func(ContextID) bool { return true }) {
			return m.cfg.SetSlice
		}
		return m.cfg.SetSliceIdle
	}
	return m.cfg.Resume
}

// busy tells whether one of the contexts that who accepts has, or wants, an engine.
func (m *Machine) busy(e Engine, who func(ContextID) bool) bool {
	for id, c := range m.contexts {
		if who(id) && m.engines[e].candidate(c.groups[e]) != nil {
			return true
		}
	}
	return false
}

// SetTimeslice sets the slice of a context's group on an engine, from its next
// turn on.
func (m *Machine) SetTimeslice(id ContextID, e Engine, d time.Duration) error {
	c := m.contexts[id]
	if c == nil || int(e) >= engines || d <= 0 {
		return fmt.Errorf("set time slice of context %d on engine %d to %v: no such group, or not positive", id, e, d)
	}
	c.groups[e].slice = d
	return nil
}

// Timeslice is a group's slice; 0 when there is no such group.
func (m *Machine) Timeslice(id ContextID, e Engine) time.Duration {
	if c := m.contexts[id]; c != nil && int(e) < engines {
		return c.groups[e].slice
	}
	return 0
}

// SetEnabled takes all channels of a context off an engine or puts them back. A
// command in mid-flight stops and goes on from there when enabled again.
func (m *Machine) SetEnabled(id ContextID, e Engine, on bool) error {
	return m.setEnabled(id, e, ^uint64(0), on)
}

// SetChannelEnabled does it to one channel, by its number in the context.
func (m *Machine) SetChannelEnabled(id ContextID, e Engine, n int, on bool) error {
	if c := m.contexts[id]; c == nil || n < 0 || n >= len(c.channels) {
		return fmt.Errorf("enable channel %d of context %d: no such channel", n, id)
	}
	return m.setEnabled(id, e, 1<<n, on)
}

func (m *Machine) setEnabled(id ContextID, e Engine, which uint64, on bool) error {
	c := m.contexts[id]
	if c == nil || int(e) >= engines {
		return fmt.Errorf("enable context %d on engine %d: no such group", id, e)
	}
	g, eng := c.groups[e], &m.engines[e]
	if on {
		g.off &^= which
	} else {
		g.off |= which
	}
	if eng.run != nil && eng.cur == g && eng.run.off(e) {
		eng.preempt()
	}
	for _, ch := range c.channels {
		if ch.state == stopped && !ch.off(ch.engine) {
			m.begin(ch)
		}
	}
	m.dispatch()
	return nil
}

// PinTime is how long the driver is busy with making n bytes of host memory, MapTime
// with mapping them.
func (m *Machine) PinTime(n uint64) time.Duration { return perMiB(m.cfg.Pin, n) }

// MapTime is PinTime of a mapping.
func (m *Machine) MapTime(n uint64) time.Duration { return perMiB(m.cfg.MapHost, n) }

func perMiB(d time.Duration, n uint64) time.Duration {
	return d * time.Duration(min(n>>20, uint64(time.Hour/d)))
}
