package kernels

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"
)

//go:embed digest.ptx
var digestPTX []byte

// DigestPTX is the text of the module that hashes memory: xm_digest alone. It is as
// PTX's.
func DigestPTX() []byte { return append([]byte(nil), digestPTX...) }

// Sizes of xm_digest.
const (
	DigestUnit    = 512 << 10 // bytes of a unit
	DigestThreads = 256       // of a block; no other number
	DigestBytes   = 16        // of a digest
	// DigestKeyBytes of random bytes are the key: 64 numbers of 128 bits for the words
	// that a thread reads of a stretch, then two for each thread of each stretch.
	DigestKeyBytes = 16 * (2*digestSteps + 2*DigestThreads*digestStretches)

	digestSteps     = 32 // vectors of 16 bytes that a thread reads of a stretch
	digestStretch   = 16 * DigestThreads * digestSteps
	digestStretches = DigestUnit / digestStretch
)

// Digest is what xm_digest writes for a unit: a sum over its words, each times a
// number of the key, twice over, modulo 2^128.
//
// With a key of random bits the digests of two units that differ are the same with a
// probability of at most 2^-64. In one stretch the numbers of a thread differ
// unless Σ k·d = 0 modulo 2^128, d being the words' differences. Take one that is not 0,
// and 2^t the largest power of two in it, t < 64: of the 2^128 values of its k at most
// 2^t make the sum 0, which is one in 2^65. If the numbers differ so do the digests, by the
// same argument with the keys of the second kind, but for one in 2^65 again.
func Digest(key, unit []byte) (d [DigestBytes]byte) {
	var hi, lo uint64
	second := key[16*2*digestSteps:]
	for s := 0; s < digestStretches; s++ {
		stretch := unit[s*digestStretch:][:digestStretch]
		var sums [DigestThreads]uint128
		for v := 0; v < digestSteps; v++ {
			row := (*[16 * DigestThreads]byte)(stretch[16*DigestThreads*v:])
			addRow(&sums, row, wide(key, 2*v), wide(key, 2*v+1))
		}
		for t := range sums {
			at := 2 * (s*DigestThreads + t)
			hi, lo = wide(second, at).addTimes(sums[t].lo, hi, lo)
			hi, lo = wide(second, at+1).addTimes(sums[t].hi, hi, lo)
		}
	}
	binary.LittleEndian.PutUint64(d[:], lo)
	binary.LittleEndian.PutUint64(d[8:], hi)
	return d
}

// addRow adds to each thread's sum the two words of a vector, each times its number.
func addRow(sums *[DigestThreads]uint128, row *[16 * DigestThreads]byte, k0, k1 uint128) {
	for t := range sums {
		s := &sums[t]
		h, l := k0.addTimes(binary.LittleEndian.Uint64(row[16*t:16*t+8]), s.hi, s.lo)
		s.hi, s.lo = k1.addTimes(binary.LittleEndian.Uint64(row[16*t+8:16*t+16]), h, l)
	}
}

// uint128 is a number of a key.
type uint128 struct{ hi, lo uint64 }

// wide is number i of a key.
func wide(key []byte, i int) uint128 {
	b := key[16*i:][:16]
	return uint128{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)}
}

// addTimes is hi:lo + k*m.
func (k uint128) addTimes(m, hi, lo uint64) (uint64, uint64) {
	high, low := bits.Mul64(k.lo, m)
	lo, carry := bits.Add64(lo, low, 0)
	return hi + high + carry + k.hi*m, lo
}

var digestTable = []Kernel{{
	Name: "xm_digest", Params: params(u64("out"), u64("units"), u64("keys"), u32("n")),
	Body: digest, Cost: digestCost, Touched: digestTouched,
}}

func digest(m Memory, l Launch) error {
	if l.Block != [3]uint32{DigestThreads, 1, 1} {
		return fmt.Errorf("xm_digest with blocks of %v threads, made for %d", l.Block, DigestThreads)
	}
	n := uint64(arg32(l, 24))
	if n == 0 {
		return nil
	}
	units, err := m.View(arg64(l, 8), 8*n, Read)
	if err != nil {
		return err
	}
	key, err := m.View(arg64(l, 16), DigestKeyBytes, Read)
	if err != nil {
		return err
	}
	out, err := m.View(arg64(l, 0), DigestBytes*n, Write)
	if err != nil {
		return err
	}
	for u := range n {
		unit, err := m.View(binary.LittleEndian.Uint64(units[8*u:]), DigestUnit, Read)
		if err != nil {
			return err
		}
		d := Digest(key, unit)
		copy(out[DigestBytes*u:], d[:])
	}
	return nil
}

func digestTouched(l Launch) uint64 { return uint64(arg32(l, 24)) * (DigestUnit + 8 + DigestBytes) }

func digestCost(l Launch) time.Duration { return clampedNanos(digestTouched(l), 1000, bytesPerMicro) }
