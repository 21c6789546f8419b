package predictor

import (
	"cmp"
	"slices"
)

// candidate is a template that keeps what every sample says of its pointer.
type candidate struct {
	template template
	bits     float64
	said     float64 // how many of the bits say the expression
}

// slotFit is what was found for one pointer.
type slotFit struct {
	slot       uint16
	candidates []candidate // the shortest first; none: nothing fits
	chosen     int
}

func (s *slotFit) template() *template {
	if s.chosen >= len(s.candidates) {
		return &wholeAllocation
	}
	return &s.candidates[s.chosen].template
}

// fitted is the result of fitting a set of samples.
type fitted struct {
	slots []slotFit
	bits  float64
	wide  int // slots that nothing fits
	open  int // samples that the templates do not explain
}

// What a pointer without a template costs, and a sample that is not explained:
// more than any expression.
const (
	wideBits = 60
	openBits = 120
)

// whole says whether the templates explain all samples.
func (f *fitted) whole() bool { return f.wide == 0 && f.open == 0 }

// fit finds templates for all pointers of samples that behave alike.
// Precondition: there is at least one.
func fit(l *layout, samples []*sample) fitted {
	f := fitter{layout: l, samples: samples}
	f.collect()
	return f.fit()
}

type fitter struct {
	layout   *layout
	samples  []*sample
	pointers [][]pointer // of each sample, by slot
	views    map[uint16][]view
	slots    []uint16
	classes  []class
}

func (f *fitter) collect() {
	f.views = make(map[uint16][]view)
	for i, s := range f.samples {
		f.pointers = append(f.pointers, s.pointers(nil))
		for _, v := range look(i, s, f.pointers[i]) {
			if f.views[v.at.slot] == nil {
				f.slots = append(f.slots, v.at.slot)
			}
			f.views[v.at.slot] = append(f.views[v.at.slot], v)
		}
	}
	slices.Sort(f.slots)
	f.classes = classesOf(f.layout, f.samples, f.isPointer)
}

// isPointer says whether a word of the parameters was a pointer in any sample.
func (f *fitter) isPointer(at uint16) bool {
	if f.views[at] != nil {
		return true
	}
	for _, s := range f.samples {
		if word := (source{kind: word64, at: at}).read(&s.launch, 0); word != 0 {
			if _, blind := s.blind.Find(word); blind {
				return true
			}
		}
	}
	return false
}

func (f *fitter) fit() fitted {
	var out fitted
	twins := f.twins()
	for _, slot := range f.slots {
		if _, twin := twins[slot]; !twin {
			out.slots = append(out.slots, slotFit{slot: slot, candidates: f.slot(f.views[slot])})
		}
	}
	out.share()
	f.join(&out)
	for i := range out.slots {
		s := &out.slots[i]
		if s.chosen >= len(s.candidates) {
			out.wide++
			out.bits += wideBits
			continue
		}
		out.bits += s.candidates[s.chosen].bits
	}
	out.bits += float64(out.open) * openBits
	for _, slot := range f.slots {
		if other, twin := twins[slot]; twin {
			s := *out.slot(other)
			s.slot = slot
			out.slots = append(out.slots, s)
		}
	}
	slices.SortFunc(out.slots, func(a, b slotFit) int { return cmp.Compare(a.slot, b.slot) })
	return out
}

// twins are the slots whose pointers were the same as another's in all samples, as
// a matrix that is read and written: what goes for one goes for the other.
func (f *fitter) twins() map[uint16]uint16 {
	twins := make(map[uint16]uint16)
	first := make(map[uint64]uint16) // by what the pointers were in all samples
	for _, slot := range f.slots {
		h := uint64(0)
		for _, v := range f.views[slot] {
			h = mix(mix(h, uint64(v.sample)), v.at.address)
		}
		if other, ok := first[h]; ok {
			twins[slot] = other
		} else {
			first[h] = slot
		}
	}
	return twins
}

// sharedBits is what an expression costs that another pointer has already.
const sharedBits = 2.5

// share lets pointers have the expression of another for less: those of one
// kernel are of one size as a rule, and some samples say little of some pointer.
func (f *fitted) share() {
	had := make(map[expr]int)
	for i := range f.slots {
		if c := f.slots[i].candidates; len(c) > 0 && c[0].template.shape() == "linear" {
			had[c[0].template.bytes]++
		}
	}
	for i := range f.slots {
		c := f.slots[i].candidates
		for k := range c {
			t := &c[k].template
			if t.shape() != "linear" || t.start != (expr{}) {
				continue
			}
			others := had[t.bytes]
			if k == 0 {
				others-- // itself
			}
			if others > 0 {
				c[k].bits = min(c[k].bits, max(c[k].bits-c[k].said+sharedBits, 0))
			}
		}
		slices.SortStableFunc(c, func(a, b candidate) int { return cmp.Compare(a.bits, b.bits) })
	}
}

// slot finds the candidates of one pointer.
func (f *fitter) slot(views []view) []candidate {
	classes := f.classesOf(views)
	far := slices.ContainsFunc(views, func(v view) bool { return len(v.chunks) > 1 || !v.own && len(v.chunks) > 0 })
	if !far {
		return stretches(views, classes)
	}
	list := f.chunked(views, classes)
	list = append(list, f.displaced(views, classes)...)
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.bits, b.bits) })
	return list
}

// classesOf narrows the values to the samples in which the pointer is one.
func (f *fitter) classesOf(views []view) []class {
	var list []class
	for _, c := range f.classes {
		n := class{source: c.source, bits: c.bits}
		for i := range views {
			n.values = append(n.values, c.values[views[i].sample])
			n.varies = n.varies || n.values[i] != n.values[0]
		}
		list = append(list, n)
	}
	return append(list, restClass(views))
}

// stretches are the candidates that touch one stretch from the pointer on.
func stretches(views []view, classes []class) []candidate {
	var list []candidate
	for _, s := range search(extents(views), classes) {
		list = append(list, candidate{template{bytes: s.expr}, s.bits, s.bits - s.except})
	}
	return list
}

func extents(views []view) []bound {
	list := make([]bound, len(views))
	for i := range views {
		list[i] = views[i].extent
	}
	return list
}

// displaced are the candidates that touch one stretch from further on: the next
// row of a cache, a slice of a buffer.
func (f *fitter) displaced(views []view, classes []class) []candidate {
	starts := make([]bound, len(views))
	for i := range views {
		v := &views[i]
		if len(v.chunks) != 1 {
			return nil
		}
		grain := f.samples[v.sample].grain
		c := v.chunks[0]
		if v.own {
			hi := min(c.end, v.at.address/grain*grain+grain) - v.at.address - 1
			starts[i] = bound{0, hi, 0, hi}
			continue
		}
		if c.base < v.at.address {
			return nil
		}
		lo := c.base - v.at.address
		hi := min(lo+grain, c.end-v.at.address) - 1
		starts[i] = bound{lo, hi, lo, hi}
	}
	var list []candidate
	for _, start := range first(search(starts, classes), 6) {
		bounds, ok := f.behind(views, start.expr)
		if !ok {
			continue
		}
		for _, s := range first(search(bounds, classes), 4) {
			t := template{start: start.expr, bytes: s.expr}
			list = append(list, candidate{template: t, bits: start.bits + s.bits + 2})
		}
	}
	return list
}

// behind bounds the extents that begin at start.
func (f *fitter) behind(views []view, start expr) ([]bound, bool) {
	list := make([]bound, len(views))
	for i := range views {
		v := &views[i]
		s := f.samples[v.sample]
		base := v.at.address + start.eval(&s.launch, v.rest)
		end := v.chunks[0].end
		if base >= end {
			return nil, false
		}
		last := max((end-1)/s.grain*s.grain, base)
		list[i] = bound{last - base + 1, end - base, last - base + 1, end - base}
		if s.lossy {
			list[i].hi = v.rest
		}
	}
	return list, true
}

func first(list []scored, n int) []scored { return list[:min(n, len(list))] }
