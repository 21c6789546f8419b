package conformance

import "xmsched/hal/cuda/abi"

// memoryNullPointers are calls about memory with nowhere to put the answer, or with
// handles of pools that are none. Each may end the process.
var memoryNullPointers = testCase{"memory-null-pointers", []question{
	one("cuMemcpy2D_v2", "NULL", 0),
	one("cuMemcpy2DUnaligned_v2", "NULL", 0),
	one("cuMemcpy2DAsync_v2", "NULL, NULL", 0, 0),
	one("cuMemcpy3D_v2", "NULL", 0),
	one("cuMemcpy3DAsync_v2", "NULL, NULL", 0, 0),
	one("cuMemcpy3DPeer", "NULL", 0),
	one("cuMemcpyPeer", "0, NULL, 0, NULL, 16", 0, 0, 0, 0, 16),
	one("cuMemcpyBatchAsync", "NULL, …, 1, per-thread stream", 0, 0, 0, 1, 0, 0, 0, 0, uintptr(abi.CU_STREAM_PER_THREAD)),
	one("cuMemcpyBatchAsync_v2", "NULL, …, 1, per-thread stream", 0, 0, 0, 1, 0, 0, 0, uintptr(abi.CU_STREAM_PER_THREAD)),
	one("cuMemcpy3DBatchAsync_v2", "1, NULL, 0, per-thread stream", 1, 0, 0, uintptr(abi.CU_STREAM_PER_THREAD)),
	one("cuMemAllocPitch_v2", "NULL, NULL, 100, 100, 4", 0, 0, 100, 100, 4),
	{"cuMemAllocPitch_v2(&p, NULL, 100, 100, 4)", func(t *transcript) {
		if t.context() {
			t.call("cuMemAllocPitch_v2", "&p, NULL, 100, 100, 4", ptr(new(uint64)), 0, 100, 100, 4)
		}
	}},
	one("cuMemAllocManaged", "NULL, 4096, 1", 0, 4096, 1),
	one("cuMemAllocAsync", "NULL, 4096, NULL", 0, 4096, 0),
	one("cuMemAllocFromPoolAsync", "NULL, 4096, NULL, NULL", 0, 4096, 0, 0),
	one("cuMemPoolCreate", "NULL, NULL", 0, 0),
	{"cuMemPoolCreate(&pool, NULL)", func(t *transcript) {
		if t.context() {
			t.call("cuMemPoolCreate", "&pool, NULL", ptr(new(uint64)), 0)
		}
	}},
	one("cuMemPoolDestroy", "NULL", 0),
	one("cuMemPoolTrimTo", "NULL, 0", 0, 0),
	one("cuMemPoolGetAttribute", "NULL, 4, NULL", 0, 4, 0),
	pooled("cuMemPoolGetAttribute", "pool, 4, NULL", func(pool uintptr) []uintptr { return []uintptr{pool, 4, 0} }),
	pooled("cuMemPoolSetAttribute", "pool, 4, NULL", func(pool uintptr) []uintptr { return []uintptr{pool, 4, 0} }),
	pooled("cuMemPoolSetAccess", "pool, NULL, 1", func(pool uintptr) []uintptr { return []uintptr{pool, 0, 1} }),
	pooled("cuMemPoolGetAccess", "NULL, pool, NULL", func(pool uintptr) []uintptr { return []uintptr{0, pool, 0} }),
	one("cuDeviceGetDefaultMemPool", "NULL, 0", 0, 0),
	one("cuDeviceGetMemPool", "NULL, 0", 0, 0),
	one("cuDeviceSetMemPool", "0, NULL", 0, 0),
	one("cuDeviceCanAccessPeer", "NULL, 0, 0", 0, 0, 0),
	one("cuDeviceGetP2PAttribute", "NULL, 1, 0, 0", 0, 1, 0, 0),
	one("cuCtxEnablePeerAccess", "NULL, 0", 0, 0),
	one("cuCtxDisablePeerAccess", "NULL", 0),
	one("cuMemRangeGetAttribute", "NULL, 4, 1, 0, 4096", 0, 4, 1, 0, 4096),
	{"cuMemRangeGetAttribute(NULL, 4, 1, managed, 4096)", func(t *transcript) {
		if t.context() {
			p, _ := t.managed(4096)
			t.call("cuMemRangeGetAttribute", "NULL, 4, 1, managed, 4096", 0, 4, 1, p, 4096)
		}
	}},
	{"cuMemRangeGetAttributes(NULL, NULL, NULL, 1, managed, 4096)", func(t *transcript) {
		if t.context() {
			p, _ := t.managed(4096)
			t.call("cuMemRangeGetAttributes", "NULL, NULL, NULL, 1, managed, 4096", 0, 0, 0, 1, p, 4096)
		}
	}},
	{"cuPointerSetAttribute(NULL, SYNC_MEMOPS, device)", func(t *transcript) {
		if t.context() {
			t.call("cuPointerSetAttribute", "NULL, SYNC_MEMOPS, device", 0, uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), t.device(16))
		}
	}},
	one("cuMemPoolDestroy", "bogus", bogus),
	{"cuMemcpy(0, device, 32)", func(t *transcript) {
		if t.context() {
			t.call("cuMemcpy", "0, device, 32", 0, t.device(32), 32)
		}
	}},
	{"cuMemcpyPeer(device, ctx, pageable, ctx, 32)", func(t *transcript) {
		if t.context() {
			var ctx uintptr
			t.must("cuCtxGetCurrent", ptr(&ctx))
			t.call("cuMemcpyPeer", "device, ctx, pageable, ctx, 32", t.device(32), ctx, mapping(4096), ctx, 32)
		}
	}},
	{"cuMemAllocFromPoolAsync(&p, 4096, NULL, NULL)", func(t *transcript) {
		if t.context() {
			t.call("cuMemAllocFromPoolAsync", "&p, 4096, NULL, NULL", ptr(new(uint64)), 4096, 0, 0)
		}
	}},
	{"cuMemAllocFromPoolAsync(&p, 4096, bogus, NULL)", func(t *transcript) {
		if t.context() {
			t.call("cuMemAllocFromPoolAsync", "&p, 4096, bogus, NULL", ptr(new(uint64)), 4096, bogus, 0)
		}
	}},
	one("cuDeviceSetMemPool", "0, bogus", 0, bogus),
	one("cuMemcpyPeer", "0x7000000000, bogus, 0x7000000000, bogus, 16", 0x7000000000, bogus, 0x7000000000, bogus, 16),
	stale("cuMemPoolDestroy", "a destroyed pool", destroyedPool),
	stale("cuMemPoolTrimTo", "a destroyed pool", destroyedPool),
}}

func pooled(symbol, what string, args func(pool uintptr) []uintptr) question {
	return question{symbol + "(" + what + ")", func(t *transcript) {
		if t.context() {
			t.call(symbol, what, args(t.pool())...)
		}
	}}
}

func destroyedPool(t *transcript) uintptr {
	pool := t.pool()
	t.must("cuMemPoolDestroy", pool)
	return pool
}
