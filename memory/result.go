package memory

import (
	"errors"
	"fmt"
)

// lane returns the direction that a step belongs to.
func (m *Move) lane(a Act) *lane {
	if a <= Drop {
		return &m.out
	}
	return &m.in
}

// taken checks that a step is under way and takes it back.
func (m *Move) taken(s Step) (*lane, *progress) {
	l := m.lane(s.Act)
	if s.Batch < l.first || s.Batch >= l.next {
		panic(fmt.Sprintf("memory: result of %s, which is not under way", s))
	}
	p := l.at(s.Batch)
	if !p.busy || p.act != s.Act {
		panic(fmt.Sprintf("memory: result of %s, which is not under way", s))
	}
	p.busy = false
	return l, p
}

// Done tells that a step succeeded. Precondition: it was given out and has had no
// result.
func (m *Move) Done(s Step) {
	if m.dead {
		return
	}
	l, p := m.taken(s)
	switch s.Act {
	case Reserve:
		p.act = CopyOut
	case CopyOut:
		p.act = Unmap
	case Unmap, Drop:
		m.going -= s.Bytes
		m.leave(s)
		p.over = true
	case Map:
		m.making -= s.Bytes
		m.change(s.IDs, Loading)
		p.act = CopyIn
	case CopyIn:
		p.act = Commit
	case Commit:
		m.arrive(s)
		p.over = true
	case Restore:
		m.change(s.IDs, Away)
		m.moved.Restored += s.Bytes
		p.over = true
	}
	l.retire()
	m.reconsider()
}

// Failed tells that a step failed, all of it: nothing that it was to change has
// changed. What follows is in the comments of the errors. Precondition: as for
// Done.
func (m *Move) Failed(s Step, err error) {
	if m.dead {
		return
	}
	l, p := m.taken(s)
	if m.err == nil {
		m.err = fmt.Errorf("%s: %w", s, err)
	}
	switch s.Act {
	case Map:
		m.making -= s.Bytes
		p.over = true
	case CopyIn, Commit:
		p.act = Restore
	case Restore:
		p.over = true // it stays Loading
	default:
		m.going -= s.Bytes
		p.over = true // it is where it was
	}
	switch {
	case errors.Is(err, ErrStale):
	case errors.Is(err, ErrHostMemory):
		m.out.closed = true
	case errors.Is(err, ErrDeviceMemory):
		m.in.closed = true
		// What was to make room for it may as well stay.
		m.out.closed = m.out.closed || m.table.figures.Resident <= m.target
	default:
		m.ended = true
	}
	l.retire()
	m.reconsider()
}

// reconsider gives up, once no further batch begins, what has begun and moved
// nothing yet.
func (m *Move) reconsider() {
	if !m.ended {
		return
	}
	for _, l := range [...]*lane{&m.out, &m.in} {
		for b := l.first; b < l.next; b++ {
			p := l.at(b)
			switch {
			case p.busy || p.over:
			case p.act == CopyOut || p.act == Unmap || p.act == Drop:
				p.over = true // it is still on the device
			case p.act == CopyIn:
				p.act = Restore
			}
		}
		l.retire()
	}
}

// retire moves past the batches that are over.
func (l *lane) retire() {
	for l.first < l.next && l.at(l.first).over {
		l.first++
	}
}

func (m *Move) change(ids []ID, to State) {
	for _, id := range ids {
		if s := m.table.find(id); s != nil {
			m.table.set(s, to)
		}
	}
}

func (m *Move) leave(s Step) {
	m.change(s.IDs, Away)
	m.moved.Out += s.Bytes
	if s.Act == Drop {
		m.moved.Spared += s.Bytes
	}
	if m.order != nil {
		for _, id := range s.IDs {
			m.order.Evict(id)
		}
	}
}

func (m *Move) arrive(s Step) {
	m.change(s.IDs, Device)
	m.moved.In += s.Bytes
	if m.order != nil {
		for _, id := range s.IDs {
			m.order.Use(id)
		}
	}
}
