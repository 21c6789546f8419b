package predictor

import (
	"slices"
)

// A kernel that goes through all elements of its output by one index is told how many
// there are, and what it divides the index by to know where it is: a pooling gets N*C*H*W of
// its output, C, H and W, and not how many images N are. So what is left of such a number
// after a division is a value too: where it is without a rest in all samples, however
// different they are, this is no coincidence.

const (
	maxDivisors   = 3
	maxQuotients  = 8
	maxDividing   = 24 // values that are divided, and that they are divided by
	leastDividend = 3  // so many different ones show that there never is a rest
	quotientBits  = 3  // what a quotient costs beyond a value
)

// divisors are words of the parameters, by 4 bytes and from 1 on; 0: none.
type divisors [maxDivisors]uint16

// valid says whether they are words, the first of them.
func (d *divisors) valid() bool {
	for i, w := range d {
		if w > MaxParams/4 || i > 0 && w > 0 && d[i-1] == 0 {
			return false
		}
	}
	return true
}

func (d *divisors) of(l *Launch, v uint64) uint64 {
	for _, w := range d {
		if w == 0 {
			break
		}
		if n := l.word32(4*int(w) - 4); n > 1 {
			v /= n
		}
	}
	return v
}

// quotients are classes of numbers that classes leave when they are divided by others.
func quotients(classes []class) []class {
	var list []class
	some := func(yes func(c *class) bool) (list []*class) {
		for i := range classes {
			if c := &classes[i]; len(list) < maxDividing && c.source.kind <= word64 && c.varies && yes(c) {
				list = append(list, c)
			}
		}
		return list
	}
	by := some(func(c *class) bool { return slices.Min(c.values) > 1 && slices.Max(c.values) < 1<<32 })
	seen := make(map[uint64]bool)
	for i := range classes {
		seen[hashOf(classes[i].values)] = true
	}
	for _, c := range some(func(c *class) bool { return different(c.values) >= leastDividend && slices.Max(c.values) < 1<<32 }) {
		divide(c, by, divisors{}, 0, c.values, func(q class) {
			if h := hashOf(q.values); !seen[h] && len(list) < maxQuotients {
				seen[h] = true
				list = append(list, q)
			}
		})
	}
	return list
}

func different(values []uint64) int {
	v := slices.Clone(values)
	slices.Sort(v)
	return len(slices.Compact(v))
}

// divide goes on dividing a class as long as there is no rest.
func divide(c *class, by []*class, d divisors, n int, left []uint64, yield func(class)) {
	for k, b := range by {
		rest := make([]uint64, len(left))
		for i, v := range left {
			if v%b.values[i] != 0 {
				rest = nil
				break
			}
			rest[i] = v / b.values[i]
		}
		if rest == nil || slices.Max(rest) <= 1 {
			continue
		}
		more := d
		more[n] = b.word(&d)
		q := class{source: source{kind: quotient, at: c.source.at, over: more}, values: rest, varies: different(rest) > 1, bits: quotientBits}
		yield(q)
		if n+1 < maxDivisors {
			divide(c, by[k:], more, n+1, rest, yield)
		}
	}
}

// word is a class's as a divisor: of those that were always the same, the next one that is
// not there yet, as of height and width.
func (c *class) word(d *divisors) uint16 {
	for _, s := range append([]source{c.source}, c.others...) {
		if w := s.at/4 + 1; s.kind <= word64 && !slices.Contains(d[:], w) {
			return w
		}
	}
	return c.source.at/4 + 1
}
