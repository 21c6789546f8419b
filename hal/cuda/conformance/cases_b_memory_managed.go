package conformance

import (
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

func managedMemory(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	p := untouched
	for flags := range uintptr(6) {
		p = untouched
		if t.call("cuMemAllocManaged", fmt.Sprintf("&p, 4096, %d", flags), ptr(&p), 4096, flags) != abi.CUDA_SUCCESS {
			t.note("pointer %s", t.valueState(p, 1))
			continue
		}
		t.must("cuMemFree_v2", p)
	}
	p = untouched
	t.call("cuMemAllocManaged", "&p, 0, 1", ptr(&p), 0, 1)
	t.note("pointer %s", t.valueState(p, 1))
	t.call("cuMemAllocManaged", "&p, 2^60, 1", ptr(&p), 1<<60, 1)

	t.section("what it is")
	q, b := t.managed(10000)
	t.pointer("managed", q)
	var base, size uint64
	t.call("cuMemGetAddressRange_v2", "&base, &size, q + 9999", ptr(&base), ptr(&size), q+9999)
	t.note("base q: %v, size %d", base == uint64(q), size)
	t.call("cuMemGetAddressRange_v2", "&base, &size, q + 10000", ptr(&base), ptr(&size), q+10000)
	flags := uint32(99)
	t.call("cuMemHostGetFlags", "&flags, q", ptr(&flags), q)
	t.note("flags %d", flags)
	t.call("cuMemHostGetDevicePointer_v2", "&d, q, 0", ptr(&base), q, 0)
	t.call("cuMemFreeHost", "q", q)
	t.call("cuMemHostUnregister", "q", q)
	t.call("cuMemHostRegister_v2", "q, 4096, 0", q, 4096, 0)
	t.call("cuMemFree_v2", "q + 16", q+16)

	t.section("written here, changed there, read here")
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), 2000)
	for i := range words {
		words[i] = uint32(i)
	}
	t.launch("xm_increment q", t.function(m, "xm_increment"), 8, 128, 0, params(uint64(q), 2000))
	t.call("cuCtxSynchronize", "")
	t.note("right: %d", count(words, func(i int, v uint32) bool { return v == uint32(i+1) }))
	t.call("cuMemsetD32_v2", "q, 7, 1000", q, 7, 1000)
	t.note("right at once: %d", count(words[:1000], func(_ int, v uint32) bool { return v == 7 }))
	t.call("cuMemcpyHtoD_v2", "q, buffer, 400", q, ptr(&pattern(400, 1)[0]), 400)
	t.note("right at once: %v", string(b[:400]) == string(pattern(400, 1)))
	t.call("cuMemFree_v2", "q", q)
	t.call("cuMemFree_v2", "q again", q)
	t.call("cuPointerGetAttribute", "&v, IS_MANAGED, q", ptr(&base), uintptr(abi.CU_POINTER_ATTRIBUTE_IS_MANAGED), q)
}

// attachedMemory asks about managed memory that belongs to a stream. Each question
// may end the process.
var attachedMemory = func() testCase {
	c := testCase{name: "attached-memory"}
	add := func(what string, args func(t *transcript, s, q uintptr) []uintptr) {
		c.questions = append(c.questions, question{"cuStreamAttachMemAsync(" + what + ")", func(t *transcript) {
			if !t.context() {
				return
			}
			s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
			q, _ := t.managed(10000)
			t.call("cuStreamAttachMemAsync", what, args(t, s, q)...)
			t.must("cuStreamSynchronize", s)
		}})
	}
	for f := range uintptr(6) {
		add(fmt.Sprintf("s, q, 0, %d", f), func(_ *transcript, s, q uintptr) []uintptr { return []uintptr{s, q, 0, f} })
	}
	add("s, q, 10000, 1", func(_ *transcript, s, q uintptr) []uintptr { return []uintptr{s, q, 10000, 1} })
	add("s, q, 4096, 1", func(_ *transcript, s, q uintptr) []uintptr { return []uintptr{s, q, 4096, 1} })
	add("s, q + 4096, 0, 1", func(_ *transcript, s, q uintptr) []uintptr { return []uintptr{s, q + 4096, 0, 1} })
	add("NULL, q, 0, 4", func(_ *transcript, _, q uintptr) []uintptr { return []uintptr{0, q, 0, 4} })
	add("NULL, q, 0, 1", func(_ *transcript, _, q uintptr) []uintptr { return []uintptr{0, q, 0, 1} })
	add("s, device, 0, 1", func(t *transcript, s, _ uintptr) []uintptr { return []uintptr{s, t.device(4096), 0, 1} })
	add("s, pageable, 0, 1", func(_ *transcript, s, _ uintptr) []uintptr { return []uintptr{s, mapping(4096), 0, 1} })
	return c
}()

// rangeState asks for all that is known of a range of managed memory.
func (t *transcript) rangeState(name string, p uintptr, n int) {
	var v [9]int32
	var by [3]int32
	for a := uintptr(1); a <= 8; a++ {
		v[a] = 99
		if a == 3 {
			if r := t.quiet("cuMemRangeGetAttribute", ptr(&by), 12, a, p, uintptr(n)); r != abi.CUDA_SUCCESS {
				t.line("range attribute %d of %s = %s", a, name, r.String())
			}
			continue
		}
		if r := t.quiet("cuMemRangeGetAttribute", ptr(&v[a]), 4, a, p, uintptr(n)); r != abi.CUDA_SUCCESS {
			t.line("range attribute %d of %s = %s", a, name, r.String())
		}
	}
	t.line("%s: read mostly %d; preferred %d, type %d, id %d; accessed by %v; prefetched to %d, type %d, id %d",
		name, v[1], v[2], v[5], v[6], by, v[4], v[7], v[8])
}

func prefetches(t *transcript) {
	if !t.context() {
		return
	}
	const n = 64 << 20
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	before := t.free()
	p, b := t.managed(n)
	t.note("n less is free: %v", before-min(before, t.free()) >= n)
	for i := 0; i < n; i += 4096 {
		b[i] = byte(i >> 12)
	}
	t.note("written by the host, n less is free: %v", before-min(before, t.free()) >= n)
	t.rangeState("fresh", p, n)
	t.call("cuMemPrefetchAsync", "p, n, 0, s", p, n, 0, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("n less is free: %v", before-min(before, t.free()) >= n) // how much more, and until when, is the driver's affair
	t.rangeState("p", p, n)
	t.call("cuMemPrefetchAsync", "p, n, the host, s", p, n, word(-1), uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.rangeState("p", p, n)
	right := 0
	for i := 0; i < n; i += 4096 {
		if b[i] == byte(i>>12) {
			right++
		}
	}
	t.note("right: %d", right)
	t.section("half of it")
	t.call("cuMemPrefetchAsync", "p, n/2, 0, s", p, n/2, 0, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.rangeState("p", p, n)
	t.rangeState("its first half", p, n/2)
	t.rangeState("its second half", p+n/2, n/2)
	t.prefetchPlaces(p, uintptr(s))
	t.prefetchRefusals(p, n, uintptr(s))
	t.prefetchBatches(p, uintptr(s))
	t.must("cuMemFree_v2", p)
}

// prefetchPlaces asks where a prefetch can go.
func (t *transcript) prefetchPlaces(p, s uintptr) {
	t.section("places")
	for _, l := range []struct {
		name string
		kind abi.MemLocationType
		id   int
	}{
		{"device 0", abi.CU_MEM_LOCATION_TYPE_DEVICE, 0}, {"device 1", abi.CU_MEM_LOCATION_TYPE_DEVICE, 99}, {"device -1", abi.CU_MEM_LOCATION_TYPE_DEVICE, -1},
		{"host 0", abi.CU_MEM_LOCATION_TYPE_HOST, 0}, {"host 5", abi.CU_MEM_LOCATION_TYPE_HOST, 5},
		{"node 0", abi.CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, {"node 999", abi.CU_MEM_LOCATION_TYPE_HOST_NUMA, 999},
		{"current node", abi.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}, {"kind 0", 0, 0}, {"kind 5", 5, 0},
	} {
		t.call("cuMemPrefetchAsync_v2", "p, 2 MiB, "+l.name+", 0, s", p, 2<<20, place(l.kind, l.id), 0, s)
		t.rangeState("p", p, 2<<20)
	}
	t.call("cuMemPrefetchAsync_v2", "p, 4096, device 0, 1, s", p, 4096, place(abi.CU_MEM_LOCATION_TYPE_DEVICE, 0), 1, s)
}

func (t *transcript) prefetchRefusals(p, n, s uintptr) {
	t.section("refused or not")
	t.call("cuMemPrefetchAsync", "p, 0, 0, s", p, 0, 0, s)
	t.call("cuMemPrefetchAsync", "p, n, 99, s", p, n, 99, s)
	t.call("cuMemPrefetchAsync", "p, n, -2, s", p, n, word(-2), s)
	t.call("cuMemPrefetchAsync", "p + 100, 1000, 0, s", p+100, 1000, 0, s)
	t.rangeState("the page", p, 4096)
	t.rangeState("the page behind", p+4096, 4096)
	t.call("cuMemPrefetchAsync", "beyond the end, s", p+n-4096, 8<<20, 0, s)
	t.call("cuMemPrefetchAsync", "device memory, s", uintptr(t.alloc(4096)), 4096, 0, s)
	pinned, _ := t.pinned(4096)
	t.call("cuMemPrefetchAsync", "pinned, s", pinned, 4096, 0, s)
	t.call("cuMemPrefetchAsync", "pageable, s", mapping(4096), 4096, 0, s)
	t.call("cuMemPrefetchAsync", "0, s", 0, 4096, 0, s)
	t.call("cuMemPrefetchAsync", "p, n, 0, NULL", p, n, 0, 0)
	t.call("cuMemPrefetchAsync_ptsz", "p, n, 0, NULL", p, n, 0, 0)
	t.call("cuMemPrefetchAsync_v2_ptsz", "p, n, host, 0, NULL", p, n, place(abi.CU_MEM_LOCATION_TYPE_HOST, 0), 0, 0)
	t.call("cuCtxSynchronize", "")
}

func (t *transcript) prefetchBatches(p, s uintptr) {
	t.section("several at once")
	pointers, sizes := []uint64{uint64(p), uint64(p) + 8<<20}, []uint64{2 << 20, 4 << 20}
	places := []abi.CUmemLocation{{Type: abi.CU_MEM_LOCATION_TYPE_DEVICE}, {Type: abi.CU_MEM_LOCATION_TYPE_HOST}}
	from := []uint64{0, 1}
	t.call("cuMemPrefetchBatchAsync", "2 ranges, 2 places, 0, s", ptr(&pointers[0]), ptr(&sizes[0]), 2, ptr(&places[0]), ptr(&from[0]), 2, 0, s)
	t.call("cuStreamSynchronize", "s", s)
	t.rangeState("the first", p, 2<<20)
	t.rangeState("the second", p+8<<20, 4<<20)
	t.call("cuMemPrefetchBatchAsync", "2 ranges, 2 places, 1, s", ptr(&pointers[0]), ptr(&sizes[0]), 2, ptr(&places[0]), ptr(&from[0]), 2, 1, s)
	t.call("cuMemPrefetchBatchAsync", "2 ranges, 2 places, 0, NULL", ptr(&pointers[0]), ptr(&sizes[0]), 2, ptr(&places[0]), ptr(&from[0]), 2, 0, 0)
	t.call("cuMemPrefetchBatchAsync", "0 ranges, s", ptr(&pointers[0]), ptr(&sizes[0]), 0, ptr(&places[0]), ptr(&from[0]), 2, 0, s)
	from[0] = 1
	t.call("cuMemPrefetchBatchAsync", "places from the second on, s", ptr(&pointers[0]), ptr(&sizes[0]), 2, ptr(&places[0]), ptr(&from[0]), 1, 0, s)
	t.call("cuCtxSynchronize", "")
}

func advice(t *transcript) {
	if !t.context() {
		return
	}
	const n = 64 << 10
	p, _ := t.managed(n)
	for what := range uintptr(8) {
		for _, device := range []int{0, -1, -2, 99} {
			t.call("cuMemAdvise", fmt.Sprintf("p, n, %d, %d", what, device), p, n, what, word(device))
			t.rangeState("p", p, n)
		}
	}
	t.section("by place")
	for _, what := range []abi.MemAdvice{abi.CU_MEM_ADVISE_SET_READ_MOSTLY, abi.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, abi.CU_MEM_ADVISE_SET_ACCESSED_BY} {
		for kind := range abi.MemLocationType(6) {
			for _, id := range []int{0, 99} {
				t.call("cuMemAdvise_v2", fmt.Sprintf("p, n, %d, place {%d, %d}", what, kind, id), p, n, uintptr(what), place(kind, id))
				t.rangeState("p", p, n)
			}
		}
	}
	t.section("parts")
	q, _ := t.managed(n)
	t.call("cuMemAdvise", "q + 8192, 4096, SET_READ_MOSTLY, 0", q+8192, 4096, 1, 0)
	t.call("cuMemAdvise", "q + 4096, 8192, SET_PREFERRED_LOCATION, 0", q+4096, 8192, 3, 0)
	t.call("cuMemAdvise", "q, n, SET_ACCESSED_BY, 0", q, n, 5, 0)
	t.call("cuMemAdvise", "q, 4096, SET_ACCESSED_BY, the host", q, 4096, 5, word(-1))
	for i := range uintptr(5) {
		t.rangeState(fmt.Sprintf("page %d", i), q+4096*i, 4096)
	}
	t.rangeState("pages 1 and 2", q+4096, 8192)
	t.rangeState("100 bytes of page 2", q+8192+100, 100)
	t.rangeState("q", q, n)
}

func adviceRefusals(t *transcript) {
	if !t.context() {
		return
	}
	const n = 64 << 10
	p, _ := t.managed(n)
	device := uintptr(t.alloc(4096))
	pinned, _ := t.pinned(4096)
	t.call("cuMemAdvise", "p, 0, 1, 0", p, 0, 1, 0)
	t.call("cuMemAdvise", "p, beyond the end, 1, 0", p, 8<<20, 1, 0)
	t.call("cuMemAdvise", "p + 100, 1000, 1, 0", p+100, 1000, 1, 0)
	t.rangeState("the page", p, 4096)
	t.rangeState("the page behind", p+4096, 4096)
	for _, m := range []struct {
		name string
		p    uintptr
	}{{"device memory", device}, {"pinned", pinned}, {"pageable", mapping(4096)}, {"0", 0}, {"nowhere", 0x7000000000}} {
		t.call("cuMemAdvise", m.name+", 4096, 1, 0", m.p, 4096, 1, 0)
		v := int32(99)
		t.call("cuMemRangeGetAttribute", "&v, 4, 1, "+m.name+", 4096", ptr(&v), 4, 1, m.p, 4096)
	}
	t.section("attributes")
	var v [4]int32
	for a := range uintptr(10) {
		for _, size := range []uintptr{0, 2, 4, 6, 8, 16} {
			t.call("cuMemRangeGetAttribute", fmt.Sprintf("v, %d, %d, p, n", size, a), ptr(&v), size, a, p, n)
		}
	}
	t.call("cuMemRangeGetAttribute", "v, 4, 1, p, 0", ptr(&v), 4, 1, p, 0)
	t.call("cuMemRangeGetAttribute", "v, 4, 1, beyond the end", ptr(&v), 4, 1, p, 8<<20)
	t.section("several at once")
	t.must("cuMemAdvise", p, n, 1, 0)
	t.must("cuMemAdvise", p, n, 5, 0)
	mostly, by := int32(99), [2]int32{99, 99}
	values, sizes, attributes := []uintptr{ptr(&mostly), ptr(&by)}, []uint64{4, 8}, []uint32{1, 3}
	t.call("cuMemRangeGetAttributes", "2, p, n", ptr(&values[0]), ptr(&sizes[0]), ptr(&attributes[0]), 2, p, n)
	t.note("read mostly %d, accessed by %v", mostly, by)
	t.call("cuMemRangeGetAttributes", "0, p, n", ptr(&values[0]), ptr(&sizes[0]), ptr(&attributes[0]), 0, p, n)
	attributes[1] = 99
	mostly = 98
	t.call("cuMemRangeGetAttributes", "the second unknown, p, n", ptr(&values[0]), ptr(&sizes[0]), ptr(&attributes[0]), 2, p, n)
	t.note("read mostly %d", mostly)
}
