package conformance

import (
	"fmt"

	"xmsched/hal/cuda/abi"
)

var poolNumbers = []struct {
	name      string
	attribute abi.MemPoolAttribute
}{
	{"RELEASE_THRESHOLD", abi.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD},
	{"RESERVED_MEM_CURRENT", abi.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT},
	{"RESERVED_MEM_HIGH", abi.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH},
	{"USED_MEM_CURRENT", abi.CU_MEMPOOL_ATTR_USED_MEM_CURRENT},
	{"USED_MEM_HIGH", abi.CU_MEMPOOL_ATTR_USED_MEM_HIGH},
}

// poolState writes what a pool holds.
func (t *transcript) poolState(pool uintptr) {
	var v [5]uint64
	for i, a := range poolNumbers {
		t.must("cuMemPoolGetAttribute", pool, uintptr(a.attribute), ptr(&v[i]))
	}
	t.note("reserved %d, at most %d; used %d, at most %d", v[1], v[2], v[3], v[4])
}

func pools(t *transcript) {
	if !t.context() {
		return
	}
	var pool, first, now uintptr
	t.call("cuDeviceGetDefaultMemPool", "&pool, 0", ptr(&first), 0)
	t.call("cuDeviceGetMemPool", "&pool, 0", ptr(&now), 0)
	t.note("the default pool: %v", now == first && first != 0)
	t.call("cuDeviceGetDefaultMemPool", "&pool, 99", ptr(&pool), 99)
	t.call("cuDeviceGetMemPool", "&pool, 99", ptr(&pool), 99)
	l := abi.CUmemLocation{Type: abi.CU_MEM_LOCATION_TYPE_DEVICE}
	for kind := range uintptr(4) {
		pool = 0
		r := t.call("cuMemGetDefaultMemPool", fmt.Sprintf("&pool, device 0, %d", kind), ptr(&pool), ptr(&l), kind)
		t.note("the default pool: %v", r == abi.CUDA_SUCCESS && pool == first)
	}
	t.call("cuMemGetMemPool", "&pool, device 0, pinned", ptr(&pool), ptr(&l), uintptr(abi.CU_MEM_ALLOCATION_TYPE_PINNED))
	t.note("the default pool: %v", pool == first)

	t.section("a pool of our own")
	own := uintptr(0)
	t.call("cuMemPoolCreate", "&own, device 0", ptr(&own), ptr(devicePool(0)))
	t.poolState(own)
	t.call("cuDeviceSetMemPool", "99, own", 99, own)
	t.call("cuDeviceSetMemPool", "0, own", 0, own)
	t.call("cuDeviceGetMemPool", "&pool, 0", ptr(&pool), 0)
	t.note("our own: %v", pool == own)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	p := uintptr(0)
	t.call("cuMemAllocAsync", "&p, 1000, s", ptr(&p), 1000, uintptr(s))
	owner := uintptr(0)
	t.call("cuPointerGetAttribute", "&pool, MEMPOOL_HANDLE, p", ptr(&owner), uintptr(abi.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE), p)
	t.note("our own: %v", owner == own)
	t.poolState(own)
	t.call("cuMemPoolDestroy", "own, with memory in use", own)
	t.call("cuDeviceGetMemPool", "&pool, 0", ptr(&pool), 0)
	t.note("the default pool: %v", pool == first)
	t.call("cuMemsetD8Async", "p, 1, 1000, s", p, 1, 1000, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.call("cuMemFreeAsync", "p, s", p, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.call("cuMemPoolDestroy", "the default pool", first)
	t.section("properties")
	for _, a := range []asks[abi.CUmemPoolProps]{
		{"kind 0", func(p *abi.CUmemPoolProps) { p.AllocType = 0 }},
		{"kind 2", func(p *abi.CUmemPoolProps) { p.AllocType = 2 }},
		{"kind 3", func(p *abi.CUmemPoolProps) { p.AllocType = 3 }},
		{"device 99", func(p *abi.CUmemPoolProps) { p.Location.Id = 99 }},
		{"device -1", func(p *abi.CUmemPoolProps) { p.Location.Id = -1 }},
		{"place 0", func(p *abi.CUmemPoolProps) { p.Location.Type = 0 }},
		{"place 9", func(p *abi.CUmemPoolProps) { p.Location.Type = 9 }},
		{"handle types 0x40", func(p *abi.CUmemPoolProps) { p.HandleTypes = 0x40 }},
		{"at most 1 byte", func(p *abi.CUmemPoolProps) { p.MaxSize = 1 }},
		{"at most 2^50 bytes", func(p *abi.CUmemPoolProps) { p.MaxSize = 1 << 50 }},
	} {
		props := devicePool(0)
		a.change(props)
		if t.call("cuMemPoolCreate", "&pool, "+a.name, ptr(&pool), ptr(props)) == abi.CUDA_SUCCESS {
			t.must("cuMemPoolDestroy", pool)
		}
	}
	t.section("access")
	own = t.pool()
	flags := uint32(99)
	for _, at := range []struct {
		name string
		l    abi.CUmemLocation
	}{
		{"device 0", abi.CUmemLocation{Type: 1}}, {"device 99", abi.CUmemLocation{Type: 1, Id: 99}},
		{"the host", abi.CUmemLocation{Type: 2}}, {"nowhere", abi.CUmemLocation{}},
	} {
		flags = 99
		t.call("cuMemPoolGetAccess", "&flags, own, "+at.name, ptr(&flags), own, ptr(&at.l))
		t.note("flags %d", flags)
		for _, f := range []abi.MemAccessFlags{3, 1, 0, 2} {
			t.call("cuMemPoolSetAccess", fmt.Sprintf("own, {%s, %d}, 1", at.name, f), own, ptr(&abi.CUmemAccessDesc{Location: at.l, Flags: f}), 1)
		}
	}
	t.call("cuMemPoolSetAccess", "own, …, 0", own, ptr(&abi.CUmemAccessDesc{}), 0)
	t.call("cuMemPoolDestroy", "own", own)
}

func poolAttributes(t *transcript) {
	if !t.context() {
		return
	}
	pool := t.pool()
	for a := range uintptr(11) {
		v := [2]uint64{99, 99}
		t.call("cuMemPoolGetAttribute", fmt.Sprintf("pool, %d, &v", a), pool, a, ptr(&v))
		t.note("%d", v[0])
		for _, w := range []uint64{1, 0} {
			v = [2]uint64{w, 0}
			t.call("cuMemPoolSetAttribute", fmt.Sprintf("pool, %d, &%d", a, w), pool, a, ptr(&v))
			v = [2]uint64{99, 99}
			t.quiet("cuMemPoolGetAttribute", pool, a, ptr(&v))
			t.note("%d", v[0])
		}
	}
	t.call("cuMemPoolTrimTo", "pool, 0", pool, 0)
	t.call("cuMemPoolTrimTo", "pool, 2^40", pool, 1<<40)
	t.call("cuMemPoolDestroy", "pool", pool)
}

func poolMemory(t *transcript) {
	if !t.context() {
		return
	}
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	pool := t.pool()
	var p [4]uintptr
	take := func(i int, what string, n uintptr) {
		t.call("cuMemAllocFromPoolAsync", "&p, "+what+", pool, s", ptr(&p[i]), n, pool, uintptr(s))
		var size uint64
		t.must("cuMemGetAddressRange_v2", 0, ptr(&size), p[i])
		t.note("size %d, aligned to 512: %v", size, p[i]%512 == 0)
		t.poolState(pool)
	}
	give := func(i int, what string) {
		t.call("cuMemFreeAsync", what+", s", p[i], uintptr(s))
		t.poolState(pool)
	}
	before := t.free()
	take(0, "1", 1)
	t.note("%s", t.less(before))
	take(1, "513", 513)
	take(2, "1 MiB + 1", 1<<20+1)
	take(3, "64 MiB", 64<<20)
	t.note("%s", t.less(before))
	t.pointer("memory of a pool", p[2])
	give(0, "the byte")
	give(1, "513")
	give(2, "1 MiB + 1")
	give(3, "64 MiB")
	t.note("%s", t.less(before))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.poolState(pool)
	t.note("%s", t.less(before))

	t.section("kept for a next time")
	threshold := uint64(1 << 40)
	t.must("cuMemPoolSetAttribute", pool, uintptr(abi.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), ptr(&threshold))
	take(0, "100 MiB", 100<<20)
	give(0, "100 MiB")
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.poolState(pool)
	t.note("%s", t.less(before))
	t.call("cuMemPoolTrimTo", "pool, 64 MiB", pool, 64<<20)
	t.poolState(pool)
	t.call("cuMemPoolTrimTo", "pool, 0", pool, 0)
	t.poolState(pool)
	t.note("%s", t.less(before))
	zero := uint64(0)
	for _, a := range []abi.MemPoolAttribute{abi.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, abi.CU_MEMPOOL_ATTR_USED_MEM_HIGH} {
		t.call("cuMemPoolSetAttribute", fmt.Sprintf("pool, %d, &0", a), pool, uintptr(a), ptr(&zero))
	}
	t.poolState(pool)
	t.section("at most 64 MiB")
	small := uintptr(0)
	t.call("cuMemPoolCreate", "&small, at most 64 MiB", ptr(&small), ptr(devicePool(64<<20)))
	t.call("cuMemAllocFromPoolAsync", "&p, 128 MiB, small, s", ptr(&p[0]), 128<<20, small, uintptr(s))
	t.call("cuMemAllocFromPoolAsync", "&p, 40 MiB, small, s", ptr(&p[0]), 40<<20, small, uintptr(s))
	t.poolState(small)
	t.call("cuMemAllocFromPoolAsync", "&p, 40 MiB, small, s", ptr(&p[1]), 40<<20, small, uintptr(s))
	t.poolState(small)
	t.call("cuCtxSynchronize", "")
}

// poolOrder asks for whom memory that was freed in a stream may be used again, and
// when.
func poolOrder(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(1)[0]
	a, b := t.stream(abi.CU_STREAM_NON_BLOCKING), t.stream(abi.CU_STREAM_NON_BLOCKING)
	const n = 8 << 20
	take := func(s abi.Stream) uintptr {
		p := uintptr(0)
		t.must("cuMemAllocAsync", ptr(&p), n, uintptr(s))
		return p
	}
	give := func(p uintptr, s abi.Stream) { t.must("cuMemFreeAsync", p, uintptr(s)) }
	t.section("in one stream")
	p := take(a)
	give(p, a)
	q := take(a)
	t.note("the same memory: %v", p == q)
	give(q, a)
	t.call("cuCtxSynchronize", "")

	t.section("in a held stream")
	t.hold(g, a)
	p = take(a)
	t.note("the pointer is there: %v", p != 0)
	t.call("cuMemsetD8Async", "p, 0x5a, n, a", p, 0x5a, n, uintptr(a))
	host, bytes := t.pinned(n)
	t.call("cuMemcpyDtoHAsync_v2", "pinned, p, n, a", host, p, n, uintptr(a))
	t.call("cuMemFreeAsync", "p, a", p, uintptr(a))
	q = take(a)
	t.note("the same memory for the same stream: %v", p == q)
	r := take(b)
	t.note("the same memory for another stream: %v", r == p || r == q)
	t.call("cuMemsetD8Async", "r, 1, n, b", r, 1, n, uintptr(b))
	t.note("the other stream: %s", t.settles(b))
	g.store(1)
	t.call("cuStreamSynchronize", "a", uintptr(a))
	t.note("right: %d", count(bytes, func(_ int, v byte) bool { return v == 0x5a }))
	give(q, a)
	give(r, b)
	t.call("cuCtxSynchronize", "")

	t.section("behind an event")
	var e abi.Event
	t.must("cuEventCreate", ptr(&e), uintptr(abi.CU_EVENT_DISABLE_TIMING))
	p = take(a)
	t.hold(g, a)
	give(p, a)
	t.must("cuEventRecord", uintptr(e), uintptr(a))
	t.must("cuStreamWaitEvent", uintptr(b), uintptr(e), 0)
	q = take(b)
	t.note("the same memory: %v", p == q)
	give(q, b)
	g.store(1)
	t.call("cuCtxSynchronize", "")

	t.section("freed in another stream than allocated in")
	p = take(a)
	t.call("cuMemFreeAsync", "p, b", p, uintptr(b))
	t.call("cuCtxSynchronize", "")
	t.section("by the default streams' twins")
	t.call("cuMemAllocAsync_ptsz", "&p, n, NULL", ptr(&p), n, 0)
	t.call("cuMemFreeAsync_ptsz", "p, NULL", p, 0)
	t.call("cuMemAllocAsync", "&p, n, NULL", ptr(&p), n, 0)
	t.call("cuMemFreeAsync", "p, NULL", p, 0)
	pool := t.pool()
	t.call("cuMemAllocFromPoolAsync_ptsz", "&p, n, pool, NULL", ptr(&p), n, pool, 0)
	t.call("cuMemFreeAsync", "p, NULL", p, 0)
	t.call("cuCtxSynchronize", "")
}

func poolRefusals(t *transcript) {
	if !t.context() {
		return
	}
	s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
	ask := func(what string, n uintptr) {
		p := uintptr(1)
		t.call("cuMemAllocAsync", "&p, "+what+", s", ptr(&p), n, s)
		t.note("pointer %s", pointerState(p))
	}
	ask("0", 0)
	ask("2^50", 1<<50)
	ask("2^64 - 1", ^uintptr(0))
	pool := t.pool()
	p := uintptr(1)
	t.call("cuMemAllocFromPoolAsync", "&p, 0, pool, s", ptr(&p), 0, pool, s)
	t.call("cuMemAllocFromPoolAsync", "&p, 2^50, pool, s", ptr(&p), 1<<50, pool, s)
	t.section("frees")
	p = t.poolMemory(4096, s)
	t.call("cuMemFreeAsync", "p + 256, s", p+256, s)
	t.call("cuMemFreeAsync", "p, s", p, s)
	t.call("cuMemFreeAsync", "p again, s", p, s)
	t.call("cuMemFree_v2", "p again", p)
	t.call("cuMemFreeAsync", "0, s", 0, s)
	t.call("cuMemFreeAsync", "never allocated, s", 0x7000000000, s)
	pinned, _ := t.pinned(4096)
	t.call("cuMemFreeAsync", "pinned, s", pinned, s)
	managed, _ := t.managed(4096)
	t.call("cuMemFreeAsync", "managed, s", managed, s)
	t.call("cuMemFreeAsync", "managed again, s", managed, s)
	t.call("cuMemFreeAsync", "pageable, s", mapping(4096), s)
	p = t.poolMemory(4096, s)
	t.call("cuMemFree_v2", "p", p)
	t.call("cuMemFree_v2", "p again", p)
	t.call("cuMemFreeAsync", "p again, s", p, s)
	before := t.free()
	d := uintptr(t.alloc(64 << 20))
	t.note("%s", t.less(before))
	t.call("cuMemFreeAsync", "memory of cuMemAlloc, s", d, s)
	t.note("%s", t.less(before))
	t.call("cuStreamSynchronize", "s", s)
	t.note("%s", t.less(before))
	t.section("freed memory")
	p = t.poolMemory(4096, s)
	t.must("cuMemFreeAsync", p, s)
	v := uint64(0)
	t.call("cuPointerGetAttribute", "&v, MEMORY_TYPE, freed", ptr(&v), uintptr(abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE), p)
	t.call("cuCtxSynchronize", "")
	t.call("cuPointerGetAttribute", "&v, MEMORY_TYPE, freed and synchronised", ptr(&v), uintptr(abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE), p)
	t.call("cuMemsetD8Async", "freed and synchronised, 1, 16, s", p, 1, 16, s)
	t.call("cuStreamSynchronize", "s", s)
}

// poolsAndContexts asks what becomes of memory of pools, and of managed memory,
// when the context that made it ends.
func poolsAndContexts(t *transcript) {
	if !t.context() {
		return
	}
	first := t.poolMemory(4096, 0)
	t.must("cuCtxSynchronize")
	before := t.free()
	var c, popped abi.Context
	t.must("cuCtxCreate_v2", ptr(&c), 0, 0)
	s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
	p := t.poolMemory(256<<20, s)
	m, b := t.managed(4096)
	b[0] = 7
	var owner abi.Context
	t.call("cuPointerGetAttribute", "&ctx, CONTEXT, memory of a pool", ptr(&owner), uintptr(abi.CU_POINTER_ATTRIBUTE_CONTEXT), p)
	t.note("the second context: %v, none: %v", owner == c, owner == 0)
	t.must("cuCtxPopCurrent_v2", ptr(&popped))
	t.section("used from another context")
	t.call("cuMemsetD8_v2", "memory of the second's stream, 1, 4096", p, 1, 4096)
	t.call("cuMemsetD8_v2", "managed of the second, 9, 16", m, 9, 16)
	t.call("cuCtxSynchronize", "")
	t.section("the second context ends")
	t.call("cuCtxDestroy_v2", "c", uintptr(c))
	t.note("256 MiB less: %v", before-min(before, t.free()) >= 256<<20)
	v := uint64(0)
	for _, a := range []struct {
		name string
		p    uintptr
	}{{"memory of a pool", p}, {"managed", m}} {
		t.call("cuPointerGetAttribute", "&v, MEMORY_TYPE, "+a.name, ptr(&v), uintptr(abi.CU_POINTER_ATTRIBUTE_MEMORY_TYPE), a.p)
		t.call("cuMemsetD8_v2", a.name+", 1, 16", a.p, 1, 16)
		t.call("cuCtxSynchronize", "")
		t.call("cuMemFree_v2", a.name, a.p)
	}
	t.note("256 MiB less: %v", before-min(before, t.free()) >= 256<<20)
	t.call("cuMemFreeAsync", "the first context's, NULL", first, 0)
	t.call("cuCtxSynchronize", "")
}

func morePointerAttributes(t *transcript) {
	if !t.context() {
		return
	}
	s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
	pinned, _ := t.pinned(4096)
	managed, _ := t.managed(4096)
	registered := mapping(4096)
	t.must("cuMemHostRegister_v2", registered, 4096, 0)
	memory := []struct {
		name string
		p    uintptr
	}{
		{"device", uintptr(t.alloc(4096))}, {"a pool's", t.poolMemory(4096, s)}, {"managed", managed}, {"pinned", pinned},
		{"registered", registered}, {"pageable", mapping(4096)},
	}
	t.must("cuCtxSynchronize")
	for _, m := range memory {
		for _, a := range []abi.PointerAttribute{6, 10, 14, 15, 16, 21} {
			v := [2]uint64{99, 99}
			r := t.quiet("cuPointerGetAttribute", ptr(&v), uintptr(a), m.p)
			t.line("attribute %d of %s = %s, %d", a, m.name, r.String(), v[0])
		}
		for _, a := range []abi.PointerAttribute{17, 18, 19, 20} {
			v := [2]uintptr{untouched, untouched}
			r := t.quiet("cuPointerGetAttribute", ptr(&v), uintptr(a), m.p)
			t.line("attribute %d of %s = %s, %s", a, m.name, r.String(), t.valueState(v[0], m.p))
		}
	}
	t.section("set")
	for _, m := range memory {
		for _, on := range []uint32{1, 0} {
			t.call("cuPointerSetAttribute", fmt.Sprintf("&%d, SYNC_MEMOPS, %s", on, m.name), ptr(&on), uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), m.p)
			v := [2]uint64{99, 99}
			r := t.quiet("cuPointerGetAttribute", ptr(&v), uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), m.p)
			t.line("SYNC_MEMOPS of %s = %s, %d", m.name, r.String(), uint8(v[0]))
		}
	}
	one := uint32(1)
	for a := range uintptr(23) {
		if a != uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
			t.call("cuPointerSetAttribute", fmt.Sprintf("&1, %d, device", a), ptr(&one), a, memory[0].p)
		}
	}
	t.call("cuPointerSetAttribute", "&1, SYNC_MEMOPS, 0", ptr(&one), uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 0)
	t.call("cuPointerSetAttribute", "&1, SYNC_MEMOPS, device + 100", ptr(&one), uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), memory[0].p+100)
}
