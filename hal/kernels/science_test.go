package kernels

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sequence fills words with what no two of them share.
func sequence(m flat, from, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i*2654435761 + 12345)
		put(m.data, uint64(from+i), out[i])
	}
	return out
}

func TestStencilIsTheNeighbours(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, columns := rapid.IntRange(0, 7).Draw(rt, "rows"), rapid.IntRange(0, 7).Draw(rt, "columns")
		const base, apart = 0x4000, 64
		m := flat{base, make([]byte, 8*apart)}
		in := sequence(m, apart, rows*columns)
		if err := run(t, "xm_stencil", m, 1, 8, uint64(base), uint64(base+4*apart), uint32(rows), uint32(columns)); err != nil {
			rt.Fatal(err)
		}
		got := func(r, c int) uint32 {
			if r < 0 || c < 0 || r >= rows || c >= columns {
				return 0
			}
			return in[r*columns+c]
		}
		for r := range rows {
			for c := range columns {
				want := 4*got(r, c) + got(r-1, c) + got(r+1, c) + got(r, c-1) + got(r, c+1)
				if have := at(m.data, uint64(r*columns+c)); have != want {
					rt.Fatalf("%d x %d: word %d, %d is %d, want %d", rows, columns, r, c, have, want)
				}
			}
		}
	})
}

func TestMatmulIsTheSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 6)
		rows, columns, depth := size.Draw(rt, "m"), size.Draw(rt, "n"), size.Draw(rt, "k")
		const base, apart = 0x4000, 64
		m := flat{base, make([]byte, 12*apart)}
		a, b := sequence(m, apart, rows*depth), sequence(m, 2*apart, depth*columns)
		if err := run(t, "xm_matmul", m, 1, 8, uint64(base), uint64(base+4*apart), uint64(base+8*apart), uint32(rows), uint32(columns), uint32(depth)); err != nil {
			rt.Fatal(err)
		}
		for i := range rows {
			for j := range columns {
				var want uint32
				for k := range depth {
					want += a[i*depth+k] * b[k*columns+j]
				}
				if have := at(m.data, uint64(i*columns+j)); have != want {
					rt.Fatalf("word %d, %d is %d, want %d", i, j, have, want)
				}
			}
		}
	})
}

func TestSparseIsTheDenseProduct(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const base, apart, columns = 0x4000, 64, 9
		m := flat{base, make([]byte, 20*apart)}
		starts, entries := []uint32{0}, 0
		for range rapid.IntRange(0, 8).Draw(rt, "rows") {
			entries += rapid.IntRange(0, 5).Draw(rt, "entries")
			starts = append(starts, uint32(entries))
		}
		x, values := sequence(m, 4*apart, columns), sequence(m, 3*apart, entries)
		want := make([]uint32, len(starts)-1)
		for r := range want {
			put(m.data, uint64(apart+r), starts[r])
			for e := starts[r]; e < starts[r+1]; e++ {
				c := rapid.Uint32Range(0, columns-1).Draw(rt, "column")
				put(m.data, uint64(2*apart)+uint64(e), c)
				want[r] += values[e] * x[c]
			}
		}
		put(m.data, uint64(apart+len(want)), uint32(entries))
		at := func(i int) uint64 { return uint64(base + 4*apart*i) }
		if err := run(t, "xm_sparse", m, 1, 8, at(0), at(1), at(2), at(3), at(4), uint32(len(want)), uint32(entries), uint32(columns)); err != nil {
			rt.Fatal(err)
		}
		if got := words(m.data)[:len(want)]; !slices.Equal(got, want) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestGatherFollowsTheIndex(t *testing.T) {
	const base, n, size = 0x4000, 20, 7
	m := flat{base, make([]byte, 4*64*3)}
	index, table := sequence(m, 64, n), sequence(m, 128, size)
	if err := run(t, "xm_gather", m, 1, 8, uint64(base), uint64(base+256), uint64(base+512), uint32(n), uint32(size)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got, want := at(m.data, uint64(i)), table[index[i]%size]; got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
}

func TestWaveletLeavesWhatLiesBetweenRows(t *testing.T) {
	const base, pitch, rows, pairs = 0x4000, 11, 4, 3
	m := flat{base, make([]byte, 4*pitch*rows)}
	before := sequence(m, 0, pitch*rows)
	if err := run(t, "xm_wavelet", m, 2, 8, uint64(base), uint64(pitch), uint32(rows), uint32(pairs)); err != nil {
		t.Fatal(err)
	}
	for i, got := range words(m.data) {
		want := before[i]
		if column := i % pitch; column < 2*pairs {
			first := i - column%2
			want = before[first] + before[first+1]
			if column%2 == 1 {
				want = before[first] - before[first+1]
			}
		}
		if got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
}

func TestHistogramCountsEveryWord(t *testing.T) {
	const base, n = 0x4000, 500
	m := flat{base, make([]byte, 4*(HistogramBins+n))}
	want := make([]uint32, HistogramBins)
	for _, v := range sequence(m, HistogramBins, n) {
		want[v%HistogramBins]++
	}
	if err := run(t, "xm_histogram", m, 1, 8, uint64(base), uint64(base+4*HistogramBins), uint64(n)); err != nil {
		t.Fatal(err)
	}
	if got := words(m.data)[:HistogramBins]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBatchedAddsWithinItsBatches(t *testing.T) {
	const base, n, batches, stride = 0x4000, 3, 4, 5
	m := flat{base, make([]byte, 2*4*batches*stride)}
	y, x := sequence(m, 0, batches*stride), sequence(m, batches*stride, batches*stride)
	if err := run(t, "xm_batched", m, 1, 8, uint64(base), uint64(base+4*batches*stride), uint32(n), uint32(batches), uint64(stride)); err != nil {
		t.Fatal(err)
	}
	for i := range y {
		want := y[i]
		if i%stride < n {
			want += x[i]
		}
		if got := at(m.data, uint64(i)); got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
}

func TestEitherGoesByItsMode(t *testing.T) {
	const base = 0x4000
	m := flat{base, make([]byte, 4*8)}
	if err := run(t, "xm_either", m, 1, 3, uint64(base), uint32(0), uint32(8)); err != nil {
		t.Fatal(err)
	}
	if got := words(m.data); !slices.Equal(got, []uint32{1, 1, 1, 0, 0, 0, 0, 0}) {
		t.Errorf("mode 0: %v", got)
	}
	if err := run(t, "xm_either", m, 1, 3, uint64(base), uint32(9), uint32(5)); err != nil {
		t.Fatal(err)
	}
	if got := words(m.data); !slices.Equal(got, []uint32{9, 9, 9, 9, 9, 0, 0, 0}) {
		t.Errorf("mode 9: %v", got)
	}
}

func TestSciencePTXDeclaresTheTable(t *testing.T) {
	declares(t, string(SciencePTX()), ".target sm_70\n", Science())
}
