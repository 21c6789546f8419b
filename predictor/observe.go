package predictor

import (
	"slices"
)

// Observation is what one launch was seen to touch.
type Observation struct {
	// Touched are the stretches. Grain is how well they are known: 1 for exact bytes
	// (a closed form), Block for fault feedback; what is between is taken as Block.
	Touched []Touch
	Grain   uint64
	// Watched is where a touch would have been seen; nil means everywhere. A
	// pointer into anything else teaches nothing.
	Watched []Range
	// Lossy observations dropped some faults: what is not in Touched may have been
	// touched too.
	Lossy bool
}

// sample is an observation with its launch, as it is kept for fitting.
type sample struct {
	launch  Launch
	ranges  Ranges  // those that were watched and pointed into, or touched
	blind   Ranges  // those that were pointed into and not watched
	touched []span  // what a pointer leads to: disjoint, by address; of one access each
	strays  []Range // the allocations that were touched though no pointer leads there
	grain   uint64
	lossy   bool
	// sign is a hash of all values, see signatureOf.
	sign uint64
}

// maxSampleSpans bounds the stretches that a sample keeps. What is more ragged
// is kept in blocks; what is still more ragged is nothing that templates say.
const maxSampleSpans = 2048

// maxStrays bounds the allocations that a kernel is remembered to reach by
// pointers that lie in memory.
const maxStrays = 16

// newSample takes an observation in. It returns false if it says nothing.
func newSample(l *Launch, pointers []pointer, ranges *Ranges, o *Observation) (*sample, bool) {
	s := &sample{launch: l.clone(), grain: Block, lossy: o.Lossy}
	if o.Grain <= 1 {
		s.grain = 1
	}
	var ok bool
	if s.touched, ok = s.spans(o.Touched, s.grain); !ok || len(s.touched) > maxSampleSpans {
		s.grain = Block
		if s.touched, ok = s.spans(o.Touched, s.grain); !ok || len(s.touched) > maxSampleSpans {
			return nil, false
		}
	}
	for _, p := range pointers {
		if watched(o, p.in) {
			s.ranges.Add(p.in)
		} else {
			s.blind.Add(p.in)
		}
	}
	kept := s.touched[:0]
	for _, t := range s.touched {
		if s.reachable(t) {
			kept = append(kept, t)
		} else if in, ok := ranges.Find(t.base); ok && len(s.strays) < maxStrays && !slices.Contains(s.strays, in) {
			s.strays = append(s.strays, in)
		}
	}
	s.touched = kept
	return s, true
}

// silent says whether a sample tells nothing of what pointers lead to: none was watched.
func (s *sample) silent() bool { return len(s.touched) == 0 && s.ranges.Len() == 0 }

// spans normalises touches: sorted, disjoint, joined where they are of one access.
func (s *sample) spans(touches []Touch, grain uint64) ([]span, bool) {
	list, ok := appendSpans(nil, touches, grain)
	return disjoint(list), ok
}

// disjoint sorts stretches and cuts them so that none overlap; where they did the
// access is that of both. Unknown access is either.
func disjoint(list []span) []span {
	var reads, writes []span
	var cuts []uint64
	for _, s := range list {
		if s.access&Either == 0 {
			s.access = Either
		}
		if s.access&Read != 0 {
			reads = append(reads, s)
		}
		if s.access&Write != 0 {
			writes = append(writes, s)
		}
		cuts = append(cuts, s.base, s.end)
	}
	reads, writes = merge(reads), merge(writes)
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []span
	for i := 1; i < len(cuts); i++ {
		var a Access
		if within(&reads, cuts[i-1]) {
			a |= Read
		}
		if within(&writes, cuts[i-1]) {
			a |= Write
		}
		n := len(out)
		switch {
		case a == 0:
		case n > 0 && out[n-1].end == cuts[i-1] && out[n-1].access == a:
			out[n-1].end = cuts[i]
		default:
			out = append(out, span{cuts[i-1], cuts[i], a})
		}
	}
	return out
}

// within says whether an address lies in a merged list, and drops what lies
// before it: addresses are asked for in ascending order.
func within(list *[]span, address uint64) bool {
	for len(*list) > 0 && (*list)[0].end <= address {
		*list = (*list)[1:]
	}
	return len(*list) > 0 && (*list)[0].base <= address
}

// reachable says whether a stretch lies in an allocation that is pointed into.
func (s *sample) reachable(t span) bool {
	if _, ok := s.ranges.Find(t.base); ok {
		return true
	}
	// A block may begin before the allocation that it belongs to.
	i := s.ranges.search(t.base)
	return i < len(s.ranges.list) && s.ranges.list[i].Base < t.end
}

func watched(o *Observation, r Range) bool {
	if o.Watched == nil {
		return true
	}
	for _, w := range o.Watched {
		if w.Base <= r.Base && r.End() <= w.End() {
			return true
		}
	}
	return false
}

// pointers finds the sample's pointers into watched memory.
func (s *sample) pointers(not *wordSet) []pointer {
	return s.launch.appendPointers(nil, &s.ranges, not)
}

// runs are the sample's stretches with neighbours joined, whatever their access.
func (s *sample) runs(dst []span) []span {
	for _, t := range s.touched {
		if n := len(dst); n > 0 && dst[n-1].end >= t.base {
			dst[n-1].end = max(dst[n-1].end, t.end)
			dst[n-1].access |= t.access
		} else {
			dst = append(dst, t)
		}
	}
	return dst
}

// appendStale adds the words that might be an address and lead to no allocation.
func (s *sample) appendStale(w *wordSet) {
	p := s.launch.params()
	for at := 0; at+8 <= len(p); at += 8 {
		if mayBeAddress(s.launch.word64(at)) && !s.pointsAt(at) {
			w.add(at)
		}
	}
}
