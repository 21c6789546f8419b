package predictor

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRangesAgainstList compares with the plain thing: a list that is searched.
func TestRangesAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Ranges
		var list []Range
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			base := rapid.Uint64Range(0, 300).Draw(t, "base")
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				n := len(list)
				list = slices.DeleteFunc(list, func(a Range) bool { return a.Base == base })
				if r.Remove(base) != (len(list) < n) {
					t.Fatalf("remove %d", base)
				}
				continue
			}
			a := Range{base, rapid.Uint64Range(0, 40).Draw(t, "bytes")}
			r.Add(a)
			if a.Bytes > 0 {
				list = slices.DeleteFunc(list, func(b Range) bool { return b.Base < a.End() && a.Base < b.End() })
				list = append(list, a)
			}
		}
		for x := range uint64(345) {
			i := slices.IndexFunc(list, func(a Range) bool { return a.holds(x) })
			got, ok := r.Find(x)
			if ok != (i >= 0) || ok && got != list[i] {
				t.Fatalf("find %d: %v %v in %v", x, got, ok, list)
			}
		}
		if r.Len() != len(list) {
			t.Fatalf("%d of %d", r.Len(), len(list))
		}
	})
}

func TestRangesRefuse(t *testing.T) {
	var r Ranges
	r.Add(Range{1 << 63, 1})
	r.Add(Range{1<<64 - 1, 5})
	r.Add(Range{7, 0})
	if r.Len() != 0 {
		t.Errorf("%d", r.Len())
	}
}

// draw gives some touches in a small space.
func draw(t *rapid.T, name string) []Touch {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Touch {
		return Touch{
			Base: rapid.Uint64Range(0, 200).Draw(t, "base"), Bytes: rapid.Uint64Range(0, 30).Draw(t, "bytes"),
			Stride: rapid.Uint64Range(0, 40).Draw(t, "stride"), Count: uint32(rapid.IntRange(0, 4).Draw(t, "count")),
			Access: Access(rapid.IntRange(1, 3).Draw(t, "access")),
		}
	}), 0, 6).Draw(t, name)
}

// cells is what touches cover, the plain way: each grain with its access.
func cells(touches []Touch, grain uint64) map[uint64]Access {
	m := make(map[uint64]Access)
	for _, x := range touches {
		for k := range max(uint64(x.Count), 1) {
			for b := x.Base + k*x.Stride; b < x.Base+k*x.Stride+x.Bytes; b++ {
				m[b/grain] |= x.Access
			}
		}
	}
	return m
}

func TestSpansAgainstCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grain := rapid.SampledFrom([]uint64{1, 4, 16}).Draw(t, "grain")
		a, b := draw(t, "a"), draw(t, "b")
		want := cells(a, grain)
		spans, _ := appendSpans(nil, a, grain)
		got := make(map[uint64]Access)
		for _, s := range disjoint(spans) {
			for x := s.base / grain; x < s.end/grain; x++ {
				if got[x] != 0 {
					t.Fatalf("%d is there twice", x)
				}
				got[x] = s.access
			}
		}
		for x := range uint64(400) {
			if got[x] != want[x] {
				t.Fatalf("cell %d: %v, not %v, of %v", x, got[x], want[x], a)
			}
		}
		both := 0
		other := cells(b, grain)
		for x := range want {
			if other[x] != 0 {
				both++
			}
		}
		x, ok := tally(a, b, grain, nil)
		if !ok || x.Predicted != uint64(len(want))*grain || x.Touched != uint64(len(other))*grain || x.Both != uint64(both)*grain {
			t.Fatalf("%+v, not %d, %d, %d cells", x, len(want), len(other), both)
		}
	})
}

func TestScore(t *testing.T) {
	s, ok := Compare([]Touch{read(0, 3*Block), read(10*Block, 1)}, []Touch{read(Block, 3*Block)})
	want := Score{Launches: 1, Missed: 1, Vain: 1, Blocks: Tally{3, 4, 2}, Bytes: Tally{3 * Block, 3*Block + 1, 2 * Block}}
	if !ok || s != want {
		t.Errorf("%+v", s)
	}
	s.Add(Score{Launches: 1})
	if s.FalseNegative() != 50 || s.Blocks.FalsePositive() != 50 || (Tally{}).FalseNegative() != 0 {
		t.Errorf("%v %v", s.FalseNegative(), s.Blocks.FalsePositive())
	}
	s, _ = CompareBlocks([]Touch{read(0, 9*Block)}, []Touch{read(Block, 1)}, []Range{{Block, 2 * Block}})
	if s.Blocks != (Tally{1, 2, 1}) {
		t.Errorf("what was not watched counts: %+v", s)
	}
	if _, ok := Compare([]Touch{{Base: 0, Bytes: 1, Stride: 10, Count: 1 << 30}}, nil); ok {
		t.Error("a billion stretches are compared")
	}
}
