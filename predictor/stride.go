package predictor

// chunked are the candidates that touch chunks at a stride: some sample shows
// gaps. The stride is bounded by where the chunks begin, then the chunks by where
// they end, and their number is what was seen.
func (f *fitter) chunked(views []view, classes []class) []candidate {
	strides := make([]bound, 0, len(views))
	counts := make([]bound, 0, len(views))
	var gaps []view // the views that show them
	for _, v := range views {
		if !v.own || len(v.chunks) < 2 {
			continue
		}
		b, ok := f.stride(&v)
		if !ok {
			return nil
		}
		gaps = append(gaps, v)
		strides = append(strides, b)
		n := uint64(len(v.chunks))
		counts = append(counts, bound{n, n + v.hidden, n, n})
	}
	if len(gaps) == 0 {
		return nil
	}
	narrow := narrowTo(classes, views, gaps)
	var list []candidate
	for _, count := range first(search(counts, narrow), 3) {
		for _, stride := range first(search(strides, narrow), 6) {
			list = append(list, f.chunks(views, classes, stride, count)...)
		}
	}
	return list
}

// narrowTo leaves of each class the values of some of the views.
func narrowTo(classes []class, views, some []view) []class {
	list := make([]class, 0, len(classes))
	for _, c := range classes {
		n := class{source: c.source, bits: c.bits}
		for i, at := 0, 0; i < len(views) && at < len(some); i++ {
			if views[i].sample == some[at].sample {
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

// chunks finds what the chunks span, given their stride and number.
func (f *fitter) chunks(views []view, classes []class, stride, count scored) []candidate {
	bounds := make([]bound, len(views))
	for i := range views {
		v := &views[i]
		s := f.samples[v.sample]
		step := stride.expr.eval(&s.launch, v.rest)
		n := count.expr.eval(&s.launch, v.rest)
		b := bound{hi: v.rest, softHi: v.rest}
		switch {
		case len(v.chunks) == 0 && !s.lossy:
			b.hi = 0
		case len(v.chunks) <= 1 && n >= 1:
			// The chunks lie too close to be told apart.
			before := (n - 1) * step
			b = v.extent
			b.lo, b.softLo = less(b.lo, before), less(b.softLo, before)
			b.hi, b.softHi = less(b.hi, before), less(b.softHi, before)
		default:
			b = v.extent
			for k, c := range v.chunks {
				if k == 0 { // others may lie in the same run
					continue
				}
				base := v.at.address + uint64(k)*step
				if base >= c.end {
					return nil
				}
				last := max((c.end-1)/s.grain*s.grain, base)
				b.lo = max(b.lo, last-base+1)
				if !s.lossy {
					b.hi = min(b.hi, c.end-base)
				}
			}
			b.softLo, b.softHi = max(b.lo, b.softLo), min(b.hi, b.softHi)
		}
		if b.lo > b.hi {
			return nil
		}
		bounds[i] = b
	}
	var list []candidate
	for _, bytes := range first(search(bounds, classes), 4) {
		t := template{bytes: bytes.expr, stride: stride.expr, count: count.expr}
		list = append(list, candidate{template: t, bits: bytes.bits + stride.bits + count.bits})
	}
	return list
}

func less(a, b uint64) uint64 { return a - min(a, b) }
