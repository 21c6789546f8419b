package kernels

import "encoding/binary"

// The generator of xm_spin, modulo 2^32: the constants of Numerical Recipes'
// ranqd1.
const (
	lcgMul = 1664525
	lcgAdd = 1013904223
)

// SpinResult is the word that the thread with this global index writes: the
// generator's state after the given number of steps, in O(log iterations).
func SpinResult(index uint32, iterations uint64) uint32 {
	mul, add := lcgPower(iterations)
	return mul*index + add
}

// lcgPower composes n steps x -> lcgMul*x+lcgAdd into one: x -> mul*x+add. It
// squares the step as exponentiation squares a base.
func lcgPower(n uint64) (mul, add uint32) {
	mul, add = 1, 0
	stepMul, stepAdd := uint32(lcgMul), uint32(lcgAdd)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			mul, add = mul*stepMul, add*stepMul+stepAdd
		}
		stepMul, stepAdd = stepMul*stepMul, stepAdd*stepMul+stepAdd
	}
	return mul, add
}

// Checksum is what xm_checksum adds to *out for these bytes, whose length is a
// multiple of four.
func Checksum(data []byte) uint64 { return sumWords(data) }

func sumWords(data []byte) uint64 {
	var sum uint64
	for i := 0; i+4 <= len(data); i += 4 {
		sum += uint64(i/4+1) * uint64(binary.LittleEndian.Uint32(data[i:]))
	}
	return sum
}
