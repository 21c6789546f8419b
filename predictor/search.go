package predictor

import (
	"math"
	"slices"
)

// bound is what one sample says of a number: from lo to hi for certain, from
// softLo to softHi if each pointer has its memory to itself.
type bound struct{ lo, hi, softLo, softHi uint64 }

// scored is an expression that keeps all bounds, and how many bits it takes to
// say it, exceptions included.
type scored struct {
	expr   expr
	bits   float64
	except float64 // how many of them are for exceptions
	sum    uint64  // over the samples: of two that are as long the larger is safer
}

// What exceptions and rarer forms cost, in bits.
const (
	softBits   = 5  // a bound is kept but the memory is shared
	freeBits   = 14 // a coefficient that no kernel is known to have
	changeBits = 9  // N+1, or N rounded up
	addBits    = 4  // something is added
	maxScored  = 24 // expressions that are kept
	pinBits    = 4  // a product that says a constant may be so much longer
)

// search finds the expressions that keep all bounds, the shortest first. There
// may be none. Where a constant does and is not known well, the least and
// the largest that it may be are among them.
func (t *fitter) search(bounds []bound, classes []class) []scored {
	f := finder{bounds: bounds, classes: classes, name: naming(len(classes)), effort: t.effort, triples: maxTriples}
	f.fixed()
	f.products()
	if len(bounds) >= 3 && f.effort.left > 0 {
		f.changed()
	}
	if !f.convincing() && f.effort.left > 0 {
		f.added()
	}
	f.pin()
	return f.withConstants()
}

// withConstants adds the least and the largest constant.
func (f *finder) withConstants() []scored {
	if f.constLo+1 < f.constHi {
		f.keep(constant(f.constLo+1), f.constBits+1, 0, 0)
		f.keep(constant(f.constHi), f.constBits+1, 0, 0)
	}
	return f.found
}

// searchShort finds the short ones among them, for less: constants and products of
// one or two values.
func (t *fitter) searchShort(bounds []bound, classes []class) []scored {
	f := finder{bounds: bounds, classes: classes, name: naming(len(classes)), effort: t.effort}
	f.fixed()
	f.products()
	return f.withConstants()
}

type finder struct {
	triples int // so many values are multiplied three at a time
	bounds  []bound
	classes []class
	name    float64
	found   []scored // by bits
	effort  *effort
	// constLo and constHi are what is left for a constant; none if lo > hi.
	constLo, constHi uint64
	constBits        float64
}

func (f *finder) keep(e expr, bits, except float64, sum uint64) {
	s := scored{e, bits + except, except, sum}
	if len(f.found) == maxScored && !s.before(&f.found[maxScored-1]) {
		return
	}
	i, _ := slices.BinarySearchFunc(f.found, s, func(a, s scored) int {
		if s.before(&a) {
			return 1
		}
		return -1
	})
	f.found = slices.Insert(f.found, i, s)
	f.found = f.found[:min(len(f.found), maxScored)]
}

func (s *scored) before(o *scored) bool {
	return s.bits < o.bits || s.bits == o.bits && s.sum > o.sum
}

// fixed tries one number for all: it takes the more bits the closer it is bounded.
func (f *finder) fixed() {
	lo, hi := uint64(0), uint64(maxExtent)
	softLo, softHi := lo, hi
	for _, b := range f.bounds {
		lo, hi = max(lo, b.lo), min(hi, b.hi)
		softLo, softHi = max(softLo, b.softLo), min(softHi, b.softHi)
	}
	f.constLo, f.constHi = lo, hi
	if lo > hi {
		return
	}
	bits := 2 + math.Log2(float64(hi+1)/float64(hi-lo+1))
	if lo, hi := max(lo, softLo), min(hi, softHi); lo <= hi {
		f.constLo, f.constHi = lo, hi
	}
	v, except := guess(f.constLo, f.constHi), 0.0
	for _, b := range f.bounds {
		if v < b.softLo || v > b.softHi {
			except += softBits
		}
	}
	f.constBits = bits + except
	f.keep(constant(v), bits, except, v*uint64(len(f.bounds)))
}

// guess takes a number from lo to hi. Within a factor of two it is the larger: a
// miss costs more than a block in vain. Where hardly anything is known all orders
// of magnitude are as likely, and it is the one that four of five lie below.
func guess(lo, hi uint64) uint64 {
	if lo == 0 || hi/2 <= lo {
		return hi
	}
	return uint64(float64(lo) * math.Pow(float64(hi)/float64(lo), 0.8))
}

// pin gives constants the value that the shortest product of constants has: the
// bounds leave 2 MiB, and a weight's size is the product of its dimensions.
func (f *finder) pin() {
	at := slices.IndexFunc(f.found, func(s scored) bool { return s.expr.fixed() })
	if at < 0 || f.constLo == f.constHi || f.constHi/2 > f.constLo {
		return
	}
	for i := range f.found {
		if f.found[i].bits > f.found[at].bits+pinBits {
			break
		}
		if e := &f.found[i].expr; !e.fixed() {
			if v, ok := f.same(e); ok && v >= f.constLo && v <= f.constHi {
				f.found[at].expr = constant(v)
				return
			}
		}
	}
}

// same returns an expression's value if it is the same in all samples.
func (f *finder) same(e *expr) (uint64, bool) {
	var first uint64
	for i := range f.bounds {
		v := e.of(f.value(e, i))
		if i > 0 && v != first {
			return 0, false
		}
		first = v
	}
	return first, true
}

// value is the product of an expression's factors in a sample.
func (f *finder) value(e *expr, sample int) uint64 {
	p := uint64(1)
	for _, s := range e.factor[:e.n] {
		plainSource := s
		plainSource.change = plain
		for i := range f.classes {
			if f.classes[i].source == plainSource {
				p = product(p, s.change.apply(f.classes[i].values[sample]))
				break
			}
		}
	}
	return p
}

// convincing says whether the best expression is in natural terms.
func (f *finder) convincing() bool {
	return len(f.found) > 0 && (f.found[0].expr.natural() || f.found[0].expr.fixed())
}

// products has one, two and three of the classes multiplied, as far as the effort goes:
// try is told the products in n samples and which classes they are of.
func products(classes []class, triples int, e *effort, n int, try func(p []uint64, of ...int)) {
	two, three := make([]uint64, n), make([]uint64, n)
	for i := range classes {
		a := &classes[i]
		try(a.values, i)
		if i >= maxPairs || a.once || !e.spend(len(classes)-i) {
			continue
		}
		for j := i; j < min(len(classes), maxPairs); j++ {
			if !times(two, a.values, classes[j].values) {
				continue
			}
			try(two, i, j)
			if j >= triples || classes[j].once || !e.spend(triples-j) {
				continue
			}
			for k := j; k < min(len(classes), triples); k++ {
				if times(three, two, classes[k].values) {
					try(three, i, j, k)
				}
			}
		}
	}
}

func (f *finder) products() {
	products(f.classes, f.triples, f.effort, len(f.bounds), func(p []uint64, of ...int) {
		var factors [maxFactors]*class
		for i, c := range of {
			factors[i] = &f.classes[c]
		}
		f.try(p, factors[:len(of)]...)
	})
}

// coefficients are those with which a product keeps all bounds, from lo to hi at most;
// false: there are none but 0, or the product is 0 wherever it is looked at.
func coefficients(bounds []bound, p []uint64) (lo, hi float64, ok bool) {
	hi = math.Inf(1)
	for i := range bounds {
		b := &bounds[i]
		if p[i] == 0 {
			if b.lo > 0 {
				return 0, 0, false
			}
			continue
		}
		v := float64(p[i])
		lo, hi = max(lo, float64(b.lo)/v), min(hi, float64(b.hi)/v)
	}
	return lo, hi, hi > 0 && !math.IsInf(hi, 1)
}

// times multiplies, and says whether the products are still numbers of bytes.
func times(dst, a, b []uint64) bool {
	var most uint64
	for i := range dst {
		dst[i] = product(a[i], b[i])
		most = max(most, dst[i])
	}
	return most <= 8*maxExtent
}

// try looks for the best coefficient of a product.
func (f *finder) try(p []uint64, factors ...*class) {
	lo, hi, ok := coefficients(f.bounds, p)
	if !ok || lo > hi*(1+1e-12) {
		return
	}
	bits := 0.0
	for _, c := range factors {
		bits += f.name + c.bits
	}
	if len(f.found) == maxScored && bits > f.found[maxScored-1].bits {
		return
	}
	e := expr{n: uint8(len(factors)), den: 1}
	for i, c := range factors {
		e.factor[i] = c.source
	}
	f.coefficient(e, p, lo, hi, bits)
}

func (f *finder) coefficient(e expr, p []uint64, lo, hi, bits float64) {
	if n := simplest(lo*(1-1e-12), hi*(1+1e-12)); n != nil {
		e.num, e.den = n.num, n.den
		f.check(e, p, bits+n.bits)
		if larger := simplest(n.value*(1+1e-12), hi*(1+1e-12)); larger != nil { // as likely, and a miss costs more
			e.num, e.den = larger.num, larger.den
			f.check(e, p, bits+max(n.bits, larger.bits-1))
		}
		// Where memory is shared the next likely one may fit better.
		if softLo, softHi := f.soft(p); softLo > n.value || softHi < n.value {
			if n := simplest(max(lo, softLo)*(1-1e-12), min(hi, softHi)*(1+1e-12)); n != nil {
				e.num, e.den = n.num, n.den
				f.check(e, p, bits+n.bits)
			}
		}
		return
	}
	if e.n > 2 || hi < 1 || lo > 1<<31 {
		return
	}
	from, to := uint64(math.Ceil(lo*(1-1e-12))), uint64(min(hi, 1<<31))
	if from == 0 || from > to {
		return
	}
	e.num = uint32(roundest(from, to))
	f.check(e, p, bits+freeBits+math.Log2(hi/(hi-lo+1e-9)))
}

// soft is what the soft bounds leave for a coefficient.
func (f *finder) soft(p []uint64) (lo, hi float64) {
	lo, hi = 0, math.Inf(1)
	for i, b := range f.bounds {
		if p[i] > 0 {
			lo, hi = max(lo, float64(b.softLo)/float64(p[i])), min(hi, float64(b.softHi)/float64(p[i]))
		}
	}
	return lo, hi
}

// check keeps an expression if it keeps all bounds.
func (f *finder) check(e expr, p []uint64, bits float64) {
	except, sum := 0.0, uint64(0)
	for i, b := range f.bounds {
		v := e.of(p[i])
		sum += v
		if v < b.lo || v > b.hi {
			return
		}
		if v < b.softLo || v > b.softHi {
			except += softBits
		}
	}
	f.keep(e, bits, except, sum)
}

// changed tries products of one or two in which one value is a neighbour's, or
// rounded up.
func (f *finder) changed() {
	one := make([]uint64, len(f.bounds))
	two := make([]uint64, len(f.bounds))
	few := f.classes[:min(len(f.classes), maxTriples)]
	for i := range few {
		f.effort.spend(int(changeEnd) * len(few))
		for c := plain + 1; c < changeEnd; c++ {
			a := few[i]
			a.source.change, a.bits = c, a.bits+changeBits
			for k, v := range few[i].values {
				one[k] = c.apply(v)
			}
			f.try(one, &a)
			for j := range few {
				if times(two, one, few[j].values) {
					f.try(two, &a, &few[j])
				}
			}
		}
	}
}

// added tries products of one or two with something added.
func (f *finder) added() {
	few := f.classes[:min(len(f.classes), maxTriples)]
	two := make([]uint64, len(f.bounds))
	for i := range few {
		f.tryAdded(few[i].values, &few[i])
		for j := i; j < len(few); j++ {
			if times(two, few[i].values, few[j].values) {
				f.tryAdded(two, &few[i], &few[j])
			}
		}
	}
}

func (f *finder) tryAdded(p []uint64, factors ...*class) {
	// The two samples that are furthest apart bound the slope best.
	least, most := 0, 0
	for i := range p {
		if p[i] < p[least] {
			least = i
		}
		if p[i] > p[most] {
			most = i
		}
	}
	if p[least] == p[most] {
		return
	}
	run := float64(p[most] - p[least])
	lo := (float64(f.bounds[most].lo) - float64(f.bounds[least].hi)) / run
	hi := (float64(f.bounds[most].hi) - float64(f.bounds[least].lo)) / run
	n := simplest(max(lo*(1-1e-12), 1.0/16), hi*(1+1e-12))
	if n == nil {
		return
	}
	e := expr{num: n.num, den: n.den, n: uint8(len(factors))}
	bits := n.bits + addBits
	for i, c := range factors {
		e.factor[i] = c.source
		bits += f.name + c.bits
	}
	var ok bool
	if e.add, ok = f.remainder(&e, p); !ok {
		return
	}
	f.check(e, p, bits+math.Log2(1+math.Abs(float64(e.add))))
}

// remainder is what may be added to an expression in all samples: the roundest.
func (f *finder) remainder(e *expr, p []uint64) (int64, bool) {
	from, to := int64(-maxExtent), int64(maxExtent)
	for i, b := range f.bounds {
		v := int64(e.of(p[i]))
		from, to = max(from, int64(b.lo)-v), min(to, int64(b.hi)-v)
	}
	switch {
	case from > to:
		return 0, false
	case from > 0:
		return int64(roundest(uint64(from), uint64(to))), true
	case to < 0:
		return -int64(roundest(uint64(-to), uint64(-from))), true
	}
	return 0, true
}
