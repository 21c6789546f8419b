package predictor

import (
	"math"
	"slices"
)

// What an index in memory leads to is a part of what the arguments say at most: a
// gather of few words from a large table leaves blocks out, one of many touches all
// of them. Where no template says exactly what is touched, one may say what is
// touched at most, and be exact as a rule.

// exceptBits is what a sample costs that touched less than a template says, beyond
// what it tells.
const exceptBits = 8

// exceptShare of the samples may touch less, one in so many.
const exceptShare = 4

// upTo are the candidates that say what is touched at most.
func (f *fitter) upTo(views []view, classes []class) []candidate {
	if len(views) < exceptShare {
		return nil
	}
	m := mostFinder{finder{classes: classes, name: naming(len(classes)), effort: f.effort}, f.ends(views)}
	for i := range views {
		if v := &views[i]; f.samples[v.sample].lossy || len(v.chunks) != 1 || !v.own {
			m.ends[i].hi = 0 // with holes
		}
	}
	m.products()
	var list []candidate
	for _, s := range first(m.found, 3) {
		list = append(list, candidate{template{bytes: s.expr, most: true}, s.bits})
	}
	return list
}

type mostFinder struct {
	finder
	ends []bound
}

// products tries those of one value and of two, of which some must vary: what is
// the same always says nothing of a part of it.
func (m *mostFinder) products() {
	two := make([]uint64, len(m.ends))
	for i := range m.classes {
		a := &m.classes[i]
		if i >= maxPairs || !m.effort.spend(len(m.classes)-i) {
			break
		}
		if a.source.kind == rest {
			continue
		}
		if a.varies {
			m.try(a.values, a)
		}
		for j := i; j < min(len(m.classes), maxPairs); j++ {
			b := &m.classes[j]
			if b.source.kind != rest && (a.varies || b.varies) && times(two, a.values, b.values) {
				m.try(two, a, b)
			}
		}
	}
}

// try looks for a coefficient that no sample passes, and that most keep.
func (m *mostFinder) try(p []uint64, factors ...*class) {
	lo := 0.0
	for i, end := range m.ends {
		if p[i] == 0 {
			if end.lo > 0 {
				return
			}
			continue
		}
		lo = max(lo, float64(end.lo)/float64(p[i]))
	}
	hi, except, bits := math.Inf(1), 0, 0.0
	for i, end := range m.ends {
		switch v := float64(end.hi) / float64(max(p[i], 1)); {
		case p[i] == 0:
		case v < lo:
			except++
			bits += exceptBits + math.Log2(float64(end.hi+1)/float64(less(end.hi, end.lo)+1))
		default:
			hi = min(hi, v)
		}
	}
	if except == 0 || except > len(m.ends)/exceptShare || math.IsInf(hi, 1) {
		return
	}
	n := simplest(lo*(1-1e-12), hi*(1+1e-12))
	if n == nil {
		return
	}
	e := expr{num: n.num, den: n.den, n: uint8(len(factors))}
	bits += n.bits
	for i, c := range factors {
		e.factor[i] = c.source
		bits += m.name + c.bits
	}
	m.keep(e, bits, 0, 0)
}

// anyMost says whether some template only says what is touched at most.
func (v *variant) anyMost() bool {
	return slices.ContainsFunc(v.slots, func(s slot) bool { return s.in.most })
}
