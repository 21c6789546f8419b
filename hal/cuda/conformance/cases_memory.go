package conformance

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"xmsched/hal/cuda/abi"
)

// mapping is fresh private memory of whole pages, for good.
func mapping(n int) uintptr {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0
	}
	return ptr(&b[0])
}

// guarded is a fresh page with one behind it that nobody can touch.
func guarded() uintptr {
	b, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil || unix.Mprotect(b[4096:], unix.PROT_NONE) != nil {
		return 0
	}
	return ptr(&b[0])
}

// sharedMapping is fresh memory that another process could map too.
func sharedMapping(n int) unsafe.Pointer {
	fd, err := unix.MemfdCreate("conformance", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	if unix.Ftruncate(fd, int64(n)) != nil {
		return nil
	}
	b, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return unsafe.Pointer(&b[0])
}

func deviceMemory(t *transcript) {
	if !t.context() {
		return
	}
	p, q := uint64(1), uint64(0)
	t.call("cuMemAlloc_v2", "&p, 0", ptr(&p), 0)
	t.note("pointer %s", pointerState(uintptr(p)))
	t.call("cuMemAlloc_v2", "&p, 1", ptr(&p), 1)
	t.call("cuMemAlloc_v2", "&q, 4096", ptr(&q), 4096)
	t.note("aligned to 256: %v, %v; apart: %v", p%256 == 0, q%256 == 0, p != q)
	t.call("cuMemFree_v2", "q + 16", uintptr(q+16))
	t.call("cuMemFree_v2", "q", uintptr(q))
	t.call("cuMemFree_v2", "q again", uintptr(q))
	t.call("cuMemFree_v2", "0", 0)
	t.call("cuMemFree_v2", "never allocated", 0x7000000000)
	t.call("cuMemFree_v2", "p", uintptr(p))
	p = 1
	t.call("cuMemAlloc_v2", "&p, 2^50", ptr(&p), 1<<50)
	t.note("pointer %s", pointerState(uintptr(p)))
	t.call("cuMemAlloc_v2", "&p, 2^64 - 1", ptr(&p), ^uintptr(0))

	t.section("what is free")
	var before, after, again, total uint64
	t.call("cuMemGetInfo_v2", "&free, &total", ptr(&before), ptr(&total))
	t.note("0 < free <= total: %v", before > 0 && before <= total)
	p = t.alloc(32 << 20)
	t.must("cuMemGetInfo_v2", ptr(&after), ptr(&total))
	t.note("32 MiB less: %v", before-after >= 32<<20 && before-after < 64<<20)
	t.must("cuMemFree_v2", uintptr(p))
	t.must("cuMemGetInfo_v2", ptr(&again), ptr(&total))
	t.note("free as before: %v", again == before)
	var whole uint64
	t.must("cuDeviceTotalMem_v2", ptr(&whole), 0)
	t.note("total is cuDeviceTotalMem's: %v", whole == total)

	t.section("too much")
	t.call("cuMemAlloc_v2", "&p, total", ptr(&p), uintptr(total))
	t.call("cuMemAlloc_v2", "&p, 4096", ptr(&p), 4096)
	t.section("ranges")
	var base, size uint64
	p = t.alloc(5000)
	t.call("cuMemGetAddressRange_v2", "&base, &size, p + 100", ptr(&base), ptr(&size), uintptr(p+100))
	t.note("base p: %v, size %d", base == p, size)
	t.call("cuMemGetAddressRange_v2", "NULL, &size, p", 0, ptr(&size), uintptr(p))
	t.call("cuMemGetAddressRange_v2", "NULL, NULL, p", 0, 0, uintptr(p))
	t.call("cuMemGetAddressRange_v2", "&base, &size, p + 4999", ptr(&base), ptr(&size), uintptr(p+4999))
	t.call("cuMemGetAddressRange_v2", "&base, &size, never allocated", ptr(&base), ptr(&size), 0x7000000000)
	t.call("cuMemGetAddressRange_v2", "&base, &size, 0", ptr(&base), ptr(&size), 0)
	var pinned unsafe.Pointer
	t.must("cuMemHostAlloc", ptr(&pinned), 5000, 0)
	t.call("cuMemGetAddressRange_v2", "&base, &size, pinned + 100", ptr(&base), ptr(&size), uintptr(pinned)+100)
	t.note("base pinned: %v, size %d", base == uint64(uintptr(pinned)), size)
	registered := mapping(8192)
	t.must("cuMemHostRegister_v2", registered+100, 5000, 0)
	t.call("cuMemGetAddressRange_v2", "&base, &size, registered + 100", ptr(&base), ptr(&size), registered+200)
	t.note("base registered: %v, size %d", base == uint64(registered)+100, size)
}

func hostMemory(t *transcript) {
	if !t.context() {
		return
	}
	var p, q unsafe.Pointer
	var d uint64
	var flags uint32
	none := uintptr(1)
	t.call("cuMemHostAlloc", "&p, 0, 0", ptr(&none), 0, 0)
	t.note("pointer %s", pointerState(none))
	for f := range uint32(8) {
		if t.call("cuMemHostAlloc", fmt.Sprintf("&p, 4096, %d", f), ptr(&p), 4096, uintptr(f)) != abi.CUDA_SUCCESS {
			continue
		}
		t.call("cuMemHostGetFlags", "&flags, p", ptr(&flags), uintptr(p))
		t.note("flags %d", flags)
		t.call("cuMemHostGetDevicePointer_v2", "&d, p, 0", ptr(&d), uintptr(p), 0)
		t.note("device address is the host's: %v", d == uint64(uintptr(p)))
		t.call("cuMemFreeHost", "p", uintptr(p))
	}
	t.call("cuMemHostAlloc", "&p, 4096, 8", ptr(&p), 4096, 8)
	t.call("cuMemHostAlloc", "&p, 2^50, 0", ptr(&p), 1<<50, 0)
	t.call("cuMemAllocHost_v2", "&p, 4096", ptr(&p), 4096)
	t.call("cuMemHostGetFlags", "&flags, p", ptr(&flags), uintptr(p))
	t.note("flags %d", flags)
	t.call("cuMemHostGetDevicePointer_v2", "&d, p + 100, 0", ptr(&d), uintptr(p)+100, 0)
	t.note("100 behind p: %v", d == uint64(uintptr(p))+100)
	t.call("cuMemHostGetDevicePointer_v2", "&d, p, 1", ptr(&d), uintptr(p), 1)
	t.call("cuMemFreeHost", "p + 100", uintptr(p)+100)
	t.call("cuMemHostUnregister", "p, which was allocated", uintptr(p))
	t.call("cuMemFreeHost", "p", uintptr(p))
	t.call("cuMemFreeHost", "p again", uintptr(p))
	t.call("cuMemFreeHost", "NULL", 0)
	t.call("cuMemHostGetDevicePointer_v2", "&d, p, freed", ptr(&d), uintptr(p), 0)
	t.call("cuMemHostGetDevicePointer_v2", "&d, pageable", ptr(&d), mapping(4096), 0)
	t.call("cuMemHostGetFlags", "&flags, pageable", ptr(&flags), mapping(4096))
	t.call("cuMemFreeHost", "pageable", mapping(4096))

	t.section("written by the device, read by the host")
	t.must("cuMemHostAlloc", ptr(&q), 4096, abi.CU_MEMHOSTALLOC_DEVICEMAP)
	t.call("cuMemsetD32_v2", "q, 0x01020304, 16", uintptr(q), 0x01020304, 16)
	t.call("cuCtxSynchronize", "")
	t.note("right: %d", count(unsafe.Slice((*uint32)(q), 16), func(_ int, v uint32) bool { return v == 0x01020304 }))
}

func registeredMemory(t *transcript) {
	if !t.context() {
		return
	}
	var d uint64
	var flags uint32
	p := mapping(16384)
	for f := range uintptr(4) {
		t.call("cuMemHostRegister_v2", fmt.Sprintf("p, 16384, %d", f), p, 16384, f)
		t.call("cuMemHostGetFlags", "&flags, p", ptr(&flags), p)
		t.note("flags %d", flags)
		t.call("cuMemHostGetDevicePointer_v2", "&d, p, 0", ptr(&d), p, 0)
		t.note("device address is the host's: %v", d == uint64(p))
		t.call("cuMemHostUnregister", "p", p)
	}
	t.section("twice")
	t.call("cuMemHostRegister_v2", "p, 8192, 0", p, 8192, 0)
	t.call("cuMemHostRegister_v2", "p, 8192, 0 again", p, 8192, 0)
	t.call("cuMemHostRegister_v2", "p + 4096, 8192, 0 overlapping", p+4096, 8192, 0)
	t.call("cuMemHostRegister_v2", "p + 8192, 4096, 0 beside", p+8192, 4096, 0)
	t.call("cuMemHostUnregister", "p + 4096, inside", p+4096)
	t.call("cuMemFreeHost", "p, which was registered", p)
	t.call("cuMemHostUnregister", "p + 8192", p+8192)
	t.call("cuMemHostUnregister", "p", p)
	t.call("cuMemHostUnregister", "p again", p)
	t.call("cuMemHostGetDevicePointer_v2", "&d, p, 0", ptr(&d), p, 0)

	t.section("refused")
	t.call("cuMemHostRegister_v2", "p, 0, 0", p, 0, 0)
	t.call("cuMemHostRegister_v2", "NULL, 4096, 0", 0, 4096, 0)
	t.call("cuMemHostRegister_v2", "p, 4096, 16", p, 4096, 16)
	t.call("cuMemHostRegister_v2", "not mapped, 4096, 0", 0x10000, 4096, 0)
	t.call("cuMemHostUnregister", "NULL", 0)

	t.section("not whole pages")
	t.call("cuMemHostRegister_v2", "p + 100, 1000, 0", p+100, 1000, 0)
	t.call("cuMemHostGetDevicePointer_v2", "&d, p + 100, 0", ptr(&d), p+100, 0)
	t.note("device address is the host's: %v", d == uint64(p+100))
	t.call("cuMemHostUnregister", "p + 100", p+100)

	t.section("a shared page as a gate")
	sharedPage := sharedMapping(4096)
	shared := uintptr(sharedPage)
	t.call("cuMemHostRegister_v2", "shared, 4096, PORTABLE|DEVICEMAP", shared, 4096, abi.CU_MEMHOSTREGISTER_PORTABLE|abi.CU_MEMHOSTREGISTER_DEVICEMAP)
	t.must("cuMemHostGetDevicePointer_v2", ptr(&d), shared, 0)
	g := gate{host: (*uint32)(sharedPage), device: d}
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	g.store(2)
	t.call("cuStreamWaitValue32_v2", "s, shared, 1, AND", uintptr(s), uintptr(d), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_AND))
	t.note("%s", t.held(s))
	g.store(3)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.call("cuStreamWriteValue32_v2", "s, shared, 77, 0", uintptr(s), uintptr(d), 77, 0)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("word %d", g.load())
	t.call("cuMemHostUnregister", "shared", shared)
}

func pointerAttributes(t *transcript) {
	if !t.context() {
		return
	}
	var pinned unsafe.Pointer
	device := t.alloc(4096)
	t.must("cuMemHostAlloc", ptr(&pinned), 4096, 0)
	registered := mapping(4096)
	t.must("cuMemHostRegister_v2", registered, 4096, 0)
	for _, p := range []struct {
		name    string
		address uintptr
	}{
		{"device", uintptr(device)}, {"device + 8", uintptr(device) + 8}, {"pinned", uintptr(pinned)},
		{"registered", registered}, {"pageable", mapping(4096)}, {"NULL", 0}, {"never allocated", 0x7000000000},
	} {
		t.pointer(p.name, p.address)
	}
	t.call("cuPointerGetAttribute", "&v, 0, device", ptr(new(uint64)), 0, uintptr(device))
	t.call("cuPointerGetAttribute", "&v, 1000, device", ptr(new(uint64)), 1000, uintptr(device))
	t.call("cuPointerGetAttributes", "0, kinds, values, device", 0, ptr(new(uint32)), ptr(new(uintptr)), uintptr(device))
}

type pointerAttribute struct {
	name      string
	attribute abi.PointerAttribute
}

// Attributes whose values are small numbers, and those whose values differ from
// run to run.
var (
	pointerNumbers = []pointerAttribute{
		{"MEMORY_TYPE", abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
		{"DEVICE_ORDINAL", abi.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
		{"IS_MANAGED", abi.CU_POINTER_ATTRIBUTE_IS_MANAGED},
		{"RANGE_SIZE", abi.CU_POINTER_ATTRIBUTE_RANGE_SIZE},
		{"MAPPED", abi.CU_POINTER_ATTRIBUTE_MAPPED},
	}
	pointerAddresses = []pointerAttribute{
		{"DEVICE_POINTER", abi.CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
		{"HOST_POINTER", abi.CU_POINTER_ATTRIBUTE_HOST_POINTER},
		{"RANGE_START_ADDR", abi.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
		{"CONTEXT", abi.CU_POINTER_ATTRIBUTE_CONTEXT},
		{"BUFFER_ID", abi.CU_POINTER_ATTRIBUTE_BUFFER_ID},
	}
)

// pointer asks for the attributes of one address.
func (t *transcript) pointer(name string, address uintptr) {
	for _, a := range pointerNumbers {
		value := uint64(0)
		r := t.quiet("cuPointerGetAttribute", ptr(&value), uintptr(a.attribute), address)
		t.line("%s of %s = %s, %d", a.name, name, r.String(), value)
	}
	for _, a := range pointerAddresses {
		value := untouched
		r := t.quiet("cuPointerGetAttribute", ptr(&value), uintptr(a.attribute), address)
		t.line("%s of %s = %s, %s", a.name, name, r.String(), t.valueState(value, address))
	}
	kinds := [3]uint32{uint32(abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE), uint32(abi.CU_POINTER_ATTRIBUTE_DEVICE_POINTER), uint32(abi.CU_POINTER_ATTRIBUTE_IS_MANAGED)}
	kind, d, managed := uint64(9), untouched, uint64(9)
	values := [3]uintptr{ptr(&kind), ptr(&d), ptr(&managed)}
	t.call("cuPointerGetAttributes", "3, kinds, values, "+name, 3, ptr(&kinds), ptr(&values), address)
	t.note("type %d, device pointer %s, managed %d", uint32(kind), t.valueState(d, address), uint8(managed))
}

// untouched is what an attribute's value begins as.
const untouched = ^uintptr(0)

// valueState names an attribute's value.
func (t *transcript) valueState(value, address uintptr) string {
	var ctx uintptr
	t.quiet("cuCtxGetCurrent", ptr(&ctx))
	switch {
	case value == untouched:
		return "untouched"
	case value == 0:
		return "NULL"
	case value == address:
		return "the address"
	case value == address-8:
		return "8 before the address"
	case value == ctx:
		return "the current context"
	}
	return "set"
}

// pattern is n bytes that differ from their neighbours.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// bytes reads n bytes from the device.
func (t *transcript) bytes(p uint64, n int) []byte {
	b := make([]byte, n)
	t.must("cuMemcpyDtoH_v2", ptr(&b[0]), uintptr(p), uintptr(n))
	return b
}

func copies(t *transcript) {
	if !t.context() {
		return
	}
	const n = 100003
	src := pattern(n, 1)
	same := func(got []byte) int { return count(got, func(i int, v byte) bool { return v == src[i] }) }
	a, b := t.alloc(n), t.alloc(n)
	t.call("cuMemcpyHtoD_v2", "a, src, n", uintptr(a), ptr(&src[0]), n)
	t.call("cuMemcpyDtoD_v2", "b, a, n", uintptr(b), uintptr(a), n)
	t.note("right: %d", same(t.bytes(b, n)))

	t.section("asynchronous, pageable")
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	t.must("cuMemsetD8_v2", uintptr(a), 0, n)
	dst := make([]byte, n)
	t.call("cuMemcpyHtoDAsync_v2", "a, src, n, s", uintptr(a), ptr(&src[0]), n, uintptr(s))
	t.call("cuMemcpyDtoDAsync_v2", "b, a, n, s", uintptr(b), uintptr(a), n, uintptr(s))
	t.call("cuMemcpyDtoHAsync_v2", "dst, b, n, s", ptr(&dst[0]), uintptr(b), n, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("right: %d", same(dst))

	t.section("asynchronous, pinned")
	var pinned unsafe.Pointer
	t.must("cuMemHostAlloc", ptr(&pinned), n, 0)
	clear(unsafe.Slice((*byte)(pinned), n))
	t.call("cuMemcpyDtoHAsync_v2", "pinned, b, n, s", uintptr(pinned), uintptr(b), n, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("right: %d", same(unsafe.Slice((*byte)(pinned), n)))

	t.section("memsets")
	t.call("cuMemsetD8_v2", "a + 1, 0xab, 1000", uintptr(a+1), 0xab, 1000)
	got := t.bytes(a, 1002)
	t.note("right: %d, around: %v", count(got[1:1001], func(_ int, v byte) bool { return v == 0xab }), got[0] == src[0] && got[1001] == src[1001])
	t.call("cuMemsetD8_v2", "a, 0x1ff, 4", uintptr(a), 0x1ff, 4)
	t.note("%x", t.bytes(a, 4))
	t.call("cuMemsetD32_v2", "b + 4, 0x11223344, 100", uintptr(b+4), 0x11223344, 100)
	t.note("right: %d", count(t.words(b+4, 100), func(_ int, v uint32) bool { return v == 0x11223344 }))
	t.call("cuMemsetD8Async", "a, 5, n, s", uintptr(a), 5, n, uintptr(s))
	t.call("cuMemsetD32Async", "a, 6, 10, s", uintptr(a), 6, 10, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("%x", t.bytes(a+36, 8))

	t.section("nothing at all")
	t.call("cuMemcpyHtoD_v2", "a, src, 0", uintptr(a), ptr(&src[0]), 0)
	t.call("cuMemcpyDtoH_v2", "dst, a, 0", ptr(&dst[0]), uintptr(a), 0)
	t.call("cuMemcpyDtoD_v2", "a, b, 0", uintptr(a), uintptr(b), 0)
	t.call("cuMemcpyHtoDAsync_v2", "a, src, 0, s", uintptr(a), ptr(&src[0]), 0, uintptr(s))
	t.call("cuMemsetD8_v2", "a, 1, 0", uintptr(a), 1, 0)
	t.call("cuMemsetD32_v2", "a, 1, 0", uintptr(a), 1, 0)
	t.call("cuMemsetD8_v2", "0, 1, 0", 0, 1, 0)
}

func copyRefusals(t *transcript) {
	if !t.context() {
		return
	}
	const n = 4096
	buffer := pattern(4*n, 2)
	host := ptr(&buffer[0])
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	// A large neighbourless allocation, so that "beyond" is beyond.
	a := t.alloc(64 << 20)
	end := uintptr(a) + 64<<20
	t.call("cuMemcpyHtoD_v2", "beyond the end", end-16, host, 32)
	t.call("cuMemcpyDtoH_v2", "beyond the end", host, end-16, 32)
	t.call("cuMemcpyDtoD_v2", "beyond the end", end-16, uintptr(a), 32)
	t.call("cuMemcpyHtoDAsync_v2", "beyond the end, s", end-16, host, 32, uintptr(s))
	t.call("cuMemsetD8_v2", "beyond the end", end-16, 1, 32)
	t.call("cuMemsetD32_v2", "beyond the end", end-16, 1, 8)
	t.call("cuMemsetD8Async", "beyond the end, s", end-16, 1, 32, uintptr(s))
	t.call("cuMemcpyHtoD_v2", "to nowhere", 0x7000000000, host, 32)
	t.call("cuMemcpyDtoH_v2", "from nowhere", host, 0x7000000000, 32)
	t.call("cuMemcpyDtoD_v2", "from nowhere", uintptr(a), 0x7000000000, 32)
	t.call("cuMemcpyHtoD_v2", "to 0", 0, host, 32)
	t.call("cuMemcpyDtoH_v2", "from 0", host, 0, 32)
	t.call("cuMemsetD8_v2", "at 0", 0, 1, 32)
	t.call("cuMemsetD8_v2", "at nowhere", 0x7000000000, 1, 32)
	t.call("cuMemsetD32_v2", "not aligned", uintptr(a)+2, 1, 8)
	t.call("cuMemsetD32Async", "not aligned, s", uintptr(a)+1, 1, 8, uintptr(s))
	t.call("cuMemsetD8_v2", "2^63 bytes", uintptr(a), 1, 1<<63)
	t.call("cuMemsetD32_v2", "2^62 words", uintptr(a), 1, 1<<62)
	t.call("cuMemFree_v2", "a", uintptr(a))
	t.call("cuMemsetD8_v2", "freed", uintptr(a), 1, 32)
	t.call("cuMemcpyDtoH_v2", "freed", host, uintptr(a), 32)
	t.section("the context is unharmed")
	t.call("cuCtxSynchronize", "")
}

// order asks what waits for what: blocking streams and the legacy stream wait
// for each other, a non-blocking one for nobody.
func order(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(1)[0]
	blocking, free := t.stream(abi.CU_STREAM_DEFAULT), t.stream(abi.CU_STREAM_NON_BLOCKING)
	data := t.alloc(8)
	t.must("cuMemsetD32_v2", uintptr(data), 0, 2)
	hold := func(s abi.Stream) {
		g.store(0)
		t.must("cuStreamWaitValue32_v2", uintptr(s), uintptr(g.device), 1, uintptr(abi.CU_STREAM_WAIT_VALUE_EQ))
	}

	t.section("a blocking stream held, then the legacy stream")
	hold(blocking)
	t.call("cuMemsetD32Async", "data, 1, 1, blocking", uintptr(data), 1, 1, uintptr(blocking))
	t.call("cuMemsetD32Async", "data, 2, 1, NULL", uintptr(data), 2, 1, 0)
	t.note("legacy %s, blocking %s, free %s", t.held(0), t.held(blocking), t.held(free))
	g.store(1)
	t.call("cuStreamSynchronize", "NULL", 0)
	t.note("data %d", t.words(data, 1))

	t.section("the legacy stream held, then a blocking one and a free one")
	hold(0)
	t.call("cuMemsetD32Async", "data, 3, 1, blocking", uintptr(data), 3, 1, uintptr(blocking))
	t.call("cuMemsetD32Async", "data + 4, 4, 1, free", uintptr(data+4), 4, 1, uintptr(free))
	t.call("cuStreamSynchronize", "free", uintptr(free))
	t.note("legacy %s, blocking %s, free %s", t.held(0), t.held(blocking), t.held(free))
	g.store(1)
	t.call("cuStreamSynchronize", "blocking", uintptr(blocking))
	t.note("data %d", t.words(data, 2))

	t.section("a free stream held, then the legacy stream")
	hold(free)
	t.call("cuMemsetD32Async", "data, 5, 1, NULL", uintptr(data), 5, 1, 0)
	t.call("cuStreamSynchronize", "NULL", 0)
	t.note("legacy %s, free %s, data %d", t.held(0), t.held(free), t.words(data, 1))
	g.store(1)
	t.call("cuStreamSynchronize", "free", uintptr(free))

	t.section("the per-thread stream is a blocking one")
	hold(abi.CU_STREAM_PER_THREAD)
	t.call("cuMemsetD32Async", "data, 6, 1, NULL", uintptr(data), 6, 1, 0)
	t.note("legacy %s, per-thread %s", t.held(0), t.held(abi.CU_STREAM_PER_THREAD))
	g.store(1)
	t.call("cuCtxSynchronize", "")
	t.note("data %d", t.words(data, 1))
}

// illegalAddress breaks the context for good and asks who notices.
func illegalAddress(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), 0)
	data := t.alloc(4096)
	fill := t.function(m, "xm_fill")
	t.launch("xm_fill nowhere", fill, 1, 32, 0, params(0x7000000000, 1, 32))
	t.call("cuCtxSynchronize", "")
	t.call("cuCtxSynchronize", "")
	t.call("cuStreamQuery", "NULL", 0)
	t.launch("xm_fill data", fill, 1, 32, 0, params(data, 1, 32))
	t.call("cuMemAlloc_v2", "&p, 4096", ptr(new(uint64)), 4096)
	t.call("cuMemsetD8_v2", "data, 0, 16", uintptr(data), 0, 16)
	t.call("cuMemcpyDtoH_v2", "buffer, data, 16", ptr(new([16]byte)), uintptr(data), 16)
	t.call("cuEventRecord", "e, NULL", uintptr(e), 0)
	t.call("cuStreamCreate", "&s, 0", ptr(new(abi.Stream)), 0)
	t.call("cuMemFree_v2", "data", uintptr(data))
	t.section("what still works")
	var n int32
	t.call("cuDeviceGetCount", "&n", ptr(&n))
	t.call("cuCtxGetDevice", "&dev", ptr(&n))
	var ctx abi.Context
	t.call("cuCtxGetCurrent", "&ctx", ptr(&ctx))
	t.call("cuDevicePrimaryCtxReset_v2", "0", 0)
	t.section("after the reset")
	t.call("cuMemAlloc_v2", "&p, 4096", ptr(new(uint64)), 4096)
}
