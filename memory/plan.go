package memory

import (
	"cmp"
	"iter"
	"slices"
)

// Piece is what one copy moves: a part of a segment, or all of it.
type Piece struct {
	Segment ID
	Address uint64
	Offset  Bytes // within the segment
	Bytes   Bytes // at most PieceBytes
}

// Pieces yields what has to be copied to move the segments, in their order.
// Those that the table does not hold are left out.
func (t *Table) Pieces(ids []ID) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		for _, id := range ids {
			s := t.find(id)
			if s == nil {
				continue
			}
			for at := Bytes(0); at < s.Bytes; at += PieceBytes {
				if !yield(Piece{id, s.Address + uint64(at), at, min(PieceBytes, s.Bytes-at)}) {
					return
				}
			}
		}
	}
}

// Batch is a set of segments that move together: one unmapping, or one mapping
// and one setting of access. They are in the order of their addresses.
type Batch struct {
	IDs   []ID
	Bytes Bytes
	// Clean: on the way out nothing has to be copied; see [Plan.Spare].
	Clean bool
}

// Goal is what a plan is made for.
type Goal struct {
	// Target is how much should be on the device in the end.
	Target Bytes
	// Order says who goes first. What is on the device and unknown to it goes
	// before all that it knows.
	Order Order
	// Wanted is what will be used, in the order of first use, for those who know
	// it: as much of it as fits is to be on the device, whatever else has to go.
	// Without it nothing is exchanged.
	Wanted []ID
	// Further is how much of what stays is planned to go as well, behind what goes and in
	// batches of its own, for a target that may fall while the plan is carried out. Where
	// something comes in it is not heeded.
	Further Bytes
}

// Plan is what has to move to reach a target. Batches depend on each other by
// credits alone: one may come in as soon as what is on the device, and the
// batch, are within what the task may have. The zero value is an empty plan. A
// plan is built again rather than made anew, so that it allocates nothing once it
// has grown, and not copied.
type Plan struct {
	Out  []Batch // what is needed last goes first
	In   []Batch // what is needed first comes first
	Must int     // of Out, the first ones: the others are Goal.Further

	marks []mark // by the segments' places in the table
	ids   []ID   // all batches' segments
	// Places in the table: what comes, what goes, and what is being sorted.
	come, leave, rest []int32
	must              int // of those that leave, the first ones: not Goal.Further
	room              Bytes

	// For the order's sequence, of which a loop's body would be a new function.
	name  func(ID) bool
	table *Table
}

type mark uint8

const (
	unmarked mark = iota
	settled       // stays where it is, or comes
	known         // is on the device, and the order named it
	spared        // goes, and is not copied
)

// Build makes the plan for a goal. The plan holds for the table as it is.
func (p *Plan) Build(t *Table, g Goal) {
	p.marks = slices.Grow(p.marks[:0], len(t.segments))[:len(t.segments)]
	clear(p.marks)
	p.come, p.leave = p.come[:0], p.leave[:0]
	p.room = g.Target
	p.dear(t)
	for _, id := range g.Wanted {
		if i, ok := t.index[id]; ok {
			p.want(t, i)
		}
	}
	p.leavers(t, g.Order)
	p.stay(t)
	p.must = len(p.leave)
	if len(p.come) == 0 && p.must > 0 {
		p.further(t, g.Further)
	}
	p.others(t)
	p.batch(t)
}

// batch cuts what comes and what goes: what is copied apart from what is not.
func (p *Plan) batch(t *Table) {
	p.ids = p.ids[:0]
	p.In = p.cut(t, p.In[:0], p.come)
	p.Out = p.Out[:0]
	p.cutOut(t, p.leave[:p.must])
	p.Must = len(p.Out)
	p.cutOut(t, p.leave[p.must:])
}

func (p *Plan) cutOut(t *Table, rest []int32) {
	for len(rest) > 0 {
		clean, n := p.marks[rest[0]] == spared, 1
		for n < len(rest) && (p.marks[rest[n]] == spared) == clean {
			n++
		}
		first := len(p.Out)
		p.Out = p.cut(t, p.Out, rest[:n])
		for i := range p.Out[first:] {
			p.Out[first+i].Clean = clean
		}
		rest = rest[n:]
	}
}

// spareWindow is how far Spare may change the order in which memory goes: not all of a
// plan need be carried out.
const spareWindow = 8 * BatchBytes

// Spare has those go without being copied of which the host's copy is what is on the
// device, and sooner than what goes about the same time. It follows Build, and t is as
// it was then.
func (p *Plan) Spare(t *Table, clean func(ID) bool) {
	for _, i := range p.leave {
		if s := &t.segments[i]; s.Kept && clean(s.ID) {
			p.marks[i] = spared
		}
	}
	p.advance(t, p.leave[:p.must])
	p.advance(t, p.leave[p.must:])
	p.batch(t)
}

// advance moves what is not copied to the front of each window.
func (p *Plan) advance(t *Table, rest []int32) {
	for len(rest) > 0 {
		n, sum := 0, Bytes(0)
		for n < len(rest) && sum < spareWindow && t.segments[rest[n]].Arena == t.segments[rest[0]].Arena {
			sum += t.segments[rest[n]].Bytes
			n++
		}
		slices.SortStableFunc(rest[:n], p.sparedFirst)
		rest = rest[n:]
	}
}

func (p *Plan) sparedFirst(a, b int32) int {
	x, y := p.marks[a] == spared, p.marks[b] == spared
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// dear keeps what cannot go, and has arenas on the device as long as there is
// room for them. What is Loading is neither here nor there: it takes its room until
// whoever began that ends it.
func (p *Plan) dear(t *Table) {
	for i := range t.segments {
		if s := &t.segments[i]; s.Pin != Movable || s.State == Loading {
			p.marks[i] = settled
			if s.State.OnDevice() {
				p.room -= s.Bytes
			}
		}
	}
	for i := range t.segments {
		if t.segments[i].Arena {
			p.want(t, int32(i))
		}
	}
}

// want has a segment on the device if there is room left.
func (p *Plan) want(t *Table, i int32) {
	s := &t.segments[i]
	if p.marks[i] != unmarked || s.Bytes > p.room {
		return
	}
	p.room -= s.Bytes
	p.marks[i] = settled
	if !s.State.OnDevice() {
		p.come = append(p.come, i)
	}
}

// leavers lists the rest of what is on the device, the first to go first: what
// the order does not know, then by the order, and arenas last of all.
func (p *Plan) leavers(t *Table, order Order) {
	p.rest = p.rest[:0]
	if order != nil {
		if p.name == nil {
			p.name = p.named
		}
		p.table = t
		order.Victims(0)(p.name)
		p.table = nil
	}
	for _, arena := range [...]bool{false, true} {
		for i := range t.segments {
			s := &t.segments[i]
			if p.marks[i] == unmarked && s.State.OnDevice() && s.Arena == arena {
				p.leave = append(p.leave, int32(i))
			}
		}
		for _, i := range p.rest {
			if t.segments[i].Arena == arena {
				p.leave = append(p.leave, i)
			}
		}
	}
}

// named takes a segment that an order names.
func (p *Plan) named(id ID) bool {
	t := p.table
	if i, ok := t.index[id]; ok && p.marks[i] == unmarked && t.segments[i].State.OnDevice() {
		p.marks[i] = known
		p.rest = append(p.rest, i)
	}
	return true
}

// stay takes those off the end of what leaves for which there is room; rest has them, in
// the order in which they would leave.
func (p *Plan) stay(t *Table) {
	p.rest = p.rest[:0]
	if p.room < Granularity {
		return
	}
	const stays = -1
	for k := len(p.leave) - 1; k >= 0; k-- {
		if s := &t.segments[p.leave[k]]; s.Bytes <= p.room {
			p.room -= s.Bytes
			p.rest = append(p.rest, p.leave[k])
			p.leave[k] = stays
		}
	}
	slices.Reverse(p.rest)
	p.leave = slices.DeleteFunc(p.leave, func(i int32) bool { return i == stays })
}

// further has as much of what stays go as well. It follows stay.
func (p *Plan) further(t *Table, b Bytes) {
	for _, i := range p.rest {
		if b <= 0 {
			break
		}
		p.leave = append(p.leave, i)
		b -= t.segments[i].Bytes
	}
}

// others has the rest of what is not on the device come in, what was used last
// first, as far as there is room. It does not fill up the gaps that what leaves
// is too large for.
func (p *Plan) others(t *Table) {
	if p.room < Granularity || len(p.leave) > 0 {
		return
	}
	p.rest = p.rest[:0]
	for i := range t.segments {
		if p.marks[i] == unmarked && !t.segments[i].State.OnDevice() {
			p.rest = append(p.rest, int32(i))
		}
	}
	slices.SortFunc(p.rest, func(a, b int32) int {
		x, y := &t.segments[a], &t.segments[b]
		return cmp.Or(-cmp.Compare(x.Used, y.Used), cmp.Compare(x.Address, y.Address))
	})
	for _, i := range p.rest {
		p.want(t, i)
	}
}

// cut cuts segments into batches, each of at least BatchBytes but for the last.
func (p *Plan) cut(t *Table, to []Batch, places []int32) []Batch {
	start, sum := 0, Bytes(0)
	for k, i := range places {
		sum += t.segments[i].Bytes
		if sum < BatchBytes && k < len(places)-1 {
			continue
		}
		batch := places[start : k+1]
		slices.Sort(batch)
		first := len(p.ids)
		for _, i := range batch {
			p.ids = append(p.ids, t.segments[i].ID)
		}
		to = append(to, Batch{IDs: p.ids[first:len(p.ids):len(p.ids)], Bytes: sum})
		start, sum = k+1, 0
	}
	return to
}

// Bytes are what the plan moves out and in.
func (p *Plan) Bytes() (out, in Bytes) {
	for _, b := range p.Out {
		out += b.Bytes
	}
	for _, b := range p.In {
		in += b.Bytes
	}
	return out, in
}

// Empty says whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Out) == 0 && len(p.In) == 0 }
