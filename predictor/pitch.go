package predictor

import (
	"cmp"
	"math"
	"slices"
)

// Rows of a matrix lie at a pitch, and the last one ends where its bytes do: where
// the rows are closer than a block they look like one stretch, of a pitch times
// all rows but one, and a row. chunked needs a sample in which they are apart;
// pitched finds them from where they end.

// maxPitched is how many pitches are looked into, the shortest to say.
const maxPitched = 8

// leastRow is the part of a block that some row must have: a matrix of shorter ones
// ends in the same block with its last row and without it.
const leastRow = 1.0 / 16

// pitch is so many rows at such a distance.
type pitch struct {
	stride, count expr
	bits          float64
}

// pitched are the candidates that touch rows at a pitch. Two samples would be
// explained by too many.
func (f *fitter) pitched(views []view, classes []class) []candidate {
	if len(views) < 3 {
		return nil
	}
	p := pitcher{finderOfChunks{fitter: f, views: views, classes: classes}, f.ends(views), naming(len(classes))}
	var list []candidate
	for _, at := range p.pitches() {
		list = append(list, p.chunks(scored{expr: at.stride, bits: at.bits}, scored{expr: at.count})...)
	}
	return list
}

// ends bound where the last byte is that each view shows.
func (f *fitter) ends(views []view) []bound {
	list := make([]bound, len(views))
	for i := range views {
		list[i] = f.end(&views[i])
	}
	return list
}

func (f *fitter) end(v *view) bound {
	s := f.samples[v.sample]
	n := len(v.chunks)
	switch {
	case n == 0:
		return bound{hi: v.rest}
	case n == 1 && v.own && v.hidden == 0:
		return v.extent
	case v.hidden > 0:
		return bound{lo: v.extent.lo, hi: v.rest}
	}
	last := v.chunks[n-1]
	if last.end <= v.at.address {
		return bound{hi: v.rest}
	}
	b := bound{hi: last.end - v.at.address}
	b.lo = max((last.end-1)/s.grain*s.grain, v.at.address) - v.at.address + 1
	if s.lossy {
		b.hi = v.rest
	}
	return b
}

type pitcher struct {
	finderOfChunks
	ends []bound
	name float64
}

// pitches finds the strides and counts that keep to the ends: the last row begins
// before the end, and none is longer than the pitch.
func (p *pitcher) pitches() []pitch {
	var found []pitch
	two := make([]uint64, len(p.views))
	for i := range p.classes {
		count := &p.classes[i]
		if i >= maxPairs || count.source.kind == rest || !p.effort.spend(len(p.classes)) {
			continue
		}
		for j := range min(len(p.classes), maxPairs) {
			a := &p.classes[j]
			if i == j || !count.varies && !a.varies {
				continue
			}
			found = p.try(found, count, a.values, a)
			if i >= maxTriples || j >= maxTriples || !p.effort.spend(maxTriples-j) {
				continue
			}
			for k := j; k < min(len(p.classes), maxTriples); k++ {
				if times(two, a.values, p.classes[k].values) {
					found = p.try(found, count, two, a, &p.classes[k])
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b pitch) int { return cmp.Compare(a.bits, b.bits) })
	return found[:min(len(found), maxPitched)]
}

// try looks for the coefficient of a stride.
func (p *pitcher) try(found []pitch, count *class, product []uint64, factors ...*class) []pitch {
	lo, hi, told := 0.0, math.Inf(1), 0.0
	for i := range p.views {
		n, v, end := count.values[i], float64(product[i]), &p.ends[i]
		if n == 0 || v == 0 {
			if end.lo > 0 {
				return found
			}
			continue
		}
		lo = max(lo, float64(end.lo)/(v*float64(n)))
		if n > 1 {
			told = max(told, v/float64(p.samples[p.views[i].sample].grain))
			hi = min(hi, float64(end.hi)/(v*float64(n-1)))
		}
		if lo > hi {
			return found
		}
	}
	if told == 0 {
		return found
	}
	c := simplest(lo, hi)
	if c == nil || c.value*told < leastRow {
		return found
	}
	at := pitch{stride: expr{num: c.num, den: c.den, n: uint8(len(factors))}, count: expr{num: 1, den: 1, n: 1}}
	at.count.factor[0] = count.source
	at.bits = p.name + count.bits + c.bits
	for i, f := range factors {
		at.stride.factor[i] = f.source
		at.bits += p.name + f.bits
	}
	return append(found, at)
}
