package predictor

func (s *source) encode(w *writer) {
	w.byte(byte(s.kind))
	w.byte(byte(s.change))
	w.uint(uint64(s.at))
	if s.kind == quotient {
		for _, n := range s.over {
			w.uint(uint64(n))
		}
	}
}

func decodeSource(r *reader) source {
	s := source{kind: kind(r.byte()), change: change(r.byte()), at: uint16(r.upTo(1<<16 - 1))}
	if s.kind == quotient {
		for i := range s.over {
			s.over[i] = uint16(r.upTo(MaxParams / 4))
		}
	}
	return s
}

func (e *expr) encode(w *writer) {
	w.byte(e.n)
	w.int(e.add)
	if e.n == 0 {
		return
	}
	w.uint(uint64(e.num))
	w.uint(uint64(e.den))
	for i := range e.n {
		e.factor[i].encode(w)
	}
}

func decodeExpr(r *reader) expr {
	e := expr{n: r.byte(), add: r.int()}
	if e.n > maxFactors {
		r.fail()
	}
	if r.err != nil || e.n == 0 {
		return e
	}
	e.num, e.den = uint32(r.upTo(1<<32-1)), uint32(r.upTo(1<<32-1))
	for i := range e.n {
		e.factor[i] = decodeSource(r)
	}
	return e
}

func (t *template) encode(w *writer) {
	w.bool(t.wide)
	w.bool(t.most)
	w.byte(byte(t.access))
	for _, e := range []*expr{&t.start, &t.bytes, &t.stride, &t.count} {
		e.encode(w)
	}
}

func decodeTemplate(r *reader) template {
	t := template{wide: r.bool(), most: r.bool(), access: Access(r.byte())}
	for _, e := range []*expr{&t.start, &t.bytes, &t.stride, &t.count} {
		*e = decodeExpr(r)
	}
	return t
}

func encodeRanges(w *writer, list []Range) {
	w.uint(uint64(len(list)))
	for _, r := range list {
		w.uint(r.Base)
		w.uint(r.Bytes)
	}
}

func decodeRanges(r *reader, most int) []Range {
	var list []Range
	for range r.count(most) {
		list = append(list, Range{r.uint(), r.uint()})
	}
	return list
}

func (s *sample) encode(w *writer) {
	for i := range 3 {
		w.uint(uint64(s.launch.Grid[i]))
		w.uint(uint64(s.launch.Block[i]))
	}
	w.uint(uint64(s.launch.Shared))
	w.bytes(s.launch.Params)
	encodeRanges(w, s.launch.Maps)
	encodeRanges(w, s.ranges.list)
	encodeRanges(w, s.blind.list)
	w.uint(s.grain)
	w.bool(s.lossy)
	w.uint(uint64(len(s.touched)))
	at := uint64(0)
	for _, t := range s.touched {
		w.uint(t.base - at)
		w.uint(t.end - t.base)
		w.byte(byte(t.access))
		at = t.end
	}
}

func decodeSample(r *reader) *sample {
	s := &sample{}
	for i := range 3 {
		s.launch.Grid[i] = uint32(r.upTo(1<<32 - 1))
		s.launch.Block[i] = uint32(r.upTo(1<<32 - 1))
	}
	s.launch.Shared = uint32(r.upTo(1<<32 - 1))
	s.launch.Params = r.bytes(MaxParams)
	s.launch.Maps = decodeRanges(r, maxMaps)
	for _, a := range decodeRanges(r, maxPointers+maxMaps) {
		s.ranges.Add(a)
	}
	for _, a := range decodeRanges(r, maxPointers+maxMaps) {
		s.blind.Add(a)
	}
	s.grain = r.uint()
	s.lossy = r.bool()
	at := uint64(0)
	for range r.count(maxSampleSpans) {
		base := at + r.uint()
		end := base + r.uint()
		s.touched = append(s.touched, span{base, end, Access(r.byte())})
		at = end
	}
	return s
}

// valid checks what a store says of a sample: stretches in order, each of some
// bytes and of an access that there is.
func (s *sample) valid() bool {
	if s.grain != 1 && s.grain != Block || s.silent() {
		return false
	}
	at := uint64(0)
	for _, t := range s.touched {
		if t.base < at || t.end <= t.base || t.access == 0 || t.access > Either || t.end > maxAddress {
			return false
		}
		at = t.end
	}
	for _, a := range s.ranges.list {
		if a.End() > maxAddress {
			return false
		}
	}
	return true
}

// numbers are a score's, in the order of the store.
func (s *Score) numbers() []*uint64 {
	list := []*uint64{&s.Launches, &s.Missed, &s.Vain}
	for _, t := range []*Tally{&s.Blocks, &s.Bytes} {
		list = append(list, &t.Touched, &t.Predicted, &t.Both)
	}
	return list
}

func (g *reaching) encode(w *writer) {
	w.bool(g != nil)
	if g == nil {
		return
	}
	w.uint(uint64(len(g.values)))
	for i := range g.values {
		g.values[i].encode(w)
		w.byte(g.magnitude[i])
	}
	for i := range g.slots {
		s := &g.slots[i]
		w.bool(s.open)
		w.uint(uint64(s.same + 1))
		w.uint(uint64(len(s.list)))
		for _, e := range s.list {
			w.uint(uint64(e.num))
			w.byte(e.shift)
			w.b = append(w.b, e.by[:]...)
		}
	}
}

func decodeReaching(r *reader, slots int) *reaching {
	if !r.bool() {
		return nil
	}
	g := &reaching{slots: make([]slotReach, slots)}
	for range r.count(maxMagnitude * (1 + maxMembers)) {
		g.values = append(g.values, decodeSource(r))
		g.magnitude = append(g.magnitude, r.byte())
	}
	for i := range g.slots {
		s := &g.slots[i]
		s.open, s.same = r.bool(), int(r.upTo(uint64(i)))-1
		s.list = make([]reach, r.count(maxReaches))
		for k := range s.list {
			e := &s.list[k]
			e.num, e.shift = uint32(r.upTo(1<<32-1)), r.byte()
			copy(e.by[:], r.take(len(e.by)))
			e.setFactor()
		}
	}
	return g
}

// valid checks that all numbers are of what there is.
func (g *reaching) valid() bool {
	if g == nil {
		return true
	}
	for i, s := range g.values {
		if !s.valid() || s.kind >= rest || g.magnitude[i] >= maxMagnitude {
			return false
		}
	}
	for i := range g.slots {
		for _, e := range g.slots[i].list {
			if e.by[0] > one || e.by[1] > one || e.by[2] > one || e.shift > 31 {
				return false
			}
		}
	}
	return true
}
