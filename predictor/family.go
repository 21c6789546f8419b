package predictor

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Libraries have a kernel many times over: for tiles, vectors and numbers of stages
// that suit one shape or another. All of a family read the same parameters in the same
// way, and which of them a launch of another shape will take nobody knows. So what was
// seen of one tells of the others: of what was seen of one only, its own model, and
// from the second on a model that is learnt from all.
//
// The family's model is one of the library's. Its name is the kernels' with a familyMark
// for each number that does not tell what the elements are, its code is a hash of
// their layout, and no kernel has such a key.

const familyMark = "#"

// kindred is what the models of a family share.
type kindred struct {
	// model is of the family, or of the only member that was observed; nil: none was.
	model *Model
}

// familyKey is the key of a kernel's family. It has none where its layout is not known.
func familyKey(k *Kernel) (_ Key, ok bool) {
	if len(k.Params) == 0 || isFamily(k.Name) {
		return Key{}, false
	}
	key := Key{Name: familyName(k.Name)}
	h, g := uint64(len(k.Params)), uint64(0)
	for _, p := range k.Params {
		h = mix(h, uint64(p.Offset)<<32|uint64(p.Bytes))
		g = mix(g, h)
	}
	binary.LittleEndian.PutUint64(key.Code[:], h)
	binary.LittleEndian.PutUint64(key.Code[8:], g)
	return key, true
}

// IsFamily says whether a model of this key is of no kernel but of a family of them.
func (k Key) IsFamily() bool { return isFamily(k.Name) }

func isFamily(name string) bool { return strings.Contains(name, familyMark) }

// Kernels of cuBLAS of one name but for how tiles are handed out, and in which order the result
// is stored (the last letter), read the same parameters in the same way too: a size that no
// launch had before has another one of them as a rule.
const cublasTiles = "nvjet_"

var handedOut = strings.NewReplacer("_h_", "_", "_v_", "_", "ssched_", "", "coopA_", "", "coopB_", "")

// familyName puts a mark for each number but those that tell types and functions apart.
func familyName(name string) string {
	if strings.HasPrefix(name, cublasTiles) {
		name = handedOut.Replace(name[:len(name)-1])
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		if name[i] < '0' || name[i] > '9' {
			b.WriteByte(name[i])
			i++
			continue
		}
		end := i
		for end < len(name) && name[end] >= '0' && name[end] <= '9' {
			end++
		}
		if tells(name[:i], name[end:]) {
			b.WriteString(name[i:end])
		} else {
			b.WriteString(familyMark)
		}
		i = end
	}
	if !isFamily(b.String()) {
		b.WriteString(familyMark)
	}
	return b.String()
}

// tells says whether a number between two parts of a name is of a type or a function:
// f32, bfloat16, OpaqueType<4u> (ILj4E), the fifth lambda (UlvE4_) or an earlier part
// of the name (S8_, T0_). An int among the arguments of a template (Li4E) is a width.
func tells(before, after string) bool {
	if before == "" {
		return false
	}
	switch last := before[len(before)-1]; {
	case strings.IndexByte("bdfijmstu", last) >= 0:
		return !strings.HasSuffix(before, "Li")
	case last == 'E' || last == 'S' || last == 'T':
		return strings.HasPrefix(after, "_")
	}
	return false
}

// familyOf is the key of the family that a model is of, or is one of.
func (m *Model) familyOf() (_ Key, ok bool) {
	if isFamily(m.kernel.Name) {
		return m.kernel.Key, true
	}
	return familyKey(&m.kernel)
}

// join gives a model the kindred of its family.
func (l *Library) join(m *Model) {
	m.home, m.kin = l, nil
	key, ok := m.familyOf()
	if !ok {
		return
	}
	k := l.families[key]
	if k == nil {
		k = &kindred{}
		l.families[key] = k
	}
	switch {
	case isFamily(m.kernel.Name):
		k.model = m
		return // it is nobody's kin
	case k.model == nil && len(m.samples) > 0:
		k.model = m
	}
	m.kin = k
}

// leave ends what a family has from a model that the library forgets.
func (l *Library) leave(m *Model) {
	key, ok := m.familyOf()
	if k := l.families[key]; ok && k != nil && k.model == m {
		k.model = nil
	}
}

// kinsman is the model that knows more of a launch than the kernel's own.
func (m *Model) kinsman(l *Launch, pointers []pointer, own *variant, basis Basis) (*variant, Basis) {
	if basis >= Guessed || m.kin == nil || m.kin.model == nil || m.kin.model == m {
		return own, basis
	}
	f := m.kin.model
	v := f.variant(l, pointers)
	if b := v.basis(f, l, pointers); b > basis || b == basis && b == Cautious && len(v.samples) > len(own.samples) {
		return v, b
	}
	return own, basis
}

// teach lets a model's family learn from a sample of its own.
func (m *Model) teach(s *sample, pointers []pointer) {
	k := m.kin
	switch {
	case k == nil || k.model == m:
		return
	case k.model == nil:
		k.model = m
		return
	case !isFamily(k.model.kernel.Name):
		k.model = m.home.family(k.model)
	}
	f := k.model
	f.Used = max(f.Used, m.Used)
	if v := f.variant(&s.launch, pointers); v != nil && v.observed >= familySamples && f.agrees(v, s) {
		v.verified++
		return
	}
	f.stats.Observations++
	f.scalars(&s.launch)
	f.learn(s, s.pointers(&f.not), &Outcome{})
	f.extend()
	f.except()
}

// familySamples is how many observations a variant of a family is learnt from that
// say nothing new.
const familySamples = 2 * MaxObservations

// family makes the model of a family of which one member was observed.
func (l *Library) family(first *Model) *Model {
	key, _ := familyKey(&first.kernel)
	f := l.put(Kernel{Key: key, Params: first.kernel.Params})
	f.Used, f.samples, f.root = first.Used, slices.Clone(first.samples), first.root.clone()
	f.stats.Observations = uint32(len(f.samples))
	for _, s := range f.samples {
		f.scalars(&s.launch)
	}
	return f
}

// clone copies variants; what they point to is never written.
func (v *variant) clone() *variant {
	if v == nil {
		return nil
	}
	c := *v
	c.samples = slices.Clone(v.samples)
	c.branches = slices.Clone(v.branches)
	for i := range c.branches {
		c.branches[i].to = c.branches[i].to.clone()
	}
	return &c
}
