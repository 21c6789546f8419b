package predictor

import (
	"cmp"
	"math/bits"
	"slices"
)

// natural is a coefficient that kernels have: an element's size, times a tile or
// a small count, or a part of one. bits is how long it takes to say it: the less,
// the likelier.
type natural struct {
	num, den uint32
	value    float64
	bits     float64
}

// naturals are by value, likely are the same by bits.
var naturals, likely = makeNaturals()

func makeNaturals() (byValue, byBits []natural) {
	add := func(odd, log int, bits float64) {
		n := natural{num: uint32(odd), den: 1, bits: bits}
		if log < 0 {
			n.den <<= -log
		} else {
			n.num <<= log
		}
		n.value = float64(n.num) / float64(n.den)
		byValue = append(byValue, n)
	}
	// 4- and 2-byte elements first, then bytes, doubles and vectors of four floats.
	for log, bits := range map[int]float64{-3: 7, -2: 6, -1: 5, 0: 2, 1: 1, 2: 1, 3: 2, 4: 3} {
		add(1, log, bits)
	}
	for log := 5; log <= 24; log++ {
		add(1, log, 4+float64(log)/4)
	}
	for odd, extra := range map[int]float64{3: 4, 5: 7, 7: 8, 9: 8, 11: 11, 13: 11, 15: 11} {
		for log := -2; log <= 20; log++ {
			bits := 1 + extra + float64(max(log-2, 2-log, 0))/2
			add(odd, log, bits)
		}
	}
	slices.SortFunc(byValue, func(a, b natural) int { return cmp.Compare(a.value, b.value) })
	byBits = slices.Clone(byValue)
	slices.SortFunc(byBits, func(a, b natural) int {
		return cmp.Or(cmp.Compare(a.bits, b.bits), -cmp.Compare(a.value, b.value))
	})
	return byValue, byBits
}

// natural says whether an expression is an element's size, or three of them, times
// a power of two and plain values.
func (e *expr) natural() bool {
	for _, s := range e.factor[:e.n] {
		if s.change != plain {
			return false
		}
	}
	odd := e.num
	for odd != 0 && odd%2 == 0 {
		odd /= 2
	}
	return e.n == 0 || e.add == 0 && odd <= 3 && bits.OnesCount32(e.den) == 1
}

// simplest returns the likeliest coefficient from lo to hi, the larger of two that
// are as likely; nil if there is none.
func simplest(lo, hi float64) *natural {
	i := firstNatural(lo)
	if i == len(naturals) || naturals[i].value > hi {
		return nil
	}
	var best *natural
	for steps := 0; i < len(naturals) && naturals[i].value <= hi; i, steps = i+1, steps+1 {
		if steps == 8 { // a wide interval: one of the likely ones is in it
			break
		}
		if best == nil || naturals[i].bits <= best.bits {
			best = &naturals[i]
		}
	}
	if i == len(naturals) || naturals[i].value > hi {
		return best
	}
	for i := range likely {
		if v := likely[i].value; v >= lo && v <= hi {
			return &likely[i]
		}
	}
	return best
}

// firstNatural is the index of the least that is not below v. By slices.BinarySearchFunc, which
// calls back for every step, it was a quarter of the time that fitting takes.
func firstNatural(v float64) int {
	from, to := 0, len(naturals)
	for from < to {
		if middle := int(uint(from+to) >> 1); naturals[middle].value < v {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from
}

// roundest returns the multiple of the largest power of two from lo to hi.
// Precondition: lo <= hi.
func roundest(lo, hi uint64) uint64 {
	for shift := 63; shift > 0; shift-- {
		unit := uint64(1) << shift
		if v := hi &^ (unit - 1); v >= lo && v != 0 {
			return v
		}
	}
	return hi
}
