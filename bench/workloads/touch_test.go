package workloads

import (
	"slices"
	"testing"

	"xmsched/hal/kernels"
)

// TestStepsOfPatterns looks at what the steps of each pattern touch: as many pieces
// each, none twice, none that is not there, in a phase no more than is said.
func TestStepsOfPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern               string
		pieces, each, inPhase int
	}{
		{PatternRead, 32, 32, 32}, {PatternDense, 1, 1, 1}, {PatternLong, 7, 7, 7}, {PatternStencil, 4, 4, 4},
		{PatternSparse, 10, 1, 1}, {PatternSparse, 47, 4, 4},
		{PatternModels, 4, 1, 1}, {PatternModels, 33, 8, 8},
		{PatternExperts, 40, 7, 9}, {PatternExperts, 64, 10, 12},
	} {
		const phase = 8
		p := touchPlan{pattern: c.pattern, pieces: c.pieces, phase: phase}
		if err := p.validate(); err != nil {
			t.Fatal(err)
		}
		everything := map[int]bool{}
		for start := uint64(0); start < 100*phase; start += phase {
			together := map[int]bool{}
			for n := range uint64(phase) {
				step := p.step(start+n, nil)
				if len(step) != c.each || p.perStep() != c.each {
					t.Fatalf("%s of %d: step %d touches %d pieces, want %d", c.pattern, c.pieces, start+n, len(step), c.each)
				}
				if sorted := slices.Sorted(slices.Values(step)); len(slices.Compact(sorted)) != c.each || sorted[0] < 0 || sorted[c.each-1] >= c.pieces {
					t.Fatalf("%s of %d: step %d touches %v", c.pattern, c.pieces, start+n, step)
				}
				for _, i := range step {
					together[i], everything[i] = true, true
				}
			}
			if len(together) != c.inPhase || p.inPhase() != c.inPhase {
				t.Fatalf("%s of %d: the phase from %d touches %d pieces, want %d", c.pattern, c.pieces, start, len(together), c.inPhase)
			}
		}
		if 4*len(everything) < 3*c.pieces { // what does not go up in equal parts is left over
			t.Errorf("%s of %d: only %d pieces are ever touched", c.pattern, c.pieces, len(everything))
		}
	}
}

func TestPatternsRefuse(t *testing.T) {
	good := Touch{Pattern: PatternRead, Bytes: 64 << 20, Piece: 16 << 20, Phase: 1, Rounds: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Touch){
		"unknown pattern": func(t *Touch) { t.Pattern = "random" },
		"too few pieces":  func(t *Touch) { t.Pattern = PatternSparse },
		"no memory":       func(t *Touch) { t.Bytes = 0 },
		"large piece":     func(t *Touch) { t.Piece, t.Bytes = 16<<30, 16<<30 },
		"crooked piece":   func(t *Touch) { t.Piece = 5<<20 + 4 },
		"many pieces":     func(t *Touch) { t.Piece, t.Bytes = 1<<20, 1<<34 },
		"no phase":        func(t *Touch) { t.Phase = 0 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestSumOf compares with the kernel's own arithmetic over the words themselves.
func TestSumOf(t *testing.T) {
	const words = 1000
	for _, steps := range []uint64{1, 2, 777, 1 << 33} {
		b := make([]byte, 0, 4*words)
		for i := range uint32(words) {
			v := kernels.SpinResult(i, steps)
			b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		if got, want := sumOf(steps, words), kernels.Checksum(b); got != want {
			t.Errorf("after %d steps: %d, want %d", steps, got, want)
		}
	}
}

func TestTouchesFollowTheSteps(t *testing.T) {
	s := Touch{Pattern: PatternModels, Bytes: 16 << 20, Piece: 2 << 20, Phase: 2, Rounds: 1}
	var all, parts []int
	s.Touches(0, 20, func(p int) { all = append(all, p) })
	for from := uint64(0); from < 20; from += 3 {
		s.Touches(from, min(from+3, 20), func(p int) { parts = append(parts, p) })
	}
	if want := []int{0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 0, 1, 0, 1}; !slices.Equal(all, want) || !slices.Equal(parts, want) {
		t.Errorf("%v and %v, want %v", all, parts, want)
	}
}

func TestMarksAreThinnedOut(t *testing.T) {
	var m Touched
	for i := range int64(10_000) {
		m.mark(i*markEvery.Nanoseconds()/10, uint64(i))
	}
	if n := len(m.AtNS); n != 1000 || len(m.Steps) != n || m.Steps[1] != 10 {
		t.Errorf("%d marks: %v", n, m.Steps[:min(n, 3)])
	}
}
