package predictor

import "math/rand/v2"

// The kernels of this file stand for those that real libraries launch: what their
// parameters look like, and what they touch, in closed form.

func read(base, bytes uint64) Touch  { return Touch{Base: base, Bytes: bytes, Access: Read} }
func write(base, bytes uint64) Touch { return Touch{Base: base, Bytes: bytes, Access: Write} }

func rows(base, bytes, stride, count uint64, a Access) Touch {
	return Touch{Base: base, Bytes: bytes, Stride: stride, Count: uint32(count), Access: a}
}

// offsets is PyTorch's unrolled_elementwise_kernel over a tensor of one or two
// dimensions: sizes with magic numbers for division, strides in bytes.
func offsets(w *world, r *rand.Rand) made {
	inner, outer := between(r, 100, 6000), between(r, 100, 2000)
	n := inner * outer
	out := w.tensor(4 * n)
	p := new(args).u32(n, 0)
	touched := []Touch{write(out, 4*n)}
	var a uint64
	if r.IntN(2) == 0 { // contiguous
		a = w.tensor(4 * n)
		touched = append(touched, read(a, 4*n))
		p.u32(1).u32(n, r.Uint64N(1<<32), 20, 1, 1, 0).u32(4, 4, 0, 0)
	} else { // a slice of a wider tensor, as of a joint projection
		pitch := inner * between(r, 2, 4)
		a = w.tensor(4 * pitch * outer)
		touched = append(touched, rows(a, 4*inner, 4*pitch, outer, Read))
		p.u32(2).u32(inner, r.Uint64N(1<<32), 11, outer, r.Uint64N(1<<32), 9).u32(4, 4, 4*inner, 4*pitch)
	}
	p.u64(out, a)
	return made{Launch{Grid: dim(ceil(n, 512), 1, 1), Block: dim(128, 1, 1), Params: p.b}, touched}
}

// reduce is PyTorch's reduce_kernel: inputs and outputs in a configuration struct.
func reduce(w *world, r *rand.Rand) made {
	inputs, outputs := between(r, 128, 1<<14), between(r, 16, 1<<12)
	src, dst := w.tensor(2*inputs*outputs), w.tensor(4*outputs)
	p := new(args).u32(2, 4, inputs, outputs, 1, 32, 16, 0).u64(src, dst, 0, 0).u32(4, 0, 1, 0)
	return made{
		Launch{Grid: dim(ceil(outputs, 16), 1, 1), Block: dim(32, 16, 1), Shared: 2048, Params: p.b},
		[]Touch{read(src, 2*inputs*outputs), write(dst, 4*outputs)},
	}
}

// blas is a gemm with leading dimensions, in a struct of a kilobyte as the
// libraries of vendors pass it, mostly zeros.
func blas(w *world, r *rand.Rand) made {
	m, n, k := between(r, 64, 4096), between(r, 64, 4096), between(r, 64, 4096)
	lda, ldb := k+8*between(r, 0, 16), n+8*between(r, 0, 16)
	a, b, c := w.tensor(2*m*lda), w.tensor(2*k*ldb), w.tensor(2*m*n)
	p := new(args).u32(m, n, k, 1).u64(a, lda).u64(b, ldb).u64(c, n).u64(c, n).u32(0x3f800000, 0)
	p.u32(ceil(m, 128), ceil(n, 256), 1, 7).u64(make([]uint64, 96)...).u32(m*n%977, 3)
	return made{
		Launch{Grid: dim(ceil(m, 128)*ceil(n, 256), 1, 1), Block: dim(384, 1, 1), Shared: 200 << 10, Params: p.b},
		[]Touch{rows(a, 2*k, 2*lda, m, Read), rows(b, 2*n, 2*ldb, k, Read), write(c, 2*m*n)},
	}
}

// batched is a gemm over matrices that lie apart: whole blocks between them.
func batched(w *world, r *rand.Rand) made {
	m, k, batch := 64*between(r, 1, 16), 64*between(r, 4, 16), between(r, 2, 24)
	apart := m*k + (4<<20)/2*between(r, 1, 3) + 128*between(r, 0, 100)
	a, c := w.tensor(2*apart*batch), w.tensor(2*m*m*batch)
	p := new(args).u32(m, k, batch, 0).u64(a, apart, c, m*m)
	return made{
		Launch{Grid: dim(ceil(m, 64), ceil(m, 64), batch), Block: dim(128, 1, 1), Params: p.b},
		[]Touch{rows(a, 2*m*k, 2*apart, batch, Read), write(c, 2*m*m*batch)},
	}
}

// attention reads a cache as far as the sequence has come, and appends a row.
func attention(w *world, r *rand.Rand) made {
	const heads, width, most = 32, 128, 32 << 10
	position := between(r, 1, most-1)
	row := uint64(2 * heads * width)
	cache, q := w.tensor(row*most), w.tensor(row)
	p := new(args).u64(q, cache, cache).u32(position, heads, width, most)
	return made{
		Launch{Grid: dim(heads, 1, 1), Block: dim(128, 1, 1), Params: p.b},
		[]Touch{read(q, row), read(cache, row*position)},
	}
}

// appendRow writes one row of a cache.
func appendRow(w *world, r *rand.Rand) made {
	position, row := between(r, 0, 32<<10-1), uint64(8192)
	cache, src := w.tensor(row*(32<<10)), w.tensor(row)
	p := new(args).u64(cache, src).u32(position, 4096)
	return made{
		Launch{Grid: dim(4, 1, 1), Block: dim(1024, 1, 1), Params: p.b},
		[]Touch{write(cache+row*position, row), read(src, row)},
	}
}

// norm is a layer norm whose width is compiled in: its rows are the grid.
func norm(w *world, r *rand.Rand) made {
	n := between(r, 1, 1<<15)
	x, y, g := w.tensor(2*4096*n), w.tensor(2*4096*n), w.tensor(2*4096)
	p := new(args).u64(x, g).u32(0x3727c5ac).u64(y)
	return made{
		Launch{Grid: dim(n, 1, 1), Block: dim(512, 1, 1), Params: p.b},
		[]Touch{read(x, 2*4096*n), read(g, 2*4096), write(y, 2*4096*n)},
	}
}

// concatenate is PyTorch's CatArrayBatchedCopy: arrays of pointers and sizes.
func concatenate(w *world, r *rand.Rand) made {
	const parts = 16
	var in, size [parts]uint64
	var sum uint64
	var touched []Touch
	for i := range in {
		size[i] = between(r, 1<<10, 1<<22)
		in[i] = w.tensor(4 * size[i])
		sum += size[i]
		touched = append(touched, read(in[i], 4*size[i]))
	}
	out := w.tensor(4 * sum)
	p := new(args).u64(out).u64(in[:]...).u64(size[:]...).u64(sum)
	return made{
		Launch{Grid: dim(264, parts, 1), Block: dim(512, 1, 1), Params: p.b},
		append(touched, write(out, 4*sum)),
	}
}

// convolution has its tensors' strides in a struct.
func convolution(w *world, r *rand.Rand) made {
	n, c, h, k := between(r, 1, 64), 16*between(r, 1, 32), between(r, 7, 112), 16*between(r, 1, 32)
	x, f, y := w.tensor(2*n*c*h*h), w.tensor(2*k*c*9), w.tensor(2*n*k*h*h)
	p := new(args).u32(n, h, h, c, k, 3, 3, h).u32(h*h*c, h*c, c, 1).u32(h*h*k, h*k, k, 1).u32(9*c, 3*c, c).u64(x, f, y, 0)
	return made{
		Launch{Grid: dim(ceil(n*h*h, 128), ceil(k, 64), 1), Block: dim(256, 1, 1), Shared: 64 << 10, Params: p.b},
		[]Touch{read(x, 2*n*c*h*h), read(f, 2*9*c*k), write(y, 2*n*k*h*h)},
	}
}

// stencil works on a grid whose size is compiled in, the iteration varies.
func stencil(w *world, r *rand.Rand) made {
	const n = 3000
	a, b := w.tensor(8*n*n), w.tensor(8*n*n)
	p := new(args).u64(a, b).u32(r.Uint64N(10000), r.Uint64N(1<<32))
	return made{
		Launch{Grid: dim(94, 94, 1), Block: dim(32, 32, 1), Params: p.b},
		[]Touch{read(a, 8*n*n), write(b, 8*n*n)},
	}
}

// sparse is a matrix in compressed rows times a vector.
func sparse(w *world, r *rand.Rand) made {
	n, entries := between(r, 1<<12, 1<<22), between(r, 1<<16, 1<<26)
	start, column, value, x, y := w.tensor(4*(n+1)), w.tensor(4*entries), w.tensor(8*entries), w.tensor(8*n), w.tensor(8*n)
	p := new(args).u32(n, entries).u64(start, column, value, x, y)
	return made{
		Launch{Grid: dim(ceil(n, 256), 1, 1), Block: dim(256, 1, 1), Params: p.b},
		[]Touch{read(start, 4*(n+1)), read(column, 4*entries), read(value, 8*entries), read(x, 8*n), write(y, 8*n)},
	}
}

// padded writes whole tiles.
func padded(w *world, r *rand.Rand) made {
	m, k := between(r, 100, 20000), 512*between(r, 1, 16)
	bytes := (m + 127) / 128 * 128 * k * 2
	a := w.tensor(bytes)
	return made{
		Launch{Grid: dim(132, 1, 1), Block: dim(128, 1, 1), Params: new(args).u32(m, k).u64(a).b},
		[]Touch{write(a, bytes)},
	}
}

// mapped is a gemm by tensor maps: no pointer among its parameters.
func mapped(w *world, r *rand.Rand) made {
	m, n, k := 128*between(r, 1, 60), 128*between(r, 1, 60), 64*between(r, 1, 100)
	a, b, c := w.tensor(2*m*k), w.tensor(2*n*k), w.tensor(2*m*n)
	return made{
		Launch{Grid: dim(132, 1, 1), Block: dim(384, 1, 1), Params: new(args).u32(m, n, k, 1).b, Maps: []Range{{a, 2 * m * k}, {b, 2 * n * k}, {c, 0}}},
		[]Touch{read(a, 2*m*k), read(b, 2*n*k), write(c, 2*m*n)},
	}
}

// moded does one of two things.
func moded(w *world, r *rand.Rand) made {
	n, mode := log2ish(r, 1<<16, 1<<25), uint64(r.IntN(2))
	a, b := w.tensor(8*n), w.tensor(8*n)
	p := new(args).u32(n, mode).u64(a, b)
	touched := []Touch{read(a, 4*n), write(b, 8*n)}
	if mode == 1 {
		touched = []Touch{read(a, 8*n), write(b, 4*n)}
	}
	return made{Launch{Grid: dim(256, 1, 1), Block: dim(256, 1, 1), Params: p.b}, touched}
}

// optional has a bias or not, and reads its destination only with one.
func optional(w *world, r *rand.Rand) made {
	m, n := between(r, 128, 8192), between(r, 128, 8192)
	x, y, bias := w.tensor(4*m*n), w.tensor(4*m*n), uint64(0)
	touched := []Touch{read(x, 4*m*n), write(y, 4*m*n)}
	if r.IntN(2) == 0 {
		bias = w.tensor(4 * n)
		touched = append(touched, read(bias, 4*n))
	}
	return made{Launch{Grid: dim(m, 1, 1), Block: dim(256, 1, 1), Params: new(args).u64(x, bias, y).u32(m, n).b}, touched}
}

// columns are wide strips of a matrix with very long rows.
func columns(w *world, r *rand.Rand) made {
	m, width, pitch := between(r, 2, 40), between(r, 1<<10, 1<<19), between(r, 1<<20, 1<<22)
	a, b := w.tensor(4*m*pitch), w.tensor(4*m*width)
	p := new(args).u64(a, pitch, b).u32(m, width)
	return made{
		Launch{Grid: dim(ceil(width, 256), m, 1), Block: dim(256, 1, 1), Params: p.b},
		[]Touch{rows(a, 4*width, 4*pitch, m, Read), write(b, 4*m*width)},
	}
}

// opaque has one of some sizes that no formula gives.
func opaque(w *world, r *rand.Rand) made {
	mode := uint64(r.IntN(4))
	bytes := []uint64{31 << 20, 7<<20 + 512, 100 << 20, 55<<20 + 4096}[mode]
	a := w.tensor(bytes)
	return made{
		Launch{Grid: dim(132, 1, 1), Block: dim(128, 1, 1), Params: new(args).u64(a).u32([]uint64{17, 3, 91, 40}[mode], 5).b},
		[]Touch{write(a, bytes)},
	}
}

// gather reads rows of a table that indices in memory name.
func gather(w *world, r *rand.Rand) made {
	n := between(r, 1, 64)
	table, index, out := w.tensor(1<<30), w.tensor(8*n), w.tensor(8192*n)
	touched := []Touch{read(index, 8*n), write(out, 8192*n)}
	for range n {
		touched = append(touched, read(table+8192*r.Uint64N(1<<17), 8192))
	}
	return made{Launch{Grid: dim(n, 1, 1), Block: dim(512, 1, 1), Params: new(args).u64(table, index, out).u32(n, 4096).b}, touched}
}

// hidden reads as much as a number in memory says.
func hidden(w *world, r *rand.Rand) made {
	cache, length := w.tensor(256<<20), w.tensor(4)
	p := new(args).u64(cache, length).u32(4096, 32, r.Uint64N(1000))
	return made{
		Launch{Grid: dim(32, 1, 1), Block: dim(128, 1, 1), Params: p.b},
		[]Touch{read(length, 4), read(cache, 8192*between(r, 1, 32<<10))},
	}
}

// templated kernels are those that templates can describe, indirect ones those
// that they cannot.
var templated = map[string]maker{
	"elementwise": elementwise, "gemm": gemm, "grid only": gridOnly, "offsets": offsets, "reduce": reduce, "blas": blas,
	"batched": batched, "attention": attention, "append row": appendRow, "norm": norm, "concatenate": concatenate,
	"convolution": convolution, "stencil": stencil, "sparse": sparse, "padded": padded, "mapped": mapped,
	"moded": moded, "optional": optional, "columns": columns, "opaque": opaque,
}

var indirect = map[string]maker{"gather": gather, "hidden": hidden}
