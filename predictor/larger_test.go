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

// averaging is a launch over all elements of an output that is as large as its input.
func averaging(batch, c, h, x, y uint64) made {
	n := batch * c * h * h
	p := new(args).u32(n).align(8).u64(x, c, h, h, h, h).u32(3, 3, 1, 1, 1, 1).u64(y)
	return made{
		Launch{Grid: dim(ceil(n, 1024), 1, 1), Block: dim(1024, 1, 1), Params: p.b},
		[]Touch{read(x, 4*n), write(y, 4*n)},
	}
}

// TestAStretchOfAFewBlocksIsNotTakenForConstant: eight launches of Inception-v3's average
// pooling, of one batch, as an H200 had them, are of two or three blocks each, which a
// constant explains. A larger one may touch more, and one that is much larger is looked at.
func TestAStretchOfAFewBlocksIsNotTakenForConstant(t *testing.T) {
	w := newWorld(1, true)
	a, b, large := w.allocate(20<<20).Base, w.allocate(18<<20).Base, w.allocate(200<<20).Base
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "averaging"}}, 1)
	for _, l := range []made{
		averaging(3, 192, 35, a+0xc61e00, a+0xf13000), averaging(3, 256, 35, b, b+0x396c00),
		averaging(3, 288, 35, b+0x396c00, a+0xdba800), averaging(3, 768, 17, b, a+0xc61e00),
		averaging(3, 768, 17, a+0xc61e00, a+0xeec200), averaging(3, 768, 17, a+0xc61e00, a+0xeec200),
		averaging(3, 288, 35, b+0x396c00, a+0xdba800), averaging(3, 288, 35, b+0x396c00, a+0xdba800),
	} {
		m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
	}
	for _, l := range []made{averaging(5, 288, 35, large, large+(50<<20)), averaging(12, 192, 35, large, large+(50<<20))} {
		predicted, basis := m.AppendTouches(nil, &l.launch, &w.ranges)
		if s, _ := CompareBlocks(predicted, blocks(l.touched), nil); s.Blocks.Missed() > 0 {
			t.Errorf("%v: %d of %d blocks missed", basis, s.Blocks.Missed(), s.Blocks.Touched)
		}
	}
	l := averaging(12, 192, 35, large, large+(50<<20))
	if !m.Worth(&l.launch, &w.ranges) {
		t.Error("a launch that is four times as large is not looked at")
	}
}

// TestLargerByAnyPointer: a launch is larger where a pointer that is known well reaches
// farther, for those of which nothing is known are not told to. Arrays in DenseNet-201 were
// seen with elements of a part of a block only, as no launch had more threads.
func TestLargerByAnyPointer(t *testing.T) {
	words := reach{by: [maxFactors]uint8{0, one, one}, num: 4, factor: 4}
	v := &variant{threads: 1, slots: []slot{{}, {vague: true}}, reaching: &reaching{
		values: []source{{kind: word32}}, magnitude: []uint8{0}, slots: []slotReach{{list: []reach{words}, most: 4000}, {}},
	}}
	for n, want := range map[uint64]bool{1000: false, 2900: false, 3100: true} {
		l := &Launch{Grid: dim(1, 1, 1), Block: dim(1, 1, 1), Params: new(args).u32(n).b}
		if got := v.larger(l); got != want {
			t.Errorf("%d words where there were 1000: larger is %v", n, got)
		}
	}
}

// libraryConvolution takes a struct with its sizes, and what a library works out of them, in so many bytes.
func libraryConvolution(bytes int) maker {
	return func(w *world, r *rand.Rand) made {
		n, c, k, h := between(r, 1, 12), 32*between(r, 1, 32), 32*between(r, 1, 32), between(r, 7, 28)
		s := []uint64{1, 1, 3}[r.IntN(3)]
		x, f, y := w.tensor(4*n*c*h*h), w.tensor(4*k*c*s*s), w.tensor(4*n*k*h*h)
		p := new(args).u64(x, f, y).u32(n, c, h, h, k, s, s, h, h, n*h*h, c*s*s, h*h, c*h*h, k*h*h, ceil(n*h*h, 128), ceil(k, 128), c/32)
		p.b = append(p.b, make([]byte, max(0, bytes-len(p.b)))...)
		return made{
			Launch{Grid: dim(ceil(n*h*h, 128), ceil(k, 128), 1), Block: dim(384, 1, 1), Params: p.b},
			[]Touch{read(x, 4*n*c*h*h), read(f, 4*k*c*s*s), write(y, 4*n*k*h*h)},
		}
	}
}

// TestEntangledLaunchesAreWorthALook: of a kernel with many words more launches are looked at,
// where templates disagree about them, and fewer blocks are wrong then.
func TestEntangledLaunchesAreWorthALook(t *testing.T) {
	looks, wrong := map[int]uint32{}, map[int]uint64{}
	for _, bytes := range []int{0, manyWords} {
		for seed := range uint64(6) {
			w := newWorld(seed, true)
			r := rand.New(rand.NewPCG(seed, 1))
			m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "convolution"}}, 1)
			train(t, m, w, r, libraryConvolution(bytes), 200, Block)
			s, _ := probe(m, w, r, libraryConvolution(bytes), 100)
			looks[bytes], wrong[bytes] = looks[bytes]+m.Stats().Observations, wrong[bytes]+s.Blocks.Missed()+s.Blocks.Vain()
			if n := m.Stats().Observations; n > mostObservations {
				t.Errorf("%d bytes, seed %d: %d observations", bytes, seed, n)
			}
		}
	}
	if looks[manyWords] <= looks[0] || wrong[manyWords] > wrong[0]/2 {
		t.Errorf("%d blocks are wrong after %d looks, %d after %d where there are few words", wrong[manyWords], looks[manyWords], wrong[0], looks[0])
	}
}
