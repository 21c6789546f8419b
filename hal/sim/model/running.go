package model

import "time"

// Running tells whether a channel's head is on its engine now, and how much of its
// work it has had so far.
func (m *Machine) Running(id ChannelID) (ran time.Duration, on bool) {
	ch := m.byID[id]
	if ch == nil || (ch.state != running && ch.state != ready) {
		return 0, false
	}
	return ch.head().Work - ch.left, ch.state == running
}

// Finish ends a running head now, as if its time were up; no effect on another.
// Its Done comes with the next Step.
func (m *Machine) Finish(id ChannelID) {
	ch := m.byID[id]
	if ch == nil || ch.state != running {
		return
	}
	ch.left, ch.refill = 0, 0
	m.expire()
	m.dispatch()
}
