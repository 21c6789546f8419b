package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// side is one end of a copy in two or three dimensions.
type side struct {
	name        string
	kind        abi.MemoryType
	host        unsafe.Pointer
	device      uint64
	pitch, rows uint64
	x, y, z     uint64
	reachable   []byte // by the host; nil: only the device reaches it
	size        int
}

// sides makes memory of every kind, all zero, with rows of pitch bytes.
func (t *transcript) sides(size int, pitch, rows uint64) []side {
	device := t.alloc(size)
	t.must("cuMemsetD8_v2", uintptr(device), 0, uintptr(size))
	pageable := make([]byte, size)
	ptr(&pageable[0])
	p, pinned := t.pinned(size)
	all := []side{
		{name: "device", kind: abi.CU_MEMORYTYPE_DEVICE, device: device},
		{name: "pageable", kind: abi.CU_MEMORYTYPE_HOST, host: unsafe.Pointer(&pageable[0]), reachable: pageable},
		{name: "pinned", kind: abi.CU_MEMORYTYPE_HOST, host: unsafe.Pointer(&pinned[0]), reachable: pinned},
		{name: "unified device", kind: abi.CU_MEMORYTYPE_UNIFIED, device: device},
		{name: "unified pinned", kind: abi.CU_MEMORYTYPE_UNIFIED, device: uint64(p), reachable: pinned},
	}
	for i := range all {
		all[i].pitch, all[i].rows, all[i].size = pitch, rows, size
	}
	return all
}

func (t *transcript) fillSide(s side, b []byte) {
	if s.reachable != nil {
		copy(s.reachable, b)
		return
	}
	t.must("cuMemcpyHtoD_v2", uintptr(s.device), ptr(&bytes.Clone(b)[0]), uintptr(len(b)))
	t.must("cuCtxSynchronize")
}

func (t *transcript) readSide(s side) []byte {
	if s.reachable != nil {
		return bytes.Clone(s.reachable)
	}
	return t.bytes(s.device, s.size)
}

func (s side) at(x, y, z uint64) uint64 {
	return s.x + x + (s.y+y)*s.pitch + (s.z+z)*s.pitch*s.rows
}

// expected is what the destination holds behind a copy.
func expected(to, from side, before, source []byte, width, height, depth uint64) []byte {
	want := bytes.Clone(before)
	for z := range depth {
		for y := range height {
			copy(want[to.at(0, y, z):][:width], source[from.at(0, y, z):])
		}
	}
	return want
}

func describe2D(to, from side, width, height uint64) *abi.CUDA_MEMCPY2D {
	return &abi.CUDA_MEMCPY2D{
		SrcXInBytes: from.x, SrcY: from.y, SrcMemoryType: from.kind, SrcHost: from.host, SrcDevice: abi.DevicePtr(from.device), SrcPitch: from.pitch,
		DstXInBytes: to.x, DstY: to.y, DstMemoryType: to.kind, DstHost: to.host, DstDevice: abi.DevicePtr(to.device), DstPitch: to.pitch,
		WidthInBytes: width, Height: height,
	}
}

func describe3D(to, from side, width, height, depth uint64) *abi.CUDA_MEMCPY3D {
	return &abi.CUDA_MEMCPY3D{
		SrcXInBytes: from.x, SrcY: from.y, SrcZ: from.z, SrcMemoryType: from.kind, SrcHost: from.host, SrcDevice: abi.DevicePtr(from.device),
		SrcPitch: from.pitch, SrcHeight: from.rows,
		DstXInBytes: to.x, DstY: to.y, DstZ: to.z, DstMemoryType: to.kind, DstHost: to.host, DstDevice: abi.DevicePtr(to.device),
		DstPitch: to.pitch, DstHeight: to.rows,
		WidthInBytes: width, Height: height, Depth: depth,
	}
}

func copies2D(t *transcript) {
	if !t.context() {
		return
	}
	tos, froms := t.sides(20000, 200, 0), t.sides(20000, 160, 0)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	seed := byte(0)
	try := func(symbol string, to, from side, width, height uint64, more ...uintptr) {
		seed++
		source, before := pattern(from.size, seed), pattern(to.size, ^seed)
		t.fillSide(from, source)
		t.fillSide(to, before)
		t.call(symbol, fmt.Sprintf("%s, %s, %d x %d", to.name, from.name, width, height),
			append([]uintptr{ptr(describe2D(to, from, width, height))}, more...)...)
		t.must("cuCtxSynchronize")
		t.note("right: %v", bytes.Equal(t.readSide(to), expected(to, from, before, source, width, height, 1)))
	}
	for _, to := range tos {
		for _, from := range froms {
			to.x, to.y, from.x, from.y = 7, 2, 3, 5
			try("cuMemcpy2D_v2", to, from, 100, 50)
			try("cuMemcpy2DAsync_v2", to, from, 33, 20, uintptr(s))
		}
	}
	t.section("the twins")
	to, from := tos[0], froms[1]
	try("cuMemcpy2DUnaligned_v2", to, from, 61, 9)
	try("cuMemcpy2D_v2_ptds", to, from, 61, 9)
	try("cuMemcpy2DUnaligned_v2_ptds", to, from, 61, 9)
	try("cuMemcpy2DAsync_v2_ptsz", to, from, 61, 9, 0)
	t.section("shapes")
	try("cuMemcpy2D_v2", to, from, 160, 100)
	try("cuMemcpy2D_v2", to, from, 1, 100)
	try("cuMemcpy2D_v2", to, from, 160, 1)
	try("cuMemcpy2D_v2", to, from, 0, 10)
	try("cuMemcpy2D_v2", to, from, 10, 0)
}

// setWord puts an address that is not Go's into a field of a structure.
func setWord(field *unsafe.Pointer, value uint64) { *(*uint64)(unsafe.Pointer(field)) = value }

// asks says what describes a copy that may be refused.
type asks[T any] struct {
	name   string
	change func(*T)
}

// refusedSize is the size of device memory behind whose end, if its allocation is
// that large, nothing follows.
const refusedSize = 64 << 20

// refusals is a case of descriptions that may be refused, each asked of for itself:
// it may end the process.
func refusals[T any](name string, list []asks[T], ask func(t *transcript, what string, change func(*T))) testCase {
	c := testCase{name: name}
	for _, a := range list {
		c.questions = append(c.questions, question{a.name, func(t *transcript) {
			if t.context() {
				ask(t, a.name, a.change)
				t.must("cuCtxSynchronize")
			}
		}})
	}
	return c
}

var copyRefusals2D = refusals("copy-2d-refusals", []asks[abi.CUDA_MEMCPY2D]{
	{"as it is", func(*abi.CUDA_MEMCPY2D) {}},
	{"source pitch less than width", func(d *abi.CUDA_MEMCPY2D) { d.SrcPitch = 99 }},
	{"source pitch less than x + width", func(d *abi.CUDA_MEMCPY2D) { d.SrcXInBytes = 200 }},
	{"destination pitch less than width", func(d *abi.CUDA_MEMCPY2D) { d.DstPitch = 99 }},
	{"destination pitch less than x + width", func(d *abi.CUDA_MEMCPY2D) { d.DstXInBytes = 500 }},
	{"source pitch 0", func(d *abi.CUDA_MEMCPY2D) { d.SrcPitch = 0 }},
	{"destination pitch 0", func(d *abi.CUDA_MEMCPY2D) { d.DstPitch = 0 }},
	{"pitches 0, one row", func(d *abi.CUDA_MEMCPY2D) { d.SrcPitch, d.DstPitch, d.Height = 0, 0, 1 }},
	{"pitches less than width, one row", func(d *abi.CUDA_MEMCPY2D) { d.SrcPitch, d.DstPitch, d.Height = 50, 50, 1 }},
	{"destination pitch 2^31 - 1, one row", func(d *abi.CUDA_MEMCPY2D) { d.DstPitch, d.Height = 1<<31-1, 1 }},
	{"destination pitch 2^31, one row", func(d *abi.CUDA_MEMCPY2D) { d.DstPitch, d.Height = 1<<31, 1 }},
	{"source pitch 2^31, one row", func(d *abi.CUDA_MEMCPY2D) { d.SrcPitch, d.Height = 1<<31, 1 }},
	{"odd destination pitch", func(d *abi.CUDA_MEMCPY2D) { d.DstPitch = 333 }},
	{"source kind 0", func(d *abi.CUDA_MEMCPY2D) { d.SrcMemoryType = 0 }},
	{"source kind 5", func(d *abi.CUDA_MEMCPY2D) { d.SrcMemoryType = 5 }},
	{"destination kind 0", func(d *abi.CUDA_MEMCPY2D) { d.DstMemoryType = 0 }},
	{"no source", func(d *abi.CUDA_MEMCPY2D) { d.SrcHost = nil }},
	{"no destination", func(d *abi.CUDA_MEMCPY2D) { d.DstDevice = 0 }},
	{"destination beyond the end", func(d *abi.CUDA_MEMCPY2D) { d.DstY = refusedSize/512 - 3 }},
	{"destination up to the end", func(d *abi.CUDA_MEMCPY2D) { d.DstY = refusedSize/512 - 10 }},
	{"destination nowhere", func(d *abi.CUDA_MEMCPY2D) { d.DstDevice = 0x7000000000 }},
	{"a device's destination in host memory", func(d *abi.CUDA_MEMCPY2D) { d.DstDevice = abi.DevicePtr(mapping(8192)) }},
	{"a host's destination in device memory", func(d *abi.CUDA_MEMCPY2D) {
		d.DstMemoryType = abi.CU_MEMORYTYPE_HOST
		setWord(&d.DstHost, uint64(d.DstDevice))
	}},
	{"no width, and no destination", func(d *abi.CUDA_MEMCPY2D) { d.WidthInBytes, d.DstDevice = 0, 0 }},
	{"no rows, and kind 0", func(d *abi.CUDA_MEMCPY2D) { d.Height, d.DstMemoryType = 0, 0 }},
}, func(t *transcript, what string, change func(*abi.CUDA_MEMCPY2D)) {
	device, buffer := t.alloc(refusedSize), make([]byte, 1<<20)
	to, from := deviceSide(uintptr(device)), hostSide(buffer)
	to.pitch, from.pitch = 512, 256
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	d := describe2D(to, from, 100, 10)
	change(d)
	for _, symbol := range []string{"cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2"} {
		t.call(symbol, what, ptr(d))
	}
	t.call("cuMemcpy2DAsync_v2", what+", s", ptr(d), uintptr(s))
	t.must("cuMemFree_v2", uintptr(device))
})

func copies3D(t *transcript) {
	if !t.context() {
		return
	}
	tos, froms := t.sides(30000, 100, 20), t.sides(30000, 80, 25)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	var ctx abi.Context
	t.must("cuCtxGetCurrent", ptr(&ctx))
	seed := byte(0)
	try := func(symbol string, to, from side, width, height, depth uint64, more ...uintptr) {
		seed++
		source, before := pattern(from.size, seed), pattern(to.size, ^seed)
		t.fillSide(from, source)
		t.fillSide(to, before)
		d := describe3D(to, from, width, height, depth)
		if strings.HasPrefix(symbol, "cuMemcpy3DPeer") {
			setWord(&d.Reserved0, uint64(ctx)) // where a peer copy has contexts
			setWord(&d.Reserved1, uint64(ctx))
		}
		t.call(symbol, fmt.Sprintf("%s, %s, %d x %d x %d", to.name, from.name, width, height, depth), append([]uintptr{ptr(d)}, more...)...)
		t.must("cuCtxSynchronize")
		t.note("right: %v", bytes.Equal(t.readSide(to), expected(to, from, before, source, width, height, depth)))
	}
	for _, to := range tos {
		for _, from := range froms {
			to.x, to.y, to.z, from.x, from.y, from.z = 7, 2, 1, 3, 5, 2
			try("cuMemcpy3D_v2", to, from, 50, 15, 6)
			try("cuMemcpy3DAsync_v2", to, from, 33, 9, 4, uintptr(s))
		}
	}
	t.section("the twins")
	to, from := tos[0], froms[1]
	try("cuMemcpy3D_v2_ptds", to, from, 41, 5, 3)
	try("cuMemcpy3DAsync_v2_ptsz", to, from, 41, 5, 3, 0)
	t.section("between contexts that are one")
	for _, from := range froms {
		try("cuMemcpy3DPeer", to, from, 41, 5, 3)
	}
	for _, from := range froms {
		try("cuMemcpy3DPeerAsync", to, from, 41, 5, 3, uintptr(s))
	}
	try("cuMemcpy3DPeer_ptds", to, froms[0], 41, 5, 3)
	try("cuMemcpy3DPeerAsync_ptsz", to, froms[0], 41, 5, 3, 0)
	t.section("shapes")
	try("cuMemcpy3D_v2", to, from, 80, 20, 10)
	try("cuMemcpy3D_v2", to, from, 80, 1, 1)
	try("cuMemcpy3D_v2", to, from, 1, 20, 10)
	try("cuMemcpy3D_v2", to, from, 1, 1, 10)
	try("cuMemcpy3D_v2", to, from, 0, 20, 10)
	try("cuMemcpy3D_v2", to, from, 80, 0, 10)
	try("cuMemcpy3D_v2", to, from, 80, 20, 0)
}

var copyRefusals3D = refusals("copy-3d-refusals", []asks[abi.CUDA_MEMCPY3D]{
	{"as it is", func(*abi.CUDA_MEMCPY3D) {}},
	{"source pitch less than x + width", func(d *abi.CUDA_MEMCPY3D) { d.SrcXInBytes = 200 }},
	{"destination pitch less than x + width", func(d *abi.CUDA_MEMCPY3D) { d.DstXInBytes = 500 }},
	{"source height less than y + height", func(d *abi.CUDA_MEMCPY3D) { d.SrcY = 7 }},
	{"destination height less than y + height", func(d *abi.CUDA_MEMCPY3D) { d.DstY = 7 }},
	{"source height less than y + height, one layer", func(d *abi.CUDA_MEMCPY3D) { d.SrcY, d.Depth = 7, 1 }},
	{"heights 0", func(d *abi.CUDA_MEMCPY3D) { d.SrcHeight, d.DstHeight = 0, 0 }},
	{"heights 0, one layer", func(d *abi.CUDA_MEMCPY3D) { d.SrcHeight, d.DstHeight, d.Depth = 0, 0, 1 }},
	{"pitches 0", func(d *abi.CUDA_MEMCPY3D) { d.SrcPitch, d.DstPitch = 0, 0 }},
	{"pitches 0, one row, one layer", func(d *abi.CUDA_MEMCPY3D) { d.SrcPitch, d.DstPitch, d.Height, d.Depth = 0, 0, 1, 1 }},
	{"pitches and heights 0, one row, one layer", func(d *abi.CUDA_MEMCPY3D) {
		d.SrcPitch, d.DstPitch, d.SrcHeight, d.DstHeight, d.Height, d.Depth = 0, 0, 0, 0, 1, 1
	}},
	{"source level 1", func(d *abi.CUDA_MEMCPY3D) { d.SrcLOD = 1 }},
	{"destination level 1", func(d *abi.CUDA_MEMCPY3D) { d.DstLOD = 1 }},
	{"source kind 0", func(d *abi.CUDA_MEMCPY3D) { d.SrcMemoryType = 0 }},
	{"destination kind 5", func(d *abi.CUDA_MEMCPY3D) { d.DstMemoryType = 5 }},
	{"no source", func(d *abi.CUDA_MEMCPY3D) { d.SrcHost = nil }},
	{"no destination", func(d *abi.CUDA_MEMCPY3D) { d.DstDevice = 0 }},
	{"destination beyond the end", func(d *abi.CUDA_MEMCPY3D) { d.DstZ = refusedSize/512/16 - 1 }},
	{"destination up to the end", func(d *abi.CUDA_MEMCPY3D) { d.DstZ = refusedSize/512/16 - 3 }},
	{"destination nowhere", func(d *abi.CUDA_MEMCPY3D) { d.DstDevice = 0x7000000000 }},
	{"destination pitch 2^31, one row", func(d *abi.CUDA_MEMCPY3D) { d.DstPitch, d.DstHeight, d.Height, d.Depth = 1<<31, 1, 1, 1 }},
	{"nothing, and kind 0", func(d *abi.CUDA_MEMCPY3D) { d.Depth, d.DstMemoryType = 0, 0 }},
}, func(t *transcript, what string, change func(*abi.CUDA_MEMCPY3D)) {
	device, buffer := t.alloc(refusedSize), make([]byte, 1<<20)
	to, from := deviceSide(uintptr(device)), hostSide(buffer)
	to.pitch, to.rows, from.pitch, from.rows = 512, 16, 256, 16
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	d := describe3D(to, from, 100, 10, 3)
	change(d)
	t.call("cuMemcpy3D_v2", what, ptr(d))
	t.call("cuMemcpy3DAsync_v2", what+", s", ptr(d), uintptr(s))
	t.must("cuMemFree_v2", uintptr(device))
})

// tightCopies asks where rows and layers lie when no pitch or height is given.
func tightCopies(t *transcript) {
	if !t.context() {
		return
	}
	const width, height, depth = 20, 5, 3
	for _, offset := range []uint64{0, 3} {
		for _, symbol := range []string{"cuMemcpy2D_v2", "cuMemcpy3D_v2"} {
			for _, given := range []string{"nothing", "pitches", "heights"} {
				to, from := t.region(4096, 1), t.region(4096, 2)
				d := describe3D(deviceSide(uintptr(to.p)), deviceSide(uintptr(from.p)), width, height, depth)
				d.SrcXInBytes, d.DstXInBytes, d.SrcY, d.DstY = offset, offset, offset, offset
				if given == "pitches" {
					d.SrcPitch, d.DstPitch = 32, 48
				}
				if given == "heights" {
					d.SrcHeight, d.DstHeight = 10, 12
				}
				what := fmt.Sprintf("%s given, x and y %d", given, offset)
				if symbol == "cuMemcpy2D_v2" {
					to2, from2 := deviceSide(uintptr(to.p)), deviceSide(uintptr(from.p))
					to2.x, to2.y, to2.pitch, from2.x, from2.y, from2.pitch = offset, offset, d.DstPitch, offset, offset, d.SrcPitch
					t.call(symbol, what, ptr(describe2D(to2, from2, width, height)))
				} else {
					t.call(symbol, what, ptr(d))
				}
				t.must("cuCtxSynchronize")
				t.changed(to, from)
			}
		}
	}
}

// changed writes which bytes of a region are others than they were, as runs of
// bytes, and where the first run comes from.
func (t *transcript) changed(to, from region) {
	got := t.bytes(to.p, len(to.want))
	var runs []string
	source := -1
	for i := 0; i < len(got); i++ {
		n := 0
		for i+n < len(got) && got[i+n] != to.want[i+n] {
			n++
		}
		if n == 0 {
			continue
		}
		if source < 0 {
			source = bytes.Index(from.want, got[i:i+n])
		}
		runs = append(runs, fmt.Sprintf("%d+%d", i, n))
		i += n
	}
	t.note("changed from %d: %s", source, strings.Join(runs, " "))
}

// peers asks what one device is to itself, and what its contexts are to each
// other.
func peers(t *transcript) {
	if !t.context() {
		return
	}
	var first, second, popped abi.Context
	t.must("cuCtxGetCurrent", ptr(&first))
	t.must("cuCtxCreate_v2", ptr(&second), 0, 0)
	t.must("cuCtxPopCurrent_v2", ptr(&popped))
	value := int32(7)
	for _, pair := range [][2]int{{0, 0}, {0, 99}, {99, 0}, {-1, 0}} {
		what := fmt.Sprintf("&v, %d, %d", pair[0], pair[1])
		value = 7
		t.call("cuDeviceCanAccessPeer", what, ptr(&value), word(pair[0]), word(pair[1]))
		t.note("%d", value)
	}
	for attribute := range uintptr(7) {
		value = 7
		t.call("cuDeviceGetP2PAttribute", fmt.Sprintf("&v, %d, 0, 0", attribute), ptr(&value), attribute, 0, 0)
		t.note("%d", value)
	}
	t.call("cuCtxEnablePeerAccess", "the current context, 0", uintptr(first), 0)
	t.call("cuCtxEnablePeerAccess", "the other, 0", uintptr(second), 0)
	t.call("cuCtxEnablePeerAccess", "the other, 1", uintptr(second), 1)
	t.call("cuCtxDisablePeerAccess", "the current context", uintptr(first))
	t.call("cuCtxDisablePeerAccess", "the other", uintptr(second))

	t.section("copies")
	const n = 5000
	a, b := t.region(n, 1), t.region(n, 2)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	try := func(symbol, what string, args ...uintptr) {
		clear(b.want)
		t.must("cuMemsetD8_v2", uintptr(b.p), 0, n)
		t.must("cuCtxSynchronize")
		r := t.call(symbol, what, args...)
		if t.must("cuCtxSynchronize"); r == abi.CUDA_SUCCESS {
			copy(b.want, a.want)
		}
		t.check(b)
	}
	for _, pair := range []struct {
		name     string
		to, from abi.Context
	}{{"the same context", first, first}, {"from the other", first, second}, {"to the other", second, first}, {"the other alone", second, second}} {
		try("cuMemcpyPeer", pair.name, uintptr(b.p), uintptr(pair.to), uintptr(a.p), uintptr(pair.from), n)
		try("cuMemcpyPeerAsync", pair.name+", s", uintptr(b.p), uintptr(pair.to), uintptr(a.p), uintptr(pair.from), n, uintptr(s))
	}
	try("cuMemcpyPeer_ptds", "the same context", uintptr(b.p), uintptr(first), uintptr(a.p), uintptr(first), n)
	try("cuMemcpyPeerAsync_ptsz", "the same context, NULL", uintptr(b.p), uintptr(first), uintptr(a.p), uintptr(first), n, 0)
	pinned, _ := t.pinned(n)
	t.section("refused or not")
	c := uintptr(first)
	t.call("cuMemcpyPeer", "0 bytes", uintptr(b.p), c, uintptr(a.p), c, 0)
	t.call("cuMemcpyPeer", "from pinned", uintptr(b.p), c, pinned, c, n)
	t.call("cuMemcpyPeer", "nowhere", 0x7000000000, c, uintptr(a.p), c, n)
	t.call("cuCtxSynchronize", "")
}
