package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

var table = []Kernel{
	{
		Name: "xm_empty", Params: params(),
		Body: func(Memory, Launch) error { return nil }, Cost: emptyCost,
		Touched: func(Launch) uint64 { return 0 }, Spans: spans(),
	},
	{
		Name: "xm_spin", Params: params(u64("out"), u64("iterations")),
		Body: spin, Cost: spinCost, Touched: spinTouched,
		Spans: spans(where(func(l Launch) bool { return arg64(l, 0) != 0 }, pointed(0, Write, Launch.Threads))),
	},
	{
		Name: "xm_vector_add", Params: params(u64("c"), u64("a"), u64("b"), u32("n")),
		Body: vectorAdd, Cost: streamCost(3, words32(24)), Touched: touched(3, words32(24)),
		Spans: spans(pointed(8, Read, words32(24)), pointed(16, Read, words32(24)), pointed(0, Write, words32(24))),
	},
	{
		Name: "xm_fill", Params: params(u64("out"), u32("value"), u32("n")),
		Body: fill, Cost: streamCost(1, words32(12)), Touched: touched(1, words32(12)),
		Spans: spans(pointed(0, Write, words32(12))),
	},
	{
		Name: "xm_increment", Params: params(u64("data"), u32("n")),
		Body: increment, Cost: streamCost(2, words32(8)), Touched: touched(2, words32(8)),
		Spans: spans(pointed(0, Update, words32(8))),
	},
	{
		Name: "xm_checksum", Params: params(u64("out"), u64("data"), u64("n")),
		Body: checksum, Cost: streamCost(1, words64(16)), Touched: touched(1, words64(16)),
		Spans: spans(pointed(8, Read, words64(16)), where(func(l Launch) bool { return arg64(l, 16) > 0 }, pointed(0, Update, fixed(2)))),
	},
	{
		Name: "xm_copy", Params: params(u64("dst"), u64("src"), u64("n")),
		Body: copyWords, Cost: streamCost(2, words64(16)), Touched: touched(2, words64(16)),
		Spans: spans(pointed(8, Read, words64(16)), pointed(0, Write, words64(16))),
	},
}

// words32 and words64 read the word count at an argument's offset.
func words32(offset int) func(Launch) uint64 {
	return func(l Launch) uint64 { return uint64(arg32(l, offset)) }
}

func words64(offset int) func(Launch) uint64 {
	return func(l Launch) uint64 { return arg64(l, offset) }
}

// viewWords is Memory.View for a count of words; a count whose bytes do not fit
// an address is as unmapped as the rest.
func viewWords(m Memory, addr, n uint64, a Access) ([]byte, error) {
	if n > math.MaxUint64/4 {
		return nil, fmt.Errorf("%d words at %#x leave the address space", n, addr)
	}
	if n == 0 {
		return nil, nil
	}
	return m.View(addr, 4*n, a)
}

func spin(m Memory, l Launch) error {
	out, iterations := arg64(l, 0), arg64(l, 8)
	if out == 0 {
		return nil
	}
	b, err := viewWords(m, out, l.Threads(), Write)
	if err != nil {
		return err
	}
	mul, add := lcgPower(iterations)
	for i := uint64(0); i < l.Threads(); i++ {
		binary.LittleEndian.PutUint32(b[4*i:], mul*uint32(i)+add)
	}
	return nil
}

func vectorAdd(m Memory, l Launch) error {
	n := uint64(arg32(l, 24))
	a, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	b, err := viewWords(m, arg64(l, 16), n, Read)
	if err != nil {
		return err
	}
	c, err := viewWords(m, arg64(l, 0), n, Write)
	if err != nil {
		return err
	}
	for i := uint64(0); i < 4*n; i += 4 {
		binary.LittleEndian.PutUint32(c[i:], binary.LittleEndian.Uint32(a[i:])+binary.LittleEndian.Uint32(b[i:]))
	}
	return nil
}

func fill(m Memory, l Launch) error {
	value, n := arg32(l, 8), uint64(arg32(l, 12))
	b, err := viewWords(m, arg64(l, 0), n, Write)
	if err != nil {
		return err
	}
	for i := uint64(0); i < 4*n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], value)
	}
	return nil
}

func increment(m Memory, l Launch) error {
	n := uint64(arg32(l, 8))
	b, err := viewWords(m, arg64(l, 0), n, Update)
	if err != nil {
		return err
	}
	for i := uint64(0); i < 4*n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], binary.LittleEndian.Uint32(b[i:])+1)
	}
	return nil
}

func checksum(m Memory, l Launch) error {
	n := arg64(l, 16)
	if n == 0 {
		return nil
	}
	data, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	out, err := m.View(arg64(l, 0), 8, Update)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(out, binary.LittleEndian.Uint64(out)+sumWords(data))
	return nil
}

func copyWords(m Memory, l Launch) error {
	n := arg64(l, 16)
	src, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	dst, err := viewWords(m, arg64(l, 0), n, Write)
	if err != nil {
		return err
	}
	copy(dst, src)
	return nil
}
