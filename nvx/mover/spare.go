package mover

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"xmsched/memory"
)

const (
	// maxHashFailures in a row end the taking of digests: everything is copied then.
	maxHashFailures = 3
	// Digests may take an eighth of the time that the copies would, or leastLook: a device
	// takes them eighty times as fast as the link carries (h200.md).
	lookShare = 8
	leastLook = 10 * time.Millisecond
)

// compare finds out which of those that are to go out, or may be before long, have not
// changed since they came in, and has the plan spare them. Precondition: the plan is made,
// and nothing of it under way.
func (s *section) compare() {
	b, p := &s.clean, s.planner
	b.begin()
	if s.looked = s.summer != nil && s.haste.look(); !s.looked {
		return
	}
	b.outward(p, s.written)
	out, _ := p.plan.Bytes()
	s.digest(out)
	b.compare()
	if len(b.same) > 0 {
		p.plan.Spare(&p.table, func(id memory.ID) bool { return b.same[id] })
	}
}

// outward takes in all that goes out by a plan, or may.
func (b *cleanBooks) outward(p *planner, written func(memory.Segment) Written) {
	for i, batch := range p.plan.Out {
		for _, id := range batch.IDs {
			if seg, ok := p.table.Get(id); ok {
				b.leaves(seg, written(seg), i < p.plan.Must)
			}
		}
	}
	b.rank()
}

// haste has moves begin at once when those before came to nothing, because what was to
// go out was looked at for longer than the process stood still: whatever digests spare,
// they must not keep memory from moving. After each such move twice as many go without.
type haste struct {
	vain uint8 // moves in a row that were looked at and came to nothing
	left uint8 // moves that go without
}

// maxHaste is the logarithm of how many moves go without at most.
const maxHaste = 6

// look says whether a move may be looked at.
func (h *haste) look() bool {
	if h.left == 0 {
		return true
	}
	h.left--
	return false
}

// took takes in what came of a move that was looked at.
func (h *haste) took(nothing bool) {
	if !nothing {
		h.vain = 0
		return
	}
	h.vain = min(h.vain+1, maxHaste)
	h.left = 1 << h.vain
}

// written is what is known of what the program did to a segment.
func (s *section) written(seg memory.Segment) Written {
	if s.uses == nil || !seg.Kept || s.clean.of(seg.ID).since == 0 {
		return WrittenUnknown
	}
	return s.uses.Written(s.index, seg.Address, seg.Bytes, s.clean.of(seg.ID).since)
}

// digest takes the digests of what is to be looked at, as far as nobody waits for the
// process and they are quick beside a move of so many bytes.
func (s *section) digest(moved memory.Bytes) {
	b := &s.clean
	if len(b.look) == 0 || s.copier.failing() {
		return
	}
	end := s.now() + max(s.leastLook, memory.LinkRate.Time(moved)/lookShare)
	err := s.memory.Flight(s.index, true)
	if err != nil { // the move is not ours
		s.trouble = err
		return
	}
	sound := false
	defer func() {
		if !sound { // a panic, which goes on
			_ = s.copier.context.Synchronize()
			_ = s.memory.Flight(s.index, false)
		}
	}()
	s.journal.spend("digest", func() {
		b.digests, err = s.summer.sums(b.look, b.digests, func() bool { return s.wanted() || s.now() >= end })
	})
	sound = true
	if err != nil && s.copier.broken() {
		s.copier.failed.Add(1)
	} else {
		err = errors.Join(err, s.memory.Flight(s.index, false))
	}
	if err == nil {
		s.hashFailures = 0
		return
	}
	s.trouble = err
	if s.hashFailures++; s.hashFailures == maxHashFailures {
		s.summer = nil
	}
}

// learn notes what the move changed: what the slots have now. Precondition: nothing of
// the move is under way, and it is still ours.
func (s *section) learn(o outcome) error {
	b, p := &s.clean, s.planner
	if s.summer == nil || o.In+o.Out == 0 && len(b.outs) == 0 {
		return nil
	}
	var err error
	if p.list, err = s.memory.List(s.index, p.list); err != nil {
		return fmt.Errorf("list after a move: %w", err)
	}
	if err := p.table.Reset(p.list); err != nil {
		return fmt.Errorf("list after a move: %w", err)
	}
	b.inward(p, monotonic())
	s.digest(o.In)
	b.arrived()
	b.end(p.list)
	return nil
}

// inward takes in all that came in by a plan, at a time.
func (b *cleanBooks) inward(p *planner, now time.Duration) {
	for _, batch := range p.plan.In {
		for _, id := range batch.IDs {
			if seg, ok := p.table.Get(id); ok && seg.State == memory.Device {
				b.of(id).since = now
				b.came(seg)
			}
		}
	}
}

// drop has segments go whose slots have their bytes.
func (s *section) drop(step memory.Step) error {
	err := s.memory.Spare(s.index, step.IDs)
	if errors.Is(err, syscall.ESTALE) {
		return errors.Join(memory.ErrStale, err)
	}
	if err == nil {
		s.clean.spared += step.Bytes
	}
	return err
}
