package predictor

import (
	"math/rand/v2"
	"testing"
)

// Kernels of libraries take arrays of pointers in a struct, as many as they have room
// for, and are told how many there are. What the others hold is left from before: often
// a pointer to something else.

const catenatedRoom = 24 // parts at most

var catenatedParams = []Param{{0, 8}, {8, 8*catenatedRoom + 2*4*catenatedRoom}, {8 + 16*catenatedRoom, 8}}

// catenated makes launches that put from 2 to most parts behind one another, row by row:
// the stack of the program that launches them keeps what an earlier launch left.
func catenated(most uint64) maker {
	var stale [catenatedRoom]uint64
	return func(w *world, r *rand.Rand) made {
		parts, height := between(r, 2, most), between(r, 100, 1<<12)
		for i := range stale {
			if r.IntN(4) > 0 {
				stale[i] = r.Uint64()
			}
		}
		var offset, size [catenatedRoom]uint64
		for i := range offset {
			offset[i], size[i] = r.Uint64N(1<<32), r.Uint64N(1<<32) // whatever
		}
		width := uint64(0)
		var touched []Touch
		for i := range parts {
			columns := between(r, 16, 1<<10)
			stale[i] = w.tensor(4 * height * columns)
			offset[i], size[i] = width, height*columns
			width += columns
			touched = append(touched, read(stale[i], 4*height*columns))
		}
		out := w.tensor(4 * height * width)
		p := new(args).u64(out).u64(stale[:]...).u32(offset[:]...).u32(size[:]...).u32(height, width)
		return made{
			Launch{Grid: dim(4224, parts, 1), Block: dim(128, 1, 1), Params: p.b},
			append(touched, write(out, 4*height*width)),
		}
	}
}

// TestArraysOfPointers: the elements are of one template, also those that no launch had
// before, and what is beyond the number of them is none.
func TestArraysOfPointers(t *testing.T) {
	for _, c := range courses {
		var sum Score
		for seed := range uint64(seeds) {
			w := newWorld(seed, c.pooled)
			r := rand.New(rand.NewPCG(seed, 1))
			m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "catenated"}, Params: catenatedParams}, 1)
			train(t, m, w, r, catenated(6), 100, c.grain)
			s, basis := probe(m, w, r, catenated(catenatedRoom), 100)
			if basis[Verified] != 100 {
				t.Errorf("shown %v, seed %d: predictions rest on %v", c, seed, basis)
			}
			sum.Add(s)
		}
		if fn, fp := sum.Blocks.FalseNegative(), sum.Blocks.FalsePositive(); fn > 0.25 || fp > 1 {
			t.Errorf("shown %v: %.3f %% of blocks missed, %.3f %% in vain", c, fn, fp)
		}
	}
}

// TestArraysAreKept: a store and the readable form say the same of an array.
func TestArraysAreKept(t *testing.T) {
	w := newWorld(1, true)
	r := rand.New(rand.NewPCG(1, 1))
	l := NewLibrary(Config{})
	k := Kernel{Key: Key{Name: "catenated"}, Params: catenatedParams}
	train(t, l.Kernel(k, 1), w, r, catenated(6), 100, Block)
	read, err := Decode(l.Encode(0), Config{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Export()
	if err != nil {
		t.Fatal(err)
	}
	imported, err := Import(text, Config{})
	if err != nil {
		t.Fatal(err)
	}
	arrays := 0
	for _, v := range l.Kernel(k, 1).Describe().Variants {
		for _, p := range v.Pointers {
			if p.Live != "" {
				arrays++
				if p.Live != "grid.y" || p.At != 8 {
					t.Errorf("an array at %d is as long as %s says", p.At, p.Live)
				}
			}
		}
	}
	if arrays != 1 {
		t.Errorf("%d arrays", arrays)
	}
	mk := catenated(catenatedRoom)
	for range 20 {
		a := mk(w, r)
		want, _ := l.Kernel(k, 1).AppendTouches(nil, &a.launch, &w.ranges)
		for what, other := range map[string]*Library{"store": read, "readable form": imported} {
			got, _ := other.Kernel(k, 1).AppendTouches(nil, &a.launch, &w.ranges)
			s, ok := Compare(got, want)
			if !ok || s.Missed > 0 || s.Vain > 0 {
				t.Errorf("of the %s: %+v", what, s)
			}
		}
	}
}

// TestNoArrays: a struct of pointers with a flag that may be taken for their number.
func TestNoArrays(t *testing.T) {
	flagged := func(w *world, r *rand.Rand) made {
		flag, n, k := between(r, 2, 3), log2ish(r, 1<<16, 1<<24), log2ish(r, 1<<16, 1<<24)
		a, b, c := w.tensor(4*n), w.tensor(8*k), w.tensor(4*n)
		p := new(args).u64(a, b, c).u32(flag, n, k)
		touched := []Touch{read(a, 4*n), read(b, 8*k), write(c, 4*n)}
		return made{Launch{Grid: dim(132, 1, 1), Block: dim(128, 1, 1), Params: p.b}, touched}
	}
	w := newWorld(1, true)
	r := rand.New(rand.NewPCG(1, 1))
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "flagged"}, Params: []Param{{0, 24}, {24, 4}, {28, 4}, {32, 4}}}, 1)
	train(t, m, w, r, flagged, 100, Block)
	if s, _ := probe(m, w, r, flagged, 100); s.Blocks.FalseNegative() > 0.25 || s.Blocks.FalsePositive() > 1 {
		t.Errorf("%.3f %% of blocks missed, %.3f %% in vain", s.Blocks.FalseNegative(), s.Blocks.FalsePositive())
	}
}

// TestStaleWordsAreNotFollowed: a word of a struct that is not filled has what the stack was
// left with, an address of something that is no allocation; where it is one of an allocation
// by chance, that is not foretold.
func TestStaleWordsAreNotFollowed(t *testing.T) {
	stale := func(w *world, r *rand.Rand) uint64 { return 0x7fd5_0000_0001 + r.Uint64N(1<<32) }
	launch := func(w *world, r *rand.Rand) made {
		n := log2ish(r, 1<<16, 1<<22)
		a, b := w.tensor(4*n), w.tensor(4*n)
		p := new(args).u64(a, b, stale(w, r)).u32(n, n)
		return made{Launch{Grid: dim(132, 1, 1), Block: dim(128, 1, 1), Params: p.b}, []Touch{read(a, 4*n), write(b, 4*n)}}
	}
	for _, led := range []bool{false, true} {
		w := newWorld(1, true)
		r := rand.New(rand.NewPCG(1, 1))
		m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "stale"}, Params: []Param{{0, 24}, {24, 4}, {28, 4}}}, 1)
		train(t, m, w, r, launch, 30, Block)
		if led {
			stale = func(w *world, r *rand.Rand) uint64 { return w.tensor(20<<20) + 1 }
		}
		s, _ := probe(m, w, r, launch, 50)
		if s.Blocks.FalseNegative() > 0 || s.Blocks.FalsePositive() > 0 {
			t.Errorf("led somewhere %t: %.3f %% of blocks missed, %.3f %% in vain", led, s.Blocks.FalseNegative(), s.Blocks.FalsePositive())
		}
	}
}
