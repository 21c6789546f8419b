package predictor

import (
	"testing"

	"pgregory.net/rapid"
)

// scatter is a launch that reads some of a table by indices in memory: as much as its
// argument says at most, and now and then only the beginning.
func scatter(table, size, touched uint64) made {
	p := new(args).u64(table).u32(size, 7)
	return made{Launch{Grid: dim(64, 1, 1), Block: dim(128, 1, 1), Params: p.b}, []Touch{read(table, touched)}}
}

var scatterKernel = Kernel{Key: Key{Name: "scatter"}, Params: words(8, 4, 4)}

// TestBoundsPassNoSample: whatever part of the table launches read, a template of what
// they read at most covers all that was seen, and is not longer than the table's part.
func TestBoundsPassNoSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(1, false)
		table := w.allocate(512 << 20).Base
		m := NewLibrary(Config{}).Kernel(scatterKernel, 1)
		var seen []made
		for range rapid.IntRange(4, 8).Draw(t, "launches") {
			size := rapid.Uint64Range(1<<20, 100<<20).Draw(t, "size")
			touched := 4 * size
			if rapid.IntRange(0, 5).Draw(t, "few") == 0 {
				touched = rapid.Uint64Range(1, 4*size).Draw(t, "touched")
			}
			l := scatter(table, size, touched)
			seen = append(seen, l)
			m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
		}
		for _, v := range leavesOf(m) {
			if !v.anyMost() {
				continue
			}
			for _, l := range seen {
				predicted, _ := v.appendTouches(nil, &l.launch, pointersOf(m, &l.launch, &w.ranges), Verified)
				if s, ok := CompareBlocks(predicted, blocks(l.touched), nil); !ok || s.Missed > 0 {
					t.Fatalf("%v misses of %v: %v", &v.slots[0].in, l.touched, predicted)
				}
			}
		}
	})
}

func leavesOf(m *Model) (list []*variant) {
	m.root.leaves(func(v *variant) { list = append(list, v) })
	return list
}

func pointersOf(m *Model, l *Launch, r *Ranges) []pointer { return l.appendPointers(nil, r, &m.not) }

// TestBoundIsKept: a template of what is touched at most is one after a store too, and
// after its readable form; and it is looked at no longer than others.
func TestBoundIsKept(t *testing.T) {
	w := newWorld(1, false)
	table := w.allocate(512 << 20).Base
	library := NewLibrary(Config{})
	m := library.Kernel(scatterKernel, 1)
	looks := 0
	for i, mib := range []uint64{20, 90, 45, 70, 33, 61, 25, 88, 52, 40} {
		size, touched := mib<<18, mib<<20
		if i == 1 || i == 5 {
			touched = 1 << 20
		}
		l := scatter(table, size, touched)
		if m.Worth(&l.launch, &w.ranges) {
			looks++
			m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
		}
	}
	if looks > MaxObservations {
		t.Errorf("%d looks", looks)
	}
	stored, err := Decode(library.Encode(0), Config{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := library.Export()
	if err != nil {
		t.Fatal(err)
	}
	imported, err := Import(text, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*Library{"learnt": library, "stored": stored, "imported": imported} {
		v := l.Kernel(scatterKernel, 1).Describe().Variants
		if len(v) != 1 || len(v[0].Pointers) != 1 || v[0].Pointers[0].Shape != "bound" || v[0].Pointers[0].Bytes != "4*u32[8]" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
