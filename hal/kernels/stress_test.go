package kernels

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func words(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

func TestChurnIsItsRounds(t *testing.T) {
	const base, n, rounds = 0x10000, 100, 57
	m := flat{base, make([]byte, 4*n)}
	for i := range n {
		binary.LittleEndian.PutUint32(m.data[4*i:], uint32(i*i))
	}
	if err := run(t, "xm_churn", m, 3, 16, uint64(base), uint32(n), uint32(rounds)); err != nil {
		t.Fatal(err)
	}
	for i, got := range words(m.data) {
		want := uint32(i * i)
		for range rounds {
			want = want*lcgMul + lcgAdd
		}
		if got != want || RoundResult(uint32(i*i), rounds) != want {
			t.Fatalf("word %d is %#x, want %#x", i, got, want)
		}
	}
}

func TestAtomicsCountEveryThreadAndRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.Uint64Range(0, 300).Draw(t, "threads")
		n := rapid.Uint32Range(1, 64).Draw(t, "words")
		rounds := rapid.Uint32Range(0, 200).Draw(t, "rounds")
		want := make([]uint32, n)
		for i := range threads {
			for r := range rounds {
				want[(uint32(i%uint64(n))+r)%n]++
			}
		}
		if got := AtomicsResult(threads, n, rounds); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestRingIsItsRounds walks the rounds one by one, as the threads do.
func TestRingIsItsRounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		blocks := rapid.IntRange(1, 5).Draw(rt, "blocks")
		block := rapid.IntRange(1, 8).Draw(rt, "block")
		rounds := rapid.Uint32Range(0, 40).Draw(rt, "rounds")
		n := blocks * block
		const base = 0x1000
		m := flat{base, make([]byte, 8*n+4)}
		buffers := [2][]uint32{make([]uint32, n), make([]uint32, n)}
		for i := range n {
			v := rapid.Uint32().Draw(rt, "word")
			binary.LittleEndian.PutUint32(m.data[4*i:], v)
			buffers[0][i] = v
		}
		from := 0
		for range rounds {
			for i := range n {
				buffers[1-from][i] = buffers[from][(i+block)%n] + 1
			}
			from = 1 - from
		}
		if err := run(t, "xm_ring", m, uint32(blocks), uint32(block), uint64(base), uint64(base+4*n), uint64(base+8*n), rounds); err != nil {
			rt.Fatal(err)
		}
		got := words(m.data)
		if !slices.Equal(got[:n], buffers[0]) || !slices.Equal(got[n:2*n], buffers[1]) || got[2*n] != rounds*uint32(blocks) {
			rt.Fatalf("a %v, b %v, barrier %d; want %v, %v, %d", got[:n], got[n:2*n], got[2*n], buffers[0], buffers[1], rounds*uint32(blocks))
		}
	})
}

func TestClusterIsItsRounds(t *testing.T) {
	const block, blocks = 3, 2 * ClusterBlocks
	cells := make([]uint32, block*blocks)
	for i := range cells {
		cells[i] = uint32(i)
	}
	for rounds := range uint32(11) {
		for i, want := range cells {
			if got := ClusterResult(i, block, rounds); got != want {
				t.Fatalf("after %d rounds thread %d has %d, want %d", rounds, i, got, want)
			}
		}
		next := make([]uint32, len(cells))
		for i := range cells {
			b := i / block
			next[i] = cells[(b/ClusterBlocks*ClusterBlocks+(b+1)%ClusterBlocks)*block+i%block] + 1
		}
		cells = next
	}
}

func TestStressRefusesUnmappedAddresses(t *testing.T) {
	m := flat{0x1000, make([]byte, 64)}
	for name, values := range map[string][]any{
		"xm_churn":   {uint64(0x1000), uint32(17), uint32(1)},
		"xm_atomics": {uint64(0x1004), uint32(16), uint32(16)},
		"xm_ring":    {uint64(0x1000), uint64(0x1010), uint64(0x1040), uint32(1)},
	} {
		if run(t, name, m, 1, 4, values...) == nil {
			t.Errorf("%s ran outside its memory", name)
		}
	}
}

func TestStressPTXDeclaresTheTable(t *testing.T) {
	declares(t, string(StressPTX()), ".target sm_70\n", Stress())
	if text := string(ClusterPTX()); !strings.Contains(text, ".target sm_90\n") || !strings.Contains(text, ".entry xm_cluster(") {
		t.Error("the third module is not xm_cluster for sm_90")
	}
	seen := map[string]bool{}
	for _, k := range Every() {
		if seen[k.Name] {
			t.Errorf("two kernels are called %s", k.Name)
		}
		seen[k.Name] = true
		if got, ok := ByName(k.Name); !ok || got.Name != k.Name {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
}
