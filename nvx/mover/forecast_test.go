package mover

import (
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/memory"
)

const turnOf = 100 * time.Millisecond

// drawUses are uses of a model's memory, and of what lies around it.
func drawUses(t *rapid.T, m *model) []Use {
	list := m.listing()
	end := list[len(list)-1].Address + uint64(list[len(list)-1].Bytes)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Use {
		at := rapid.Uint64Range(list[0].Address-1<<20, end+1<<20).Draw(t, "address")
		return Use{
			Address: at, Bytes: memory.Bytes(rapid.SampledFrom([]int{0, 4096, 30 << 20, 70 << 20, 200 << 20}).Draw(t, "bytes")),
			In: time.Duration(rapid.IntRange(0, 200).Draw(t, "in")) * time.Millisecond, Times: rapid.Uint32Range(0, 5).Draw(t, "times"),
		}
	}), 3, 20).Draw(t, "uses")
}

func overlap(s memory.Segment, u Use) memory.Bytes {
	from, to := max(s.Address, u.Address), min(s.Address+uint64(s.Bytes), u.Address+uint64(u.Bytes))
	if to <= from {
		return 0
	}
	return memory.Bytes(to - from)
}

// TestPropertyForecastIsRead holds what is read of a forecast against the definition of
// each figure.
func TestPropertyForecastIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, rapid.SliceOfN(rapid.SampledFrom([]int{2, 6, 32}), 1, 20).Draw(t, "sizes"), func(i int) bool { return i%2 == 0 })
		list, uses := m.listing(), drawUses(t, m)
		var f forecast
		f.read(list, slices.Values(uses), turnOf)
		var working memory.Bytes
		order := []memory.ID{}
		for _, u := range uses {
			for _, s := range list {
				if overlap(s, u) > 0 && !slices.Contains(order, s.ID) {
					order = append(order, s.ID)
				}
			}
		}
		for _, s := range f.segments {
			var heat memory.Bytes
			for _, u := range uses {
				if u.In < turnOf {
					heat += overlap(s.Segment, u) * memory.Bytes(max(u.Times, 1))
				}
			}
			if heat != s.heat || s.soon != (heat > 0) || s.first != slices.Index(order, s.ID)+1 {
				t.Fatalf("segment %d: heat %s, soon %t, place %d; want %s, place %d of %v", s.ID, s.heat, s.soon, s.first, heat, slices.Index(order, s.ID)+1, order)
			}
			if heat > 0 {
				working += s.Bytes
			}
		}
		if have := f.working(); have != working {
			t.Fatalf("working set %s, want %s", have, working)
		}
	})
}

// TestPropertyExchangesEnd carries out what forecasts ask for, whatever they say: the
// target holds; what pays is done at once, and with the same forecast nothing pays
// afterwards; and as much less is touched in host memory as was worked out.
func TestPropertyExchangesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{8, 32, 32, 32}), 12, 30).Draw(t, "sizes")
		where := rapid.SliceOfN(rapid.Bool(), len(sizes), len(sizes)).Draw(t, "on the device")
		m := newModel(t, sizes, func(i int) bool { return where[i] })
		for id := memory.ID(1); int(id) <= len(sizes); id++ {
			if rapid.IntRange(0, 9).Draw(t, "pinned") == 0 {
				m.segments[id].Pin = memory.Asked
			}
			m.segments[id].Arena = rapid.IntRange(0, 9).Draw(t, "arena") == 0
		}
		uses, open := drawUses(t, m), rapid.Bool().Draw(t, "open")
		m.bound = memory.Bytes(rapid.SampledFrom([]int{0, 100, 200, 300, 500, 800}).Draw(t, "target")) * memory.MiB
		p, c := newPlanner(), carrier{world: m}
		touched := func() (b memory.Bytes) { // in host memory
			for _, s := range p.forecast.segments {
				if !m.segments[s.ID].State.OnDevice() {
					b += s.heat
				}
			}
			return b
		}
		for turn := 0; ; turn++ {
			p.list = append(p.list[:0], m.listing()...)
			p.forecast.read(p.list, slices.Values(uses), turnOf)
			p.forecast.order()
			x := p.forecast.pick(m.bound)
			before, resident := touched(), m.resident()
			pays := x.pays(open)
			if pays && turn > 1 {
				t.Fatalf("turn %d: still worth an exchange of %s for %s", turn, x.in, x.gain())
			}
			aim, err := p.make(m.bound, open)
			if err != nil {
				t.Fatal(err)
			}
			o := c.carry(&p.table, &p.plan, aim)
			m.good()
			if now := m.resident(); now > max(m.bound, pinnedOf(m)) {
				t.Fatalf("%s on the device of %s", now, m.bound)
			}
			if pays && resident <= m.bound && before-touched() < x.gain() {
				t.Fatalf("%s less is touched in host memory, worked out were %s; %s", before-touched(), x.gain(), o)
			}
			if o.In+o.Out == 0 || turn == 4 {
				break
			}
		}
	})
}

// TestWhatIsTouchedLaterIsNoReasonToStop has a process that runs touch memory that is not
// there in a while: it is not to be stopped for that before, but once it is not its turn.
func TestWhatIsTouchedLaterIsNoReasonToStop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, slices.Repeat([]int{32}, 16), func(i int) bool { return i < 8 })
		in := time.Duration(rapid.IntRange(0, 99).Draw(t, "ms")) * time.Millisecond
		var uses []Use
		for i, s := range m.listing() {
			u := Use{Address: s.Address, Bytes: s.Bytes, Times: 50}
			if i >= 4 { // half of what is there is needed on
				u.In, u.Times = in, 20
			}
			if i < 4 || i >= 8 && i < 12 {
				uses = append(uses, u)
			}
		}
		var f forecast
		f.read(m.listing(), slices.Values(uses), 100*time.Millisecond)
		f.order()
		x := f.pick(256 * memory.MiB)
		if x.in != 128*memory.MiB || x.out != x.in || !x.pays(false) {
			t.Fatalf("%+v", x)
		}
		if x.pays(true) != (in < atOnce) {
			t.Fatalf("touched in %v: %+v", in, x)
		}
	})
}

// TestRoundsAreNoReasonToExchange has a program go over more than it may have on the device,
// again and again, and begin its next round with what is not there: what it begins with is
// touched once more than the rest. Whatever there is room for, nothing goes for it: it would
// have to be brought back at the next turn, and a move that exchanges is given up whenever
// the target rises by a batch.
func TestRoundsAreNoReasonToExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, slices.Repeat([]int{32}, 16), func(i int) bool { return i >= 8 })
		rounds := uint32(rapid.IntRange(2, 50).Draw(t, "rounds"))
		var uses []Use
		for i, s := range m.listing() {
			u := Use{Address: s.Address, Bytes: s.Bytes, Times: rounds}
			if i < 8 {
				u.Times++
			}
			uses = append(uses, u)
		}
		p := newPlanner()
		p.list = append(p.list[:0], m.listing()...)
		p.forecast.read(p.list, slices.Values(uses), turnOf)
		target := memory.Bytes(rapid.IntRange(8, 16).Draw(t, "room")) * 32 * memory.MiB
		if _, err := p.make(target, false); err != nil {
			t.Fatal(err)
		}
		if len(p.plan.Out) > 0 {
			t.Fatalf("%d batches go: %+v", len(p.plan.Out), p.forecast.pick(target))
		}
	})
}

func pinnedOf(m *model) (b memory.Bytes) {
	for _, s := range m.segments {
		if s.Pin != memory.Movable && s.State.OnDevice() {
			b += s.Bytes
		}
	}
	return b
}

// TestFirstTouchedComesFirst has the order of a forecast decide in which order memory
// comes, and goes.
func TestFirstTouchedComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := make([]int, 16)
		for i := range sizes {
			sizes[i] = 128
		}
		m := newModel(t, sizes, func(int) bool { return false })
		list := slices.Clone(m.listing())
		order := rapid.Permutation(list).Draw(t, "order")
		uses := func(yield func(Use) bool) {
			for i, s := range order {
				if !yield(Use{Address: s.Address, Bytes: s.Bytes, In: time.Duration(i) * time.Millisecond}) {
					return
				}
			}
		}
		at := func(id memory.ID) int {
			return slices.IndexFunc(order, func(s memory.Segment) bool { return s.ID == id })
		}
		p := newPlanner()
		plan := func(target memory.Bytes) {
			p.list = append(p.list[:0], m.listing()...)
			p.forecast.read(p.list, iter.Seq[Use](uses), turnOf)
			if _, err := p.make(target, false); err != nil {
				t.Fatal(err)
			}
		}
		plan(memory.GiB)
		if len(p.plan.In) != len(sizes) { // those beyond the target too: it rises meanwhile
			t.Fatalf("%d batches come in", len(p.plan.In))
		}
		for i, b := range p.plan.In {
			if at(b.IDs[0]) != i {
				t.Fatalf("batch %d is number %d by use", i, at(b.IDs[0]))
			}
		}
		for _, s := range m.segments {
			s.State = memory.Device
		}
		plan(memory.GiB)
		for i, b := range p.plan.Out {
			if at(b.IDs[0]) != len(order)-1-i {
				t.Fatalf("batch %d that goes is number %d by use", i, at(b.IDs[0]))
			}
		}
	})
}
