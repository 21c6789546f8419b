package predictor

import (
	"cmp"
	"math"
	"slices"
)

// variant is one behaviour of a kernel: either its templates, or a value that
// tells further variants apart.
type variant struct {
	slots []slot // by slot
	// verified counts the observations that were predicted right before anything
	// was fitted to them.
	verified uint32
	// observed counts the observations that it was learnt from; samples are those
	// that are kept: none where the templates were imported.
	observed uint32
	samples  []*sample
	whole    bool // the templates explain all samples
	// stale are the words that in a sample might have been an address, and were none of an
	// allocation: what a stack was left with, in structs that are not filled. Where one
	// leads to an allocation in another launch, by chance, nobody follows it.
	stale wordSet
	// trusted templates say so little about samples that say so much that it is no
	// coincidence: they need no verification.
	trusted bool

	// steady are the values that were the same in all samples: where one is another,
	// a launch is beyond what is known.
	steady []steady
	dims   []steadyDim
	// threads is how many the largest of the samples had.
	threads uint64

	// reaching is how far pointers reach at most where a launch is beyond what is known;
	// nil: not known.
	reaching *reaching

	branches []branch // by value; then there are no slots
	by       source
}

type branch struct {
	value uint64
	to    *variant
}

// slot is a pointer's template, and those that explain the samples nearly as
// well: where they disagree, a launch is worth looking at.
type slot struct {
	series // of one pointer, or of all elements
	in     template
	rivals []template
	// near of the rivals, the first, are about as likely: the longest is predicted.
	near int
	// vague: the samples say next to nothing of it, as where all is small.
	vague bool
	// twin is an earlier slot with the same templates, counted from 1: where the pointers
	// are the same as well, so are the touches, as of a matrix that is read and written.
	twin int
}

// anyAllocation is the slot of a pointer of which nothing is known.
var anyAllocation = slot{in: wholeAllocation}

// Limits of a model.
const (
	// MaxObservations is how many observations one variant is learnt from, as a rule: see Worth.
	MaxObservations = 8
	maxSamples      = 64 // of all variants
	maxDepth        = 2
	maxBranches     = 4
	maxRivals       = 12
	maxNear         = 3
	maxSplits       = 16 // values that are tried
	rivalBits       = 14 // how much longer a rival is
	nearBits        = 3  // and one that is about as likely
)

// of returns the variant of a launch; nil if it is none of those that are known.
func (v *variant) of(l *Launch, pointers []pointer, sign func() uint64) *variant {
	for v != nil && v.branches != nil {
		v = v.branch(v.by.tell(l, pointers, sign))
	}
	return v
}

func (v *variant) branch(value uint64) *variant {
	for i := range v.branches {
		if v.branches[i].value == value {
			return v.branches[i].to
		}
	}
	return nil
}

// tell returns the value that tells variants apart.
func (s source) tell(l *Launch, pointers []pointer, sign func() uint64) uint64 {
	switch s.kind {
	case isPointer:
		for i := range pointers {
			if pointers[i].slot == s.at {
				return 1
			}
		}
		return 0
	case signature:
		return sign()
	}
	return s.read(l, 0, 0)
}

// leaves calls yield with every variant that has templates.
func (v *variant) leaves(yield func(*variant)) {
	if v == nil {
		return
	}
	if v.branches == nil {
		yield(v)
	}
	for i := range v.branches {
		v.branches[i].to.leaves(yield)
	}
}

// grow fits a variant to samples, and splits it where one set of templates does
// not explain them all.
func grow(l *layout, samples []*sample, depth int, e *effort) (*variant, fitted) {
	f, all := fitAll(l, samples, e)
	if all.plain() || len(samples) < 3 || depth == maxDepth || e.left < 0 {
		return f.leaf(&all), all
	}
	best, bits := f.split(depth, all.bits)
	if best == nil && !all.whole() {
		best, bits = f.remember(all.bits)
	}
	if best != nil {
		return best, fitted{bits: bits}
	}
	return f.leaf(&all), all
}

// fitAll fits one set of templates to samples: with an array where that says it in fewer
// bits. Arrays have an effort of their own: most kernels have none.
func fitAll(l *layout, samples []*sample, e *effort) (*fitter, fitted) {
	plain := &fitter{layout: l, effort: e, samples: samples}
	var best *fitter
	var fit fitted
	extra := &effort{maxEffort / arrayEffort}
	for _, a := range plain.arrays() {
		f := &fitter{layout: l, effort: extra, samples: samples, array: a.series}
		f.collect()
		out := f.fit()
		out.bits += a.bits(plain.shortest())
		if at := out.slot(a.at); at == nil || at.template().loose() {
			continue // they may as well be none
		}
		if best == nil || out.bits < fit.bits {
			best, fit = f, out
		}
	}
	plain.collect()
	if out := plain.fit(); best == nil || out.bits <= fit.bits {
		return plain, out
	}
	return best, fit
}

// partition is samples told apart by a value.
type partition struct {
	by     source
	values []uint64
	parts  [][]*sample
}

// split looks for the value that tells apart what behaves differently: the parts
// together must be said in fewer bits.
func (f *fitter) split(depth int, bits float64) (*variant, float64) {
	partitions := f.partitions()
	var best *variant
	for i, p := range partitions {
		v := &variant{by: p.by}
		sum := 1 + math.Log2(float64(i+2))
		for i, part := range p.parts {
			child, fit := grow(f.layout, part, maxDepth, f.effort)
			sum += fit.bits + 2 - v.repeats(child, &fit)
			v.branches = append(v.branches, branch{p.values[i], child})
			if sum >= bits {
				break
			}
		}
		if sum < bits {
			best, bits = v, sum
		}
	}
	if best == nil {
		return nil, bits
	}
	return f.deepen(best, depth), bits
}

// repeats is what a variant saves because pointers have the template that they
// have in an earlier one too.
func (v *variant) repeats(child *variant, fit *fitted) (bits float64) {
	for i := range fit.slots {
		s := &fit.slots[i]
		if s.template().wide {
			continue
		}
		for k := range v.branches {
			at, ok := v.branches[k].to.slot(s.slot)
			if ok && v.branches[k].to.slots[at].in.same(&child.slots[i].in) {
				bits += max(s.candidates[s.chosen].bits-1, 0)
				break
			}
		}
	}
	return bits
}

// slot finds the slot of a word.
func (v *variant) slot(at uint16) (int, bool) {
	return slices.BinarySearchFunc(v.slots, at, func(s slot, n uint16) int { return int(s.at) - int(n) })
}

// deepen splits further what is still not explained.
func (f *fitter) deepen(v *variant, depth int) *variant {
	for i := range v.branches {
		if to := v.branches[i].to; !to.whole {
			v.branches[i].to, _ = grow(f.layout, to.samples, depth+1, f.effort)
		}
	}
	return v
}

// partitions are the ways in which values of few kinds tell the samples apart,
// those with the fewest parts first, and of them those by the smallest values:
// flags are small. A way that several values share is there once.
func (f *fitter) partitions() []partition {
	var list []partition
	seen := make(map[uint64]bool)
	try := func(s source) {
		p, h, ok := f.partition(s)
		if ok && !seen[h] {
			seen[h] = true
			list = append(list, p)
		}
	}
	for _, slot := range f.slots {
		try(source{kind: isPointer, at: slot})
	}
	n := MaxParams
	for _, s := range f.samples {
		n = min(n, len(s.launch.Params))
	}
	f.layout.words(n, f.isPointer, try)
	for _, d := range dims {
		try(d)
	}
	slices.SortStableFunc(list, func(a, b partition) int {
		return cmp.Or(cmp.Compare(len(a.parts), len(b.parts)), cmp.Compare(a.values[len(a.values)-1], b.values[len(b.values)-1]))
	})
	return list[:min(len(list), maxSplits)]
}

func (f *fitter) partition(s source) (p partition, h uint64, ok bool) {
	p.by = s
	for i, sample := range f.samples {
		v := s.tell(&sample.launch, f.pointers[i], func() uint64 { return sample.sign })
		at, found := slices.BinarySearch(p.values, v)
		if !found {
			if len(p.values) == maxBranches {
				return p, 0, false
			}
			p.values = slices.Insert(p.values, at, v)
		}
	}
	n := len(p.values)
	if n < 2 || n > max(2, len(f.samples)/2) {
		return p, 0, false
	}
	p.parts = make([][]*sample, n)
	names := make(map[uint64]uint64) // so that equal partitions have equal hashes
	for i, sample := range f.samples {
		v := s.tell(&sample.launch, f.pointers[i], func() uint64 { return sample.sign })
		at, _ := slices.BinarySearch(p.values, v)
		p.parts[at] = append(p.parts[at], sample)
		if _, ok := names[v]; !ok {
			names[v] = uint64(len(names))
		}
		h = mix(h, names[v])
	}
	return p, h, true
}

// remember is the last resort: launches whose values are all the same do the same,
// though no formula says what. It needs one pair of launches that shows it.
func (f *fitter) remember(bits float64) (*variant, float64) {
	v := &variant{by: source{kind: signature}}
	groups := make(map[uint64][]*sample)
	for _, s := range f.samples {
		if groups[s.sign] == nil {
			v.branches = append(v.branches, branch{value: s.sign})
		}
		groups[s.sign] = append(groups[s.sign], s)
	}
	slices.SortFunc(v.branches, func(a, b branch) int { return cmp.Compare(a.value, b.value) })
	shown := false
	sum := 0.0
	for i := range v.branches {
		group := groups[v.branches[i].value]
		child, fit := grow(f.layout, group, maxDepth, f.effort)
		v.branches[i].to = child
		shown = shown || len(group) > 1 && child.whole
		if len(group) > 1 && !child.whole {
			return nil, bits // the same values, and not the same memory
		}
		sum += fit.bits
	}
	if !shown || len(v.branches) == 1 {
		return nil, bits
	}
	return v, sum
}

// leaf makes a variant of what was fitted.
func (f *fitter) leaf(out *fitted) *variant {
	v := &variant{samples: f.samples, observed: uint32(len(f.samples)), whole: out.whole(), trusted: f.trusted(out)}
	access := f.access(out)
	for i := range out.slots {
		s := &out.slots[i]
		n := slot{series: single(s.slot), in: *s.template()}
		if f.isArray(s.slot) {
			n.series = f.array
		}
		n.in.access = access[i]
		n.setRivals(s)
		n.vague = f.told(s.slot) < vagueBits || n.flat()
		v.slots = append(v.slots, n)
	}
	v.settle(f.layout)
	v.pair()
	return v
}

// setRivals takes the templates that are not much longer than the chosen one.
func (n *slot) setRivals(s *slotFit) {
	for c := range s.candidates {
		other := &s.candidates[c]
		if c == s.chosen || len(n.rivals) == maxRivals || other.bits > s.candidates[s.chosen].bits+rivalBits {
			continue
		}
		at := len(n.rivals)
		if n.near < maxNear && near(&s.candidates[s.chosen], other) {
			at = n.near
			n.near++
		}
		n.rivals = slices.Insert(n.rivals, at, other.template)
	}
}

// flat says whether the samples, though they are of several blocks, do not tell a stretch
// that is always as long from one that grows with a launch.
func (n *slot) flat() bool {
	return n.in.bytes.n == 0 && n.in.bytes.add >= int64(Block) && slices.ContainsFunc(n.rivals, func(r template) bool { return r.bytes.n > 0 })
}

// near says whether another stretch is about as likely as the one that was chosen, and
// may be longer: a miss costs more than a block in vain.
func near(chosen, other *candidate) bool {
	stretch := func(t *template) bool { return t.shape() == "linear" && t.start == (expr{}) }
	return other.bits <= chosen.bits+nearBits && stretch(&chosen.template) && stretch(&other.template)
}

// steady is a word of the parameters, or a dimension, and where it is found.
type steady struct {
	at    uint16
	value uint32
}

type steadyDim struct {
	of    source
	value uint32
}

// pair finds the twins of slots.
func (v *variant) pair() {
	for i := range v.slots {
		s := &v.slots[i]
		s.twin = 1 + slices.IndexFunc(v.slots[:min(i, maxReaching)], func(o slot) bool {
			return !o.is() && !s.is() && o.in == s.in && o.in.start == (expr{}) && !o.in.wide && o.near == s.near &&
				slices.Equal(o.rivals[:o.near], s.rivals[:s.near])
		})
	}
}

const (
	maxSteady   = 64
	steadyValue = 1 << 24 // what is larger is no size but a number with a point, a seed, an address
)

// settle notes the values that are the same in all samples.
func (v *variant) settle(l *layout) {
	v.steady, v.dims, v.threads = nil, nil, 0
	v.stale = wordSet{}
	for _, s := range v.samples {
		v.threads = max(v.threads, s.launch.threads())
		s.appendStale(&v.stale)
	}
	if len(v.samples) == 0 {
		return
	}
	add := func(at source) {
		first := at.read(&v.samples[0].launch, 0, 0)
		if at.kind == word64 || first > steadyValue || len(v.steady)+len(v.dims) == maxSteady {
			return
		}
		for _, s := range v.samples[1:] {
			if at.read(&s.launch, 0, 0) != first {
				return
			}
		}
		if at.kind == word32 {
			v.steady = append(v.steady, steady{at.at, uint32(first)})
		} else {
			v.dims = append(v.dims, steadyDim{at, uint32(first)})
		}
	}
	for _, d := range dims {
		add(d)
	}
	pointers := v.samples[0].pointers(new(wordSet))
	isPointer := func(at uint16) bool {
		return slices.ContainsFunc(pointers, func(p pointer) bool { return p.slot == at }) ||
			slices.ContainsFunc(v.slots, func(s slot) bool { return s.holds(at) })
	}
	l.words(len(v.samples[0].launch.Params), isPointer, add)
	for _, c := range classesOf(l, v.samples, isPointer) {
		if n := c.values[0]; c.source.kind == quotient && !c.varies && n <= steadyValue {
			v.dims = append(v.dims, steadyDim{c.source, uint32(n)})
		}
	}
}

// unsure says whether a launch is beyond what is known, and what would be touched
// then is not clear.
func (v *variant) unsure(l *Launch, pointers []pointer) bool {
	return v.strange(l) && (v.anyVague() || v.disputed(l, pointers, false))
}

// anyVague says whether the samples say next to nothing of some pointer that has a template.
func (v *variant) anyVague() bool {
	return slices.ContainsFunc(v.slots, func(s slot) bool { return s.vague && !s.in.wide })
}

// strange says whether a launch has another value where all samples had one.
func (v *variant) strange(l *Launch) bool {
	for i := range v.dims {
		d := &v.dims[i]
		if n := uint32(d.of.read(l, 0, 0)); n != d.value && n <= steadyValue {
			return true
		}
	}
	for _, s := range v.steady {
		if n := uint32(l.word32(int(s.at))); n != s.value && n <= steadyValue {
			return true
		}
	}
	return false
}
