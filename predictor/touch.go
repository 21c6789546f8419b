package predictor

import (
	"cmp"
	"slices"

	"xmsched/memory"
)

// Block is the grain of fault feedback and of what can be moved: 2 MiB.
const Block = uint64(memory.Granularity)

// Access is how memory is used. Fault feedback knows of the first access to a
// page: what is read first and written later may show as read alone.
type Access uint8

const (
	Read  Access = 1
	Write Access = 2
	// Either is what is predicted where nothing is known.
	Either = Read | Write
)

func (a Access) String() string {
	return [...]string{"unknown", "read", "write", "read and write"}[a&Either]
}

// Touch is memory that a command touches: Bytes at Base, or Count chunks of so
// many bytes, Stride apart. Count 0 and 1 are one chunk.
type Touch struct {
	Base, Bytes uint64
	Stride      uint64
	Count       uint32
	Access      Access
}

// Span is the stretch of addresses from the first chunk to the last.
func (t Touch) Span() Range {
	if t.Count <= 1 || t.Bytes == 0 {
		return Range{t.Base, t.Bytes}
	}
	return Range{t.Base, product(t.Stride, uint64(t.Count-1)) + t.Bytes}
}

// span is a stretch of addresses and how it is used.
type span struct {
	base, end uint64
	access    Access
}

func (s span) bytes() uint64 { return s.end - s.base }

// maxSpans bounds the stretches that an observation, or one side of a
// comparison, is taken apart into.
const maxSpans = 1 << 14

// appendSpans takes touches apart into stretches, widened to a grain, as they
// come. Chunks that the grain joins are joined, so that a matrix of narrow rows
// is one stretch. ok is false if there are more than maxSpans.
func appendSpans(dst []span, touches []Touch, grain uint64) (_ []span, ok bool) {
	for _, t := range touches {
		if t.Bytes == 0 {
			continue
		}
		count := uint64(max(t.Count, 1))
		if count > 1 && t.Stride < t.Bytes+grain { // no gap holds a whole grain
			whole := t.Span()
			dst = append(dst, widen(whole.Base, whole.End(), t.Access, grain))
			continue
		}
		if uint64(len(dst))+count > maxSpans {
			return dst, false
		}
		for i := range count {
			base := t.Base + i*t.Stride
			dst = append(dst, widen(base, base+t.Bytes, t.Access, grain))
		}
	}
	return dst, len(dst) <= maxSpans
}

func widen(base, end uint64, a Access, grain uint64) span {
	s := span{base / grain * grain, end, a}
	if over := s.end % grain; over != 0 {
		s.end += grain - over
	}
	if s.end < s.base { // the last grain of the address space
		s.end = 1<<64 - 1
	}
	return s
}

// merge sorts stretches and joins those that touch one another, in place.
func merge(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.base, b.base) })
	n := 0
	for _, s := range list {
		if s.base >= s.end {
			continue
		}
		if n > 0 && s.base <= list[n-1].end {
			list[n-1].end = max(list[n-1].end, s.end)
			list[n-1].access |= s.access
			continue
		}
		list[n] = s
		n++
	}
	return list[:n]
}

// total is the bytes of stretches that do not overlap.
func total(list []span) uint64 {
	var sum uint64
	for _, s := range list {
		sum += s.bytes()
	}
	return sum
}

// common is the bytes that two merged lists share.
func common(a, b []span) uint64 {
	var sum uint64
	for i, j := 0, 0; i < len(a) && j < len(b); {
		base, end := max(a[i].base, b[j].base), min(a[i].end, b[j].end)
		if base < end {
			sum += end - base
		}
		if a[i].end < b[j].end {
			i++
		} else {
			j++
		}
	}
	return sum
}
