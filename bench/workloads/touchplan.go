package workloads

import (
	"fmt"
	"slices"
)

// Patterns of what a step of a program with much memory touches.
const (
	PatternRead    = "read"    // all of it, read
	PatternDense   = "dense"   // all of it, read and written
	PatternLong    = "long"    // the same by kernels that are longer than a turn
	PatternStencil = "stencil" // all of it: every second piece is worked out of the one before
	PatternSparse  = "sparse"  // a tenth of one allocation, read and written; another tenth in each phase
	PatternExperts = "experts" // an eighth in every step, and two of the rest's pieces, out of four in each phase: read
	PatternModels  = "models"  // one of four parts, read; another part in each phase
)

// Patterns lists them.
func Patterns() []string {
	return []string{PatternRead, PatternDense, PatternLong, PatternStencil, PatternSparse, PatternExperts, PatternModels}
}

// Parts of the memory that a step of a pattern touches.
const (
	sparseParts  = 10
	modelParts   = 4
	commonPart   = 8 // one in so many pieces belongs to every step
	expertsHot   = 4 // of a phase
	expertsEach  = 2 // of a step
	leastExperts = commonPart * (expertsHot + 1)
)

// touchPlan says which pieces each step touches. It is pure, so that the program
// that touches them and whoever checks it count alike.
type touchPlan struct {
	pattern string
	pieces  int
	phase   uint64 // steps of a phase
}

// LeastPieces is how many pieces of memory a pattern needs.
func LeastPieces(pattern string) int {
	switch pattern {
	case PatternStencil:
		return 2
	case PatternSparse:
		return sparseParts
	case PatternModels:
		return modelParts
	case PatternExperts:
		return leastExperts
	}
	return 1
}

// Phases is how many phases a pattern has before it begins anew; 0: it has none, or never
// does.
func Phases(pattern string) int {
	switch pattern {
	case PatternSparse:
		return sparseParts
	case PatternModels:
		return modelParts
	}
	return 0
}

func (p touchPlan) validate() error {
	if !slices.Contains(Patterns(), p.pattern) {
		return fmt.Errorf("pattern %q is none of %v", p.pattern, Patterns())
	}
	if least := LeastPieces(p.pattern); p.pieces < least {
		return fmt.Errorf("%d pieces of memory, pattern %s needs %d: make the pieces smaller", p.pieces, p.pattern, least)
	}
	return nil
}

// writes says whether what is touched is written as well.
func (p touchPlan) writes() bool {
	return slices.Contains([]string{PatternDense, PatternLong, PatternStencil, PatternSparse}, p.pattern)
}

// whole says whether all pieces lie in one allocation.
func (p touchPlan) whole() bool { return p.pattern == PatternSparse }

// step appends the pieces that step n touches, in order. All steps of a plan touch
// the same number of them.
func (p touchPlan) step(n uint64, into []int) []int {
	phase := n / max(p.phase, 1)
	switch p.pattern {
	case PatternSparse:
		return part(into, int(phase%sparseParts), p.pieces/sparseParts)
	case PatternModels:
		return part(into, int(phase%modelParts), p.pieces/modelParts)
	case PatternExperts:
		return p.experts(n, phase, into)
	}
	return part(into, 0, p.pieces)
}

// part appends the pieces of the k-th run of so many.
func part(into []int, k, each int) []int {
	for i := range each {
		into = append(into, k*each+i)
	}
	return into
}

// experts are the common pieces, and two neighbours on the ring of those that are hot.
func (p touchPlan) experts(n, phase uint64, into []int) []int {
	common := p.pieces / commonPart
	into = part(into, 0, common)
	rest := uint64(p.pieces - common)
	for i := range uint64(expertsEach) {
		hot := (n + i) % expertsHot
		into = append(into, common+int((scatter(phase)+hot*(rest/expertsHot))%rest))
	}
	return into
}

// scatter spreads numbers over 64 bits, each to another (the last step of
// splitmix64).
func scatter(n uint64) uint64 {
	n = (n + 1) * 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// perStep is how many pieces a step touches.
func (p touchPlan) perStep() int { return len(p.step(0, nil)) }

// inPhase is how many different pieces the steps of a phase touch together.
func (p touchPlan) inPhase() int {
	if p.pattern == PatternExperts {
		return p.pieces/commonPart + expertsHot
	}
	return p.perStep()
}

// content is how many steps of the generator make what a piece holds at first: no two
// pieces of a program hold the same, nor of two whose first ones are as far apart as one
// has pieces. Few steps, as each costs time: 4,096 of 110 GiB took an H200 46 s.
func content(first uint64, piece int) uint64 { return first + uint64(piece) + 1 }
