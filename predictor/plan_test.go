package predictor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// command makes a command that touches 4 MiB of its own.
func command(sequence, id uint64) Command {
	return Command{Queue: 1, Sequence: sequence, ID: id % 13, Touches: []Touch{read(1<<40+id*8<<20, 4<<20)}}
}

// TestPeriodOfRandomSteps: a step of random commands that repeats, with a command
// more or less now and then, is known after it came twice: of what is expected next,
// nearly all comes.
func TestPeriodOfRandomSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		length := rapid.IntRange(80, 300).Draw(t, "length")
		odd := rapid.IntRange(0, 2).Draw(t, "odd commands a step")
		step := make([]uint64, length)
		for i := range step {
			step[i] = r.Uint64N(uint64(length)) // some occur again within the step
		}
		var stream []uint64
		for range 6 {
			s := slices.Clone(step)
			for range odd {
				if at := r.IntN(len(s)); r.IntN(2) == 0 {
					s = slices.Insert(s, at, 5000+r.Uint64N(50))
				} else {
					s = slices.Delete(s, at, at+1)
				}
			}
			stream = append(stream, s...)
		}
		p := NewPlan(PlanConfig{})
		right, known := 0, 0
		from := 2*length + 30
		for i, id := range stream {
			if i > from && i+1 < len(stream) {
				known++
				p.Ahead(time.Microsecond, func(u Use) bool {
					if u.Base == 1<<40+id*8<<20 {
						right++
					}
					return false
				})
			}
			p.Submit(command(uint64(i+1), id))
			p.Complete(1, uint64(i+1))
		}
		if right*10 < known*7 {
			t.Errorf("%d of %d commands were expected", right, known)
		}
	})
}

// TestWorkingSetIsTheUnion compares with the plain thing: blocks in a map.
func TestWorkingSetIsTheUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPlan(PlanConfig{Commands: 256, Touches: 1024})
		n := rapid.IntRange(1, 200).Draw(t, "commands")
		seen := make(map[uint64]bool)
		var order []uint64
		for i := range n {
			var touches []Touch
			for range rapid.IntRange(0, 3).Draw(t, "touches") {
				x := Touch{
					Base: 1<<40 + rapid.Uint64Range(0, 200<<20).Draw(t, "base"), Bytes: rapid.Uint64Range(0, 9<<20).Draw(t, "bytes"),
					Stride: rapid.Uint64Range(0, 16<<20).Draw(t, "stride"), Count: uint32(rapid.IntRange(0, 4).Draw(t, "count")),
				}
				touches = append(touches, x)
				for k := range max(uint64(x.Count), 1) {
					base := x.Base + k*x.Stride
					for b := base / Block; x.Bytes > 0 && b <= (base+x.Bytes-1)/Block; b++ {
						if !seen[b] {
							seen[b] = true
							order = append(order, b)
						}
					}
				}
			}
			p.Submit(Command{Queue: 1, Sequence: uint64(i + 1), ID: uint64(i), Touches: touches})
		}
		var w Working
		p.WorkingSet(&w, time.Hour)
		if w.Bytes != uint64(len(seen))*Block {
			t.Fatalf("%d bytes, not %d blocks", w.Bytes, len(seen))
		}
		var got []uint64
		for _, r := range w.Ranges {
			for b := r.Base / Block; b < r.End()/Block; b++ {
				got = append(got, b)
			}
		}
		if len(got) != len(order) || p.Outstanding() != n {
			t.Fatalf("%d blocks of %d; %d outstanding of %d", len(got), len(order), p.Outstanding(), n)
		}
		slices.Sort(got)
		slices.Sort(order)
		if !slices.Equal(got, order) {
			t.Fatal("other blocks")
		}
	})
}

// TestPlanForgets: the rings are bounded, and what was overwritten is not told.
func TestPlanForgets(t *testing.T) {
	p := NewPlan(PlanConfig{Commands: 32, Touches: 40})
	for i := range uint64(1000) {
		p.Submit(Command{Queue: uint32(i % 5000), Sequence: i + 1, ID: i, Touches: []Touch{read(1<<40+i*8<<20, 1), read(2<<40+i*8<<20, 1)}})
	}
	uses := 0
	p.Ahead(time.Hour, func(u Use) bool {
		uses++
		if u.Base < 1<<40+970*8<<20 {
			t.Errorf("%#x was overwritten", u.Base)
		}
		return true
	})
	if uses == 0 || uses > 40 {
		t.Errorf("%d uses", uses)
	}
	for i := range uint64(3 * maxQueues) {
		p.Complete(uint32(i), 1)
		p.Took(i*maxKernels/maxQueues+i, time.Millisecond)
	}
	if len(p.done) > maxQueues || len(p.times) > maxKernels {
		t.Errorf("%d queues, %d kernels", len(p.done), len(p.times))
	}
}

func TestDurations(t *testing.T) {
	var k typical
	if k.expected() != unknownDuration {
		t.Error(k.expected())
	}
	for range 20 {
		if k.here.took(100 * time.Microsecond) {
			t.Error("slow though as always")
		}
	}
	if !k.here.took(time.Second) || k.expected() > 200*time.Microsecond {
		t.Errorf("a stall: %v", k.expected())
	}
	n := 0
	for ; k.here.took(50 * time.Millisecond); n++ {
		if n > 100 {
			t.Fatal("never becomes the norm")
		}
	}
	if k.here.took(-time.Second) {
		t.Error("a clock that went back is slow")
	}
}
