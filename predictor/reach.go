package predictor

import (
	"cmp"
	"math/bits"
	"slices"
)

// A launch with another value where all samples had one is beyond what was seen: many
// expressions explain the samples, by constants that may be that value, and they give
// different extents now. How far a pointer reaches at most is said by the longest of
// all that are likely enough. It is more than is touched as a rule, and far less than
// the allocation.

const (
	maxReaches   = 64  // expressions of one pointer
	reachBits    = 14  // how much longer than the shortest they may be
	maxMagnitude = 120 // values that they are made of, told apart by what they were
	maxMembers   = 4   // of those that were the same in all samples
	muchLarger   = 3   // times as large as all samples
	maxReaching  = 64  // pointers of one launch whose reach is worked out
)

// reaching is how far the pointers of a variant reach.
type reaching struct {
	// values are what expressions are made of, magnitude says of each which number it
	// is: of values that were the same in all samples any may be meant, so that the
	// number is the largest of them.
	values    []source
	magnitude []uint8
	slots     []slotReach // as the variant's
}

// slotReach are the expressions of one pointer; none: they are another's, or it is
// not known how far it reaches.
type slotReach struct {
	list []reach
	same int // the slot, before it, whose pointer was the same in all samples; -1: none
	open bool
	// most is the most that they said of a sample: where they say more now, a launch is larger.
	most uint64
}

// reach is num times a product of magnitudes, the last of which is one, shifted to the right.
type reach struct {
	by     [maxFactors]uint8
	shift  uint8
	num    uint32
	factor float64 // both in one
}

// one is the magnitude that is always 1.
const one = maxMagnitude

// magnitudes are numbers with a point: of bytes they are exact, and none overflows.
type magnitudes [128]float64 // of a power of two, so that no index is checked

func (r *reaching) read(l *Launch, m *magnitudes) {
	m[one] = 1
	for i := range r.values {
		n := float64(r.values[i].word(l))
		if to := &m[r.magnitude[i]&127]; n > *to {
			*to = n
		}
	}
}

// gauge works out how far the pointers of the samples may have reached.
func (v *variant) gauge() {
	if v.reaching == nil {
		return
	}
	for _, s := range v.samples {
		var m magnitudes
		v.reaching.read(&s.launch, &m)
		for i := range v.reaching.slots {
			r := &v.reaching.slots[i]
			r.most = max(r.most, r.longest(&m, maxExtent))
		}
	}
}

// larger says whether a launch is much larger than all samples, as far as it shows: by its
// threads, or, as there are kernels that always have as many as the device runs at once, by
// how far a pointer may reach, which is a measure for those of which the samples say nothing.
func (v *variant) larger(l *Launch) bool {
	if l.threads() > muchLarger*v.threads {
		return true
	}
	if v.reaching == nil {
		return false
	}
	var m magnitudes
	v.reaching.read(l, &m)
	return slices.ContainsFunc(v.reaching.slots, func(r slotReach) bool {
		return r.most > 0 && r.longest(&m, maxExtent) > muchLarger*r.most
	})
}

// longest is what the longest expression says, most at most.
func (s *slotReach) longest(m *magnitudes, most uint64) uint64 {
	longest, enough := 0.0, float64(most)
	for i := range s.list {
		r := &s.list[i]
		if n := r.factor * m[r.by[0]&127] * m[r.by[1]&127] * m[r.by[2]&127]; n > longest {
			if longest = n; n >= enough {
				return most
			}
		}
	}
	return uint64(longest)
}

func (r *reach) setFactor() { r.factor = float64(r.num) / float64(uint64(1)<<r.shift) }

// appendReach predicts a launch of a variant that is beyond what was seen of it.
func (v *variant) appendReach(dst []Touch, l *Launch, pointers []pointer) ([]Touch, Basis) {
	var (
		m      magnitudes
		length [maxReaching]uint64
	)
	v.reaching.read(l, &m)
	basis, at := Cautious, 0
	for i := range pointers {
		p := &pointers[i]
		at = v.seek(at, p)
		s, live := v.known(at, p, l)
		if !live {
			continue
		}
		if s == nil || at >= maxReaching || s.in.wide || v.reaching.slots[at].open {
			basis = Partly
			dst = append(dst, Touch{Base: p.in.Base, Bytes: p.in.Bytes, Access: Either})
			continue
		}
		if s.is() {
			t, _ := s.in.touch(l, p)
			if t, ok := s.longest(t, l, p); ok {
				dst = append(dst, t)
			}
			continue
		}
		r := &v.reaching.slots[at]
		room := p.in.End() - p.address
		if r.same >= 0 {
			length[at] = length[r.same]
		} else {
			length[at] = r.longest(&m, room)
			if t, ok := s.in.touch(l, p); ok {
				length[at] = max(length[at], t.Span().End()-p.address)
			}
		}
		if n := min(length[at], room); n > 0 {
			dst = append(dst, Touch{Base: p.address, Bytes: n, Access: s.in.access})
		}
	}
	return dst, basis
}

// farthest makes a touch of a pointer of which the samples say next to nothing as long
// as it may be in a launch that is larger than all of them.
func (v *variant) farthest(at int, t Touch, p *pointer, m *magnitudes) (Touch, bool) {
	r := &v.reaching.slots[at]
	if r.same >= 0 {
		r = &v.reaching.slots[r.same]
	}
	if r.open || t.Count > 1 {
		return t, t.Bytes > 0
	}
	end := p.address
	if t.Bytes > 0 {
		end = t.Base + t.Bytes
	}
	room := p.in.End() - p.address
	t.Base, t.Access = p.address, v.slots[at].in.access
	t.Bytes = max(min(end-p.address, room), r.longest(m, room))
	return t, t.Bytes > 0
}

// extend works out how far the pointers of variants reach, where that is new.
func (m *Model) extend() {
	m.root.leaves(func(v *variant) {
		if v.reaching == nil && v.whole && len(v.samples) > 0 {
			v.reach(&m.layout)
		}
	})
}

func (v *variant) reach(l *layout) {
	f := reacher{fitter: fitter{layout: l, effort: &effort{maxEffort}, samples: v.samples}, number: make(map[int]uint8)}
	f.array = v.array()
	f.collect()
	twins := f.twins()
	f.out = &reaching{slots: make([]slotReach, len(v.slots))}
	for i := range v.slots {
		s, to := &v.slots[i], &f.out.slots[i]
		to.same = -1
		views := f.views[s.at]
		if other, twin := twins[s.at]; twin {
			if k, ok := v.slot(other); ok && k < i {
				to.same = k
				continue
			}
		}
		if s.is() {
			continue // its template is all that is known of it
		}
		if len(views) > 0 && !s.in.wide {
			to.list, to.open = f.list(views, &s.in)
		}
	}
	v.reaching = f.out
	v.gauge()
}

// reacher finds the expressions.
type reacher struct {
	fitter
	out    *reaching
	number map[int]uint8 // magnitudes by class

	bounds  []bound
	current []class
	name    float64
	found   []reachable
}

type reachable struct {
	reach
	class [maxFactors]int
	n     int
	bits  float64
}

// list finds those of one pointer.
func (f *reacher) list(views []view, chosen *template) (list []reach, open bool) {
	if chosen.strided() || chosen.start != (expr{}) {
		f.bounds = f.ends(views)
		for i := range f.bounds {
			f.bounds[i].softLo, f.bounds[i].softHi = f.bounds[i].lo, f.bounds[i].hi
		}
	} else {
		f.bounds = extents(views)
	}
	f.current, f.found = f.classesOf(views), f.found[:0]
	f.name = naming(len(f.current))
	// The last is what is left of the allocation.
	products(f.current[:len(f.current)-1], maxTriples, f.effort, len(f.bounds), f.try)
	slices.SortStableFunc(f.found, func(a, b reachable) int { return cmp.Compare(a.bits, b.bits) })
	for i := range f.found {
		r := &f.found[i]
		if len(list) == maxReaches || r.bits > f.found[0].bits+reachBits {
			break
		}
		if !f.magnitudes(r) {
			return nil, true
		}
		list = append(list, r.reach)
	}
	return list, false
}

// magnitudes numbers what an expression is made of.
func (f *reacher) magnitudes(r *reachable) bool {
	r.by = [maxFactors]uint8{one, one, one}
	for i := range r.n {
		n, ok := f.number[r.class[i]]
		if !ok {
			if len(f.number) == maxMagnitude {
				return false
			}
			n = uint8(len(f.number))
			f.number[r.class[i]] = n
			c := &f.classes[r.class[i]]
			for _, s := range append([]source{c.source}, c.others...) {
				f.out.values = append(f.out.values, s)
				f.out.magnitude = append(f.out.magnitude, n)
			}
		}
		r.by[i] = n
	}
	return true
}

// try looks for the coefficient of a product: the likeliest, or a larger one that is
// about as likely.
func (f *reacher) try(p []uint64, class ...int) {
	lo, hi, ok := coefficients(f.bounds, p)
	if hi = min(hi, maxExtent); !ok || lo > hi {
		return
	}
	n := simplest(lo*(1-1e-12), hi*(1+1e-12))
	if n == nil {
		return
	}
	r := reachable{n: len(class), bits: n.bits}
	if larger := simplest(n.value*(1+1e-12), hi*(1+1e-12)); larger != nil && larger.bits <= n.bits+1 {
		n = larger
	}
	r.num, r.shift = n.num, uint8(bits.TrailingZeros32(n.den))
	r.setFactor()
	copy(r.class[:], class)
	for _, c := range class {
		r.bits += f.name + f.current[c].bits
	}
	for i := range f.bounds {
		if v := uint64(n.value * float64(p[i])); v < f.bounds[i].softLo || v > f.bounds[i].softHi {
			r.bits += softBits
		}
	}
	f.found = append(f.found, r)
}
