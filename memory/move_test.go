package memory

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// dice are for choices that are to be evenly likely, which rapid's are not.
type dice struct{ *rand.Rand }

func newDice(t *rapid.T) *dice { return seeded(rapid.Uint64().Draw(t, "seed")) }

func seeded(seed uint64) *dice { return &dice{rand.New(rand.NewPCG(seed, 1))} }

// in is true once in n times.
func (d *dice) in(n int) bool { return d.IntN(n) == 0 }

// upTo is any amount up to most, and often the whole or nothing.
func (d *dice) upTo(most Bytes) Bytes {
	switch d.IntN(6) {
	case 0:
		return most
	case 1:
		return 0
	}
	return Bytes(d.Int64N(int64(most) + 1))
}

// drawSegments makes up a task's memory.
func drawSegments(t *rapid.T, pins bool) []Segment {
	n := 60 - rapid.IntRange(0, 60).Draw(t, "fewer segments")
	list, address := make([]Segment, 0, n), uint64(1)<<40
	for i := range n {
		s := Segment{
			ID: ID(i + 1), Allocation: uint64(i/8 + 1), Address: address,
			Bytes: Granularity * Bytes(rapid.SampledFrom([]int{1, 3, 16, 16, 16}).Draw(t, "size")),
			State: rapid.SampledFrom([]State{Device, Device, Host, Away}).Draw(t, "state"),
			Used:  rapid.Uint64Range(0, 50).Draw(t, "used"),
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			s.Arena = true
		case 1:
			if pins {
				s.Pin, s.State = Pool, Device
			}
		}
		address += uint64(s.Bytes) + uint64(Granularity)*uint64(rapid.IntRange(0, 1).Draw(t, "gap"))
		list = append(list, s)
	}
	return list
}

// TestMoveKeepsEveryByte plays random moves, with results in any order, failures
// of every step, changes of the target, stops, and death at every point, and
// after each step wants the content of every authoritative copy to be what the
// task wrote last, and the card to hold no more than allowed. In the end the
// task runs and reads it all.
func TestMoveKeepsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, list := NewTable(), drawSegments(t, true)
		if err := table.Reset(list); err != nil {
			t.Fatal(err)
		}
		m, order := newMachine(list), Order(NewLRU())
		var move Move
		var plan Plan
		dice := newDice(t)
		for round := range rapid.IntRange(1, 4).Draw(t, "rounds") {
			all := table.Figures().Allocated
			goal := dice.upTo(all)
			var wanted []ID
			if rapid.Bool().Draw(t, "known") {
				wanted = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ID { return ID(rapid.IntRange(0, 61).Draw(t, "id")) }), 0, 40).Draw(t, "wanted")
			}
			plan.Build(table, Goal{Target: goal, Order: order, Wanted: wanted})
			checkPlan(t, table, &plan, goal, wanted)
			if rapid.Bool().Draw(t, "further") {
				checkFurther(t, table, &plan, Goal{Target: goal, Order: order, Wanted: wanted, Further: dice.upTo(all)})
			}
			for id, c := range m.copies {
				table.find(id).Kept = c.kept
			}
			checkSpare(t, table, &plan, m)
			credit := min(goal, dice.upTo(2*all))
			before := table.Figures().Resident
			move.Start(table, &plan, order, credit)
			playMove(t, dice, m, table, &move, credit, before, all)
			m.running = true
			if err := m.resume(table, round+1); err != nil {
				t.Fatal(err)
			}
			m.running = false
			stopAgain(dice, m, table)
		}
	})
}

// stopAgain sends some of what is host-backed away, as a stop does not: it is
// the state that an earlier move leaves behind.
func stopAgain(d *dice, m *machine, table *Table) {
	for s := range table.All() {
		if s.State == Host && d.in(2) {
			table.set(table.find(s.ID), Away)
			m.copies[s.ID].slotMapped = false
		}
	}
}

// playMove answers a move's steps until it is over.
func playMove(t *rapid.T, d *dice, m *machine, table *Table, move *Move, target, before, all Bytes) {
	var open []Step
	highest := target
	for range 10000 {
		for {
			s, ok := move.Next()
			if !ok {
				break
			}
			if move.ended && s.Act != Commit && s.Act != Restore {
				t.Fatalf("%s begins after the end", s)
			}
			open = append(open, s)
			m.mark(s, true)
		}
		checkMove(t, move, open)
		if move.Over() {
			break
		}
		if move.Starved() {
			if len(open) != 0 {
				t.Fatalf("starved with %v under way", open)
			}
			if d.in(4) {
				move.Stop()
			} else {
				target += max(Granularity, all/4)
				move.SetTarget(target)
			}
			highest = max(highest, target)
			continue
		}
		if len(open) == 0 {
			t.Fatalf("nothing under way, and neither over nor starved: %+v", move)
		}
		switch {
		case d.in(60):
			move.Stop()
		case d.in(60):
			move.Kill()
			m.die(t, d, table, open)
			open = nil
		case d.in(30):
			target = d.upTo(all)
			highest = max(highest, target)
			move.SetTarget(target)
		default:
			open = answer(t, d, m, move, open)
		}
		if err := m.check(table, highest, before); err != nil {
			t.Fatal(err)
		}
	}
	if !move.Over() {
		t.Fatal("the move has no end")
	}
	for s := range table.All() {
		if s.State == Loading && !move.dead && !m.copies[s.ID].stuck {
			t.Fatalf("%+v after the end", s)
		}
	}
}

// answer gives one of the steps under way its result.
func answer(t *rapid.T, d *dice, m *machine, move *Move, open []Step) []Step {
	i := d.IntN(len(open))
	s := open[i]
	// Copies of one direction end in their order.
	for j, o := range open[:i] {
		if o.Act == s.Act && (s.Act == CopyOut || s.Act == CopyIn) {
			i, s = j, o
			break
		}
	}
	if d.in(25) {
		for _, id := range s.IDs {
			m.copies[id].stuck = s.Act == Restore
		}
		if s.Act == Drop && d.in(2) {
			move.Failed(s, ErrStale)
		} else {
			move.Failed(s, []error{ErrCopy, ErrMap, ErrHostMemory, ErrDeviceMemory}[d.IntN(4)])
		}
	} else {
		if err := m.do(s); err != nil {
			t.Fatal(err)
		}
		move.Done(s)
	}
	m.mark(s, false)
	return slices.Delete(open, i, i+1)
}

// checkMove wants the steps under way to be such that a caller can do them at
// once: a batch has one, and copies are given out in order.
func checkMove(t *rapid.T, move *Move, open []Step) {
	if move.Busy() != (len(open) > 0) {
		t.Fatalf("busy %v with %v under way", move.Busy(), open)
	}
	last := map[Act]int{CopyOut: -1, CopyIn: -1}
	for i, s := range open {
		for _, o := range open[:i] {
			if (o.Act <= Drop) == (s.Act <= Drop) && o.Batch == s.Batch {
				t.Fatalf("%s and %s at once", o, s)
			}
		}
		if at, ok := last[s.Act]; ok {
			if s.Batch < at {
				t.Fatalf("%s after batch %d", s, at)
			}
			last[s.Act] = s.Batch
		}
	}
}

// checkFurther plans for more to go: that comes behind what is planned already, which
// stays as it is.
func checkFurther(t *rapid.T, table *Table, plan *Plan, g Goal) {
	out, in := plan.Bytes()
	var before [][]ID
	for _, b := range plan.Out {
		before = append(before, slices.Clone(b.IDs))
	}
	resident := table.Figures().Resident
	plan.Build(table, g)
	for i, ids := range before {
		if !slices.Equal(plan.Out[i].IDs, ids) {
			t.Fatalf("%v goes, without further memory %v", plan.Out, before)
		}
	}
	more, i := plan.Bytes()
	if i != in || more > resident || (in > 0 || out == 0) && more != out || more-out >= g.Further+PieceBytes {
		t.Fatalf("%s out and %s in, %s further: without it %s and %s", more, i, g.Further, out, in)
	}
}

// checkSpare spares what is clean: as much goes and comes as before, what is clean by
// itself, and first of those that go about the same time.
func checkSpare(t *rapid.T, table *Table, plan *Plan, m *machine) {
	out, in := plan.Bytes()
	window := spareWindows(table, plan)
	plan.Spare(table, m.clean)
	if o, i := plan.Bytes(); o != out || i != in {
		t.Fatalf("%s out and %s in, before %s and %s", o, i, out, in)
	}
	last, rest := 0, false
	for _, b := range plan.Out {
		for _, id := range b.IDs {
			if b.Clean != m.clean(id) {
				t.Fatalf("segment %d, clean %t, is in a batch that is clean %t", id, m.clean(id), b.Clean)
			}
		}
		least, most := slices.MinFunc(b.IDs, window.compare), slices.MaxFunc(b.IDs, window.compare)
		if window[least] > last {
			rest = false
		}
		if window[least] < last || b.Clean && rest && window[least] == last {
			t.Fatalf("%v goes too late: %v", b.IDs, plan.Out)
		}
		last, rest = window[most], !b.Clean
	}
}

// windows says which of those that go are so near each other that Spare may change
// their order.
type windows map[ID]int

func (w windows) compare(a, b ID) int { return cmp.Compare(w[a], w[b]) }

func spareWindows(table *Table, plan *Plan) windows {
	w, at, sum, arena := windows{}, 0, Bytes(0), false
	for k, i := range plan.leave {
		s := &table.segments[i]
		if k > 0 && (k == plan.must || sum >= spareWindow || s.Arena != arena) {
			at, sum = at+1, 0
		}
		w[s.ID], sum, arena = at, sum+s.Bytes, s.Arena
	}
	return w
}

// TestStaleCopiesHoldNothingUp has the host's copies of a clean batch be given up: it
// stays, and what has to be copied goes all the same.
func TestStaleCopiesHoldNothingUp(t *testing.T) {
	table := NewTable()
	list := []Segment{
		{ID: 1, Address: 1 << 40, Bytes: PieceBytes, Kept: true},
		{ID: 2, Address: 1<<40 + uint64(PieceBytes), Bytes: PieceBytes},
	}
	if err := table.Reset(list); err != nil {
		t.Fatal(err)
	}
	var plan Plan
	plan.Build(table, Goal{})
	plan.Spare(table, func(ID) bool { return true })
	var move Move
	move.Start(table, &plan, nil, 0)
	for !move.Over() {
		s, ok := move.Next()
		switch {
		case !ok:
			t.Fatal("nothing to do, and not over")
		case s.Act == Drop:
			move.Failed(s, ErrStale)
		default:
			move.Done(s)
		}
	}
	if moved := move.Moved(); moved != (Moved{Out: PieceBytes}) || table.Figures().Resident != PieceBytes {
		t.Errorf("moved %+v, %s on the device", moved, table.Figures().Resident)
	}
}

// TestLoadingIsLeftAlone: what somebody left half way in is not moved, and its room is
// taken.
func TestLoadingIsLeftAlone(t *testing.T) {
	table := NewTable()
	var list []Segment
	for i := range 8 {
		s := Segment{ID: ID(i + 1), Address: uint64(i+1) << 30, Bytes: PieceBytes, State: State(i % 4)}
		s.Arena = i == 3
		list = append(list, s)
	}
	if err := table.Reset(list); err != nil {
		t.Fatal(err)
	}
	var plan Plan
	for target := Bytes(0); target <= 8*PieceBytes; target += PieceBytes {
		plan.Build(table, Goal{Target: target, Wanted: []ID{8, 4}})
		for _, b := range append(plan.Out, plan.In...) {
			for _, id := range b.IDs {
				if s, _ := table.Get(id); s.State == Loading {
					t.Errorf("target %s moves segment %d, which is loading", target, id)
				}
			}
		}
		out, in := plan.Bytes()
		if have := table.Figures().Resident - out + in; have > max(target, 2*PieceBytes) {
			t.Errorf("target %s ends with %s", target, have)
		}
	}
}

// checkPlan wants a plan to be what it says: batches large enough, nothing
// pinned, nothing twice, the goal kept, and what is wanted first on the device
// as far as it fits.
func checkPlan(t *rapid.T, table *Table, plan *Plan, goal Bytes, wanted []ID) {
	f := table.Figures()
	out, in := plan.Bytes()
	seen := map[ID]bool{}
	each := func(list []Batch, on bool) {
		for i, b := range list {
			var sum Bytes
			var end uint64
			for _, id := range b.IDs {
				s, ok := table.Get(id)
				if !ok || seen[id] || s.State.OnDevice() != on || s.Pin != Movable || s.Address < end {
					t.Fatalf("batch %v holds %+v, seen %v", b, s, seen[id])
				}
				seen[id], end = true, s.Address
				sum += s.Bytes
			}
			if sum != b.Bytes || sum < BatchBytes && i < len(list)-1 || sum >= BatchBytes+PieceBytes {
				t.Fatalf("batch %d of %d has %s, says %s", i, len(list), sum, b.Bytes)
			}
		}
	}
	each(plan.Out, true)
	each(plan.In, false)
	if end := f.Resident - out + in; end > max(goal, f.Pinned) {
		t.Fatalf("ends with %s on the device, %s pinned, goal %s", end, f.Pinned, goal)
	}
	for _, b := range plan.In {
		for _, id := range b.IDs {
			if s, _ := table.Get(id); len(plan.Out) > 0 && !s.Arena && !slices.Contains(wanted, id) {
				t.Fatalf("%+v comes in, which nobody asked for, while %s go out", s, out)
			}
		}
	}
	// What is wanted first is there in the end, unless what is kept before it
	// leaves no room.
	left := goal - f.Pinned
	for s := range table.All() {
		if s.Arena && s.Pin == Movable {
			left -= s.Bytes
		}
	}
	for _, id := range wanted {
		s, ok := table.Get(id)
		if !ok || s.Arena || s.Pin != Movable {
			continue
		}
		if left -= s.Bytes; left < 0 {
			break
		}
		if s.State.OnDevice() == seen[id] {
			t.Fatalf("%+v is wanted and there is room, moves %v", s, seen[id])
		}
	}
}
