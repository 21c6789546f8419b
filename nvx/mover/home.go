package mover

import (
	"cmp"
	"fmt"
	"slices"

	"xmsched/memory"
)

// settle maps what went out to its slots where the coming turn touches none of it: what is
// mapped to nothing has to be before the process may run, and that takes as long as to copy
// it (H200: 20 ms a GiB, of a turn in which nobody else runs). Where nothing is foreseen, or
// what went will be touched, it is left as it is: it comes in again first.
func (s *section) settle() (err error) {
	if !s.planner.forecast.known || s.wanted() {
		return nil
	}
	if s.planner.list, err = s.memory.List(s.index, s.planner.list); err != nil {
		return fmt.Errorf("list what is away: %w", err)
	}
	ids, bytes := s.undone[:0], memory.Bytes(0)
	defer func() { s.undone = ids[:0] }()
	for i := range s.planner.list {
		if seg := &s.planner.list[i]; seg.State == memory.Away && s.planner.forecast.touches(seg.Address) {
			return nil
		}
	}
	for i := range s.planner.list {
		seg := &s.planner.list[i]
		if seg.State == memory.Away {
			ids, bytes = append(ids, seg.ID), bytes+seg.Bytes
		}
		if len(ids) == 0 || bytes < memory.BatchBytes && i < len(s.planner.list)-1 {
			continue
		}
		if s.wanted() {
			return nil
		}
		if err := s.memory.Home(s.index, ids); err != nil {
			return fmt.Errorf("map what is away: %w", err)
		}
		ids, bytes = ids[:0], 0
	}
	return nil
}

// touches says whether the coming turn touches the segment at an address.
func (f *forecast) touches(address uint64) bool {
	i, ok := slices.BinarySearchFunc(f.segments, address, func(s foreseen, at uint64) int { return cmp.Compare(s.Address, at) })
	return ok && f.segments[i].soon
}
