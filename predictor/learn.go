package predictor

import "slices"

// Limits of relearning.
const (
	restLaunches = 1 << 12 // after the first contradiction, doubled by each
	maxDropped   = 6       // as often as this, and it is left alone
)

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
	m.scalars(l)
	pointers := l.appendPointers(nil, ranges, &m.not)
	if len(pointers) == 0 {
		return Outcome{}
	}
	m.stats.Observations++
	out := m.judge(l, pointers, o)
	not := m.layout.noPointers()
	s, ok := newSample(l, l.appendPointers(nil, ranges, &not), ranges, o) // what is no pointer now may be one of an array
	if !ok {
		m.stats.Ragged++
		m.giveUp()
		return out
	}
	s.sign = m.layout.sign(&s.launch, pointers)
	m.meet(s)
	if s.silent() {
		return out
	}
	m.learn(s, pointers, &out)
	m.extend()
	m.except()
	m.teach(s, pointers)
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
		m.home.Score.Add(out.Score)
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
	f.pointers = append(f.pointers, v.assign(s.pointers(&m.not), &s.launch))
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
