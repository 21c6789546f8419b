package predictor

import (
	"cmp"
	"slices"
)

// view is what a sample shows at one pointer.
type view struct {
	sample int // its index
	at     pointer
	rest   uint64
	// extent bounds what is touched from the pointer on in one stretch.
	extent bound
	// chunks are the stretches that nobody but this pointer explains, the
	// pointer's own first, if it has one.
	chunks []span
	own    bool
	// hidden is 1 if a further stretch may be part of the next pointer's run.
	hidden uint64
}

// scene is a sample as its views are made from it.
type scene struct {
	*sample
	runs      []span
	byAddress []pointer
}

// look makes the views of a sample's pointers. Precondition: the pointers are in
// the order of their slots.
func look(index int, s *sample, pointers []pointer) []view {
	sc := scene{s, s.runs(nil), slices.Clone(pointers)}
	slices.SortStableFunc(sc.byAddress, func(a, b pointer) int { return cmp.Compare(a.address, b.address) })
	views := make([]view, len(pointers))
	for i, p := range pointers {
		v := &views[i]
		*v = view{sample: index, at: p, rest: p.in.End() - p.address}
		if s.lossy {
			v.extent.hi, v.extent.softHi = v.rest, v.rest
		}
		if r := find(sc.runs, p.address); r >= 0 {
			v.own = true
			v.chunks = append(v.chunks, clip(sc.runs[r], p.in))
			v.extent = sc.bound(p, sc.runs[r])
		}
	}
	sc.orphans(views)
	return views
}

// find returns the index of the run that holds an address, -1 if none does.
func find(runs []span, address uint64) int {
	i, _ := slices.BinarySearchFunc(runs, address, func(r span, a uint64) int {
		if r.end <= a {
			return -1
		}
		return 1
	})
	if i < len(runs) && runs[i].base <= address {
		return i
	}
	return -1
}

func clip(s span, r Range) span {
	s.base, s.end = max(s.base, r.Base), min(s.end, r.End())
	return s
}

// bound works out what a run says of a pointer in it.
//
// Nothing is touched behind the run's end: that is certain. That its last block is
// touched by this pointer is certain only if no other could have; it is likely
// that each pointer's memory ends before the next pointer.
func (s *scene) bound(p pointer, run span) bound {
	end := min(run.end, p.in.End())
	block := p.address / s.grain * s.grain
	last := max((end-1)/s.grain*s.grain, p.address)
	next, before := uint64(0), false
	for _, q := range s.byAddress[s.first(run.base):] {
		if q.address > end && q.address/s.grain*s.grain > last || q.address >= run.end {
			break
		}
		switch {
		case q.slot == p.slot && q.index == p.index:
		case q.address <= p.address:
			before = before || q.in.End() > block
		case next == 0:
			next = min(q.address, end)
		}
	}
	b := bound{hi: end - p.address, softHi: end - p.address}
	nextBlock := next / s.grain * s.grain
	switch {
	case next == 0:
		b.softLo = last - p.address + 1
	case nextBlock > block:
		b.softLo = max(nextBlock-s.grain, p.address) - p.address + 1
	}
	if next != 0 {
		b.softHi = min(next-p.address, b.hi)
	}
	if !before {
		b.lo = b.softLo
	}
	if s.lossy {
		b.hi, b.softHi = p.in.End()-p.address, p.in.End()-p.address
	}
	return b
}

// first returns the index of the first pointer at an address or behind it.
func (s *scene) first(address uint64) int {
	i, _ := slices.BinarySearchFunc(s.byAddress, address, func(q pointer, a uint64) int {
		if q.address < a {
			return -1
		}
		return 1
	})
	return i
}

// orphans gives the stretches that hold no pointer to the nearest one before
// them in their allocation; what comes before all pointers is the first one's.
func (s *scene) orphans(views []view) {
	for _, r := range s.runs {
		for i := max(s.ranges.search(r.base)-1, 0); i < s.ranges.Len(); i++ {
			in := s.ranges.list[i]
			if in.Base >= r.end {
				break
			}
			if piece := s.inner(clip(r, in), i); piece.base < piece.end {
				s.adopt(piece, in, views)
			}
		}
	}
}

// inner leaves out what a piece shares of a block with a neighbour's allocation:
// the neighbour may have touched it.
func (s *scene) inner(piece span, at int) span {
	if at > 0 && s.ranges.list[at-1].End() > piece.base/s.grain*s.grain {
		piece.base = (piece.base + s.grain - 1) / s.grain * s.grain
	}
	if at+1 < s.ranges.Len() && s.ranges.list[at+1].Base < (piece.end+s.grain-1)/s.grain*s.grain {
		piece.end = piece.end / s.grain * s.grain
	}
	return piece
}

func (s *scene) adopt(piece span, in Range, views []view) {
	i := s.first(piece.base)
	if i < len(s.byAddress) && s.byAddress[i].address < piece.end {
		if i > 0 && s.byAddress[i-1].address >= in.Base {
			s.hide(s.byAddress[i-1].address, views)
		}
		return
	}
	if i == 0 || s.byAddress[i-1].address < in.Base {
		if i == len(s.byAddress) || s.byAddress[i].address >= in.End() {
			return
		}
		i++
	}
	owner := s.byAddress[i-1].address
	for k := range views {
		if views[k].at.address == owner {
			views[k].chunks = append(views[k].chunks, piece)
		}
	}
}

// hide notes that the run behind a pointer's stretches holds the next pointer: a
// last stretch may lie in that run.
func (s *scene) hide(owner uint64, views []view) {
	for k := range views {
		if views[k].at.address == owner {
			views[k].hidden = 1
		}
	}
}
