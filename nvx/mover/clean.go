package mover

import (
	"cmp"
	"slices"
	"time"

	"xmsched/memory"
)

// Clean memory stays home: what came in and did not change needs no copy to go out
// again, as its host slot still has its bytes. Whether it changed is found out by its
// digest, taken after the process was Stopped, and by nothing else: equal to that of
// the bytes in the slot or not. Forecasts and histories only choose what is looked at.
//
// Two contents that differ have the same digest with a probability of at most 2^-63
// (see hasher.sum), over a key that is random in each process and that no program
// chose its bytes by. At 1,500 segments a second (the link, h200.md), each of which has
// changed, that is one segment taken for clean in 195 million years.

// digest is that of a segment's bytes.
type digest struct{ hi, lo uint64 }

// summer takes digests.
type summer interface {
	// sums appends the digests of segments to into, and may stop before the last.
	// Precondition: nothing writes to them.
	sums(list []memory.Segment, into []digest, stop func() bool) ([]digest, error)
}

// record is what is known of a segment.
type record struct {
	digest  digest
	version uint64 // of the slot that has the bytes of the digest
	known   bool
	since   time.Duration // when it came in last, on CLOCK_MONOTONIC
	wrong   uint8         // how often in a row it was looked at in vain
	pause   uint8         // how often it is not looked at, for that
	missed  uint8         // how often it went out without a digest that held
	round   uint32

	leaves uint32 // the round of the move that may take it out
	must   bool   // and has to
	stayed bool   // it was looked at then, and stayed, as more did not have to go
}

// holds says whether the digest is that of what a segment's slot has.
func (r *record) holds(s memory.Segment) bool { return r.known && r.version == s.Version }

// maxPause is how often a segment that changes every time goes out unlooked at, at
// most: the digests of such segments cost a two-hundredth of their copies then, and one
// that is written no more, as after it was filled, is found out with its third move.
const maxPause = 2

// maxMissed is how often a segment goes out without a digest being taken for the next
// time, after one that came to nothing.
const maxMissed = 3

// cleanBooks is what is known of a section's segments, and the sums of it.
type cleanBooks struct {
	records map[memory.ID]*record
	round   uint32

	hashed, spared, wrong memory.Bytes

	// Of the move that is under way: those to be looked at, in the order of their
	// digests; those that go out and had not changed; and the new digests of those that
	// go out and had, or came in.
	look    []memory.Segment
	digests []digest
	same    map[memory.ID]bool
	outs    map[memory.ID]digest
	ins     map[memory.ID]digest
}

func newCleanBooks() cleanBooks {
	return cleanBooks{
		records: map[memory.ID]*record{},
		same:    map[memory.ID]bool{}, outs: map[memory.ID]digest{}, ins: map[memory.ID]digest{},
	}
}

// of is a segment's record.
func (b *cleanBooks) of(id memory.ID) *record {
	r := b.records[id]
	if r == nil {
		r = &record{round: b.round}
		b.records[id] = r
	}
	return r
}

// begin forgets what the last move left.
func (b *cleanBooks) begin() {
	clear(b.same)
	clear(b.outs)
	clear(b.ins)
	b.again()
}

func (b *cleanBooks) again() { b.look, b.digests = b.look[:0], b.digests[:0] }

// leaves takes in a segment that is to go out, and notes it to be looked at if it may be
// clean, or to know the next time. One that need not goes if more has to, which the move
// follows without another look: all of a task's memory but the first batches goes so as a
// rule, and is to be known the next time as well.
func (b *cleanBooks) leaves(s memory.Segment, hint Written, must bool) {
	r := b.of(s.ID)
	r.leaves, r.must = b.round+1, must
	switch hint {
	case NotWritten:
		r.pause = 0
	case WasWritten:
		return
	}
	switch {
	case r.pause > 0, s.Bytes > memory.PieceBytes:
		return
	case b.chance(s) == 1, !r.known && (must || !r.stayed), must && r.missed == maxMissed:
		r.missed = 0
		b.look = append(b.look, s)
	case must && r.known:
		// A digest of what goes out came to nothing if it was mapped to its slot meanwhile, for
		// the program to run on: then the one that is taken when it comes in is worth more.
		r.missed++
	}
}

// rank has those be looked at first that may turn out to be clean: of the others it is
// noted for the next time.
func (b *cleanBooks) rank() {
	slices.SortStableFunc(b.look, func(x, y memory.Segment) int {
		return -cmp.Compare(b.chance(x), b.chance(y))
	})
}

func (b *cleanBooks) chance(s memory.Segment) int {
	if s.Kept && b.of(s.ID).holds(s) {
		return 1
	}
	return 0
}

// compare takes in the digests of those that go out.
func (b *cleanBooks) compare() {
	for i, d := range b.digests {
		s := b.look[i]
		r := b.of(s.ID)
		b.hashed += s.Bytes
		switch {
		case !s.Kept || !r.holds(s): // for the next time
		case d == r.digest:
			r.wrong, r.pause = 0, 0
			b.same[s.ID] = true
			continue
		default:
			b.wrong += s.Bytes
			r.vain()
		}
		b.outs[s.ID] = d
	}
	b.again()
}

// vain has a segment be looked at less often, the more often in a row that came to
// nothing.
func (r *record) vain() {
	r.wrong = min(r.wrong+1, 8)
	r.pause = uint8(min(1<<r.wrong-1, maxPause))
}

// unseen takes in that a segment was copied without a look. Precondition: it is on the host
// after the move of that round.
func (r *record) unseen(round uint32) {
	if r.leaves == round && r.pause > 0 {
		r.pause--
	}
}

// came takes in a segment that came in, and notes it to be looked at if that is worth
// it. Precondition: it came in this move, and the process has not run since.
func (b *cleanBooks) came(s memory.Segment) {
	if r := b.of(s.ID); s.Kept && !r.holds(s) && r.pause == 0 && s.Bytes <= memory.PieceBytes {
		b.look = append(b.look, s)
	}
}

// arrived takes in the digests of those that came in.
func (b *cleanBooks) arrived() {
	for i, d := range b.digests {
		b.hashed += b.look[i].Bytes
		b.ins[b.look[i].ID] = d
	}
	b.again()
}

// end takes in how the segments are after the move. What went out had the bytes that
// were looked at, and they are in its slot now, if it did go; a segment that was left
// where it was has a slot with other bytes, or none, and was looked at in vain. What
// came in has the bytes of its slot as long as that is kept. Precondition: nothing of
// the move is under way.
func (b *cleanBooks) end(list []memory.Segment) {
	b.round++
	for _, s := range list {
		r := b.of(s.ID)
		r.round = b.round
		home := s.State == memory.Host && r.leaves == b.round // it went out, and was mapped to its slot meanwhile
		switch d, ok := b.outs[s.ID]; {
		case ok && s.State == memory.Away:
			r.digest, r.version, r.known = d, s.Version, true
		case home && (ok || b.same[s.ID]): // it was looked at, but its slot may be written to
			r.known = true
		case ok && r.must:
			r.vain()
		case ok:
			r.stayed = true
		case (s.State == memory.Away || home) && !r.holds(s):
			r.known = false // it was copied, and nobody looked at it
			r.unseen(b.round)
		}
		r.stayed = r.stayed && s.State != memory.Away && !home
		if d, ok := b.ins[s.ID]; ok && s.Kept {
			r.digest, r.version, r.known = d, s.Version, true
		}
	}
	for id, r := range b.records {
		if r.round != b.round {
			delete(b.records, id)
		}
	}
}
