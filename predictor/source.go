package predictor

import (
	"fmt"
	"math/bits"
)

// kind is where a value comes from.
type kind uint8

const (
	word32  kind = iota // 4 bytes of the parameters
	word64              // 8 bytes of the parameters
	gridDim             // at: 0 to 2
	blockDim
	sharedBytes
	mapBytes // what a tensor map spans
	quotient // 4 bytes of the parameters, divided
	rest     // from the pointer to its allocation's end
	// Those are of an array's elements: 4 or 8 bytes of the parameters, as many further on
	// as the element's number says.
	each32
	each64
	// Those only tell variants apart.
	isPointer // whether a word points into an allocation
	signature // all values at once
	kindEnd
)

// change is what is done to a value before it is a factor.
type change uint8

const (
	plain change = iota
	less1        // N-1
	more1        // N+1: row pointers, prefix sums
	up8          // rounded up to a tile
	up16
	up32
	up64
	up128
	up256
	changeEnd
)

// source names one value of a launch.
type source struct {
	kind   kind
	change change
	at     uint16
	over   divisors // of a quotient
}

// read returns the value; 0 where the launch has no such value. The rest is the pointer's,
// index its number in an array.
func (s source) read(l *Launch, restBytes uint64, index uint16) uint64 {
	var v uint64
	switch s.kind {
	case word32:
		v = l.word32(int(s.at))
	case word64:
		v = l.word64(int(s.at))
	case gridDim:
		v = uint64(l.Grid[s.at%3])
	case blockDim:
		v = uint64(l.Block[s.at%3])
	case sharedBytes:
		v = uint64(l.Shared)
	case mapBytes:
		if int(s.at) < len(l.Maps) {
			v = l.Maps[s.at].Bytes
		}
	case quotient:
		v = s.over.of(l, l.word32(int(s.at)))
	case rest:
		v = restBytes
	case each32:
		v = l.word32(int(s.at) + 4*int(index))
	case each64:
		v = l.word64(int(s.at) + 8*int(index))
	}
	return s.change.apply(v)
}

// word is read of a value that is no element's and no rest: nearly all are plain words.
func (s *source) word(l *Launch) uint64 {
	if s.kind != word32 || s.change != plain {
		return s.read(l, 0, 0)
	}
	return l.word32(int(s.at))
}

func (c change) apply(v uint64) uint64 {
	switch c {
	case plain:
		return v
	case less1:
		if v == 0 {
			return 0
		}
		return v - 1
	case more1:
		if v == 1<<64-1 {
			return v
		}
		return v + 1
	default:
		mask := uint64(8)<<(c-up8) - 1
		if v > 1<<63 {
			return v
		}
		return (v + mask) &^ mask
	}
}

func (s source) valid() bool {
	if s.change >= changeEnd || (s.kind == quotient) != (s.over[0] > 0) || !s.over.valid() {
		return false
	}
	switch s.kind {
	case word32, each32, quotient:
		return s.at%4 == 0 && s.at <= MaxParams-4
	case word64, each64:
		return s.at%8 == 0 && s.at <= MaxParams-8
	case gridDim, blockDim:
		return s.at < 3
	case mapBytes:
		return s.at < maxMaps
	case sharedBytes, rest, signature:
		return s.at == 0
	case isPointer:
		return s.at < mapSlot+maxMaps
	}
	return false
}

// String names a value as people would: "u32[8]", "grid.x", "up128(u64[16])".
func (s source) String() string {
	var name string
	switch s.kind {
	case word32:
		name = fmt.Sprintf("u32[%d]", s.at)
	case word64:
		name = fmt.Sprintf("u64[%d]", s.at)
	case gridDim:
		name = "grid." + string("xyz"[s.at%3])
	case blockDim:
		name = "block." + string("xyz"[s.at%3])
	case sharedBytes:
		name = "shared"
	case mapBytes:
		name = fmt.Sprintf("map[%d]", s.at)
	case quotient:
		name = fmt.Sprintf("u32[%d]", s.at)
		for _, w := range s.over {
			if w > 0 {
				name += fmt.Sprintf("/u32[%d]", 4*w-4)
			}
		}
	case each32:
		name = fmt.Sprintf("each32[%d]", s.at)
	case each64:
		name = fmt.Sprintf("each64[%d]", s.at)
	case rest:
		name = "rest"
	case isPointer:
		name = fmt.Sprintf("pointer[%d]", s.at)
	case signature:
		name = "signature"
	}
	switch s.change {
	case plain:
		return name
	case less1:
		return name + "-1"
	case more1:
		return name + "+1"
	default:
		return fmt.Sprintf("up%d(%s)", 8<<(s.change-up8), name)
	}
}

// product multiplies and stays at the largest number when that is passed.
func product(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return 1<<64 - 1
	}
	return lo
}
