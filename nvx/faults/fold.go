package faults

import (
	"cmp"
	"slices"
)

// BlockBytes is the driver's own grain: inside a block it brings pages that nobody
// has touched, so that their faults are missing.
const BlockBytes = 2 << 20

// Range is memory that is observed.
type Range struct{ Base, Bytes uint64 }

// Block is one that was touched: the part of an aligned BlockBytes that lies in a
// range.
type Block struct {
	Range  int    // its number among those observed
	Base   uint64 // not before the range's begin
	Bytes  uint64
	Access Access
	Faults uint32
}

// Fold gathers faults into blocks.
type Fold struct {
	ranges    []Range // by address, none overlapping
	blocks    map[key]*Block
	strangers uint64
}

type key struct {
	of   int
	base uint64
}

// NewFold observes ranges, which must not overlap; they are numbered by address.
func NewFold(ranges []Range) *Fold {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return r.Bytes == 0 || r.Base+r.Bytes < r.Base })
	slices.SortFunc(sorted, func(a, b Range) int { return cmp.Compare(a.Base, b.Base) })
	return &Fold{ranges: sorted, blocks: map[key]*Block{}}
}

// Ranges are those observed, by their numbers.
func (f *Fold) Ranges() []Range { return f.ranges }

// Add takes one fault.
func (f *Fold) Add(e Event) {
	i, exact := slices.BinarySearchFunc(f.ranges, e.Address, func(r Range, at uint64) int { return cmp.Compare(r.Base, at) })
	if !exact {
		i--
	}
	if i < 0 || e.Address-f.ranges[i].Base >= f.ranges[i].Bytes {
		f.strangers++
		return
	}
	r := f.ranges[i]
	aligned := e.Address &^ (BlockBytes - 1)
	b := f.blocks[key{i, aligned}]
	if b == nil {
		base := max(aligned, r.Base)
		b = &Block{Range: i, Base: base, Bytes: min(aligned-base+BlockBytes, r.Base+r.Bytes-base)}
		f.blocks[key{i, aligned}] = b
	}
	b.Access |= e.Access
	b.Faults = min(b.Faults, ^uint32(0)-1) + 1
}

// Strangers is how many faults lay in no range.
func (f *Fold) Strangers() uint64 { return f.strangers }

// Blocks are those touched, by address.
func (f *Fold) Blocks() []Block {
	all := make([]Block, 0, len(f.blocks))
	for _, b := range f.blocks {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b Block) int { return cmp.Compare(a.Base, b.Base) })
	return all
}
