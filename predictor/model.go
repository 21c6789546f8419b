package predictor

import (
	"encoding/binary"
	"slices"
)

// Basis is what a prediction rests on, the weakest of a launch's pointers.
type Basis uint8

const (
	// None: nothing is known of the launch, not even its pointers; it may touch
	// anything.
	None Basis = iota
	// Allocations: all of every allocation that it has a pointer into. Also where
	// templates were verified, but only at one value of something that is another
	// now, and those that explain all that was seen disagree.
	Allocations
	// Partly: as Allocations for some pointers, which no template fits; templates
	// for the others.
	Partly
	// Cautious: templates explain all that was seen of the kernel, and this launch is
	// beyond that; each pointer has the longest stretch that any of those says that are
	// about as likely.
	Cautious
	// Guessed: a launch with the same values was seen once.
	Guessed
	// Verified: templates that predicted launches they were not fitted to.
	Verified
)

var basisNames = [...]string{"none", "allocations", "partly", "cautious", "guessed", "verified"}

func (b Basis) String() string { return basisNames[min(int(b), len(basisNames)-1)] }

// Model is what is known of one kernel. It belongs to a Library.
type Model struct {
	// Used is the caller's time of the last use, in any unit that grows; the
	// library lets go first what was used longest ago.
	Used uint64

	kernel  Kernel
	layout  layout
	root    *variant // nil: nothing is known
	samples []*sample
	strays  []Range // allocations it reached by pointers in memory, in this process
	stats   Stats
	// launches counts what was predicted, so that a kernel that changes all the
	// time is left alone for longer and longer.
	launches, restUntil uint64
	audit, largest      uint64 // see due
	passed              uint32 // launches that were not worth a look since the last that was
	score               Score
	home                *Library
	kin                 *kindred // nil: it has no family

	not      wordSet   // the words that hold no pointers
	pointers []pointer // for use within a call
}

// Stats are counts of a model's life.
type Stats struct {
	// Observations were taken in, Verified of them were predicted right beforehand,
	// Ragged of them were too ragged to keep.
	Observations, Verified, Ragged uint32
	// Dropped counts how often verified templates were contradicted.
	Dropped uint32
	// Indirect: it was seen to touch what no pointer among its arguments leads to.
	Indirect bool
}

// Stats returns the model's counts.
func (m *Model) Stats() Stats { return m.stats }

// Score is how well its templates predicted what they had not been fitted to, in
// this process and before.
func (m *Model) Score() Score { return m.score }

// Kernel returns what the model is of.
func (m *Model) Kernel() Kernel { return m.kernel }

// AppendTouches predicts what a launch touches: at most one touch a pointer, and
// one for each allocation that the kernel was seen to reach by pointers that lie
// in memory. What has no template is predicted to touch its whole allocation. It
// allocates nothing if dst has room.
func (m *Model) AppendTouches(dst []Touch, l *Launch, ranges *Ranges) ([]Touch, Basis) {
	m.launches++
	m.pointers = l.appendPointers(m.pointers[:0], ranges, &m.not)
	dst, basis := m.append(dst, l, m.pointers)
	for _, s := range m.strays {
		if in, ok := ranges.Find(s.Base); ok && in.Base == s.Base {
			dst = append(dst, Touch{Base: in.Base, Bytes: in.Bytes, Access: Either})
		}
	}
	return dst, basis
}

func (m *Model) append(dst []Touch, l *Launch, pointers []pointer) ([]Touch, Basis) {
	if len(l.Params) == 0 && len(l.Maps) == 0 {
		return dst, None
	}
	v := m.variant(l, pointers)
	v, basis := m.kinsman(l, pointers, v, v.basis(m, l, pointers))
	switch basis {
	case Allocations:
		return appendAllocations(dst, pointers), basis
	case Cautious:
		return v.appendReach(dst, l, pointers)
	}
	return v.appendTouches(dst, l, pointers, basis)
}

// appendTouches evaluates the templates of a variant.
func (v *variant) appendTouches(dst []Touch, l *Launch, pointers []pointer, basis Basis) ([]Touch, Basis) {
	var m magnitudes
	var made [maxReaching]uint16 // of each slot: the touch, and one more
	larger, at := v.reaching != nil && l.threads() > v.threads, 0
	for i := range pointers {
		p := &pointers[i]
		at = v.seek(at, p)
		s, live := v.known(at, p, l)
		if !live {
			continue
		}
		if s == nil {
			s = &anyAllocation
		}
		if s.twin > 0 && (!larger || !s.vague || v.reaching.slots[at].same == s.twin-1) {
			if k := made[s.twin-1]; k > 0 && dst[k-1].Base == p.address {
				dst = append(dst, dst[k-1])
				continue
			}
		}
		if s.in.wide {
			basis = min(basis, Partly)
		}
		touch, ok := s.in.touch(l, p)
		if s.near > 0 {
			touch, ok = s.longest(touch, l, p)
		}
		if larger && s.vague && !s.in.wide && !s.is() {
			if m[one] == 0 {
				v.reaching.read(l, &m)
			}
			touch, ok = v.farthest(at, touch, p, &m)
		}
		if ok {
			dst = append(dst, touch)
			if at < maxReaching && len(dst) < 1<<16 {
				made[at] = uint16(len(dst))
			}
		}
	}
	return dst, basis
}

// longest makes a touch as long as the longest template that is about as likely: all
// of them are one stretch.
func (s *slot) longest(t Touch, l *Launch, p *pointer) (Touch, bool) {
	room := p.in.End() - p.address
	for i := range s.near {
		t.Bytes = max(t.Bytes, min(s.rivals[i].bytes.eval(l, room, p.index), room))
	}
	t.Base, t.Access = p.address, s.in.access
	return t, t.Bytes > 0
}

func (m *Model) variant(l *Launch, pointers []pointer) *variant {
	if m.root == nil || m.root.branches == nil {
		return m.root
	}
	return m.root.of(l, pointers, func() uint64 { return m.layout.sign(l, pointers) })
}

// basis is what a launch of this variant may be predicted by.
func (v *variant) basis(m *Model, l *Launch, pointers []pointer) Basis {
	switch {
	case v == nil:
		return Allocations
	case v.verified > 0 || v.trusted:
		if v.unsure(l, pointers) {
			return v.cautious()
		}
		return Verified
	case len(v.samples) == 0 || !v.whole:
		return Allocations
	}
	sign := m.layout.sign(l, pointers)
	for _, s := range v.samples {
		if s.sign == sign {
			return Guessed
		}
	}
	return v.cautious()
}

func (v *variant) cautious() Basis {
	if !v.whole || v.reaching == nil {
		return Allocations
	}
	return Cautious
}

// appendAllocations gives each allocation that is pointed into once.
func appendAllocations(dst []Touch, pointers []pointer) []Touch {
	from := len(dst)
	for i := range pointers {
		in := pointers[i].in
		if !slices.ContainsFunc(dst[from:], func(t Touch) bool { return t.Base == in.Base }) {
			dst = append(dst, Touch{Base: in.Base, Bytes: in.Bytes, Access: Either})
		}
	}
	return dst
}

// sign hashes all values of a launch, and which words are pointers.
func (l *layout) sign(launch *Launch, pointers []pointer) uint64 {
	h := uint64(len(launch.Params))
	at := 0
	p := launch.params()
	if !l.known {
		h, _ = signWords(h, p, 0, len(p), pointers, at)
	} else {
		for _, q := range l.params {
			if int64(q.Offset) < int64(len(p)) {
				end := int(min(int64(q.Offset)+int64(q.Bytes), int64(len(p))))
				h, at = signWords(h, p, int(q.Offset), end, pointers, at)
			}
		}
	}
	for i := range 3 {
		h = mix(h, uint64(launch.Grid[i])<<32|uint64(launch.Block[i]))
	}
	h = mix(h, uint64(launch.Shared))
	for _, t := range launch.Maps {
		h = mix(h, t.Bytes)
	}
	return h
}

// signWords hashes the words from one offset to another; at is the first pointer
// that may lie there.
func signWords(h uint64, p []byte, from, to int, pointers []pointer, at int) (uint64, int) {
	for i := (from + 3) &^ 3; i+4 <= to; {
		if i%8 == 0 && i+8 <= to {
			for at < len(pointers) && int(pointers[at].slot) < i {
				at++
			}
			if at < len(pointers) && int(pointers[at].slot) == i {
				h = mix(h, uint64(i)<<1|1)
			} else {
				h = mix(h, binary.LittleEndian.Uint64(p[i:]))
			}
			i += 8
			continue
		}
		h = mix(h, uint64(binary.LittleEndian.Uint32(p[i:])))
		i += 4
	}
	return h, at
}
