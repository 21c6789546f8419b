package conformance

import (
	"bytes"
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// memoryCases ask about memory of every kind, and the ways to move and set it.
var memoryCases = []testCase{
	story("memsets-of-rows", memsetsOfRows),
	story("pitched-memory", pitchedMemory),
	story("unified-copies", unifiedCopies),
	story("copies-2d", copies2D),
	story("copy-2d-refusals", copyRefusals2D),
	story("copies-3d", copies3D),
	story("copy-3d-refusals", copyRefusals3D),
	story("peers", peers),
	story("copy-batches", copyBatches),
	story("copy-batch-refusals", batchRefusals),
	copiesInHeldStream,
	callsInHeldStream,
	syncBehindHeldStream,
	story("managed-memory", managedMemory),
	story("prefetch", prefetches),
	story("advice", advice),
	story("advice-refusals", adviceRefusals),
	story("pools", pools),
	story("pool-attributes", poolAttributes),
	story("pool-memory", poolMemory),
	story("pool-order", poolOrder),
	story("pool-refusals", poolRefusals),
	story("pools-and-contexts", poolsAndContexts),
	story("more-pointer-attributes", morePointerAttributes),
	memoryNullPointers,
}

// region is device memory, with what it must hold.
type region struct {
	p    uint64
	want []byte
}

// region makes n bytes of device memory that hold a pattern.
func (t *transcript) region(n int, seed byte) region {
	r := region{t.alloc(n), pattern(n, seed)}
	t.must("cuMemcpyHtoD_v2", uintptr(r.p), ptr(&bytes.Clone(r.want)[0]), uintptr(n))
	return r
}

// check says whether a region holds what it must.
func (t *transcript) check(r region) {
	got := t.bytes(r.p, len(r.want))
	t.note("right: %d of %d", count(got, func(i int, v byte) bool { return v == r.want[i] }), len(r.want))
}

// pinned makes n bytes of pinned memory that are 0.
func (t *transcript) pinned(n int) (uintptr, []byte) {
	var p unsafe.Pointer
	if !t.must("cuMemHostAlloc", ptr(&p), uintptr(n), 0) {
		return 0, make([]byte, n)
	}
	b := unsafe.Slice((*byte)(p), n)
	clear(b)
	return uintptr(p), b
}

// managed makes n bytes of managed memory.
func (t *transcript) managed(n int) (uintptr, []byte) {
	var p unsafe.Pointer
	if !t.must("cuMemAllocManaged", ptr(&p), uintptr(n), uintptr(abi.CU_MEM_ATTACH_GLOBAL)) || p == nil {
		return 0, make([]byte, n)
	}
	return uintptr(p), unsafe.Slice((*byte)(p), n)
}

// free is how much device memory is free.
func (t *transcript) free() uint64 {
	var free, total uint64
	t.must("cuMemGetInfo_v2", ptr(&free), ptr(&total))
	return free
}

// less says how much less is free than was, in whole blocks of 2 MiB.
func (t *transcript) less(before uint64) string {
	now := t.free()
	if now > before {
		return "more is free"
	}
	return fmt.Sprintf("%d MiB less", (before-now)>>21<<1)
}

func memsetsOfRows(t *transcript) {
	if !t.context() {
		return
	}
	const n = 4096
	r, s := t.region(n, 3), t.stream(abi.CU_STREAM_NON_BLOCKING)
	// rows sets what a memset of rows sets.
	rows := func(at, pitch int, element []byte, width, height int) {
		for y := range height {
			copy(r.want[at+y*pitch:], bytes.Repeat(element, width))
		}
	}
	t.call("cuMemsetD2D8_v2", "p + 3, 100, 0xab, 10, 5", uintptr(r.p+3), 100, 0xab, 10, 5)
	rows(3, 100, []byte{0xab}, 10, 5)
	t.check(r)
	t.call("cuMemsetD2D16_v2", "p + 2, 128, 0x1234, 7, 4", uintptr(r.p+2), 128, 0x1234, 7, 4)
	rows(2, 128, []byte{0x34, 0x12}, 7, 4)
	t.check(r)
	t.call("cuMemsetD2D32_v2", "p + 1024, 64, 0x11223344, 16, 8", uintptr(r.p+1024), 64, 0x11223344, 16, 8)
	rows(1024, 64, []byte{0x44, 0x33, 0x22, 0x11}, 16, 8)
	t.check(r)
	t.call("cuMemsetD16_v2", "p + 2, 0x5678, 9", uintptr(r.p+2), 0x5678, 9)
	rows(2, 0, []byte{0x78, 0x56}, 9, 1)
	t.check(r)
	t.section("asynchronous")
	t.call("cuMemsetD2D8Async", "p + 5, 16, 1, 3, 9, s", uintptr(r.p+5), 16, 1, 3, 9, uintptr(s))
	rows(5, 16, []byte{1}, 3, 9)
	t.call("cuMemsetD2D16Async", "p + 2048, 32, 2, 3, 9, s", uintptr(r.p+2048), 32, 2, 3, 9, uintptr(s))
	rows(2048, 32, []byte{2, 0}, 3, 9)
	t.call("cuMemsetD2D32Async", "p + 3072, 32, 3, 3, 9, s", uintptr(r.p+3072), 32, 3, 3, 9, uintptr(s))
	rows(3072, 32, []byte{3, 0, 0, 0}, 3, 9)
	t.call("cuMemsetD16Async", "p, 4, 2, s", uintptr(r.p), 4, 2, uintptr(s))
	rows(0, 0, []byte{4, 0}, 2, 1)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.check(r)
	t.section("the default streams' twins")
	for i, symbol := range []string{"cuMemsetD2D8_v2_ptds", "cuMemsetD2D16_v2_ptds", "cuMemsetD2D32_v2_ptds"} {
		t.call(symbol, "p, 512, 0, 1, 2", uintptr(r.p)+uintptr(64*i), 512, 0, 1, 2)
		rows(64*i, 512, make([]byte, 1<<i), 1, 2)
	}
	for i, symbol := range []string{"cuMemsetD2D8Async_ptsz", "cuMemsetD2D16Async_ptsz", "cuMemsetD2D32Async_ptsz"} {
		t.call(symbol, "p, 512, 0, 1, 2, NULL", uintptr(r.p)+uintptr(64*i+8), 512, 0, 1, 2, 0)
		rows(64*i+8, 512, make([]byte, 1<<i), 1, 2)
	}
	t.call("cuCtxSynchronize", "")
	t.check(r)
	memsetRowRefusals(t, uintptr(r.p), uintptr(s))
	t.check(r)
}

// memsetRowRefusals asks for rows of zeros, refused or not, where zeros are.
func memsetRowRefusals(t *transcript, p, s uintptr) {
	t.section("no rows, and no width")
	t.call("cuMemsetD2D8_v2", "p, 100, 0, 0, 5", p, 100, 0, 0, 5)
	t.call("cuMemsetD2D8_v2", "p, 100, 0, 5, 0", p, 100, 0, 5, 0)
	t.call("cuMemsetD2D8_v2", "0, 100, 0, 5, 0", 0, 100, 0, 5, 0)
	t.section("refused or not")
	z := uintptr(t.alloc(1 << 20))
	t.must("cuMemsetD8_v2", z, 0, 1<<20)
	t.call("cuMemsetD2D8_v2", "pitch 0, one row", z, 0, 0, 5, 1)
	t.call("cuMemsetD2D8_v2", "pitch 0, two rows", z, 0, 0, 5, 2)
	t.call("cuMemsetD2D8_v2", "pitch less than width, one row", z, 4, 0, 5, 1)
	t.call("cuMemsetD2D8_v2", "pitch less than width, two rows", z, 4, 0, 5, 2)
	t.call("cuMemsetD2D16_v2", "odd pitch, two rows", z, 11, 0, 5, 2)
	t.call("cuMemsetD2D32_v2", "pitch no multiple of 4, two rows", z, 22, 0, 5, 2)
	t.call("cuMemsetD2D16_v2", "odd address", z+1, 16, 0, 5, 2)
	t.call("cuMemsetD2D32_v2", "address no multiple of 4", z+2, 32, 0, 5, 2)
	t.call("cuMemsetD2D8_v2", "to the very end", z+1<<20-1005, 1000, 0, 5, 2)
	t.call("cuMemsetD2D8_v2", "nowhere", 0x7000000000, 16, 0, 5, 2)
	t.call("cuMemsetD2D8_v2", "at 0", 0, 16, 0, 5, 2)
	t.call("cuMemsetD2D8Async", "nowhere, s", 0x7000000000, 16, 0, 5, 2, s)
	t.call("cuMemsetD2D8_v2", "2^40 rows", z, 1<<20, 0, 5, 1<<40)
	t.call("cuMemsetD2D8_v2", "pitch 2^31", z, 1<<31, 0, 5, 1)
	t.call("cuMemsetD16_v2", "odd address", z+1, 0, 5)
	t.call("cuCtxSynchronize", "")
}

func pitchedMemory(t *transcript) {
	if !t.context() {
		return
	}
	ask := func(width, height, element uintptr) {
		p, pitch, size := untouched, untouched, uint64(0)
		if t.call("cuMemAllocPitch_v2", fmt.Sprintf("&p, &pitch, %d, %d, %d", width, height, element),
			ptr(&p), ptr(&pitch), width, height, element) != abi.CUDA_SUCCESS {
			t.note("pointer %s, pitch %s", t.valueState(p, 1), t.valueState(pitch, 1))
			return
		}
		t.must("cuMemGetAddressRange_v2", 0, ptr(&size), p)
		t.note("pitch %d, size %d, aligned to 512: %v", pitch, size, p%512 == 0)
		t.call("cuMemFree_v2", "p", p)
	}
	for _, element := range []uintptr{0, 1, 2, 3, 4, 8, 12, 16, 32} {
		ask(100, 3, element)
	}
	for _, width := range []uintptr{0, 1, 512, 513, 1 << 20, 1 << 50, ^uintptr(0)} {
		ask(width, 3, 4)
	}
	ask(100, 0, 4)
	ask(100, 1<<50, 4)
	ask(1<<40, 1<<40, 4)
}

// unifiedCopies copies between all kinds of memory, by calls that take any and by
// calls that name the kind.
func unifiedCopies(t *transcript) {
	if !t.context() {
		return
	}
	const n = 70001
	type end struct {
		name  string
		p     uintptr
		bytes []byte // nil: only the device reaches it
	}
	r, q := t.region(n, 0), t.region(n, 0)
	hostA, hostB := make([]byte, n), make([]byte, n)
	pinA, pinnedA := t.pinned(n)
	pinB, pinnedB := t.pinned(n)
	ends := [][2]end{
		{{"device", uintptr(r.p), nil}, {"device", uintptr(q.p), nil}},
		{{"pageable", ptr(&hostA[0]), hostA}, {"pageable", ptr(&hostB[0]), hostB}},
		{{"pinned", pinA, pinnedA}, {"pinned", pinB, pinnedB}},
	}
	if p, b := t.managed(n); p != 0 {
		p2, b2 := t.managed(n)
		ends = append(ends, [2]end{{"managed", p, b}, {"managed", p2, b2}})
	}
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	seed := byte(0)
	set := func(e end, b []byte) {
		if e.bytes != nil {
			copy(e.bytes, b)
		} else {
			t.must("cuMemcpyHtoD_v2", e.p, ptr(&b[0]), n)
			t.must("cuCtxSynchronize")
		}
	}
	get := func(e end) []byte {
		if e.bytes != nil {
			return e.bytes
		}
		return t.bytes(uint64(e.p), n)
	}
	try := func(symbol string, to, from end, more ...uintptr) {
		seed++
		want := pattern(n, seed)
		set(from, want)
		t.call(symbol, to.name+", "+from.name+", n", append([]uintptr{to.p, from.p, n}, more...)...)
		t.must("cuCtxSynchronize")
		t.note("right: %v", bytes.Equal(get(to), want))
	}
	for _, symbol := range []string{"cuMemcpy", "cuMemcpy_ptds", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2"} {
		for _, to := range ends {
			for _, from := range ends {
				try(symbol, to[0], from[1])
			}
		}
	}
	for _, to := range ends {
		for _, from := range ends {
			try("cuMemcpyAsync", to[0], from[1], uintptr(s))
		}
	}
	t.section("across the end of what is known")
	big := uintptr(t.alloc(64 << 20))
	t.call("cuMemcpy", "beyond the end of device memory", big+64<<20-16, uintptr(r.p), 32)
	t.call("cuMemcpy", "from beyond the end of device memory", uintptr(r.p), big+64<<20-16, 32)
	t.call("cuMemcpyAsync", "beyond the end of device memory, s", big+64<<20-16, uintptr(r.p), 32, uintptr(s))
	t.call("cuMemcpy", "to 0", 0, uintptr(r.p), 32)
	t.call("cuMemcpy", "0 bytes", uintptr(r.p), uintptr(q.p), 0)
	t.call("cuMemcpy", "0 bytes to 0", 0, 0, 0)
	t.call("cuCtxSynchronize", "")
}
