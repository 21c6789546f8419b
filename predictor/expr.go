package predictor

import (
	"fmt"
	"math/bits"
	"strings"
)

// maxFactors is how many values an expression multiplies at most.
const maxFactors = 3

// expr is a number of bytes, or of chunks: num/den times a product of values,
// rounded down, and add more. Without factors it is add alone. The zero value is
// 0, always.
type expr struct {
	num, den uint32
	n        uint8
	factor   [maxFactors]source
	add      int64
}

func constant(v uint64) expr { return expr{add: int64(min(v, maxExtent))} }

// maxExtent bounds what an expression may give: beyond any address space of a
// device, and far from the type's end.
const maxExtent = 1 << 52

// eval works an expression out; it is from 0 to maxExtent whatever the launch says.
func (e *expr) eval(l *Launch, restBytes uint64, index uint16) uint64 {
	if e.n == 0 {
		return clampExtent(e.add)
	}
	p := e.factor[0].read(l, restBytes, index)
	for i := uint8(1); i < e.n; i++ {
		p = product(p, e.factor[i].read(l, restBytes, index))
	}
	return e.of(p)
}

// of is the expression's value where the product of its factors is p.
func (e *expr) of(p uint64) uint64 {
	if e.n == 0 {
		return clampExtent(e.add)
	}
	hi, lo := bits.Mul64(p, uint64(e.num))
	switch {
	case hi != 0 && hi >= uint64(e.den):
		return maxExtent
	case hi != 0:
		lo, _ = bits.Div64(hi, lo, uint64(e.den))
	case e.den != 1:
		lo /= uint64(e.den)
	}
	if lo > maxExtent {
		return maxExtent
	}
	return clampExtent(int64(lo) + e.add)
}

func clampExtent(v int64) uint64 { return uint64(min(max(v, 0), maxExtent)) }

func (e *expr) valid() bool {
	if e.n > maxFactors || e.add < -maxExtent || e.add > maxExtent {
		return false
	}
	if e.n == 0 {
		return e.num == 0 && e.den == 0 && e.factor == [maxFactors]source{}
	}
	if e.num == 0 || e.den == 0 {
		return false
	}
	for i, s := range e.factor {
		if i < int(e.n) && (!s.valid() || s.kind >= isPointer) || i >= int(e.n) && s != (source{}) {
			return false
		}
	}
	return true
}

// uses says whether the expression depends on a value.
func (e *expr) fixed() bool { return e.n == 0 }

// String writes "4*u32[0]*grid.x+512", "1/2*u64[8]", "8388608".
func (e *expr) String() string {
	if e.n == 0 {
		return fmt.Sprint(e.add)
	}
	var b strings.Builder
	switch {
	case e.den != 1:
		fmt.Fprintf(&b, "%d/%d*", e.num, e.den)
	case e.num != 1:
		fmt.Fprintf(&b, "%d*", e.num)
	}
	for i, s := range e.factor[:e.n] {
		if i > 0 {
			b.WriteByte('*')
		}
		if s.change == less1 || s.change == more1 {
			fmt.Fprintf(&b, "(%v)", s)
		} else {
			b.WriteString(s.String())
		}
	}
	if e.add != 0 {
		fmt.Fprintf(&b, "%+d", e.add)
	}
	return b.String()
}
