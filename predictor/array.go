package predictor

import (
	"cmp"
	"slices"
)

// A kernel may take an array of pointers within a struct, of which so many are there as
// a value says: what the others hold is left from before, often a pointer to something
// else that is not touched. The elements are of one template, whose values may be those
// of arrays beside it; so an element is known that no launch had before.

// series is where an array lies: from the first pointer's slot to the last that there is room
// for.
type series struct {
	at, last uint16
	live     source // how many there are
}

const (
	arrayBits   = 6   // what it costs that pointers are an array
	leastArray  = 4   // elements that some launch must have
	overBits    = 4   // and that one that follows its elements is none of them
	arrayEffort = 4   // they are looked for with so much less effort than all else
	maxArrays   = 4   // that are tried
	maxElements = 128 // of all launches, that a template is searched with
	largeParam  = 512 // bytes: a struct of arrays
	leastCounts = 3   // different numbers of elements
)

func (a *series) is() bool { return a.last > a.at }

// valid says whether it can be.
func (a *series) valid() bool {
	return !a.is() || a.at%8 == 0 && a.last%8 == 0 && a.last < MaxParams && a.live.valid() && a.live.kind < rest
}

// bits is what it costs to say that there is one, where launches have n parameter bytes: any
// word may be the number of elements, though it is the likelier a dimension of the grid; and
// that a pointer behind them is none, which is whatever was there before.
func (a *found) bits(n int) float64 {
	bits := arrayBits + overBits*float64(a.over)
	if a.live.kind != gridDim {
		bits += naming(n / 4)
	}
	return bits
}

// single is where one pointer lies.
func single(slot uint16) series { return series{at: slot, last: slot} }

// isArray says whether a slot is that of the elements.
func (f *fitter) isArray(slot uint16) bool { return f.array.is() && f.array.at == slot }

func (a *series) holds(slot uint16) bool { return a.at <= slot && slot <= a.last }

// except takes an array's words out of those that hold no address.
func (a *series) except(not *wordSet) {
	for at := int(a.at); at <= int(a.last); at += 8 {
		not.drop(at)
	}
}

// index is a pointer's number in the array; ok is false beyond those that there are.
func (a *series) index(slot uint16, live uint64) (n uint16, ok bool) {
	n = (slot - a.at) / 8
	return n, uint64(n) < live
}

// assign gives the elements of an array its slot and their numbers, in place, and leaves
// out those that are none.
func (a *series) assign(pointers []pointer, l *Launch) []pointer {
	live := a.live.read(l, 0, 0)
	kept := pointers[:0]
	for _, p := range pointers {
		if a.holds(p.slot) {
			n, ok := a.index(p.slot, live)
			if !ok {
				continue
			}
			p.slot, p.index = a.at, n
		}
		kept = append(kept, p)
	}
	return kept
}

// array is a variant's; the zero value: it has none.
func (v *variant) array() series {
	for i := range v.slots {
		if v.slots[i].is() {
			return v.slots[i].series
		}
	}
	return series{}
}

// assign does it for all arrays of a variant.
func (v *variant) assign(pointers []pointer, l *Launch) []pointer {
	for i := range v.slots {
		if a := &v.slots[i].series; a.is() {
			pointers = a.assign(pointers, l)
		}
	}
	return pointers
}

// seek returns the first slot, from one on, that a pointer may be of. Pointers are asked
// for in the order of their slots.
func (v *variant) seek(from int, p *pointer) int {
	for from < len(v.slots) && v.slots[from].last < p.slot {
		from++
	}
	return from
}

// known returns what is known of a pointer; live is false if it is beyond the elements that
// a launch has, so that nothing is touched.
func (v *variant) known(slot int, p *pointer, l *Launch) (s *slot, live bool) {
	if slot == len(v.slots) || v.slots[slot].at > p.slot {
		return nil, !v.leftOver(p.slot)
	}
	s, live = &v.slots[slot], true
	if s.is() {
		p.index, live = s.index(p.slot, s.live.read(l, 0, 0))
	}
	return s, live
}

// leftOver says whether a word without a template is one that nobody follows, whatever it
// leads to in a launch.
func (v *variant) leftOver(at uint16) bool {
	return v.whole && at < MaxParams && v.stale.has(int(at))
}

// arrays are where the samples have pointers one behind the other, and a value that may
// be their number: that of which the fewest are left over comes first.
func (f *fitter) arrays() []found {
	if len(f.samples) < leastCounts {
		return nil
	}
	var list []found
	for _, r := range f.layout.regions() {
		at, lengths, ok := f.row(r)
		if !ok {
			continue
		}
		try := func(s source) {
			var counts []uint64
			most, over := uint64(0), uint64(0)
			for i, sample := range f.samples {
				n := s.read(&sample.launch, 0, 0)
				if n == 0 || n > lengths[i] {
					return
				}
				most, over = max(most, n), over+lengths[i]-n
				if !slices.Contains(counts, n) {
					counts = append(counts, n)
				}
			}
			if most >= leastArray && len(counts) >= leastCounts {
				end := f.lastIn(r)
				list = append(list, found{series{at, end, s}, over})
				if last := f.lastOf(at, most, end); last < end {
					list = append(list, found{series{at, last, s}, over})
				}
			}
		}
		for _, d := range dims[:3] {
			try(d)
		}
		f.layout.words(f.shortest(), func(w uint16) bool { return at <= w && uint64(w) < uint64(at)+8*slices.Max(lengths) }, func(s source) {
			if s.kind == word32 {
				try(s)
			}
		})
	}
	slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(a.over, b.over) })
	return list[:min(len(list), maxArrays)]
}

// found is an array that there may be, and how many pointers follow its last elements.
type found struct {
	series
	over uint64
}

// shortest is how many parameter bytes all samples have.
func (f *fitter) shortest() int {
	n := MaxParams
	for _, s := range f.samples {
		n = min(n, len(s.launch.Params))
	}
	return n
}

// regions are where arrays of pointers may lie: structs among the parameters.
func (l *layout) regions() []Param {
	if !l.known {
		return []Param{{0, MaxParams}}
	}
	var list []Param
	for _, p := range l.params {
		if p.Bytes >= 8*leastArray && p.Offset < MaxParams {
			list = append(list, p)
		}
	}
	return list
}

// row is where the first pointer lies that all samples have in a region, and how many
// each has from there on.
func (f *fitter) row(r Param) (at uint16, lengths []uint64, ok bool) {
	end := min(int(r.Offset)+int(r.Bytes), f.shortest())
	for from := (int(r.Offset) + 7) &^ 7; from+8*leastArray <= end; from += 8 {
		if !f.everywhere(from) {
			continue
		}
		for _, s := range f.samples {
			n := uint64(0)
			for from+8*int(n+1) <= end && s.pointsAt(from+8*int(n)) {
				n++
			}
			lengths = append(lengths, n)
		}
		return uint16(from), lengths, true
	}
	return 0, nil, false
}

// pointsAt says whether a word is a pointer, watched or not.
func (s *sample) pointsAt(at int) bool {
	if at+8 > len(s.launch.Params) {
		return false
	}
	word := s.launch.word64(at)
	if _, ok := s.ranges.Find(word); ok {
		return true
	}
	_, ok := s.blind.Find(word)
	return ok
}

// everywhere says whether a word is a pointer in all samples.
func (f *fitter) everywhere(at int) bool {
	return !slices.ContainsFunc(f.samples, func(s *sample) bool { return !s.pointsAt(at) })
}

// lastOf is the last slot that there is room for if what is a pointer always, behind the
// most that were seen, is none of the elements.
func (f *fitter) lastOf(at uint16, most uint64, end uint16) uint16 {
	last := at + 8*uint16(most-1)
	for last < end && !f.everywhere(int(last)+8) {
		last += 8
	}
	return last
}

// lastIn is the last slot of a region.
func (f *fitter) lastIn(r Param) uint16 {
	return uint16(min(int(r.Offset)+int(r.Bytes), f.shortest())&^7 - 8)
}

// within says whether a word belongs to the elements that some sample has; or to a struct
// of arrays that they are of: what else it holds may be anything.
func (f *fitter) within(at uint16) bool {
	if !f.array.is() {
		return false
	}
	if f.array.at <= at && int(at) < int(f.array.at)+8*f.most {
		return true
	}
	return slices.ContainsFunc(f.layout.regions(), func(r Param) bool {
		return f.layout.known && r.Bytes > largeParam && r.holds(f.array.at) && r.holds(at)
	})
}

func (p Param) holds(at uint16) bool { return uint32(at)-p.Offset < p.Bytes && uint32(at) >= p.Offset }

// elements adds the classes of what the elements have of their own: words as far apart
// as the elements are, or half as far, of one parameter.
func (f *fitter) elements(list []class, views []view) []class {
	regions, n := f.layout.regions(), f.shortest()
	seen := make(map[uint64]bool)
	for i := range list {
		seen[hashOf(list[i].values)] = true
	}
	add := func(s source) {
		c := class{source: s, values: make([]uint64, len(views)), once: true}
		largest := uint64(0)
		for i := range views {
			v := s.read(&f.samples[views[i].sample].launch, 0, views[i].at.index)
			c.values[i] = v
			largest = max(largest, v)
			c.varies = c.varies || v != c.values[0]
		}
		if h := hashOf(c.values); c.varies && largest <= maxValue && !seen[h] {
			seen[h] = true
			list = append(list, c)
		}
	}
	for _, r := range regions {
		end := min(int(r.Offset)+int(r.Bytes), n)
		for at := (int(r.Offset) + 3) &^ 3; at+4*f.most <= end; at += 4 {
			if int(f.array.at)-4*f.most < at && at < int(f.array.at)+8*f.most {
				continue // of the pointers
			}
			add(source{kind: each32, at: uint16(at)})
			if at%8 == 0 && at+8*f.most <= end {
				add(source{kind: each64, at: uint16(at)})
			}
		}
	}
	return list[:min(len(list), maxSingles)]
}

func hashOf(values []uint64) uint64 {
	h := uint64(0)
	for _, v := range values {
		h = mix(h, v)
	}
	return h
}

// ofElements are the candidates of an array's elements: of those that say most, as far as
// they hold for all.
func (f *fitter) ofElements(views []view) []candidate {
	some := telling(views)
	list := f.stretches(some, f.classesOf(some))
	return ordered(slices.DeleteFunc(list, func(c candidate) bool {
		_, ok := f.holds(&c.template.bytes, views)
		return !ok
	}))
}

// telling leaves of an array's views those that say most; all of them if they are few.
func telling(views []view) []view {
	if len(views) <= maxElements {
		return views
	}
	some := slices.Clone(views)
	slices.SortStableFunc(some, func(a, b view) int { return cmp.Compare(b.extent.lo, a.extent.lo) })
	some = some[:maxElements]
	slices.SortStableFunc(some, func(a, b view) int { return cmp.Compare(a.sample, b.sample) })
	return some
}
