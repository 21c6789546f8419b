package mover

import (
	"cmp"
	"fmt"
	"slices"

	"xmsched/memory"
)

// homing is what is known, in a move, of what to map to its slots.
type homing struct {
	coming map[memory.ID]bool // to come in by the plan, of which not all may have room
	err    error
}

// begin forgets the last move. What a plan brings in is not mapped to its slots before the
// move is over.
func (h *homing) begin(p *memory.Plan) {
	if h.coming == nil {
		h.coming = map[memory.ID]bool{}
	}
	clear(h.coming)
	h.err = nil
	for _, b := range p.In {
		for _, id := range b.IDs {
			h.coming[id] = true
		}
	}
}

// settle maps what went out to its slots where the coming turn touches none of it: what is
// mapped to nothing has to be before the process may run, and that takes as long as to copy
// it (H200: 20 ms a GiB, of a turn in which nobody else runs). Where nothing is foreseen, or
// what went will be touched, it is left as it is: it comes in again first.
func (s *section) settle() error {
	p := s.planner
	if !p.forecast.known {
		return nil
	}
	for seg := range p.table.All() {
		if seg.State == memory.Away && p.forecast.touches(seg.Address) {
			return nil
		}
	}
	clear(s.homing.coming) // what has not come by now has no room
	for s.homing.err == nil && !s.wanted() && s.homeward(memory.BatchBytes) {
	}
	return s.homing.err
}

// inPassing does some of that while batches that a process exchanges for others of its own
// are copied, and the way in stays busy meanwhile, or there is nothing else to do. It says
// whether it did.
func (s *section) inPassing() bool {
	p, coming := s.planner, s.carrier.flying[in].n
	if len(p.plan.Out) == 0 || !p.forecast.known || coming == 0 || coming == 1 && s.carrier.calls > 0 {
		return false
	}
	return s.homing.err == nil && !s.wanted() && s.homeward(memory.BatchBytes)
}

// homeward maps up to so much of what is away, and will not be touched, to its slots. It
// says whether there was any.
func (s *section) homeward(most memory.Bytes) bool {
	p, h := s.planner, &s.homing
	s.undone = s.undone[:0]
	bytes := memory.Bytes(0)
	for seg := range p.table.All() {
		if seg.State != memory.Away || h.coming[seg.ID] || p.forecast.touches(seg.Address) {
			continue
		}
		s.undone, bytes = append(s.undone, seg.ID), bytes+seg.Bytes
		if bytes >= most {
			break
		}
	}
	if len(s.undone) == 0 {
		return false
	}
	s.journal.spend("home", func() { h.err = s.memory.Home(s.index, s.undone) })
	if h.err != nil {
		h.err = fmt.Errorf("map what is away: %w", h.err)
		return true
	}
	p.table.Mapped(s.undone)
	return true
}

// touches says whether the coming turn touches the segment at an address.
func (f *forecast) touches(address uint64) bool {
	i, ok := slices.BinarySearchFunc(f.segments, address, func(s foreseen, at uint64) int { return cmp.Compare(s.Address, at) })
	return ok && f.segments[i].soon
}
