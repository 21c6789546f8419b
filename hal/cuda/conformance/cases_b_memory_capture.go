package conformance

import (
	"xmsched/hal/cuda/abi"
)

// memoryDuringCapture asks what calls about memory answer while a stream captures,
// and what becomes of the capture.
var memoryDuringCapture = func() testCase {
	c := testCase{name: "memory-calls-during-capture"}
	type args = []uintptr
	add := func(symbol, what string, args func(t *transcript, b *beside) []uintptr) {
		c.questions = append(c.questions, question{symbol + "(" + what + ")", func(t *transcript) { t.duringCapture(symbol, what, args) }})
	}
	s := func(b *beside) uintptr { return uintptr(b.s) }
	p := func(b *beside) uintptr { return uintptr(b.data) }
	add("cuMemAllocManaged", "&p, 4096, 1", func(*transcript, *beside) args { return args{ptr(new(uint64)), 4096, 1} })
	add("cuMemAllocPitch_v2", "&p, &pitch, 16, 16, 4", func(*transcript, *beside) args { return args{ptr(new(uint64)), ptr(new(uint64)), 16, 16, 4} })
	add("cuMemAllocHost_v2", "&p, 4096", func(*transcript, *beside) args { return args{ptr(new(uint64)), 4096} })
	add("cuMemFree_v2", "managed", func(t *transcript, _ *beside) args {
		m, _ := t.managed(4096)
		return args{m}
	})
	add("cuMemFree_v2", "memory of a pool", func(t *transcript, _ *beside) args { return args{t.poolMemory(4096, 0)} })
	add("cuMemAllocAsync", "&p, 4096, other", func(_ *transcript, b *beside) args { return args{ptr(new(uint64)), 4096, uintptr(b.other)} })
	add("cuMemFreeAsync", "memory of a pool, other", func(t *transcript, b *beside) args { return args{t.poolMemory(4096, 0), uintptr(b.other)} })
	add("cuMemFreeAsync", "memory of a pool, s", func(t *transcript, b *beside) args { return args{t.poolMemory(4096, 0), s(b)} })
	add("cuMemPoolCreate", "&pool, props", func(*transcript, *beside) args { return args{ptr(new(uint64)), ptr(devicePool(0))} })
	add("cuMemPoolDestroy", "pool", func(t *transcript, _ *beside) args { return args{t.pool()} })
	add("cuMemPoolTrimTo", "pool, 0", func(t *transcript, _ *beside) args { return args{t.pool(), 0} })
	add("cuMemPrefetchAsync", "managed, 4096, 0, s", func(t *transcript, b *beside) args {
		m, _ := t.managed(4096)
		return args{m, 4096, 0, s(b)}
	})
	add("cuMemAdvise", "managed, 4096, 1, 0", func(t *transcript, _ *beside) args {
		m, _ := t.managed(4096)
		return args{m, 4096, 1, 0}
	})
	add("cuStreamAttachMemAsync", "s, managed, 0, single", func(t *transcript, b *beside) args {
		m, _ := t.managed(4096)
		return args{s(b), m, 0, uintptr(abi.CU_MEM_ATTACH_SINGLE)}
	})
	add("cuMemsetD2D8Async", "p, 8, 1, 2, 2, s", func(_ *transcript, b *beside) args { return args{p(b), 8, 1, 2, 2, s(b)} })
	add("cuMemcpyAsync", "pageable, pageable, 16, s", func(_ *transcript, b *beside) args { return args{mapping(4096), mapping(4096), 16, s(b)} })
	add("cuMemcpy2DAsync_v2", "device, device, s", func(t *transcript, b *beside) args {
		return args{rowsOf(deviceSide(t.device(256)), deviceSide(t.device(256))), s(b)}
	})
	add("cuMemcpy2D_v2", "device, device", func(t *transcript, _ *beside) args {
		return args{rowsOf(deviceSide(t.device(256)), deviceSide(t.device(256)))}
	})
	add("cuMemcpyPeerAsync", "device, device, 16, s", func(t *transcript, b *beside) args {
		var ctx uintptr
		t.must("cuCtxGetCurrent", ptr(&ctx))
		return args{t.device(64), ctx, t.device(64), ctx, 16, s(b)}
	})
	for _, order := range []uint32{orderStream, orderDuringCall, orderAny} {
		add("cuMemcpyBatchAsync_v2", []string{"", "order stream", "order call", "order any"}[order]+", device, pinned, 16, s", func(t *transcript, b *beside) args {
			pinned, _ := t.pinned(64)
			return copyBatchOf(t.device(64), pinned, 16, order).args(2, b.s)
		})
	}
	add("cuMemcpyBatchAsync_v2", "order stream, device, pageable, 16, s", func(t *transcript, b *beside) args {
		return copyBatchOf(t.device(64), mapping(4096), 16, orderStream).args(2, b.s)
	})
	return c
}()
