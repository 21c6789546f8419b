package predictor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// made is a launch and what it touches, exactly.
type made struct {
	launch  Launch
	touched []Touch
}

// maker makes launches of one kernel, of random shapes.
type maker func(w *world, r *rand.Rand) made

func between(r *rand.Rand, lo, hi uint64) uint64 { return lo + r.Uint64N(hi-lo+1) }

// log2ish is a number of any magnitude from lo to hi.
func log2ish(r *rand.Rand, lo, hi uint64) uint64 {
	for {
		if v := between(r, 1, hi) >> r.IntN(20); v >= lo {
			return v
		}
	}
}

// elementwise is PyTorch's vectorized_elementwise_kernel: N, a functor, and an
// array of pointers.
func elementwise(w *world, r *rand.Rand) made {
	n := log2ish(r, 1<<8, 1<<26)
	out, a, b := w.tensor(4*n), w.tensor(4*n), w.tensor(4*n)
	p := new(args).u32(n).u32(0x3f800000).u64(out, a, b)
	return made{
		Launch{Grid: dim(ceil(n, 512), 1, 1), Block: dim(128, 1, 1), Params: p.b},
		[]Touch{{Base: out, Bytes: 4 * n, Access: Write}, {Base: a, Bytes: 4 * n, Access: Read}, {Base: b, Bytes: 4 * n, Access: Read}},
	}
}

// gemm is C = A*B of halves, its sizes in a struct.
func gemm(w *world, r *rand.Rand) made {
	m, n, k := 8*between(r, 1, 1024), 128*between(r, 1, 100), 64*between(r, 1, 128)
	a, b, c := w.tensor(2*m*k), w.tensor(2*k*n), w.tensor(2*m*n)
	p := new(args).u32(m, n, k, k, n, n, 0x3f800000, 0).u64(a, b, c, c).u32(1, 1, 64, 3).u64(0, 0, 0)
	return made{
		Launch{Grid: dim(ceil(m, 128), ceil(n, 128), 1), Block: dim(256, 1, 1), Shared: 49152, Params: p.b},
		[]Touch{{Base: a, Bytes: 2 * m * k, Access: Read}, {Base: b, Bytes: 2 * k * n, Access: Read}, {Base: c, Bytes: 2 * m * n, Access: Write}},
	}
}

// gridOnly has its size in the grid alone.
func gridOnly(w *world, r *rand.Rand) made {
	blocks := log2ish(r, 1, 1<<18)
	a := w.tensor(4 * 256 * blocks)
	return made{
		Launch{Grid: dim(blocks, 1, 1), Block: dim(256, 1, 1), Params: new(args).u64(a).b},
		[]Touch{{Base: a, Bytes: 4 * 256 * blocks, Access: Write}},
	}
}

// train lets a model learn from a maker's launches as an agent would.
func train(t *testing.T, m *Model, w *world, r *rand.Rand, make maker, launches int, grain uint64) int {
	t.Helper()
	taken := 0
	for range launches {
		l := make(w, r)
		m.AppendTouches(nil, &l.launch, &w.ranges)
		if !m.Worth(&l.launch, &w.ranges) {
			continue
		}
		taken++
		seen := l.touched
		if grain == Block {
			seen = blocks(seen)
		}
		m.Observe(&l.launch, &w.ranges, &Observation{Touched: seen, Grain: grain})
	}
	return taken
}

func probe(m *Model, w *world, r *rand.Rand, make maker, launches int) (Score, [Verified + 1]int) {
	var sum Score
	var basis [Verified + 1]int
	for range launches {
		l := make(w, r)
		p, b := m.AppendTouches(nil, &l.launch, &w.ranges)
		basis[b]++
		s, _ := Compare(p, l.touched)
		sum.Add(s)
	}
	return sum, basis
}

// course is how a kernel is learnt in a test.
type course struct {
	grain  uint64
	pooled bool
}

func (c course) String() string {
	where, how := "own allocations", "blocks"
	if c.pooled {
		where = "a pool"
	}
	if c.grain == 1 {
		how = "bytes"
	}
	return fmt.Sprintf("%s of %s", how, where)
}

var courses = []course{{Block, false}, {Block, true}, {1, false}, {1, true}}

// seeds is how many streams of launches a kernel is learnt from, each anew.
const seeds = 2

// TestLearnsTemplates teaches each kernel by a few of its launches, and predicts
// others of other shapes: what the project promises of kernels that templates can
// describe is at most 0.25 % missed and 1 % in vain. Bytes are held to it where
// bytes were shown.
func TestLearnsTemplates(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(templated)) {
		for _, c := range courses {
			var sum Score
			for seed := range uint64(seeds) {
				sum.Add(learnAndPredict(t, name, c, seed))
			}
			tallies := map[string]Tally{"blocks": sum.Blocks}
			if c.grain == 1 {
				tallies["bytes"] = sum.Bytes
			}
			for what, s := range tallies {
				if fn, fp := s.FalseNegative(), s.FalsePositive(); fn > 0.25 || fp > 1 {
					t.Errorf("%s, shown %v: %.3f %% of %s missed, %.3f %% in vain", name, c, fn, what, fp)
				}
			}
		}
	}
}

func learnAndPredict(t *testing.T, name string, c course, seed uint64) Score {
	t.Helper()
	w := newWorld(seed, c.pooled)
	r := rand.New(rand.NewPCG(seed, 1))
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: name}}, 1)
	n := train(t, m, w, r, templated[name], 100, c.grain)
	s, basis := probe(m, w, r, templated[name], 100)
	if variants := max(len(m.Describe().Variants), 2); n > MaxObservations*variants {
		t.Errorf("%s, shown %v, seed %d: %d observations of %d variants", name, c, seed, n, variants)
	}
	if basis[Guessed]+basis[Verified] != 100 {
		t.Errorf("%s, shown %v, seed %d: predictions rest on %v", name, c, seed, basis)
	}
	return s
}

// TestIndirectKernelsAreNotTrusted: what an index or a length in memory decides
// has no template. It must be found out soon, and then all of it be predicted.
func TestIndirectKernelsAreNotTrusted(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(indirect)) {
		for _, c := range courses {
			for seed := range uint64(seeds) {
				w := newWorld(seed, c.pooled)
				r := rand.New(rand.NewPCG(seed, 1))
				m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: name}}, 1)
				wrong := 0
				for range 300 {
					l := indirect[name](w, r)
					p, basis := m.AppendTouches(nil, &l.launch, &w.ranges)
					if s, ok := Compare(p, l.touched); !ok || basis >= Guessed && s.Missed > 0 {
						wrong++
					}
					if m.Worth(&l.launch, &w.ranges) {
						m.Observe(&l.launch, &w.ranges, c.observation(l.touched))
					}
				}
				s, basis := probe(m, w, r, indirect[name], 50)
				if wrong > 10 || s.Missed > 0 || basis[Guessed]+basis[Verified] > 0 {
					t.Errorf("%s, shown %v, seed %d: %d trusted and wrong; then %d missed, predictions rest on %v", name, c, seed, wrong, s.Missed, basis)
				}
			}
		}
	}
}

// observation is what one sees of touches.
func (c course) observation(touched []Touch) *Observation {
	if c.grain == Block {
		touched = blocks(touched)
	}
	return &Observation{Touched: touched, Grain: c.grain}
}

// TestStrayTouches: what is reached by pointers in memory is remembered as long as
// it is allocated.
func TestStrayTouches(t *testing.T) {
	w := newWorld(1, false)
	list, data := w.allocate(4096), w.allocate(64<<20)
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "batch of pointers"}}, 1)
	l := Launch{Grid: dim(8, 1, 1), Params: new(args).u64(list.Base).u32(8).b}
	m.Observe(&l, &w.ranges, &Observation{Touched: []Touch{read(list.Base, Block), write(data.Base, 32<<20)}, Grain: Block})
	want := Touch{Base: data.Base, Bytes: data.Bytes, Access: Either}
	if got, _ := m.AppendTouches(nil, &l, &w.ranges); len(got) != 2 || got[1] != want {
		t.Errorf("%v", got)
	}
	if !m.Stats().Indirect {
		t.Error("not said to be indirect")
	}
	w.ranges.Remove(data.Base)
	if got, _ := m.AppendTouches(nil, &l, &w.ranges); len(got) != 1 || got[0].Base != list.Base {
		t.Errorf("after it was freed: %v", got)
	}
}

// TestBehaviourChanges: a kernel that was known does something else from some
// launch on, under the same name. The old templates go, and it is learnt again.
func TestBehaviourChanges(t *testing.T) {
	w := newWorld(1, true)
	r := rand.New(rand.NewPCG(1, 1))
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "k"}}, 1)
	of := func(factor uint64) maker {
		return func(w *world, r *rand.Rand) made {
			n := between(r, 1<<20, 1<<24)
			a := w.tensor(16 * n)
			return made{Launch{Grid: dim(1, 1, 1), Params: new(args).u64(a).u32(n).b}, []Touch{write(a, factor*n)}}
		}
	}
	train(t, m, w, r, of(4), 50, Block)
	if s, basis := probe(m, w, r, of(4), 20); s.Missed > 0 || basis[Verified] != 20 {
		t.Fatalf("%+v %v", s, basis)
	}
	dropped := false
	for range 3 {
		l := of(8)(w, r)
		dropped = m.Observe(&l.launch, &w.ranges, courses[0].observation(l.touched)).Dropped || dropped
	}
	if !dropped || m.Stats().Dropped == 0 {
		t.Errorf("not noticed: %+v", m.Stats())
	}
	if s, basis := probe(m, w, r, of(8), 20); s.Missed > 0 || basis[Verified] != 20 {
		t.Errorf("not learnt again: %+v %v", s, basis)
	}
}

// TestAdversary lets a kernel do something else at every launch, with pointers and
// touches all over the place: what is kept, and the work of a launch, stay bounded.
func TestAdversary(t *testing.T) {
	w := newWorld(1, false)
	r := rand.New(rand.NewPCG(1, 1))
	var all []Range
	for range 40 {
		all = append(all, w.allocate(between(r, 1, 64<<20)))
	}
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "adversary"}}, 1)
	observed, confident := 0, 0
	for range 5000 {
		var p args
		for range between(r, 1, 200) {
			a := all[r.IntN(len(all))]
			p.u64([]uint64{r.Uint64(), a.Base + r.Uint64N(a.Bytes)}[r.IntN(2)])
		}
		l := Launch{Grid: dim(r.Uint64(), r.Uint64(), 1), Block: dim(r.Uint64(), 1, 1), Params: p.b}
		var touched []Touch
		for range between(r, 0, 300) {
			a := all[r.IntN(len(all))]
			touched = append(touched, Touch{Base: a.Base, Bytes: r.Uint64N(a.Bytes), Stride: r.Uint64N(1 << 30), Count: uint32(r.IntN(9)), Access: Access(r.IntN(4))})
		}
		_, basis := m.AppendTouches(nil, &l, &w.ranges)
		if basis >= Guessed {
			confident++
		}
		if m.Worth(&l, &w.ranges) {
			observed++
			m.Observe(&l, &w.ranges, &Observation{Touched: touched, Grain: []uint64{1, 4096, Block}[r.IntN(3)], Lossy: r.IntN(4) == 0})
		}
	}
	if observed > maxSamples || confident > 5 {
		t.Errorf("%d observations, %d predictions that were trusted", observed, confident)
	}
	if n := len(m.samples); n > maxSamples {
		t.Errorf("%d samples are kept", n)
	}
}

// TestBeyondWhatWasSeen: a kernel that was only launched with one batch size is not
// trusted with another, until that was looked at. Of one size few observations are
// taken, and a tensor in a pool that no observation showed to cross a block's end may
// do so later; what counts is that observations are left for other sizes.
func TestBeyondWhatWasSeen(t *testing.T) {
	const all = 20
	for _, pooled := range []bool{false, true} {
		var same, other, third Score
		for seed := range uint64(all) {
			w := newWorld(seed, pooled)
			r := rand.New(rand.NewPCG(seed, 1))
			m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "convolution"}}, 1)
			train(t, m, w, r, convolutionOf(8), 50, Block)
			s, basis := probe(m, w, r, convolutionOf(8), all)
			same.Add(s)
			if basis[Allocations] > 0 && basis[Allocations] < all {
				t.Errorf("the same batch: predictions rest on %v", basis)
			}
			s, basis = probe(m, w, r, convolutionOf(32), all)
			other.Add(s)
			if basis[Allocations]+basis[Cautious] != all {
				t.Errorf("another batch: predictions rest on %v", basis)
			}
			for _, batch := range []uint64{32, 100} {
				train(t, m, w, r, convolutionOf(batch), all, Block)
			}
			s, basis = probe(m, w, r, convolutionOf(64), all)
			third.Add(s)
			if basis[Verified] != all {
				t.Errorf("a third batch: predictions rest on %v", basis)
			}
		}
		if s := same.Blocks; s.FalseNegative() > 4 {
			t.Errorf("pool %v: the same batch: %.3f %% missed", pooled, s.FalseNegative())
		}
		t.Logf("pool %v: another batch: %.3f %% missed, %.3f %% in vain", pooled, other.Blocks.FalseNegative(), other.Blocks.FalsePositive())
		if s := other.Blocks; s.FalseNegative() > 0.25 {
			t.Errorf("pool %v: another batch: %.3f %% missed, %.3f %% in vain", pooled, s.FalseNegative(), s.FalsePositive())
		}
		if s := third.Blocks; s.FalseNegative() > 0.25 || s.FalsePositive() > 1 {
			t.Errorf("pool %v: a third, after two were seen: %.3f %% missed, %.3f %% in vain", pooled, s.FalseNegative(), s.FalsePositive())
		}
	}
}

// convolutionOf is a convolution of 64 channels of 28 by 28, whose batch alone varies.
func convolutionOf(batch uint64) maker {
	return func(w *world, _ *rand.Rand) made {
		const c, h, k = 64, 28, 128
		x, f, y := w.tensor(2*batch*c*h*h), w.tensor(2*k*c*9), w.tensor(2*batch*k*h*h)
		p := new(args).u32(batch, h, h, c, k, 3, 3, h).u32(h*h*c, h*c, c, 1).u32(h*h*k, h*k, k, 1).u64(x, f, y, 0)
		return made{
			Launch{Grid: dim(ceil(batch*h*h, 128), 2, 1), Block: dim(256, 1, 1), Params: p.b},
			[]Touch{read(x, 2*batch*c*h*h), read(f, 2*9*c*k), write(y, 2*batch*k*h*h)},
		}
	}
}
