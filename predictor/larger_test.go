package predictor

import (
	"math/rand/v2"
	"testing"
)

// persistent is a kernel with as many threads as the device runs at once, whatever the sizes
// are. What is behind its output is a pointer, too, and is not touched.
func persistent(most uint64) maker {
	return func(w *world, r *rand.Rand) made {
		n, k, h := between(r, 4, 24), 32*between(r, 1, 4), between(r, most/2, most)
		x, y := w.tensor(4*n*h*h*k), w.tensor(4*n*h*h*k+512)
		p := new(args).u64(x, y, y+4*n*h*h*k).u32(n, k, h, h, h*h*k)
		return made{
			Launch{Grid: dim(132, 1, 1), Block: dim(384, 1, 1), Params: p.b},
			[]Touch{read(x, 4*n*h*h*k), write(y, 4*n*h*h*k)},
		}
	}
}

// TestLargerLaunchesAreWorthALook: eight small launches, which touch a block or two, say next
// to nothing; what is larger than all of them is looked at again, and then known.
func TestLargerLaunchesAreWorthALook(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(seed, true)
		r := rand.New(rand.NewPCG(seed, 1))
		m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "persistent"}}, 1)
		train(t, m, w, r, persistent(20), 200, Block)
		train(t, m, w, r, persistent(100), 200, Block)
		s, _ := probe(m, w, r, persistent(100), 100)
		if fn, fp := s.Blocks.FalseNegative(), s.Blocks.FalsePositive(); fn > 0.25 || fp > 1 {
			t.Errorf("seed %d: %.3f %% of blocks missed, %.3f %% in vain", seed, fn, fp)
		}
		if n := m.Stats().Observations; n > mostObservations {
			t.Errorf("seed %d: %d observations", seed, n)
		}
	}
}
