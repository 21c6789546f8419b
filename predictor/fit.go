package predictor

import (
	"cmp"
	"math"
	"slices"
)

// candidate is a template that keeps what every sample says of its pointer.
type candidate struct {
	template template
	bits     float64
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
// A template of what is touched at most costs more than telling variants apart does.
const (
	mostBits = 10
	wideBits = 60
	openBits = 120
)

// whole says whether the templates explain all samples.
func (f *fitted) whole() bool { return f.wide == 0 && f.open == 0 }

// plain says whether all samples are explained in natural terms.
func (f *fitted) plain() bool {
	return f.whole() && !slices.ContainsFunc(f.slots, func(s slotFit) bool { return !s.template().natural() })
}

// What makes templates trusted: the samples must bound each extent by so many bits
// more than the template takes (a coincidence has odds of 2 to the minus that), or
// bound it by next to nothing, as where all is small; or there must be so many.
const (
	trustBits    = 10
	nothingBits  = 2
	trustSamples = 6
	vagueBits    = 4
)

// told is by how many bits the samples bound a pointer's extents.
func (f *fitter) told(slot uint16) (bits float64) {
	for _, v := range f.views[slot] {
		if b := v.extent; b.hi >= b.lo {
			bits += math.Log2(float64(b.hi+1) / float64(b.hi-b.lo+1))
		}
	}
	return bits
}

func (f *fitter) trusted(out *fitted) bool {
	if !out.whole() || f.anyLoose(out) {
		return false
	}
	if len(f.samples) >= trustSamples {
		return true
	}
	told := 0.0
	for i := range out.slots {
		s := &out.slots[i]
		bits := f.told(s.slot)
		if bits > nothingBits && bits < s.candidates[s.chosen].bits+trustBits {
			return false
		}
		told += bits
	}
	return told > trustBits
}

// effort is the work that an observation may still cost: about one product tried,
// or one stretch compared, each. Without any left only the simplest is tried.
type effort struct{ left int }

// maxEffort takes 50 ms or so.
const maxEffort = 1 << 20

func (e *effort) spend(n int) bool {
	e.left -= n
	return e.left > 0
}

type fitter struct {
	layout   *layout
	effort   *effort
	samples  []*sample
	pointers [][]pointer // of each sample, by slot
	views    map[uint16][]view
	slots    []uint16
	classes  []class
	array    series // what is taken for one; the zero value: none
	most     int    // elements that a sample has at most
}

func (f *fitter) collect() {
	f.views = make(map[uint16][]view)
	not := f.layout.noPointers()
	for _, s := range f.samples {
		s.launch.appendScalars(&not)
	}
	if f.array.is() {
		f.array.except(&not)
	}
	for i, s := range f.samples {
		pointers := s.pointers(&not)
		if f.array.is() {
			pointers = f.array.assign(pointers, &s.launch)
			f.most = max(f.most, int(f.array.live.read(&s.launch, 0, 0)))
		}
		f.pointers = append(f.pointers, pointers)
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
	if f.views[at] != nil || f.within(at) {
		return true
	}
	for _, s := range f.samples {
		if word := (source{kind: word64, at: at}).read(&s.launch, 0, 0); word != 0 {
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
			out.slots = append(out.slots, slotFit{slot: slot, candidates: f.slot(slot)})
		}
	}
	f.share(&out)
	f.join(&out)
	for i := range out.slots {
		s := &out.slots[i]
		if s.chosen >= len(s.candidates) {
			out.wide++
			out.bits += wideBits
			continue
		}
		out.bits += s.candidates[s.chosen].bits
		if s.template().most {
			out.bits += mostBits
		}
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

// share lets a pointer that the samples say little of have the expression of
// another that they say much of, for less: those of one kernel are of one size as
// a rule.
func (f *fitter) share(out *fitted) {
	donors := make(map[expr]bool)
	var order []expr
	for i := range out.slots {
		c := out.slots[i].candidates
		if len(c) > 0 && c[0].template.shape() == "linear" && c[0].template.start == (expr{}) && !loose(c) && !donors[c[0].template.bytes] {
			donors[c[0].template.bytes] = true
			order = append(order, c[0].template.bytes)
		}
	}
	for i := range out.slots {
		s := &out.slots[i]
		if !loose(s.candidates) {
			continue
		}
		for _, e := range order {
			if except, ok := f.holds(&e, f.views[s.slot]); ok {
				s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool { return c.template == (template{bytes: e}) })
				s.candidates = append(s.candidates, candidate{template{bytes: e}, sharedBits + except})
			}
		}
		s.candidates = ordered(s.candidates)
	}
}

// loose says whether a constant would do too, so that little is known.
func loose(list []candidate) bool {
	return slices.ContainsFunc(list, func(c candidate) bool {
		return c.template.shape() == "fixed" && c.bits < looseBits
	})
}

// looseBits is less than a constant costs that is bounded to a quarter.
const looseBits = 6

// holds says whether an expression keeps all bounds, and what its exceptions cost.
func (f *fitter) holds(e *expr, views []view) (except float64, ok bool) {
	for i := range views {
		v := &views[i]
		n := e.eval(&f.samples[v.sample].launch, v.rest, v.at.index)
		if n < v.extent.lo || n > v.extent.hi {
			return 0, false
		}
		if n < v.extent.softLo || n > v.extent.softHi {
			except += softBits
		}
	}
	return except, true
}

// slot finds the candidates of one pointer.
func (f *fitter) slot(slot uint16) []candidate {
	views := f.views[slot]
	if f.isArray(slot) {
		return f.ofElements(views)
	}
	classes := f.classesOf(views)
	far := slices.ContainsFunc(views, func(v view) bool { return len(v.chunks) > 1 || !v.own && len(v.chunks) > 0 })
	var list []candidate
	if far {
		list = append(f.chunked(views, classes), f.displaced(views, classes)...)
	} else {
		list = f.stretches(views, classes)
	}
	list = ordered(append(list, f.pitched(views, classes)...))
	if len(list) == 0 || !list[0].template.natural() {
		list = ordered(append(list, f.upTo(views, classes)...))
	}
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
	if f.isArray(views[0].at.slot) {
		list = f.elements(list, views)
	}
	return append(list, restClass(views))
}

// stretches are the candidates that touch one stretch from the pointer on.
func (f *fitter) stretches(views []view, classes []class) []candidate {
	var list []candidate
	for _, s := range f.search(extents(views), classes) {
		list = append(list, candidate{template{bytes: s.expr}, s.bits})
	}
	return list
}

// ordered sorts candidates, the shortest first, and leaves out what is there twice.
func ordered(list []candidate) []candidate {
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.bits, b.bits) })
	kept := list[:0]
	for _, c := range list {
		if !slices.ContainsFunc(kept, func(k candidate) bool { return k.template == c.template }) {
			kept = append(kept, c)
		}
	}
	return kept
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
	stretch := make([]span, len(views)) // what is touched lies in here; empty: not known
	for i := range views {
		var ok bool
		if starts[i], stretch[i], ok = f.start(&views[i]); !ok {
			return nil
		}
	}
	var list []candidate
	for _, start := range first(f.search(starts, classes), 6) {
		bounds, ok := f.behind(views, stretch, start.expr)
		if !ok {
			continue
		}
		for _, s := range first(f.search(bounds, classes), 4) {
			t := template{start: start.expr, bytes: s.expr}
			list = append(list, candidate{template: t, bits: start.bits + s.bits + 2})
		}
	}
	return list
}

// start bounds where a view's stretch begins. What lies in the pointer's own run
// may be another's.
func (f *fitter) start(v *view) (b bound, in span, ok bool) {
	grain := f.samples[v.sample].grain
	others := v.own && v.extent.lo == 0
	switch {
	case v.own && len(v.chunks) == 1 && others:
		return bound{hi: v.rest - 1, softHi: v.chunks[0].end - v.at.address - 1}, span{}, true
	case v.own && len(v.chunks) == 1:
		hi := min(v.chunks[0].end, v.at.address/grain*grain+grain) - v.at.address - 1
		return bound{hi: hi, softHi: hi}, v.chunks[0], true
	case v.own && len(v.chunks) == 2 && others:
		in = v.chunks[1]
	case !v.own && len(v.chunks) == 1:
		in = v.chunks[0]
	case !v.own && len(v.chunks) == 0 && v.hidden > 0: // it may lie in another pointer's run
		return bound{hi: v.rest - 1, softHi: v.rest - 1}, span{}, true
	default:
		return b, in, false
	}
	if in.base < v.at.address {
		return b, in, false
	}
	lo := in.base - v.at.address
	hi := min(lo+grain, in.end-v.at.address) - 1
	return bound{lo, hi, lo, hi}, in, true
}

// behind bounds the extents of what begins at start.
func (f *fitter) behind(views []view, stretch []span, start expr) ([]bound, bool) {
	list := make([]bound, len(views))
	for i := range views {
		v := &views[i]
		s := f.samples[v.sample]
		base, end := v.at.address+start.eval(&s.launch, v.rest, v.at.index), stretch[i].end
		list[i] = bound{hi: v.rest, softHi: v.rest}
		if end == 0 {
			continue
		}
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
