package predictor

// chunked are the candidates that touch chunks at a stride: some sample shows
// gaps. The stride is bounded by where the chunks begin, then the chunks by where
// they end, and their number is what was seen.
func (f *finderOfChunks) candidates() []candidate {
	var strides, counts []bound
	for i := range f.clear {
		v := &f.clear[i]
		b, _ := f.stride(v)
		strides = append(strides, b)
		n := uint64(len(v.chunks))
		counts = append(counts, bound{n, n + v.hidden, n, n})
	}
	narrow := narrowTo(f.classes, f.views, f.clear)
	var list []candidate
	for _, count := range first(f.search(counts, narrow), 3) {
		for _, stride := range first(f.search(strides, narrow), 6) {
			list = append(list, f.chunks(stride, count)...)
		}
	}
	return list
}

// finderOfChunks looks for chunks at a stride. In clear views each chunk is a
// stretch of its own; in others some of them may have grown together.
type finderOfChunks struct {
	*fitter
	views, clear []view
	classes      []class
}

func (f *fitter) chunked(views []view, classes []class) []candidate {
	c := finderOfChunks{fitter: f, views: views, classes: classes}
	for _, unclear := range []bool{false, true} {
		c.clear = nil
		for i := range views {
			if v := &views[i]; v.own && len(v.chunks) > 1 {
				_, even := f.stride(v)
				if even && (unclear || v.apart(f.samples[v.sample].grain)) {
					c.clear = append(c.clear, *v)
				}
			}
		}
		if len(c.clear) > 0 {
			return c.candidates()
		}
	}
	return nil
}

// apart says whether some gap of a view has two blocks: then no gap, all being
// equal, can be so small that the blocks on both sides of it are one stretch.
func (v *view) apart(grain uint64) bool {
	for i := 1; i < len(v.chunks); i++ {
		if v.chunks[i].base-v.chunks[i-1].end >= 2*grain || grain == 1 {
			return true
		}
	}
	return false
}

// narrowTo leaves of each class the values of some of the views.
func narrowTo(classes []class, views, some []view) []class {
	list := make([]class, 0, len(classes))
	for _, c := range classes {
		n := class{source: c.source, bits: c.bits}
		for i, at := 0, 0; i < len(views) && at < len(some); i++ {
			if views[i].sample == some[at].sample && views[i].at == some[at].at {
				n.values = append(n.values, c.values[i])
				at++
			}
		}
		list = append(list, n)
	}
	return list
}

// stride bounds the distance of a view's chunks: chunk i begins i strides behind
// the pointer.
func (f *fitter) stride(v *view) (bound, bool) {
	grain := f.samples[v.sample].grain
	b := bound{hi: maxExtent}
	for i, c := range v.chunks[1:] {
		if c.base <= v.at.address {
			return b, false
		}
		n := uint64(i + 1)
		off := c.base - v.at.address // the chunk begins from here on, within a grain
		b.lo = max(b.lo, (off+n-1)/n)
		b.hi = min(b.hi, (off+grain-1)/n)
	}
	b.softLo, b.softHi = b.lo, b.hi
	return b, b.lo <= b.hi
}

// oddRowBits is what it costs that rows have a length of their own in no argument:
// always one, or always the same part of the pitch.
const oddRowBits = 5

func (t *template) rowBits() float64 {
	if t.bytes.fixed() || t.bytes.n == t.stride.n && t.bytes.factor == t.stride.factor {
		return oddRowBits
	}
	return 0
}

// chunks finds what the chunks span, given their stride and number.
func (f *finderOfChunks) chunks(stride, count scored) []candidate {
	bounds := make([]bound, len(f.views))
	for i := range f.views {
		v := &f.views[i]
		l := &f.samples[v.sample].launch
		step, n := stride.expr.eval(l, v.rest, v.at.index), count.expr.eval(l, v.rest, v.at.index)
		bounds[i] = f.chunk(v, step, n)
		if bounds[i].lo > bounds[i].hi {
			return nil
		}
	}
	var list []candidate
	for _, bytes := range first(f.searchShort(bounds, f.classes), 8) {
		t := template{bytes: bytes.expr, stride: stride.expr, count: count.expr}
		list = append(list, candidate{template: t, bits: bytes.bits + stride.bits + count.bits + t.rowBits()})
	}
	return list
}

// chunk bounds what one of n chunks spans.
func (f *finderOfChunks) chunk(v *view, step, n uint64) bound {
	s := f.samples[v.sample]
	b := bound{hi: v.rest, softHi: v.rest}
	switch shown := uint64(len(v.chunks)); {
	case shown == 0 && !s.lossy:
		b.hi, b.softHi = 0, 0
	case shown == 1 && n == 1+v.hidden && product(n-1, step) >= v.extent.hi:
		b = v.extent
	case shown == 1 && n >= 1: // they lie too close to be told apart
		before := product(n-1, step)
		b = v.extent
		b.lo, b.softLo = less(b.lo, before), less(b.softLo, before)
		b.hi, b.softHi = less(b.hi, before), less(b.softHi, before)
	case shown == n || shown+v.hidden == n:
		b = v.extent
		for k, c := range v.chunks[1:] { // in the first run others may lie
			base := v.at.address + uint64(k+1)*step
			if base/s.grain*s.grain != c.base { // some have grown together
				return bound{hi: v.rest, softHi: v.rest}
			}
			last := max((c.end-1)/s.grain*s.grain, base)
			b.lo = max(b.lo, last-base+1)
			if !s.lossy {
				b.hi = min(b.hi, c.end-base)
			}
		}
		b.softLo, b.softHi = max(b.lo, b.softLo), min(b.hi, b.softHi)
	case shown > 1 && n > 1: // some have grown together: the last one's end is all that they show
		before := product(n-1, step)
		end := f.end(v)
		b = bound{lo: less(end.lo, before), hi: less(end.hi, before)}
		b.softLo, b.softHi = b.lo, b.hi
	}
	return b
}

func less(a, b uint64) uint64 { return a - min(a, b) }
