package mover

import (
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/memory"
)

// sums is the model's summer: a digest is what is on the device.
func (m *model) sums(list []memory.Segment, into []digest, stop func() bool) ([]digest, error) {
	for _, s := range list {
		if err := m.fail("digest"); err != nil {
			return into, err
		}
		if stop() {
			break
		}
		t := m.segments[s.ID]
		m.must(t.State == memory.Device, "digest of a segment that is %s", t.State)
		into = append(into, digest{lo: uint64(t.device)})
		m.pending = m.pending || m.wants()
	}
	return into, nil
}

// lists is a Memory that can tell what there is, and whether its move is in force.
type lists struct {
	Memory
	*model
}

func (l lists) List(_ int, into []memory.Segment) ([]memory.Segment, error) {
	return append(into[:0], l.listing()...), nil
}

func (l lists) Wanted(int) bool { return l.wanted() }

func (l lists) Flight(_ int, begin bool) error {
	if begin && l.lost {
		return syscall.EPERM
	}
	return nil
}

// fickle says of any segment anything.
type fickle struct {
	Uses
	t *rapid.T
}

func (f fickle) Written(int, uint64, memory.Bytes, time.Duration) Written {
	return Written(rapid.IntRange(0, 2).Draw(f.t, "hint"))
}

// write has the program write to a segment, wherever it is.
func (m *model) write(t *truth, value int) {
	t.value = value
	if t.State == memory.Device {
		t.device = value
	} else {
		t.slot = value
	}
}

// TestPropertyWhatChangedIsCopied has a program write to its segments, some of them back
// to what they were, while they go and come by random plans, calls and digests fail, clean
// copies are given up, some of what went is mapped to its slots before the move is over, hints
// are lies and the target changes: whenever a segment has left
// the device its slot has its bytes (see model.do), and what has not changed is left
// uncopied at last.
func TestPropertyWhatChangedIsCopied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{2, 32, 32, 32}), 1, 24).Draw(t, "sizes")
		m := newModel(t, sizes, func(int) bool { return true })
		unlucky := rapid.SampledFrom([]int{0, 0, 3, 10}).Draw(t, "failures in a hundred")
		m.fail = func(what string) error {
			if rapid.IntRange(0, 99).Draw(t, what) >= unlucky {
				return nil
			}
			return rapid.SampledFrom(failures).Draw(t, "failure")
		}
		impatient := rapid.SampledFrom([]int{0, 2, 10}).Draw(t, "wanted in a hundred")
		m.wants = func() bool { return rapid.IntRange(0, 99).Draw(t, "wanted") < impatient }
		restless := rapid.SampledFrom([]int{0, 5, 30}).Draw(t, "target changes in a hundred")
		m.retarget = func(m *model) {
			if rapid.IntRange(0, 99).Draw(t, "retarget") < restless {
				m.bound = memory.Bytes(rapid.IntRange(0, 800).Draw(t, "new target")) * memory.MiB
			}
		}
		s := &section{memory: lists{model: m}, planner: newPlanner(), clean: newCleanBooks(), summer: m, ctx: t.Context(), now: monotonic, leastLook: time.Hour}
		s.carrier.world = m
		s.board = idlePage{m}
		if rapid.Bool().Draw(t, "hints") {
			s.uses = fickle{t: t}
		}
		home := rapid.SampledFrom([]int{0, 30, 100}).Draw(t, "mapped to their slots in a hundred")
		turn := func(target memory.Bytes) {
			m.bound = target
			m.pending, m.asked, m.lost, m.told = false, false, false, false
			s.planner.list = append(s.planner.list[:0], m.listing()...)
			aim, err := s.planner.make(m.bound, false)
			if err != nil {
				t.Fatal(err)
			}
			s.compare()
			o := s.carrier.carry(&s.planner.table, &s.planner.plan, aim)
			m.good()
			for id := memory.ID(1); home > 0 && int(id) <= len(sizes); id++ {
				if m.segments[id].State == memory.Away && rapid.IntRange(0, 99).Draw(t, "home") < home {
					m.segments[id].State = memory.Host // in passing
					m.segments[id].unkeep()
				}
			}
			if !o.lost {
				_ = s.learn(o)
			}
			m.resumed()
		}
		for range rapid.IntRange(2, 12).Draw(t, "turns") {
			turn(memory.Bytes(rapid.SampledFrom([]int{0, 96, 1000}).Draw(t, "target")) * memory.MiB)
			for id := memory.ID(1); int(id) <= len(sizes); id++ {
				switch rapid.IntRange(0, 9).Draw(t, "program") {
				case 0, 1, 2:
					m.write(m.segments[id], rapid.IntRange(1, 3).Draw(t, "value"))
				case 3:
					if m.segments[id].Kept {
						m.segments[id].unkeep() // somebody needed the slot
					}
				}
			}
		}
		m.fail, m.wants, m.retarget = func(string) error { return nil }, func() bool { return false }, func(*model) {}
		s.uses, s.summer, s.haste = nil, m, haste{}
		for range 2*maxPause + 4 { // it only reads from here on
			turn(0)
			turn(memory.TiB)
		}
		before := s.clean.wrong
		s.clean.spared = 0
		turn(0)
		if o := s.clean.same; len(o) != len(sizes) || s.clean.wrong != before {
			t.Fatalf("%d of %d segments that nobody writes to are clean, %s wrong", len(o), len(sizes), s.clean.wrong-before)
		}
	})
}

// idlePage is a board of a section that nobody waits for.
type idlePage struct{ *model }

func (idlePage) Orders() (uint32, Orders)         { return 1, Orders{Managed: true} }
func (idlePage) WaitOrders(uint32, time.Duration) {}
func (idlePage) Holds() uint32                    { return 0 }
func (idlePage) WaitHolds(uint32, time.Duration)  {}
func (idlePage) Wake()                            {}
func (p idlePage) Figures() Figures               { return Figures{Resident: p.resident()} }
func (idlePage) Open() bool                       { return false }
func (idlePage) Done(uint32)                      {}
func (idlePage) Stalled(time.Duration)            {}
func (idlePage) Ring()                            {}
func (idlePage) Foreseen(_, _ memory.Bytes)       {}
func (idlePage) Clean(_, _, _ memory.Bytes)       {}

// TestLeftWhereItWas has a segment change, be looked at, and not go after all: its slot has
// what it had, so that the new digest is not that of the slot's bytes. As little is the
// digest of what came in when it has run since, or its slot has been given up.
func TestLeftWhereItWas(t *testing.T) {
	kept := memory.Segment{ID: 1, Bytes: memory.PieceBytes, State: memory.Device, Kept: true}
	look := func(b *cleanBooks, note func(memory.Segment), value uint64) {
		b.begin()
		note(kept)
		for range b.look {
			b.digests = append(b.digests, digest{lo: value})
		}
	}
	going := func(b *cleanBooks) func(memory.Segment) {
		return func(s memory.Segment) { b.leaves(s, NotWritten, true) }
	}
	b := newCleanBooks()
	look(&b, b.came, 1)
	b.arrived()
	b.end([]memory.Segment{kept})
	for value := range uint64(4) {
		look(&b, going(&b), value)
		if len(b.digests) != 1 {
			t.Fatalf("not looked at for %d", value)
		}
		b.compare()
		if b.same[1] != (value == 1) {
			t.Errorf("came in with 1 and has %d: clean %t", value, b.same[1])
		}
		b.end([]memory.Segment{kept})
	}
	kept.Version++
	if look(&b, going(&b), 1); len(b.digests) > 0 {
		b.compare()
	}
	if b.same[1] {
		t.Error("clean though its slot has something else")
	}
	b.end([]memory.Segment{kept})
	look(&b, b.came, 5)
	b.arrived()
	given := kept
	given.Kept = false
	b.end([]memory.Segment{given})
	if look(&b, going(&b), 5); len(b.digests) > 0 {
		b.compare()
	}
	if b.same[1] {
		t.Error("clean though its slot was given up when its digest was noted")
	}
	b.end(nil)
	if len(b.records) != 0 {
		t.Errorf("%d records of segments that are no more", len(b.records))
	}
}

// TestHaste counts the moves that are looked at when that keeps memory from moving, and when
// it does not.
func TestHaste(t *testing.T) {
	for _, nothing := range []bool{true, false} {
		var h haste
		looked := 0
		for range 1000 {
			if h.look() {
				looked++
				h.took(nothing)
			}
		}
		if nothing && looked > 25 || !nothing && looked != 1000 {
			t.Errorf("%d of 1000 moves looked at, in vain %t", looked, nothing)
		}
	}
}

// goesAndComes has segment 1, which has a value, go out, looked at or not, and come back in,
// and says how many digests were taken and whether it was spared.
func goesAndComes(b *cleanBooks, s *memory.Segment, look bool, value uint64) (looked int, spared bool) {
	b.begin()
	if look {
		b.leaves(*s, WrittenUnknown, true)
		for range b.look {
			looked++
			b.digests = append(b.digests, digest{lo: value})
		}
		b.compare()
	}
	if spared = b.same[1]; !spared {
		s.Version++
	}
	s.State, s.Kept = memory.Away, false
	b.end([]memory.Segment{*s})
	s.State, s.Kept = memory.Device, true
	return looked, spared
}

// TestWhatChangesEveryTimeIsLookedAtRarely counts the digests of a segment that is written
// in every turn, and how soon it is looked at again when it is not any more.
func TestWhatChangesEveryTimeIsLookedAtRarely(t *testing.T) {
	b := newCleanBooks()
	s := memory.Segment{ID: 1, Bytes: memory.PieceBytes, State: memory.Device, Kept: true}
	value, looked := uint64(0), 0
	turn := func(writes bool) bool {
		b.begin()
		b.came(s)
		for range b.look {
			looked++
			b.digests = append(b.digests, digest{lo: value})
		}
		b.arrived()
		s.State, s.Kept = memory.Device, true
		b.end([]memory.Segment{s})
		if writes {
			value++
		}
		n, spared := goesAndComes(&b, &s, true, value)
		looked += n
		return spared
	}
	for range 1000 {
		turn(true)
	}
	if looked > 2*1000/maxPause {
		t.Errorf("%d digests in 1000 turns", looked)
	}
	turns := 1
	for ; !turn(false); turns++ {
	}
	if turns > maxPause+2 {
		t.Errorf("%d turns until it is known to be clean", turns)
	}
	if !turn(false) {
		t.Error("not clean in the next turn")
	}
}

// TestWhatMayGoIsSeenToo has a segment be written some turns and then not any more, which
// always goes by a target that falls during the move: it is clean as soon as one that has to
// go. As long as it stays it is looked at once.
func TestWhatMayGoIsSeenToo(t *testing.T) {
	b := newCleanBooks()
	s := memory.Segment{ID: 1, Bytes: memory.PieceBytes, State: memory.Device, Kept: true}
	value, looked := uint64(0), 0
	turn := func(goes bool) bool {
		b.begin()
		b.leaves(s, WrittenUnknown, false)
		for range b.look {
			looked++
			b.digests = append(b.digests, digest{lo: value})
		}
		b.compare()
		spared := b.same[1]
		if goes {
			if s.State = memory.Away; !spared {
				s.Version++
			}
		}
		b.end([]memory.Segment{s})
		s.State = memory.Device
		return spared
	}
	for range 10 {
		turn(false)
	}
	if looked != 1 {
		t.Errorf("looked at %d times while it stayed", looked)
	}
	for range 10 {
		turn(true)
		value++
	}
	turns := 1
	for ; turns < 100 && !turn(true); turns++ {
	}
	if turns > maxPause+2 {
		t.Errorf("%d turns until it is known to be clean", turns)
	}
}

// TestCopiedUnseenIsSeenNext has a segment that nobody writes to go out once without a look:
// the digest that was known is of another slot then, and the next time one is taken, so that
// it is clean the time after.
func TestCopiedUnseenIsSeenNext(t *testing.T) {
	b := newCleanBooks()
	s := memory.Segment{ID: 1, Bytes: memory.PieceBytes, State: memory.Device, Kept: true}
	turn := func(look bool) bool {
		_, spared := goesAndComes(&b, &s, look, 7)
		return spared
	}
	turn(true)
	if !turn(true) {
		t.Fatal("not clean the second time")
	}
	turn(false)
	turn(true)
	if !turn(true) {
		t.Error("not clean the second time after it was copied without a look")
	}
}

// TestMappedInPassingIsNoVainLook has a segment go out and be mapped to its slot before the
// move is over: it is known as well as one that was mapped after it. Its digest was not taken
// in vain, a pause of one that was copied unseen goes by, and as the program may write to the
// slot its digest is nobody's.
func TestMappedInPassingIsNoVainLook(t *testing.T) {
	for _, must := range []bool{true, false} {
		b := newCleanBooks()
		s := memory.Segment{ID: 1, Bytes: memory.PieceBytes, State: memory.Device, Kept: true}
		goes := func(value uint64) {
			b.begin()
			b.leaves(s, WrittenUnknown, must)
			for range b.look {
				b.digests = append(b.digests, digest{lo: value})
			}
			b.compare()
			home := s
			home.State, home.Kept = memory.Host, false
			if home.Version++; !b.same[1] {
				home.Version++
			}
			b.end([]memory.Segment{home})
			s.Version = home.Version
		}
		goes(1)
		if r := b.of(1); r.wrong != 0 || r.pause != 0 || r.stayed || r.holds(s) {
			t.Errorf("must go %t: %+v after it was looked at and went", must, r)
		}
		b.of(1).pause = maxPause
		for range maxPause {
			goes(1)
		}
		if r := b.of(1); r.pause != 0 {
			t.Errorf("must go %t: not looked at for %d moves more, after it went unseen %d times", must, r.pause, maxPause)
		}
	}
}
