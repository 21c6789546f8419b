package predictor

import "slices"

// Limits of relearning.
const (
	restLaunches = 1 << 12 // after the first contradiction, doubled by each
	maxDropped   = 6       // as often as this, and it is left alone
	auditEvery   = 2       // each look is after so many times as many launches
	audits       = 3       // observations that are kept for that
)

// Worth says whether a launch should be observed: its variant is not known well,
// and this launch would tell more. It is false for all launches of a kernel but a
// few: at most MaxObservations a variant.
func (m *Model) Worth(l *Launch, ranges *Ranges) bool {
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
		return false
	case v.bare():
		return v.verified < 2
	case len(v.samples) < 2:
		return true
	}
	same := v.alike(m.layout.sign(l, m.pointers))
	switch {
	case !v.whole && len(v.samples) >= 4:
		return same == 1 // does it do the same again?
	case v.disputed(l, m.pointers, len(v.samples) >= MaxObservations-audits):
		return true
	case same > 0:
		return same == 1 && v.verified == 0
	case len(v.samples) < 3 || v.verified == 0 && !v.trusted || v.novel(&m.layout, l, m.pointers):
		return true
	}
	return m.due(v, l)
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
		if m.launches < m.audit {
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
		if w.kind != word32 || w.read(l, 0) > largestMode {
			return
		}
		var kinds []uint64
		for _, s := range v.samples {
			n := w.read(&s.launch, 0)
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
			same[i] = same[i] && w.read(&s.launch, 0) == w.read(l, 0)
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
	for i := range pointers {
		p := &pointers[i]
		at, ok := v.slot(p.slot)
		if !ok {
			return true
		}
		t, _ := v.slots[at].in.touch(l, p)
		for k := range v.slots[at].rivals {
			r, _ := v.slots[at].rivals[k].touch(l, p)
			if far(t.Span(), r.Span(), much) {
				return true
			}
		}
	}
	return false
}

// far says whether two stretches can be told apart in blocks, or differ much.
func far(a, b Range, much bool) bool {
	if much {
		longer, shorter := max(a.Bytes, b.Bytes), min(a.Bytes, b.Bytes)
		return longer-shorter >= max(2*Block, longer/4)
	}
	return a.Base/Block != b.Base/Block || (a.End()+Block-1)/Block != (b.End()+Block-1)/Block
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
		first := s.read(&v.samples[0].launch, 0)
		if s.read(l, 0) == first {
			return
		}
		for _, other := range v.samples[1:] {
			if s.read(&other.launch, 0) != first {
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

// Outcome is what an observation said of the prediction made before it.
type Outcome struct {
	Basis Basis
	// Score is the prediction's, in blocks; in bytes too if they were observed.
	Score Score
	// Right: nothing was missed and nothing predicted in vain.
	Right bool
	// Dropped: templates that had been verified were wrong.
	Dropped bool
}

// Observe takes in what a launch was seen to touch: it judges the prediction
// first, then fits. It may take milliseconds. ranges are the allocations at the
// time of the launch. Launches of which nothing can be learnt (no parameters, no
// pointer) are ignored.
func (m *Model) Observe(l *Launch, ranges *Ranges, o *Observation) Outcome {
	l.appendScalars(&m.not)
	pointers := l.appendPointers(nil, ranges, &m.not)
	if len(pointers) == 0 {
		return Outcome{}
	}
	m.stats.Observations++
	out := m.judge(l, pointers, o)
	s, ok := newSample(l, pointers, ranges, o)
	if !ok {
		m.stats.Ragged++
		m.giveUp()
		return out
	}
	s.sign = m.layout.sign(&s.launch, pointers)
	m.meet(s)
	m.learn(s, pointers, &out)
	return out
}

// judge compares the prediction that would be made now with what was seen.
func (m *Model) judge(l *Launch, pointers []pointer, o *Observation) Outcome {
	predicted, basis := m.append(nil, l, pointers)
	out := Outcome{Basis: basis}
	var ok bool
	if o.Grain <= 1 {
		out.Score, ok = Compare(predicted, o.Touched)
	} else {
		out.Score, ok = CompareBlocks(predicted, o.Touched, o.Watched)
	}
	out.Right = ok && out.Score.Missed == 0 && (o.Lossy || out.Score.Vain == 0)
	if basis >= Partly && ok && !o.Lossy {
		m.score.Add(out.Score)
		m.total.Add(out.Score)
	}
	return out
}

// meet remembers the allocations that were reached by pointers in memory.
func (m *Model) meet(s *sample) {
	for _, r := range s.strays {
		m.stats.Indirect = true
		if !slices.Contains(m.strays, r) {
			m.strays = append(m.strays, r)
		}
	}
	if over := len(m.strays) - maxStrays; over > 0 {
		m.strays = slices.Delete(m.strays, 0, over)
	}
}

// learn fits again with the new sample. Verified templates that it contradicts are
// dropped; if none explains the old samples and the new one, the kernel does
// something else now, and the old samples go as well.
func (m *Model) learn(s *sample, pointers []pointer, out *Outcome) {
	before := m.variant(&s.launch, pointers)
	agrees := before != nil && m.agrees(before, s)
	out.Dropped = before != nil && before.verified > 0 && !agrees
	verified := uint32(0)
	if agrees {
		verified = before.verified + 1
		m.stats.Verified++
	}
	if m.bare() {
		m.amend(s, pointers, before, verified)
		return
	}
	m.keep(s)
	old := m.root
	m.root, _ = grow(&m.layout, m.samples, 0, &effort{maxEffort})
	if out.Dropped && !m.explains(s, pointers) {
		m.rest()
		m.samples = []*sample{s}
		m.root, _ = grow(&m.layout, m.samples, 0, &effort{maxEffort})
		return
	}
	m.carry(old, before, verified)
}

// bare says whether a variant's templates came without the samples behind them.
func (v *variant) bare() bool { return int(v.observed) > len(v.samples) }

func (m *Model) bare() bool {
	bare := false
	m.root.leaves(func(v *variant) { bare = bare || v.bare() })
	return bare
}

// amend learns where templates came without samples: all cannot be fitted again,
// so only the variant that the new sample belongs to is.
func (m *Model) amend(s *sample, pointers []pointer, v *variant, verified uint32) {
	m.keep(s)
	if v == nil {
		at := m.root
		for at != nil && at.branches != nil {
			value := at.by.tell(&s.launch, pointers, func() uint64 { return s.sign })
			next := at.branch(value)
			if next == nil {
				if len(at.branches) < maxSamples {
					leaf, _ := grow(&m.layout, []*sample{s}, maxDepth, &effort{maxEffort})
					at.branches = append(at.branches, branch{value, leaf})
				}
				return
			}
			at = next
		}
		return
	}
	if verified > 0 {
		v.verified = verified
		v.observed++
		v.samples = append(v.samples, s)
		return
	}
	leaf, _ := grow(&m.layout, append(v.samples, s), maxDepth, &effort{maxEffort})
	*v = *leaf
}

// rest leaves a kernel alone for a while, the longer the oftener.
func (m *Model) rest() {
	m.stats.Dropped++
	m.restUntil = m.launches + restLaunches<<min(m.stats.Dropped, maxDropped)
}

// agrees says whether a variant's templates, verified or not, predicted a sample.
func (m *Model) agrees(v *variant, s *sample) bool {
	f := fitter{layout: &m.layout, effort: &effort{maxEffort}, samples: []*sample{s}}
	f.pointers = append(f.pointers, s.pointers(&m.not))
	var out fitted
	for i := range f.pointers[0] {
		p := &f.pointers[0][i]
		at, ok := v.slot(p.slot)
		if !ok {
			return false
		}
		out.slots = append(out.slots, slotFit{slot: p.slot, candidates: []candidate{{template: v.slots[at].in}}})
	}
	extra, missing := f.check(&out, 0)
	return extra == 0 && missing == 0
}

// explains says whether the templates that were found hold for a sample.
func (m *Model) explains(s *sample, pointers []pointer) bool {
	v := m.variant(&s.launch, pointers)
	return v != nil && v.whole
}

// keep takes a sample in; where there are too many, the oldest goes.
func (m *Model) keep(s *sample) {
	if len(m.samples) == maxSamples {
		m.samples = slices.Delete(m.samples, 0, 1)
	}
	m.samples = append(m.samples, s)
}

// carry gives new variants the verification of those that their samples had
// before; the one that was contradicted has none.
func (m *Model) carry(old, judged *variant, verified uint32) {
	had := make(map[*sample]uint32)
	old.leaves(func(v *variant) {
		n := v.verified
		if v == judged {
			n = verified
		}
		for _, s := range v.samples {
			had[s] = n
		}
	})
	newest := m.samples[len(m.samples)-1]
	had[newest] = verified
	m.root.leaves(func(v *variant) {
		for i, s := range v.samples {
			if s == newest && judged == nil && len(v.samples) > 1 {
				continue // a new sample of a variant found only now
			}
			if n := had[s]; i == 0 || n < v.verified {
				v.verified = n
			}
		}
	})
}

// giveUp leaves a kernel to its allocations: what it touches is too ragged.
func (m *Model) giveUp() {
	m.root, m.samples = nil, nil
	m.rest()
}
