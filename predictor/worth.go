package predictor

import "slices"

const (
	auditEvery = 2 // each look is after so many times as many launches
	kept       = 2 // observations that are kept for what is new, or much disputed,
	maxSame    = 3 // observations of launches whose values are all the same
	patience   = 3 // until so many launches were neither
	// mostObservations is how many a variant is learnt from if launches go on being
	// beyond what it knows.
	mostObservations = 3 * MaxObservations
	// maxEntangled is how many if that has many words: see entangled.
	maxEntangled = 2 * MaxObservations
	manyWords    = 256 // bytes of parameters
)

// Worth says whether a launch should be observed: its variant is not known well,
// and this launch would tell more. It is false for all launches of a kernel but a
// few: at most MaxObservations a variant, maxEntangled of one that has many words, and
// mostObservations if launches go on being beyond what it knows.
func (m *Model) Worth(l *Launch, ranges *Ranges) bool {
	worth := m.worth(l, ranges)
	if m.passed++; worth {
		m.passed = 0
	}
	return worth
}

func (m *Model) worth(l *Launch, ranges *Ranges) bool {
	m.launches++
	if len(m.samples) >= maxSamples || m.launches < m.restUntil || m.stats.Dropped >= maxDropped {
		return false
	}
	m.pointers = l.appendPointers(m.pointers[:0], ranges, &m.not)
	if len(m.pointers) == 0 {
		return false
	}
	v := m.variant(l, m.pointers)
	switch {
	case v == nil:
		return true
	case v.observed >= MaxObservations:
		// Those of a first shape must not be all: what the next one is like they do not say.
		if v.observed >= mostObservations || v.bare() {
			return false
		}
		if v.alike(m.layout.sign(l, m.pointers)) < kept && (v.unsure(l, m.pointers) || v.entangled(l, m.pointers)) {
			return true
		}
		return v.anyVague() && v.larger(l)
	case v.bare():
		return v.verified < 2
	case len(v.samples) < 2:
		return true
	}
	same := v.alike(m.layout.sign(l, m.pointers))
	switch {
	case !v.whole || v.anyMost():
		return same <= 1 // another value may tell it apart; or does it do the same again?
	case same >= maxSame && (m.passed < patience || len(v.samples) >= MaxObservations-2*kept):
		return false
	case v.disputed(l, m.pointers, len(v.samples) >= MaxObservations-kept && m.passed < patience):
		return true
	case same > 0:
		return same == 1 && v.verified == 0
	case len(v.samples) < 3 || v.verified == 0 && !v.trusted || v.novel(&m.layout, l, m.pointers):
		return true
	}
	return v.anyVague() && v.larger(l) || m.due(v, l)
}

// entangled says whether templates go on disagreeing about launches of many words: those of
// cuDNN and CUTLASS take a struct in which eight launches can be explained in several ways.
func (v *variant) entangled(l *Launch, pointers []pointer) bool {
	return len(l.Params) >= manyWords && v.observed < maxEntangled && v.disputed(l, pointers, false)
}

// alike counts the samples whose launch had the same values.
func (v *variant) alike(sign uint64) int {
	n := 0
	for _, s := range v.samples {
		if s.sign == sign {
			n++
		}
	}
	return n
}

// due says whether to look again at a variant that seems to be known, at a large
// launch: small ones show little. What behaves in two ways may have been seen where
// they are the same; so every mode is to be seen twice, and any now and then, more
// and more rarely.
func (m *Model) due(v *variant, l *Launch) bool {
	touches, _ := v.appendTouches(nil, l, m.pointers, Verified)
	bytes := sum(touches)
	m.largest = max(m.largest, bytes)
	if bytes < m.largest/2 {
		return false
	}
	if v.seen(&m.layout, l, m.pointers, m.largest/4) >= 2 {
		if m.launches < m.audit || len(v.samples) >= MaxObservations-kept {
			return false
		}
		m.audit = auditEvery * (m.launches + 1)
	}
	return true
}

func sum(touches []Touch) (bytes uint64) {
	for _, t := range touches {
		bytes += t.Bytes * uint64(max(t.Count, 1))
	}
	return bytes
}

// Modes are told by values that are small and of few kinds: flags, numbers of
// dimensions.
const (
	largestMode = 16
	maxModes    = 4
)

// seen counts the samples of at least so many bytes that are of a launch's mode.
func (v *variant) seen(layout *layout, l *Launch, pointers []pointer, bytes uint64) int {
	same := make([]bool, len(v.samples))
	for i, s := range v.samples {
		same[i] = total(s.touched) >= bytes
	}
	isPointer := func(at uint16) bool {
		return slices.ContainsFunc(pointers, func(p pointer) bool { return p.slot == at })
	}
	layout.words(len(l.Params), isPointer, func(w source) {
		if w.kind != word32 || w.read(l, 0, 0) > largestMode {
			return
		}
		var kinds []uint64
		for _, s := range v.samples {
			n := w.read(&s.launch, 0, 0)
			if n > largestMode {
				return
			}
			if !slices.Contains(kinds, n) {
				kinds = append(kinds, n)
			}
		}
		if len(kinds) > maxModes {
			return
		}
		for i, s := range v.samples {
			same[i] = same[i] && w.read(&s.launch, 0, 0) == w.read(l, 0, 0)
		}
	})
	n := 0
	for _, s := range same {
		if s {
			n++
		}
	}
	return n
}

// disputed says whether templates that explain all samples disagree on a launch;
// much, if asked: by a quarter and two blocks.
func (v *variant) disputed(l *Launch, pointers []pointer, much bool) bool {
	at := 0
	for i := range pointers {
		p := &pointers[i]
		at = v.seek(at, p)
		s, live := v.known(at, p, l)
		if !live {
			continue
		}
		if s == nil {
			return true
		}
		t, _ := s.in.touch(l, p)
		for k := range s.rivals {
			r, _ := s.rivals[k].touch(l, p)
			if far(&t, &r, much) {
				return true
			}
		}
	}
	return false
}

// far says whether two touches can be told apart in blocks, or differ much.
func far(a, b *Touch, much bool) bool {
	if much {
		more, fewer := max(a.weight(), b.weight()), min(a.weight(), b.weight())
		return more-fewer >= max(2, more/4)
	}
	s, r := a.Span(), b.Span()
	return s.Base/Block != r.Base/Block || (s.End()+Block-1)/Block != (r.End()+Block-1)/Block || a.weight() != b.weight()
}

// weight is about how many blocks a touch has.
func (t *Touch) weight() uint64 {
	if t.Count > 1 && t.Stride >= t.Bytes+Block {
		return uint64(t.Count) * ((t.Bytes + Block - 1) / Block)
	}
	return (t.Span().Bytes + Block - 1) / Block
}

// novel says whether a value that was the same in all samples is another now.
func (v *variant) novel(layout *layout, l *Launch, pointers []pointer) bool {
	isPointer := func(at uint16) bool {
		return slices.ContainsFunc(pointers, func(p pointer) bool { return p.slot == at })
	}
	found := false
	check := func(s source) {
		if found {
			return
		}
		first := s.read(&v.samples[0].launch, 0, 0)
		if s.read(l, 0, 0) == first {
			return
		}
		for _, other := range v.samples[1:] {
			if s.read(&other.launch, 0, 0) != first {
				return
			}
		}
		found = true
	}
	layout.words(len(l.Params), isPointer, check)
	for _, d := range dims {
		check(d)
	}
	return found
}
