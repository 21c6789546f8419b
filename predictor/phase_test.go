package predictor

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// phased is a program that works in phases, as bench/workloads/touchplan.go has them, on
// a virtual clock: a kernel goes over each piece that a step touches.
type phased struct {
	plan     *Plan
	ranges   Ranges
	at       []uint64 // of each piece
	each     time.Duration
	sequence uint64
	queued   uint64 // commands that are outstanding
	step     func(n uint64) []int
}

const (
	phasePiece = 64 << 20
	phaseBase  = 1 << 40
	phaseTurn  = 100 * time.Millisecond
)

// newPhased has so many pieces: of one allocation, or each an allocation by itself.
func newPhased(pieces int, whole bool, each time.Duration, step func(n uint64) []int) *phased {
	p := &phased{each: each, step: step}
	for i := range uint64(pieces) {
		p.at = append(p.at, phaseBase+i*phasePiece)
		if !whole {
			p.ranges.Add(Range{p.at[i], phasePiece})
		}
	}
	if whole {
		p.ranges.Add(Range{phaseBase, uint64(pieces) * phasePiece})
	}
	p.plan = NewPlan(PlanConfig{Ranges: &p.ranges})
	return p
}

func (p *phased) launch(piece int) {
	p.sequence++
	p.plan.Submit(Command{Queue: 1, Sequence: p.sequence, ID: 7, Touches: []Touch{{Base: p.at[piece], Bytes: phasePiece, Access: Either}}})
	if p.sequence > p.queued {
		p.plan.Complete(1, p.sequence-p.queued)
		p.plan.Took(7, p.each)
	}
}

// run makes steps from one on.
func (p *phased) run(from, steps uint64) {
	for n := from; n < from+steps; n++ {
		for _, piece := range p.step(n) {
			p.launch(piece)
		}
	}
}

// pieces are those of the working set.
func (p *phased) pieces(horizon time.Duration) map[int]bool {
	var w Working
	p.plan.WorkingSet(&w, horizon)
	all := map[int]bool{}
	for _, r := range w.Ranges {
		for at := r.Base; at < r.End(); at += phasePiece {
			all[int(at-phaseBase)/phasePiece] = true
		}
	}
	return all
}

// parts makes the steps of a program that goes from one part of its pieces to the next.
func parts(parts, each int, phase uint64) func(n uint64) []int {
	return func(n uint64) (list []int) {
		k := int(n/phase) % parts
		for i := range each {
			list = append(list, k*each+i)
		}
		return list
	}
}

// is says whether these are just the pieces of some parts.
func is(pieces map[int]bool, each int, parts ...int) bool {
	for _, k := range parts {
		for i := range each {
			if !pieces[k*each+i] {
				return false
			}
		}
	}
	return len(pieces) == each*len(parts)
}

// TestNextPhase: the working set of a turn that reaches into the next phase has what
// that touches, by stride from the third phase on, in order from the second lap on.
func TestNextPhase(t *testing.T) {
	for _, c := range []struct {
		name        string
		parts, each int
		phase       uint64
		whole       bool
		took        time.Duration
		queued      uint64
	}{
		{"sparse", 10, 3, 180, true, 185 * time.Microsecond, 12},
		{"models", 4, 8, 42, false, 300 * time.Microsecond, 32},
		{"long lap", 10, 3, 700, true, 50 * time.Microsecond, 0}, // that the history does not hold
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPhased(c.parts*c.each, c.whole, c.took, parts(c.parts, c.each, c.phase))
			p.queued = c.queued
			lasts := time.Duration(c.phase) * time.Duration(c.each) * c.took
			begun := uint64(17) // it is looked at from then on
			for k := range uint64(3 * c.parts) {
				now, next := int(k)%c.parts, int(k+1)%c.parts
				p.run(k*c.phase+begun, c.phase/2-begun)
				begun = 0
				if got := p.pieces(lasts / 4); !is(got, c.each, now) {
					t.Errorf("phase %d, long before its end: %v", k, got)
				}
				lap := int(k) >= c.parts
				want := k >= 2 && next != 0 || lap
				got := p.pieces(lasts * 7 / 10)
				if want && !is(got, c.each, now, next) {
					t.Errorf("phase %d, a turn beyond its end: %v", k, got)
				}
				if k > 0 && !want && !is(got, c.each, now) {
					t.Errorf("phase %d, of which the next is not known: %v", k, got)
				}
				p.run(k*c.phase+c.phase/2, c.phase-c.phase/2)
				if got := p.pieces(lasts / 2); want && !is(got, c.each, now, next) {
					t.Errorf("phase %d, at its end: %v", k, got)
				}
			}
		})
	}
}

// TestBeginsAsForetold: of a phase that was foretold all is known from its first command
// on, which is one change of what is ahead.
func TestBeginsAsForetold(t *testing.T) {
	p := newPhased(30, true, 185*time.Microsecond, parts(10, 3, 180))
	p.run(0, 3*180)
	changes := p.plan.Changes()
	p.launch(9)
	for i := range 3 * 180 {
		got := p.pieces(phaseTurn / 10)
		if at := 1 + i; at < 460 && !is(got, 3, 3) || at > 520 && !is(got, 3, 3, 4) {
			t.Fatalf("%d commands into the phase: %v", 1+i, got)
		}
		if p.plan.Period() != 3 && i > 12 || p.plan.Changes() != changes+1 {
			t.Fatalf("%d commands into the phase: period %d, %d changes", 1+i, p.plan.Period(), p.plan.Changes()-changes)
		}
		p.launch(9 + (1+i)%3)
	}
	if in, ok := p.plan.Coming(); !ok || in > time.Millisecond {
		t.Errorf("at its end the next phase comes in %v, %t", in, ok)
	}
}

// TestBeginsInTheMiddle: it is looked at from the middle of a step on, in which something
// else is done as well, and the next phase is foretold from the third on all the same.
func TestBeginsInTheMiddle(t *testing.T) {
	for _, odd := range []int{0, 1, 2} {
		p := newPhased(31, true, 500*time.Microsecond, parts(10, 3, 100))
		for first := range 2 {
			p.launch(1 + first)
		}
		p.run(50, 20)
		for range odd {
			p.launch(30)
			p.launch(0) // and a step is cut short
			p.run(50, 30)
		}
		p.run(70, 30+2*100-10)
		if got := p.pieces(phaseTurn); !is(got, 3, 2, 3) {
			t.Errorf("%d odd commands: %v", odd, got)
		}
	}
}

// TestPhasesAreChanges: the beginning of a phase is a change of what is ahead, and one,
// whether or not it was foretold. Where something else is done in each tenth step as well
// the period is found anew a few times, but not at each of them.
func TestPhasesAreChanges(t *testing.T) {
	for _, odd := range []bool{false, true} {
		for _, each := range []int{1, 2, 3, 4, 5, 8, 20} {
			p := newPhased(10*each+2, true, 500*time.Microsecond, parts(10, each, 180))
			for k := range uint64(15) {
				changes := p.plan.Changes()
				for n := k * 180; n < (k+1)*180; n++ {
					if p.run(n, 1); odd && n%10 == 0 {
						p.launch(10*each + 1)
					}
				}
				got, want, most := p.plan.Changes()-changes, min(k, 1), min(k, 1)
				if k == 10 {
					most++ // the period may follow the end of that phase in the first lap for a moment
				}
				if odd {
					most = 4
				}
				if got < want || got > most {
					t.Errorf("period of %d, phase %d, something odd %t: %d changes", each, k, odd, got)
				}
			}
		}
	}
}

// TestComing: how far off the next phase is, and how often something comes again.
func TestComing(t *testing.T) {
	p := newPhased(30, true, 200*time.Microsecond, parts(10, 3, 200))
	p.queued = 12
	p.run(0, 350)
	if in, ok := p.plan.Coming(); ok {
		t.Errorf("foretold without evidence, in %v", in)
	}
	p.run(350, 150)
	if in, ok := p.plan.Coming(); !ok || in != 60*time.Millisecond+12*200*time.Microsecond {
		t.Errorf("the next phase comes in %v, %t", in, ok)
	}
	last := time.Duration(0)
	p.plan.Ahead(phaseTurn, func(u Use) bool {
		if u.At < last {
			t.Errorf("%v after %v", u.At, last)
		}
		if last = u.At; u.At >= 12*200*time.Microsecond && u.Every != 3*200*time.Microsecond {
			t.Errorf("what comes in %v comes again after %v", u.At, u.Every)
		}
		return true
	})
	p.run(500, 600)
	if in, ok := p.plan.Coming(); !ok || in != 62400*time.Microsecond {
		t.Errorf("the next phase comes in %v, %t", in, ok)
	}
	p.run(1400, 90) // it skipped one
	for range 1500 {
		p.run(1400, 1)
	}
	if in, ok := p.plan.Coming(); ok {
		t.Errorf("a phase lasts on and on; the next comes in %v", in)
	}
}

// TestRandomPhases: where a phase comes as chance has it none is foretold, whether it
// goes to new memory or to some that was used before.
func TestRandomPhases(t *testing.T) {
	for name, places := range map[string]int{"anywhere": 900, "of four": 4} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			place, told := 0, 0
			p := newPhased(3*places, true, 185*time.Microsecond, func(uint64) []int { return []int{3 * place, 3*place + 1, 3*place + 2} })
			const phases = 400
			for range phases {
				place = (place + 1 + r.IntN(places-1)) % places
				p.run(0, 100)
				if len(p.pieces(phaseTurn)) > 3 {
					told++
				}
				p.run(0, 80)
			}
			if told > phases/10 {
				t.Errorf("in %d of %d phases the next was foretold", told, phases)
			}
		})
	}
}

// TestExperts: pieces that all steps touch, and a few that are others in each phase.
func TestExperts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var hot [4]int
	p := newPhased(200, true, 185*time.Microsecond, func(n uint64) []int {
		if n%100 == 0 {
			for i := range hot {
				hot[i] = 4 + 49*i + r.IntN(49)
			}
		}
		return []int{0, 1, 2, 3, hot[n%4], hot[(n+1)%4]}
	})
	for n := range uint64(3000) {
		p.run(n, 1)
		got := p.pieces(phaseTurn)
		if _, ok := p.plan.Coming(); ok || n%100 > 30 && len(got) > 8 {
			t.Fatalf("step %d: %d pieces are foretold, hot are %v", n, len(got), hot)
		}
	}
}

// TestStrideStaysWithin: what was never seen is foretold in an allocation, or in another
// of the same size.
func TestStrideStaysWithin(t *testing.T) {
	steps := parts(5, 2, 100)
	for name, c := range map[string]struct {
		last  Range
		known bool
	}{
		"of the same size": {Range{phaseBase + 6*phasePiece, 2 * phasePiece}, true},
		"of another size":  {Range{phaseBase + 6*phasePiece, 3 * phasePiece}, false},
		"none":             {Range{1 << 50, 1}, false},
	} {
		p := newPhased(10, true, time.Millisecond, steps)
		p.ranges = Ranges{}
		for k := range uint64(3) {
			p.ranges.Add(Range{phaseBase + 2*k*phasePiece, 2 * phasePiece})
		}
		p.ranges.Add(c.last)
		p.run(0, 290)
		if got := p.pieces(phaseTurn); c.known != is(got, 2, 2, 3) || !c.known && !is(got, 2, 2) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPhasesOfAnyKind: with phases of random lengths, periods and touches, and commands in
// between that fit none, what the plan says stays in order and within what there is.
func TestPhasesOfAnyKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		p := NewPlan(PlanConfig{Commands: rapid.IntRange(0, 600).Draw(t, "commands"), Touches: rapid.IntRange(0, 600).Draw(t, "touches"), Ranges: &Ranges{}})
		p.ranges.Add(Range{1 << 40, 1 << 40})
		sequence, places := uint64(0), rapid.IntRange(1, 40).Draw(t, "places")
		for range 60 {
			place, period, each := uint64(r.IntN(places)), uint64(1+r.IntN(40)), r.IntN(4)
			for i := range uint64(r.IntN(300)) {
				if sequence++; r.IntN(200) == 0 {
					i = r.Uint64()
				}
				var touches []Touch
				for k := range each {
					touches = append(touches, read(1<<40+place<<30+i%period<<22+uint64(k)<<21, 2<<20))
				}
				p.Submit(Command{Queue: 1, Sequence: sequence, ID: i % period % 3, Touches: touches})
				p.Complete(1, sequence-min(sequence, 5))
			}
			var last time.Duration
			n := 0
			p.Ahead(time.Hour, func(u Use) bool {
				if n++; u.At < last || u.End() > 2<<40 || u.Base < 1<<40 {
					t.Fatalf("%v after %v: %+v", u.At, last, u.Touch)
				}
				last = u.At
				return true
			})
			if n > 1<<16 {
				t.Fatalf("%d uses", n)
			}
			p.Coming()
			p.Period()
		}
	})
}

func (t Touch) End() uint64 { s := t.Span(); return s.End() }

// TestPhasesAreBounded: what is kept of phases has a bound, and taking commands in
// allocates nothing once it has grown.
func TestPhasesAreBounded(t *testing.T) {
	p := newPhased(3*maxPhases*2, true, 185*time.Microsecond, parts(2*maxPhases, 3, 20))
	p.run(0, 20*4*maxPhases)
	n := uint64(20 * 4 * maxPhases)
	if per := testing.AllocsPerRun(100, func() { p.run(n, 20); n += 20 }); per > 20*(3+3) { // of the test itself
		t.Errorf("%.0f allocations in a phase", per)
	}
	bytes := unsafe.Sizeof(p.plan.phases)
	for i := range p.plan.phases.ring {
		s := &p.plan.phases.ring[i]
		bytes += uintptr(cap(s.commands))*unsafe.Sizeof(phaseCommand{}) + uintptr(cap(s.touches))*unsafe.Sizeof(Touch{})
		if len(s.commands) > maxPhaseCommands || len(s.touches) > maxPhaseTouches {
			t.Errorf("%d commands, %d touches", len(s.commands), len(s.touches))
		}
	}
	if bytes > 1<<20 {
		t.Errorf("%d bytes", bytes)
	}
}
