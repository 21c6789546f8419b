package kernels

// Span is memory that a kernel touches: Count pieces of Bytes each, the first at
// Base, Stride bytes from one's begin to the next one's.
type Span struct {
	Base, Bytes   uint64
	Stride, Count uint64
	Access        Access
}

// Recorder is a Memory that keeps what it is asked for: what a kernel touches
// whose accesses depend on what lies in memory.
type Recorder struct {
	Memory
	Spans []Span // in the order of asking
}

// View implements Memory. What is refused is not touched.
func (r *Recorder) View(addr, n uint64, a Access) ([]byte, error) {
	b, err := r.Memory.View(addr, n, a)
	if err == nil && n > 0 {
		r.Spans = append(r.Spans, Span{Base: addr, Bytes: n, Count: 1, Access: a})
	}
	return b, err
}

// part is one span of a launch; one of no bytes is none.
type part func(l Launch) Span

// spans is the closed form of a kernel that touches these.
func spans(parts ...part) func(Launch) []Span {
	return func(l Launch) []Span {
		var all []Span
		for _, p := range parts {
			if s := p(l); s.Bytes > 0 && s.Count > 0 {
				all = append(all, s)
			}
		}
		return all
	}
}

// pointed is n words at the pointer that lies at an argument's offset.
func pointed(pointer int, a Access, n func(Launch) uint64) part {
	return func(l Launch) Span { return Span{Base: arg64(l, pointer), Bytes: 4 * n(l), Count: 1, Access: a} }
}

// fixed is a count that no launch changes.
func fixed(n uint64) func(Launch) uint64 { return func(Launch) uint64 { return n } }

// where leaves a span away unless yes.
func where(yes func(Launch) bool, p part) part {
	return func(l Launch) Span {
		if !yes(l) {
			return Span{}
		}
		return p(l)
	}
}
