package predictor

import (
	"encoding/binary"
	"math/rand/v2"
)

// world is a device's memory as tests lay it out: allocations with tensors in
// them, at addresses as a caching allocator gives them.
type world struct {
	rand   *rand.Rand
	ranges Ranges
	top    uint64
	pool   Range  // a large allocation that tensors are cut from
	used   uint64 // of the pool
	pooled bool
}

func newWorld(seed uint64, pooled bool) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 7)), top: 0x7f00_0000_0000, pooled: pooled}
	if pooled {
		w.pool = w.allocate(64 << 30)
	}
	return w
}

func (w *world) allocate(bytes uint64) Range {
	r := Range{w.top, bytes}
	w.top += (bytes+Block-1)/Block*Block + uint64(w.rand.IntN(4))*Block
	w.ranges.Add(r)
	return r
}

// tensor gives the address of a new tensor.
func (w *world) tensor(bytes uint64) uint64 {
	bytes = max(bytes, 1)
	if !w.pooled {
		return w.allocate(bytes).Base
	}
	if w.used+bytes+8*Block > w.pool.Bytes {
		w.used = 0
	}
	at := w.pool.Base + w.used
	w.used += (bytes + 511) / 512 * 512
	if w.rand.IntN(3) == 0 { // something else lies between
		w.used += uint64(w.rand.IntN(int(6*Block))) / 512 * 512
	}
	return at
}

// args builds parameter bytes.
type args struct{ b []byte }

func (a *args) align(n int) *args {
	for len(a.b)%n != 0 {
		a.b = append(a.b, 0)
	}
	return a
}

func (a *args) u32(v ...uint64) *args {
	for _, x := range v {
		a.align(4)
		a.b = binary.LittleEndian.AppendUint32(a.b, uint32(x))
	}
	return a
}

func (a *args) u64(v ...uint64) *args {
	for _, x := range v {
		a.align(8)
		a.b = binary.LittleEndian.AppendUint64(a.b, x)
	}
	return a
}

func ceil(a, b uint64) uint64 { return (a + b - 1) / b }

func dim(x, y, z uint64) [3]uint32 { return [3]uint32{uint32(x), uint32(y), uint32(z)} }

// blocks is what fault feedback sees of touches.
func blocks(touches []Touch) []Touch {
	list, ok := appendSpans(nil, touches, Block)
	if !ok {
		panic("too many spans")
	}
	var out []Touch
	for _, s := range disjoint(list) {
		out = append(out, Touch{Base: s.base, Bytes: s.end - s.base, Access: s.access})
	}
	return out
}
