package predictor

import (
	"math"
	"math/bits"
	"slices"
)

// Limits of the search, which bound its time: products of three are made of the
// first triples classes of values, those of two of the first pairs, 2 ms in all
// for one pointer.
const (
	maxSingles = 1024
	maxPairs   = 160
	maxTriples = 36
)

// class is a value of the launches of a set of samples, standing for all values
// that were the same in each of them.
type class struct {
	source source
	others []source // of those that it stands for, a few
	values []uint64 // by sample
	varies bool
	bits   float64 // beyond what saying one of so many costs
	once   bool    // a product has one of those at most; they come last
}

// layout says which words of a kernel's parameters may be values.
type layout struct {
	params []Param
	known  bool
}

// noPointers are the words that cannot hold a pointer: those that are not within
// one parameter.
func (l *layout) noPointers() (w wordSet) {
	if !l.known {
		return w
	}
	for i := range w {
		w[i] = ^uint64(0)
	}
	for _, p := range l.params {
		for at := (int64(p.Offset) + 7) &^ 7; at+8 <= min(int64(p.Offset)+int64(p.Bytes), MaxParams); at += 8 {
			w[at/512] &^= 1 << (at / 8 % 64)
		}
	}
	return w
}

// words calls yield with each possible value of launches that have n parameter
// bytes; words for which pointer is true, and their halves, are left out.
func (l *layout) words(n int, pointer func(at uint16) bool, yield func(source)) {
	n = min(n, MaxParams)
	word := func(from, to int) {
		for at := (from + 3) &^ 3; at+4 <= to; at += 4 {
			whole := at%8 == 0 && at+8 <= to
			if whole && pointer(uint16(at)) {
				at += 4
				continue
			}
			// What is first stands for both where the upper half is zero: in a struct
			// that half may be another value.
			scalar := l.known && from == at && to == at+8
			if whole && scalar {
				yield(source{kind: word64, at: uint16(at)})
			}
			yield(source{kind: word32, at: uint16(at)})
			if whole && !scalar {
				yield(source{kind: word64, at: uint16(at)})
			}
		}
	}
	if !l.known {
		word(0, n)
		return
	}
	for _, p := range l.params {
		if int64(p.Offset) < int64(n) {
			word(int(p.Offset), int(min(int64(p.Offset)+int64(p.Bytes), int64(n))))
		}
	}
}

// dims are the values that every launch has.
var dims = []source{
	{kind: gridDim, at: 0}, {kind: gridDim, at: 1}, {kind: gridDim, at: 2},
	{kind: blockDim, at: 0}, {kind: blockDim, at: 1}, {kind: blockDim, at: 2},
	{kind: sharedBytes},
}

// maxValue is the largest value that is believed to count something.
const maxValue = 1 << 40

// classesOf makes the classes of values of samples, the more telling first.
func classesOf(l *layout, samples []*sample, pointer func(at uint16) bool) []class {
	g := gatherer{samples: samples, seen: make(map[uint64]int)}
	n := MaxParams
	for _, s := range samples {
		n = min(n, len(s.launch.Params))
	}
	l.words(n, pointer, g.add)
	for _, d := range dims {
		g.add(d)
	}
	for i := range maxMaps {
		if slices.ContainsFunc(samples, func(s *sample) bool { return i >= len(s.launch.Maps) }) {
			break
		}
		g.add(source{kind: mapBytes, at: uint16(i)})
	}
	g.list = append(g.list, quotients(g.list)...)
	// What varies explains what varies; among constants the first parameters are
	// the sizes as a rule, and large arrays come after them.
	slices.SortStableFunc(g.list, func(a, b class) int {
		switch {
		case a.varies == b.varies:
			return 0
		case a.varies:
			return -1
		default:
			return 1
		}
	})
	return g.list[:min(len(g.list), maxSingles)]
}

type gatherer struct {
	samples []*sample
	seen    map[uint64]int // classes, by a hash of their values
	list    []class
}

// add takes a value in unless it never counts anything, or another says the same.
func (g *gatherer) add(s source) {
	c := class{source: s, values: make([]uint64, len(g.samples))}
	var largest, h uint64
	for i, sample := range g.samples {
		v := s.read(&sample.launch, 0, 0)
		c.values[i] = v
		largest = max(largest, v)
		c.varies = c.varies || v != c.values[0]
		h = mix(h, v)
	}
	if largest <= 1 && !c.varies || largest > maxValue {
		return
	}
	if at, ok := g.seen[h]; ok {
		if first := &g.list[at]; len(first.others) < maxMembers {
			first.others = append(first.others, s)
		}
		return
	}
	g.seen[h] = len(g.list)
	switch s.kind {
	case gridDim:
		c.bits = 1
	case blockDim:
		c.bits = 2
	case sharedBytes:
		c.bits = 4
	}
	g.list = append(g.list, c)
}

// restBits is what it costs to say "to the end": it is true of programs that have
// an allocation for each array, as long as they have.
const restBits = 12

// restClass is the class of what is left of each sample's allocation.
func restClass(views []view) class {
	c := class{source: source{kind: rest}, bits: restBits}
	for i := range views {
		c.values = append(c.values, views[i].rest)
		c.varies = c.varies || views[i].rest != views[0].rest
	}
	return c
}

// mix takes a number into a hash.
func mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^v^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return bits.RotateLeft64(hi^lo^h, 23) * 0x9fb21c651e98df25
}

// naming is what it costs to name one of n values.
func naming(n int) float64 { return max(1, math.Log2(float64(n))) }
