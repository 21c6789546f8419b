package kernels

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestDigestPTXDeclaresTheTable(t *testing.T) {
	declares(t, string(DigestPTX()), ".target sm_70\n", digestTable)
}

// randomBytes are n of a seed's.
func randomBytes(seed, n uint64) []byte {
	b := make([]byte, n)
	s := rand.NewPCG(seed, n)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], s.Uint64())
	}
	return b
}

// TestDigestIsTheSum holds the digest against its definition, worked out with big
// numbers from each word's place alone.
func TestDigestIsTheSum(t *testing.T) {
	key, unit := randomBytes(1, DigestKeyBytes), randomBytes(2, DigestUnit)
	number := func(i int) *big.Int {
		b := bytes.Clone(key[16*i:][:16])
		for i := range 8 {
			b[i], b[15-i] = b[15-i], b[i]
		}
		return new(big.Int).SetBytes(b)
	}
	modulus := new(big.Int).Lsh(big.NewInt(1), 128)
	low := new(big.Int).SetUint64(1<<64 - 1)
	var first [digestStretches][DigestThreads]big.Int
	for w := range DigestUnit / 8 {
		vector := w / 2
		stretch, thread, step := vector/(DigestThreads*digestSteps), vector%DigestThreads, vector/DigestThreads%digestSteps
		m := new(big.Int).SetUint64(binary.LittleEndian.Uint64(unit[8*w:]))
		sum := &first[stretch][thread]
		sum.Add(sum, m.Mul(m, number(2*step+w%2)))
		sum.Mod(sum, modulus)
	}
	want := new(big.Int)
	for s := range first {
		for th := range first[s] {
			at := 2*digestSteps + 2*(s*DigestThreads+th)
			d := &first[s][th]
			want.Add(want, new(big.Int).Mul(new(big.Int).And(d, low), number(at)))
			want.Add(want, new(big.Int).Mul(new(big.Int).Rsh(d, 64), number(at+1)))
		}
	}
	want.Mod(want, modulus)
	d := Digest(key, unit)
	have := new(big.Int).SetUint64(binary.LittleEndian.Uint64(d[8:]))
	have.Lsh(have, 64).Add(have, new(big.Int).SetUint64(binary.LittleEndian.Uint64(d[:])))
	if have.Cmp(want) != 0 {
		t.Errorf("%x, want %x", have, want)
	}
}

// TestDigestSeesOneBit alters one bit, wherever it is, and swaps two words.
func TestDigestSeesOneBit(t *testing.T) {
	key, unit := randomBytes(3, DigestKeyBytes), randomBytes(4, DigestUnit)
	before := Digest(key, unit)
	rapid.Check(t, func(t *rapid.T) {
		at, bit := rapid.IntRange(0, DigestUnit-1).Draw(t, "byte"), byte(1)<<rapid.IntRange(0, 7).Draw(t, "bit")
		unit[at] ^= bit
		if Digest(key, unit) == before {
			t.Errorf("byte %d, bit %#x: the same digest", at, bit)
		}
		unit[at] ^= bit
		a, b := 8*rapid.IntRange(0, DigestUnit/8-1).Draw(t, "word"), 8*rapid.IntRange(0, DigestUnit/8-1).Draw(t, "other word")
		swap := func() {
			x, y := binary.LittleEndian.Uint64(unit[a:]), binary.LittleEndian.Uint64(unit[b:])
			binary.LittleEndian.PutUint64(unit[a:], y)
			binary.LittleEndian.PutUint64(unit[b:], x)
		}
		if swap(); a != b && Digest(key, unit) == before {
			t.Errorf("words %d and %d swapped: the same digest", a, b)
		}
		swap()
	})
}

// TestDigestKernel runs the body over units in any order.
func TestDigestKernel(t *testing.T) {
	const base, n = 0x7f0000000000, 3
	m := flat{base, make([]byte, 64<<10+n*DigestUnit)}
	key := randomBytes(5, DigestKeyBytes)
	copy(m.data[1024:], key)
	units := m.data[64<<10:]
	copy(units, randomBytes(6, n*DigestUnit))
	order := []uint64{2, 0, 1, 0}
	for i, u := range order {
		binary.LittleEndian.PutUint64(m.data[8*i:], base+64<<10+u*DigestUnit)
	}
	out := uint64(512)
	if err := run(t, "xm_digest", m, 7, DigestThreads, base+out, uint64(base), uint64(base+1024), uint32(len(order))); err != nil {
		t.Fatal(err)
	}
	for i, u := range order {
		if want := Digest(key, units[u*DigestUnit:][:DigestUnit]); !bytes.Equal(m.data[int(out)+16*i:][:16], want[:]) {
			t.Errorf("unit %d: %x, want %x", u, m.data[int(out)+16*i:][:16], want)
		}
	}
	if run(t, "xm_digest", m, 1, 128, base+out, uint64(base), uint64(base+1024), uint32(1)) == nil {
		t.Error("it ran with half the threads")
	}
	if run(t, "xm_digest", m, 1, DigestThreads, base+out, uint64(base), uint64(base+1024), uint32(1<<20)) == nil {
		t.Error("it ran outside its memory")
	}
}

func BenchmarkDigest(b *testing.B) {
	key, unit := randomBytes(7, DigestKeyBytes), randomBytes(8, DigestUnit)
	b.SetBytes(DigestUnit)
	for b.Loop() {
		Digest(key, unit)
	}
}
