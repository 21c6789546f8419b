package predictor

import "fmt"

// template says what is touched from a pointer on: bytes from start on, or count
// chunks of so many bytes, stride apart. The zero value touches nothing.
type template struct {
	start, bytes  expr
	stride, count expr // count is the constant 0 where there is one chunk
	access        Access
	// wide templates are none: the whole allocation may be touched.
	wide bool
	// most templates say what may be touched at most: memory decides which part is.
	most bool
}

var wholeAllocation = template{access: Either, wide: true}

func (t *template) strided() bool { return t.count.n != 0 || t.count.add != 0 }

// shape names the template's kind as the paper's tables do.
func (t *template) shape() string {
	switch {
	case t.wide:
		return "allocation"
	case t.most:
		return "bound"
	case t.strided():
		return "strided"
	case t.bytes.fixed() && t.start.fixed():
		return "fixed"
	default:
		return "linear"
	}
}

// touch evaluates the template for a pointer; what would pass the allocation's
// end is cut off. ok is false if nothing is touched.
func (t *template) touch(l *Launch, p *pointer) (_ Touch, ok bool) {
	if t.wide {
		return Touch{Base: p.in.Base, Bytes: p.in.Bytes, Access: t.access}, true
	}
	room := p.in.End() - p.address
	base := p.address
	if t.start.n != 0 || t.start.add != 0 {
		start := t.start.eval(l, room, p.index)
		if start >= room {
			return Touch{}, false
		}
		base, room = base+start, room-start
	}
	out := Touch{Base: base, Bytes: t.bytes.eval(l, p.in.End()-p.address, p.index), Access: t.access}
	if out.Bytes == 0 {
		return Touch{}, false
	}
	if t.strided() {
		count, stride := t.count.eval(l, room, p.index), t.stride.eval(l, room, p.index)
		if count == 0 {
			return Touch{}, false
		}
		out.chunks(count, stride, room)
	}
	out.Bytes = min(out.Bytes, room)
	return out, true
}

// chunks makes a touch strided, with as many chunks as there is room for.
func (t *Touch) chunks(count, stride, room uint64) {
	if count <= 1 || stride == 0 {
		return
	}
	if t.Bytes >= room {
		return
	}
	most := (room-t.Bytes)/stride + 1
	count = min(count, most, 1<<32-1)
	if stride <= t.Bytes { // one stretch
		t.Bytes += stride * (count - 1)
		return
	}
	if count > 1 {
		t.Count, t.Stride = uint32(count), stride
	}
}

// same says whether two templates touch the same, however.
func (t *template) same(o *template) bool {
	a, b := *t, *o
	a.access = b.access
	return a == b
}

// loose templates say where, and not how much of it.
func (t *template) loose() bool { return t.wide || t.most }

func (t *template) natural() bool {
	return !t.loose() && t.start.natural() && t.bytes.natural() && t.stride.natural() && t.count.natural()
}

func (t *template) valid() bool {
	for _, e := range []*expr{&t.start, &t.bytes, &t.stride, &t.count} {
		if !e.valid() {
			return false
		}
	}
	return t.access <= Either && !(t.wide && t.most)
}

func (t *template) String() string {
	switch {
	case t.wide:
		return "allocation"
	case t.most:
		return fmt.Sprintf("at most %v, %v", &t.bytes, t.access)
	case t.strided():
		return fmt.Sprintf("%v of %v every %v from %v, %v", &t.count, &t.bytes, &t.stride, &t.start, t.access)
	case t.start == expr{}:
		return fmt.Sprintf("%v, %v", &t.bytes, t.access)
	default:
		return fmt.Sprintf("%v from %v, %v", &t.bytes, &t.start, t.access)
	}
}
