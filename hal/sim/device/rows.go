package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// rows is where the rows of a copy or a fill lie: pitch bytes from row to row,
// slice bytes from layer to layer. It is struct sim_rows.
type rows struct {
	Height, Depth      uint64
	DstPitch, DstSlice uint64
	SrcPitch, SrcSlice uint64
}

const rowsBytes = 48

// rows reads them out of an entry's arguments.
func (e *entry) rows() rows {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(e.Args[8*i:]) }
	return rows{at(0), at(1), at(2), at(3), at(4), at(5)}
}

func (r rows) count() uint64 { return r.Height * r.Depth }

var errRows = errors.New("rows that overlap or never end")

// checkRows bounds the work: what its rows touch is as large as memory at most,
// since none lies in another.
func (e *entry) checkRows() error {
	r, width := e.rows(), e.C
	if e.ArgBytes != rowsBytes || width == 0 || width > largest {
		return errRows
	}
	if verb(e.Verb) == verbFillRows {
		if e.Kind != 1 && e.Kind != 2 && e.Kind != 4 {
			return fmt.Errorf("fill of %d-byte elements", e.Kind)
		}
		return r.check(width*uint64(e.Kind), r.DstPitch, r.DstSlice)
	}
	if err := r.check(width, r.SrcPitch, r.SrcSlice); err != nil {
		return err
	}
	return r.check(width, r.DstPitch, r.DstSlice)
}

func (r rows) check(width, pitch, slice uint64) error {
	if r.Height == 0 || r.Depth == 0 || r.Height > 1 && pitch < width {
		return errRows
	}
	layer, ok := extent(r.Height, pitch, width)
	if !ok || r.Depth > 1 && slice < layer {
		return errRows
	}
	if all, ok := extent(r.Depth, slice, layer); !ok || all > largest {
		return errRows
	}
	return nil
}

// extent is the bytes from the first of n pieces to the end of the last.
func extent(n, step, piece uint64) (uint64, bool) {
	high, low := bits.Mul64(n-1, step)
	sum, carry := bits.Add64(low, piece, 0)
	return sum, high == 0 && carry == 0
}

// copyRows copies row by row.
func copyRows(by *gpuContext, e *entry) error {
	r := e.rows()
	for z := range r.Depth {
		for y := range r.Height {
			if err := copyBytes(by, e.A+z*r.DstSlice+y*r.DstPitch, e.B+z*r.SrcSlice+y*r.SrcPitch, e.C, e.Flags&copyLoose != 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillRows fills row by row.
func fillRows(by *gpuContext, e *entry) error {
	r := e.rows()
	row := entry{Kind: e.Kind, B: e.B, C: e.C}
	for z := range r.Depth {
		for y := range r.Height {
			v := &view{space: by.owner.space, by: by}
			row.A = e.A + z*r.DstSlice + y*r.DstPitch
			if err := v.close(fill(v, &row)); err != nil {
				return err
			}
		}
	}
	return nil
}
