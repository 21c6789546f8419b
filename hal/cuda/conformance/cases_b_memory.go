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
	unifiedCopies,
	story("copy-ends", copyEnds),
	story("copies-2d", copies2D),
	copyRefusals2D,
	story("copies-3d", copies3D),
	copyRefusals3D,
	story("tight-copies", tightCopies),
	story("peers", peers),
	story("copy-batches", copyBatches),
	story("copy-batch-streams", batchStreams),
	batchRefusals,
	boxRefusals,
	copiesInHeldStream,
	callsInHeldStream,
	syncBehindHeldStream,
	hostCopiesBehindHeldStream,
	story("managed-memory", managedMemory),
	attachedMemory,
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
	memoryDuringCapture,
	story("mapped-parts", mappedParts),
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

// memoryKind is a kind of memory that a copy may have at an end.
type memoryKind struct {
	name string
	make func(t *transcript, n int) (address uintptr, reachable []byte)
}

var memoryKinds = []memoryKind{
	{"device", func(t *transcript, n int) (uintptr, []byte) { return t.device(n), nil }},
	{"pageable", func(_ *transcript, n int) (uintptr, []byte) {
		b := make([]byte, n)
		return ptr(&b[0]), b
	}},
	{"pinned", (*transcript).pinned},
	{"managed", (*transcript).managed},
}

// unifiedCopies copies between all kinds of memory, by calls that take any and by
// calls that name the kind. Each may end the process.
var unifiedCopies = func() testCase {
	c := testCase{name: "unified-copies"}
	for _, symbol := range []string{"cuMemcpy", "cuMemcpyAsync", "cuMemcpy_ptds", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2"} {
		for _, to := range memoryKinds {
			for _, from := range memoryKinds {
				what := to.name + ", " + from.name + ", n"
				c.questions = append(c.questions, question{symbol + "(" + what + ")", func(t *transcript) { t.unifiedCopy(symbol, what, to, from) }})
			}
		}
	}
	return c
}()

func (t *transcript) unifiedCopy(symbol, what string, to, from memoryKind) {
	if !t.context() {
		return
	}
	const n = 70001
	source, sourceBytes := from.make(t, n)
	target, targetBytes := to.make(t, n)
	want := pattern(n, 1)
	if sourceBytes != nil {
		copy(sourceBytes, want)
	} else {
		t.must("cuMemcpyHtoD_v2", source, ptr(&want[0]), n)
	}
	args := []uintptr{target, source, n}
	if symbol == "cuMemcpyAsync" {
		args = append(args, uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING)))
	}
	t.must("cuCtxSynchronize")
	t.call(symbol, what, args...)
	t.must("cuCtxSynchronize")
	if targetBytes == nil {
		targetBytes = t.bytes(uint64(target), n)
	}
	t.note("right: %v", bytes.Equal(targetBytes, want))
}

// copyEnds asks for copies across the ends of device memory.
func copyEnds(t *transcript) {
	if !t.context() {
		return
	}
	s, p := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING)), t.device(4096)
	big := t.device(refusedSize)
	t.call("cuMemcpy", "beyond the end of device memory", big+refusedSize-16, p, 32)
	t.call("cuMemcpy", "from beyond the end of device memory", p, big+refusedSize-16, 32)
	t.call("cuMemcpyAsync", "beyond the end of device memory, s", big+refusedSize-16, p, 32, s)
	t.call("cuMemcpy", "0 bytes", p, p, 0)
	t.call("cuMemcpy", "0 bytes to 0", 0, 0, 0)
	t.call("cuCtxSynchronize", "")
}
