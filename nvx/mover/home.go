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
func (s *section) settle() error {
	p := s.planner
	if !p.forecast.known {
		return nil
	}
	s.undone = s.undone[:0]
	for seg := range p.table.All() {
		switch {
		case seg.State != memory.Away:
		case p.forecast.touches(seg.Address):
			return nil
		default:
			s.undone = append(s.undone, seg.ID)
		}
	}
	for rest := s.undone; len(rest) > 0 && !s.wanted(); {
		n, bytes := 0, memory.Bytes(0)
		for ; n < len(rest) && bytes < memory.BatchBytes; n++ {
			seg, _ := p.table.Get(rest[n])
			bytes += seg.Bytes
		}
		if err := s.memory.Home(s.index, rest[:n]); err != nil {
			return fmt.Errorf("map what is away: %w", err)
		}
		rest = rest[n:]
	}
	return nil
}

// touches says whether the coming turn touches the segment at an address.
func (f *forecast) touches(address uint64) bool {
	i, ok := slices.BinarySearchFunc(f.segments, address, func(s foreseen, at uint64) int { return cmp.Compare(s.Address, at) })
	return ok && f.segments[i].soon
}
