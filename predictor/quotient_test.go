package predictor

import (
	"math/rand/v2"
	"testing"
)

// pooling is PyTorch's max_pool_forward_nchw: of how many images says only the number of
// outputs, and the sizes of one.
func pooling(images uint64) maker {
	return func(w *world, r *rand.Rand) made {
		n, c, h := images, 8*between(r, 4, 48), between(r, 17, 150)
		if n == 0 {
			n = between(r, 1, 32)
		}
		o := (h-3)/2 + 1
		outputs := n * c * o * o
		x, y, index := w.tensor(4*n*c*h*h), w.tensor(4*outputs), w.tensor(8*outputs)
		p := new(args).u32(outputs).u64(x, c, h, h).u32(o, o, 3, 3, 2, 2, 0, 0, 1, 1).u64(y, index)
		return made{
			Launch{Grid: dim(ceil(outputs, 256), 1, 1), Block: dim(256, 1, 1), Params: p.b},
			[]Touch{read(x, 4*n*c*h*h), write(y, 4*outputs), write(index, 8*outputs)},
		}
	}
}

var poolingParams = append(words(4), []Param{
	{8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 4}, {44, 4}, {48, 4}, {52, 4}, {56, 4}, {60, 4}, {64, 4}, {68, 4}, {72, 4}, {76, 4}, {80, 8}, {88, 8},
}...)

// TestQuotients: a value that only a division tells is one.
func TestQuotients(t *testing.T) {
	for _, c := range courses {
		w := newWorld(1, c.pooled)
		r := rand.New(rand.NewPCG(1, 1))
		m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "pooling"}, Params: poolingParams}, 1)
		train(t, m, w, r, pooling(0), 200, c.grain)
		s, basis := probe(m, w, r, pooling(0), 100)
		if fn, fp := s.Blocks.FalseNegative(), s.Blocks.FalsePositive(); fn > 0.25 || fp > 1 || basis[Verified] != 100 {
			t.Errorf("shown %v: %.3f %% of blocks missed, %.3f %% in vain, predictions rest on %v", c, fn, fp, basis)
		}
	}
}

// TestAnotherQuotient: where what the division tells was the same in all samples, a launch
// with another is beyond what was seen: nothing is missed, it is worth a look, and then
// it is known.
func TestAnotherQuotient(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		w := newWorld(1, pooled)
		r := rand.New(rand.NewPCG(1, 1))
		m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "pooling"}, Params: poolingParams}, 1)
		train(t, m, w, r, pooling(6), 100, Block)
		if s, _ := probe(m, w, r, pooling(6), 50); s.Blocks.FalseNegative() > 0.25 || s.Blocks.FalsePositive() > 1 {
			t.Errorf("as seen: %.3f %% missed, %.3f %% in vain", s.Blocks.FalseNegative(), s.Blocks.FalsePositive())
		}
		s, _ := probe(m, w, r, pooling(20), 50)
		if s.Blocks.FalseNegative() > 0.25 || s.Blocks.FalsePositive() > 50 {
			t.Errorf("more images: %.3f %% missed, %.3f %% in vain", s.Blocks.FalseNegative(), s.Blocks.FalsePositive())
		}
		if taken := train(t, m, w, r, pooling(24), 100, Block); taken == 0 {
			t.Error("a launch with more images was not worth a look")
		}
		if s, _ := probe(m, w, r, pooling(10), 50); s.Blocks.FalseNegative() > 0.25 || s.Blocks.FalsePositive() > 1 {
			t.Errorf("two numbers of images seen: %.3f %% missed, %.3f %% in vain", s.Blocks.FalseNegative(), s.Blocks.FalsePositive())
		}
	}
}

// TestQuotientsAreKept: they are read as they were written.
func TestQuotientsAreKept(t *testing.T) {
	for _, s := range []source{
		{kind: quotient, at: 8, over: divisors{1}}, {kind: quotient, at: 4092, over: divisors{1024, 3, 2}},
		{kind: each32, at: 12}, {kind: each64, at: 16},
	} {
		if !s.valid() {
			t.Errorf("%v is none", s)
		}
		if got, err := parseSource(s.String()); err != nil || got != s {
			t.Errorf("%v reads as %v, %v", s, got, err)
		}
		var w writer
		s.encode(&w)
		if got := decodeSource(&reader{b: w.b}); got != s {
			t.Errorf("%v was stored as %v", s, got)
		}
	}
	for _, text := range []string{"u32[0]/", "u64[0]/u32[4]", "u32[0]/u32[4]/u32[8]/u32[12]/u32[16]", "u32[0]/grid.x", "grid.x/u32[0]", "u32[0]/u32[3]", "u32[0]/u32[4096]"} {
		if s, err := parseSource(text); err == nil {
			t.Errorf("%q reads as %v", text, s)
		}
	}
}
