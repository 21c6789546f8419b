package kernels

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

//go:embed science.ptx
var sciencePTX []byte

// SciencePTX is the text of the module whose kernels touch memory in ways of all
// kinds: what predictions are judged by. Its kernels are Science. It is as PTX's.
func SciencePTX() []byte { return append([]byte(nil), sciencePTX...) }

// Science returns the kernels of that module in the order of its text.
func Science() []Kernel { return append([]Kernel(nil), scienceTable...) }

// HistogramBins is how many words xm_histogram counts in.
const HistogramBins = 256

var scienceTable = []Kernel{
	{
		Name: "xm_stencil", Params: params(u64("out"), u64("in"), u32("rows"), u32("columns")),
		Body: stencil, Cost: streamCost(2, product32(16, 20)), Touched: touched(2, product32(16, 20)),
		Spans: spans(pointed(0, Write, product32(16, 20)), pointed(8, Read, product32(16, 20))),
	},
	{
		Name: "xm_matmul", Params: params(u64("c"), u64("a"), u64("b"), u32("m"), u32("n"), u32("k")),
		Body: matmul, Cost: matmulCost, Touched: matmulTouched,
		Spans: spans(pointed(0, Write, product32(24, 28)), where(matmulWorks, pointed(8, Read, product32(24, 32))), where(matmulWorks, pointed(16, Read, product32(28, 32)))),
	},
	{
		Name:   "xm_sparse",
		Params: params(u64("y"), u64("start"), u64("column"), u64("value"), u64("x"), u32("rows"), u32("entries"), u32("columns")),
		Body:   sparse, Cost: streamCost(4, words32(44)), Touched: touched(4, words32(44)),
	},
	{
		Name: "xm_gather", Params: params(u64("out"), u64("index"), u64("table"), u32("n"), u32("size")),
		Body: gather, Cost: streamCost(3, words32(24)), Touched: touched(3, words32(24)),
	},
	{
		Name: "xm_wavelet", Params: params(u64("data"), u64("pitch"), u32("rows"), u32("pairs")),
		Body: wavelet, Cost: streamCost(4, product32(16, 20)), Touched: touched(4, product32(16, 20)),
		Spans: spans(waveletSpan),
	},
	{
		Name: "xm_histogram", Params: params(u64("bins"), u64("data"), u64("n")),
		Body: histogram, Cost: streamCost(1, words64(16)), Touched: touched(1, words64(16)),
		Spans: spans(pointed(8, Read, words64(16)), where(func(l Launch) bool { return arg64(l, 16) > 0 }, pointed(0, Update, fixed(HistogramBins)))),
	},
	{
		Name: "xm_batched", Params: params(Param{Name: "work", Size: 32}),
		Body: batched, Cost: streamCost(3, product32(16, 20)), Touched: touched(3, product32(16, 20)),
		Spans: spans(batchedSpan(0, Update), batchedSpan(8, Read)),
	},
	{
		Name: "xm_either", Params: params(u64("data"), u32("mode"), u32("n")),
		Body: either, Cost: streamCost(1, eitherWords), Touched: touched(1, eitherWords),
		Spans: eitherSpans,
	},
}

// product32 is the product of the words at two offsets of the arguments.
func product32(a, b int) func(Launch) uint64 {
	return func(l Launch) uint64 { return uint64(arg32(l, a)) * uint64(arg32(l, b)) }
}

func put(b []byte, i uint64, v uint32) { binary.LittleEndian.PutUint32(b[4*i:], v) }
func at(b []byte, i uint64) uint32     { return binary.LittleEndian.Uint32(b[4*i:]) }

func stencil(m Memory, l Launch) error {
	n, columns := product32(16, 20)(l), uint64(arg32(l, 20))
	in, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	out, err := viewWords(m, arg64(l, 0), n, Write)
	if err != nil {
		return err
	}
	for i := range n {
		put(out, i, StencilResult(func(i uint64) uint32 { return at(in, i) }, n, columns, i))
	}
	return nil
}

// StencilResult is word i of what xm_stencil makes of n words in so many columns.
func StencilResult(in func(uint64) uint32, n, columns, i uint64) uint32 {
	v := 4 * in(i)
	if i >= columns {
		v += in(i - columns)
	}
	if i+columns < n {
		v += in(i + columns)
	}
	if i%columns > 0 {
		v += in(i - 1)
	}
	if i%columns+1 < columns {
		v += in(i + 1)
	}
	return v
}

// matmulWorks says whether a matmul reads anything.
func matmulWorks(l Launch) bool { return arg32(l, 24) > 0 && arg32(l, 28) > 0 }

func matmul(mem Memory, l Launch) error {
	m, n, k := uint64(arg32(l, 24)), uint64(arg32(l, 28)), uint64(arg32(l, 32))
	if !matmulWorks(l) {
		return nil
	}
	a, err := viewWords(mem, arg64(l, 8), m*k, Read)
	if err != nil {
		return err
	}
	b, err := viewWords(mem, arg64(l, 16), n*k, Read)
	if err != nil {
		return err
	}
	c, err := viewWords(mem, arg64(l, 0), m*n, Write)
	if err != nil {
		return err
	}
	row := make([]uint32, n)
	for i := range m {
		clear(row)
		for t := range k {
			x := at(a, i*k+t)
			for j := range n {
				row[j] += x * at(b, t*n+j)
			}
		}
		for j, v := range row {
			put(c, i*n+uint64(j), v)
		}
	}
	return nil
}

func matmulTouched(l Launch) uint64 {
	m, n, k := uint64(arg32(l, 24)), uint64(arg32(l, 28)), uint64(arg32(l, 32))
	if m == 0 || n == 0 || k > math.MaxUint64/4/(m*n) {
		return 0
	}
	return 4 * m * n * k
}

// matmulCost: multiply-adds of all multiprocessors, 64 a cycle each.
func matmulCost(l Launch) time.Duration {
	return clampedNanos(matmulTouched(l)/4, picosPerCycle, 1000*64*multiprocessors)
}

func sparse(m Memory, l Launch) error {
	rows := uint64(arg32(l, 40))
	if rows == 0 {
		return nil
	}
	start, err := viewWords(m, arg64(l, 8), rows+1, Read)
	if err != nil {
		return err
	}
	y, err := viewWords(m, arg64(l, 0), rows, Write)
	if err != nil {
		return err
	}
	for r := range rows {
		from, to := uint64(at(start, r)), uint64(at(start, r+1))
		sum := uint32(0)
		if to > from {
			if sum, err = sparseRow(m, l, from, to); err != nil {
				return err
			}
		}
		put(y, r, sum)
	}
	return nil
}

func sparseRow(m Memory, l Launch, from, to uint64) (sum uint32, err error) {
	column, err := viewWords(m, arg64(l, 16)+4*from, to-from, Read)
	if err != nil {
		return 0, err
	}
	value, err := viewWords(m, arg64(l, 24)+4*from, to-from, Read)
	if err != nil {
		return 0, err
	}
	for i := range to - from {
		x, err := m.View(arg64(l, 32)+4*uint64(at(column, i)), 4, Read)
		if err != nil {
			return 0, err
		}
		sum += at(value, i) * at(x, 0)
	}
	return sum, nil
}

func gather(m Memory, l Launch) error {
	n, size := uint64(arg32(l, 24)), arg32(l, 28)
	if size == 0 {
		return nil
	}
	index, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	out, err := viewWords(m, arg64(l, 0), n, Write)
	if err != nil {
		return err
	}
	for i := range n {
		word, err := m.View(arg64(l, 16)+4*uint64(at(index, i)%size), 4, Read)
		if err != nil {
			return err
		}
		put(out, i, at(word, 0))
	}
	return nil
}

func waveletSpan(l Launch) Span {
	rows, pairs := uint64(arg32(l, 16)), uint64(arg32(l, 20))
	return Span{Base: arg64(l, 0), Bytes: 8 * pairs, Stride: 4 * arg64(l, 8), Count: rows, Access: Update}
}

// wavelet goes row by row, which is what the kernel does where rows do not overlap.
func wavelet(m Memory, l Launch) error {
	pitch, pairs := arg64(l, 8), uint64(arg32(l, 20))
	for r := range uint64(arg32(l, 16)) {
		if pitch > math.MaxUint64/4/(r+1) {
			return fmt.Errorf("row %d of %d words each leaves the address space", r, pitch)
		}
		row, err := viewWords(m, arg64(l, 0)+4*r*pitch, 2*pairs, Update)
		if err != nil {
			return err
		}
		for i := range pairs {
			a, b := at(row, 2*i), at(row, 2*i+1)
			put(row, 2*i, a+b)
			put(row, 2*i+1, a-b)
		}
	}
	return nil
}

func histogram(m Memory, l Launch) error {
	n := arg64(l, 16)
	if n == 0 {
		return nil
	}
	data, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	bins, err := viewWords(m, arg64(l, 0), HistogramBins, Update)
	if err != nil {
		return err
	}
	for i := range n {
		bin := uint64(at(data, i) % HistogramBins)
		put(bins, bin, at(bins, bin)+1)
	}
	return nil
}

// batchedSpan is what xm_batched touches by the pointer at this offset.
func batchedSpan(pointer int, a Access) part {
	return func(l Launch) Span {
		return Span{
			Base: arg64(l, pointer), Bytes: 4 * uint64(arg32(l, 16)),
			Stride: 4 * arg64(l, 24), Count: uint64(arg32(l, 20)), Access: a,
		}
	}
}

func batched(m Memory, l Launch) error {
	n, stride := uint64(arg32(l, 16)), arg64(l, 24)
	if n == 0 {
		return nil
	}
	for b := range uint64(arg32(l, 20)) {
		if stride > math.MaxUint64/4/(b+1) {
			return fmt.Errorf("batch %d of %d words each leaves the address space", b, stride)
		}
		x, err := viewWords(m, arg64(l, 8)+4*b*stride, n, Read)
		if err != nil {
			return err
		}
		y, err := viewWords(m, arg64(l, 0)+4*b*stride, n, Update)
		if err != nil {
			return err
		}
		for i := range n {
			put(y, i, at(y, i)+at(x, i))
		}
	}
	return nil
}

// eitherWords is how many words xm_either touches.
func eitherWords(l Launch) uint64 {
	if arg32(l, 8) == 0 {
		return l.Threads()
	}
	return uint64(arg32(l, 12))
}

func eitherSpans(l Launch) []Span {
	access := Write
	if arg32(l, 8) == 0 {
		access = Update
	}
	return spans(pointed(0, access, eitherWords))(l)
}

func either(m Memory, l Launch) error {
	mode, n := arg32(l, 8), eitherWords(l)
	access := Write
	if mode == 0 {
		access = Update
	}
	data, err := viewWords(m, arg64(l, 0), n, access)
	if err != nil {
		return err
	}
	for i := range n {
		if mode == 0 {
			put(data, i, at(data, i)+1)
		} else {
			put(data, i, mode)
		}
	}
	return nil
}
