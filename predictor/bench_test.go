package predictor

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// trained is a model that knows a kernel, in a process with as many allocations as
// PyTorch's allocator makes.
func trained(tb testing.TB, mk maker) (*Model, *world, made) {
	w := newWorld(1, true)
	for range 1000 {
		w.allocate(20 << 20)
	}
	r := rand.New(rand.NewPCG(1, 1))
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "k"}}, 1)
	for range 30 {
		l := mk(w, r)
		m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
	}
	l := mk(w, r)
	if _, basis := m.AppendTouches(nil, &l.launch, &w.ranges); basis != Verified {
		tb.Fatalf("predictions rest on %v", basis)
	}
	return m, w, l
}

// BenchmarkEval is a prediction: the limit is 1 us.
func BenchmarkEval(b *testing.B) {
	for _, k := range []struct {
		name string
		make maker
	}{{"elementwise", elementwise}, {"gemm", gemm}, {"blas", blas}, {"moded", moded}, {"convolution", convolution}, {"concatenate", concatenate}, {"engine", engine}} {
		b.Run(k.name, func(b *testing.B) {
			m, w, l := trained(b, k.make)
			var dst []Touch
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = m.AppendTouches(dst[:0], &l.launch, &w.ranges)
			}
			b.ReportMetric(float64(len(dst)), "touches")
		})
	}
}

// beyond is a model that knows a convolution of one batch size, and a launch of
// another.
func beyond(tb testing.TB) (*Model, *world, made) {
	w := newWorld(1, false)
	r := rand.New(rand.NewPCG(1, 1))
	m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "convolution"}}, 1)
	for range 4 {
		l := convolutionOf(8)(w, r)
		m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
	}
	l := convolutionOf(32)(w, r)
	if _, basis := m.AppendTouches(nil, &l.launch, &w.ranges); basis != Cautious {
		tb.Fatalf("predictions rest on %v", basis)
	}
	return m, w, l
}

// BenchmarkCautious is a prediction beyond what was seen: the limit is 1 us as well.
func BenchmarkCautious(b *testing.B) {
	m, w, l := beyond(b)
	var dst []Touch
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = m.AppendTouches(dst[:0], &l.launch, &w.ranges)
	}
}

func TestCautionDoesNotAllocate(t *testing.T) {
	m, w, l := beyond(t)
	dst := make([]Touch, 0, 8)
	if n := testing.AllocsPerRun(100, func() { dst, _ = m.AppendTouches(dst[:0], &l.launch, &w.ranges) }); n != 0 {
		t.Errorf("%v allocations a prediction", n)
	}
}

func TestEvalDoesNotAllocate(t *testing.T) {
	for name, mk := range map[string]maker{"elementwise": elementwise, "blas": blas, "moded": moded} {
		m, w, l := trained(t, mk)
		dst := make([]Touch, 0, 8)
		if n := testing.AllocsPerRun(100, func() { dst, _ = m.AppendTouches(dst[:0], &l.launch, &w.ranges) }); n != 0 {
			t.Errorf("%s: %v allocations a prediction", name, n)
		}
	}
}

// BenchmarkUnknown is a launch of a kernel that nothing is known of.
func BenchmarkUnknown(b *testing.B) {
	_, w, l := trained(b, blas)
	m := NewLibrary(Config{}).Kernel(Kernel{}, 1)
	var dst []Touch
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = m.AppendTouches(dst[:0], &l.launch, &w.ranges)
	}
}

// BenchmarkObserve is an observation of a known kernel, with the fit.
func BenchmarkObserve(b *testing.B) {
	for _, k := range []struct {
		name string
		make maker
	}{{"elementwise", elementwise}, {"blas", blas}, {"gather", gather}} {
		b.Run(k.name, func(b *testing.B) {
			w := newWorld(1, true)
			r := rand.New(rand.NewPCG(1, 1))
			var l [MaxObservations]made
			for i := range l {
				l[i] = k.make(w, r)
			}
			for b.Loop() {
				m := NewLibrary(Config{}).Kernel(Kernel{Key: Key{Name: "k"}}, 1)
				for i := range l {
					m.Observe(&l[i].launch, &w.ranges, &Observation{Touched: blocks(l[i].touched), Grain: Block})
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*MaxObservations), "ms/observation")
		})
	}
}

// BenchmarkSubmit is a command taken into a plan, and BenchmarkWorkingSet what is
// asked of it at a turn, with steps of 1,000 commands.
func BenchmarkSubmit(b *testing.B) {
	p := NewPlan(PlanConfig{})
	touches := []Touch{read(1<<40, 8<<20), write(2<<40, 8<<20)}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		touches[0].Base = 1<<40 + n%1000<<24
		p.Submit(Command{Queue: 1, Sequence: n, ID: n % 10, Touches: touches})
	}
}

// BenchmarkSubmitPhases is a command of a program that works in phases, and
// BenchmarkSubmitRandom one of a program that never repeats itself.
func BenchmarkSubmitPhases(b *testing.B) {
	p := NewPlan(PlanConfig{})
	touches := []Touch{read(1<<40, 8<<20)}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		touches[0].Base = 1<<40 + (n/60%10*3+n%3)<<24
		p.Submit(Command{Queue: 1, Sequence: n, ID: 7, Touches: touches})
	}
}

func BenchmarkSubmitRandom(b *testing.B) {
	p := NewPlan(PlanConfig{})
	r := rand.New(rand.NewPCG(1, 1))
	touches := []Touch{read(1<<40, 8<<20)}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		touches[0].Base = 1<<40 + r.Uint64N(1<<16)<<24
		p.Submit(Command{Queue: 1, Sequence: n, ID: n % 3, Touches: touches})
	}
}

func BenchmarkWorkingSet(b *testing.B) {
	p := NewPlan(PlanConfig{})
	for n := uint64(1); n <= 3000; n++ {
		p.Submit(Command{Queue: 1, Sequence: n, ID: n % 10, Touches: []Touch{read(1<<40+n%1000<<24, 8<<20), write(2<<40+n%50<<24, 4<<20)}})
	}
	p.Complete(1, 2990)
	var w Working
	b.ReportAllocs()
	for b.Loop() {
		p.WorkingSet(&w, time.Second)
	}
	b.ReportMetric(float64(len(w.Ranges)), "ranges")
}

// engine is a convolution as libraries launch it: its four pointers are there three times
// over, in a struct of three kilobytes.
func engine(w *world, r *rand.Rand) made {
	n, c, h, k := between(r, 1, 64), 16*between(r, 1, 32), between(r, 7, 112), 16*between(r, 1, 32)
	x, f, y := w.tensor(4*n*c*h*h), w.tensor(4*k*c), w.tensor(4*n*k*h*h)
	p := new(args)
	for range 3 {
		p.u64(x, f, y, y).u32(n, h, h, c, k, 1, 1, 0).u32(h*h*c, h*c, c, 1).u32(h*h*k, h*k, k, 1)
		p.u64(make([]uint64, 100)...)
	}
	return made{
		Launch{Grid: dim(ceil(n*h*h, 128), ceil(k, 64), 1), Block: dim(384, 1, 1), Shared: 200 << 10, Params: p.b},
		[]Touch{read(x, 4*n*c*h*h), read(f, 4*c*k), write(y, 4*n*k*h*h)},
	}
}

// TestTwinsAreOnePointer: where the same pointer is there again the same is touched; where it
// is another one, what its own template says.
func TestTwinsAreOnePointer(t *testing.T) {
	m, w, l := trained(t, engine)
	twins := 0
	m.root.leaves(func(v *variant) {
		for i := range v.slots {
			if v.slots[i].twin > 0 {
				twins++
			}
		}
	})
	if twins < 8 {
		t.Errorf("%d slots are as another", twins)
	}
	for range 20 {
		got, _ := m.AppendTouches(nil, &l.launch, &w.ranges)
		want := m.apart(&l.launch, &w.ranges)
		if !slices.Equal(got, want) {
			t.Errorf("%v, and each by itself %v", got, want)
		}
		l = engine(w, rand.New(rand.NewPCG(3, 4)))
		for at := range l.launch.Params { // pointers that are the same as a rule are others now
			if at%8 == 0 && at > 300 && rand.IntN(2) == 0 {
				if word := binary.LittleEndian.Uint64(l.launch.Params[at:]); word > 1<<40 {
					binary.LittleEndian.PutUint64(l.launch.Params[at:], word+Block)
				}
			}
		}
	}
}

// apart predicts as if no slot were as another.
func (m *Model) apart(l *Launch, ranges *Ranges) []Touch {
	var was []int
	m.root.leaves(func(v *variant) {
		for i := range v.slots {
			was = append(was, v.slots[i].twin)
			v.slots[i].twin = 0
		}
	})
	touches, _ := m.AppendTouches(nil, l, ranges)
	m.root.leaves(func(v *variant) {
		for i := range v.slots {
			v.slots[i].twin, was = was[0], was[1:]
		}
	})
	return touches
}
