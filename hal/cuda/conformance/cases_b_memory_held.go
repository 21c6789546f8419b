package conformance

import (
	"bytes"
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// copiesInHeldStream asks of asynchronous copies into a stream that is held: which
// of them wait, what they have read by the time that they return, and whether
// they keep their place in the stream.
var copiesInHeldStream = func() testCase {
	c := testCase{name: "copies-in-a-held-stream"}
	for _, n := range []int{64, 4096, 32 << 10, 64 << 10, 64<<10 + 1, 128 << 10, 1 << 20, 8 << 20} {
		what := fmt.Sprintf("device, pageable, %d bytes", n)
		c.questions = append(c.questions, question{what, func(t *transcript) { t.heldIn(what, n, false) }})
	}
	c.questions = append(c.questions, question{"device, pinned, 4096 bytes", func(t *transcript) { t.heldIn("device, pinned, 4096 bytes", 4096, true) }})
	for _, n := range []int{64, 64 << 10, 1 << 20} {
		what := fmt.Sprintf("pageable, device, %d bytes", n)
		c.questions = append(c.questions, question{what, func(t *transcript) { t.heldOut(what, n, false) }})
	}
	c.questions = append(c.questions, question{"pinned, device, 4096 bytes", func(t *transcript) { t.heldOut("pinned, device, 4096 bytes", 4096, true) }})
	return c
}()

// heldIn copies to the device in a held stream, and changes the source when the
// call has returned. Behind the copy a memset changes the first byte.
func (t *transcript) heldIn(what string, n int, pinned bool) {
	if !t.context() {
		return
	}
	g, s := t.gates(1)[0], t.stream(abi.CU_STREAM_NON_BLOCKING)
	target := t.region(n, 1)
	source := make([]byte, n)
	address := ptr(&source[0])
	if pinned {
		address, source = t.pinned(n)
	}
	old := pattern(n, 2)
	copy(source, old)
	t.must("cuCtxSynchronize")
	t.hold(g, s)
	waiting := t.bounded("cuMemcpyHtoDAsync_v2", what+", held", uintptr(target.p), address, uintptr(n), uintptr(s))
	changed := pattern(n, 3)
	if waiting == nil {
		copy(source, changed)
	}
	g.store(1)
	join(waiting)
	t.call("cuMemsetD8Async", "its first byte, s", uintptr(target.p), 0xee, 1, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	got := t.bytes(target.p, n)
	t.note("first byte right: %v, others as the source was at the call: %v, as it is now: %v",
		got[0] == 0xee, bytes.Equal(got[1:], old[1:]), bytes.Equal(got[1:], source[1:]))
}

// heldOut copies from the device in a held stream, behind a memset there.
func (t *transcript) heldOut(what string, n int, pinned bool) {
	if !t.context() {
		return
	}
	g, s := t.gates(1)[0], t.stream(abi.CU_STREAM_NON_BLOCKING)
	source := t.region(n, 1)
	target := make([]byte, n)
	address := ptr(&target[0])
	if pinned {
		address, target = t.pinned(n)
	}
	t.must("cuCtxSynchronize")
	t.hold(g, s)
	t.must("cuMemsetD8Async", uintptr(source.p), 0xee, uintptr(n), uintptr(s))
	waiting := t.bounded("cuMemcpyDtoHAsync_v2", what+", held", address, uintptr(source.p), uintptr(n), uintptr(s))
	g.store(1)
	join(waiting)
	if waiting == nil {
		t.call("cuStreamSynchronize", "s", uintptr(s))
	}
	t.note("right: %d of %d", count(target, func(_ int, v byte) bool { return v == 0xee }), n)
}

// heldCalls collects calls that are made while a stream is held.
type heldCalls struct {
	testCase
	flags abi.StreamFlags // of the held stream
}

// add asks whether a call waits; args gives its arguments, and may use the stream
// that will be held.
func (c *heldCalls) add(symbol, what string, args func(t *transcript, s uintptr) []uintptr) {
	flags := c.flags
	c.questions = append(c.questions, question{symbol + "(" + what + ")", func(t *transcript) {
		if !t.context() {
			return
		}
		g, s := t.gates(1)[0], t.stream(flags)
		list := args(t, uintptr(s))
		data := t.alloc(4)
		t.must("cuCtxSynchronize")
		t.hold(g, s)
		t.must("cuMemsetD32Async", uintptr(data), 1, 1, uintptr(s))
		waiting := t.bounded(symbol, what, list...)
		if waiting == nil {
			t.note("the stream: %s", t.held(s))
		}
		g.store(1)
		join(waiting)
		t.must("cuCtxSynchronize")
	}})
}

// Arguments of calls, by what they name.
func (t *transcript) device(n int) uintptr { return uintptr(t.alloc(n)) }

func (t *transcript) poolMemory(n int, s uintptr) uintptr {
	p := uintptr(0)
	t.must("cuMemAllocAsync", ptr(&p), uintptr(n), s)
	return p
}

func (t *transcript) pool() uintptr {
	pool := uintptr(0)
	t.must("cuMemPoolCreate", ptr(&pool), ptr(devicePool(0)))
	return pool
}

func devicePool(most uint64) *abi.CUmemPoolProps {
	return &abi.CUmemPoolProps{
		AllocType: abi.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location:  abi.CUmemLocation{Type: abi.CU_MEM_LOCATION_TYPE_DEVICE},
		MaxSize:   most,
	}
}

// place is a location as the calls take it, by value.
func place(kind abi.MemLocationType, id int) uintptr {
	return uintptr(kind) | uintptr(uint32(int32(id)))<<32
}

func copyBatchOf(to, from uintptr, n int, order uint32) *batch {
	b := &batch{attributes: []abi.CUmemcpyAttributes{{SrcAccessOrder: order}}, first: []uint64{0}}
	b.add(to, from, n)
	return b
}

// rowsOf describes a copy of 4 rows of 16 bytes.
func rowsOf(to, from side) uintptr {
	to.pitch, from.pitch = 32, 32
	return ptr(describe2D(to, from, 16, 4))
}

func deviceSide(p uintptr) side { return side{kind: abi.CU_MEMORYTYPE_DEVICE, device: uint64(p)} }

func hostSide(b []byte) side {
	ptr(&b[0])
	return side{kind: abi.CU_MEMORYTYPE_HOST, host: unsafe.Pointer(&b[0])}
}

// callsInHeldStream asks of calls that take a place in a held stream, or that are
// about memory while one is held.
var callsInHeldStream = func() testCase {
	c := heldCalls{testCase{name: "memory-calls-beside-held-work"}, abi.CU_STREAM_NON_BLOCKING}
	type args = []uintptr
	c.add("cuMemcpyAsync", "pageable, pageable, 64, s", func(_ *transcript, s uintptr) args { return args{mapping(4096), mapping(4096), 64, s} })
	c.add("cuMemcpyAsync", "device, device, 64, s", func(t *transcript, s uintptr) args { return args{t.device(64), t.device(64), 64, s} })
	c.add("cuMemcpy2DAsync_v2", "device, pageable, s", func(t *transcript, s uintptr) args {
		return args{rowsOf(deviceSide(t.device(256)), hostSide(make([]byte, 256))), s}
	})
	c.add("cuMemcpy2DAsync_v2", "pageable, device, s", func(t *transcript, s uintptr) args {
		return args{rowsOf(hostSide(make([]byte, 256)), deviceSide(t.device(256))), s}
	})
	c.add("cuMemcpy2DAsync_v2", "device, device, s", func(t *transcript, s uintptr) args {
		return args{rowsOf(deviceSide(t.device(256)), deviceSide(t.device(256))), s}
	})
	c.add("cuMemcpyPeerAsync", "device, device, 64, s", func(t *transcript, s uintptr) args {
		var ctx abi.Context
		t.must("cuCtxGetCurrent", ptr(&ctx))
		return args{t.device(64), uintptr(ctx), t.device(64), uintptr(ctx), 64, s}
	})
	for _, order := range []uint32{orderStream, orderDuringCall, orderAny} {
		for _, kind := range []string{"device", "pinned", "pageable"} {
			c.add("cuMemcpyBatchAsync_v2", fmt.Sprintf("device, %s, 64, order %d, s", kind, order), func(t *transcript, s uintptr) args {
				from := t.device(64)
				switch kind {
				case "pinned":
					from, _ = t.pinned(64)
				case "pageable":
					from = mapping(4096)
				}
				return copyBatchOf(t.device(64), from, 64, order).args(2, abi.Stream(s))
			})
		}
	}
	c.add("cuMemcpyBatchAsync_v2", "pageable, device, 64, order 1, s", func(t *transcript, s uintptr) args {
		return copyBatchOf(mapping(4096), t.device(64), 64, orderStream).args(2, abi.Stream(s))
	})
	c.add("cuMemsetD8Async", "pinned, 1, 64, s", func(t *transcript, s uintptr) args {
		p, _ := t.pinned(64)
		return args{p, 1, 64, s}
	})
	c.add("cuMemsetD2D8Async", "device, 32, 1, 16, 4, s", func(t *transcript, s uintptr) args { return args{t.device(256), 32, 1, 16, 4, s} })
	c.add("cuMemAllocAsync", "&p, 4096, s", func(_ *transcript, s uintptr) args { return args{ptr(new(uint64)), 4096, s} })
	c.add("cuMemAllocAsync", "&p, 64 MiB, s", func(_ *transcript, s uintptr) args { return args{ptr(new(uint64)), 64 << 20, s} })
	c.add("cuMemAllocFromPoolAsync", "&p, 4096, pool, s", func(t *transcript, s uintptr) args { return args{ptr(new(uint64)), 4096, t.pool(), s} })
	c.add("cuMemFreeAsync", "memory of a pool, s", func(t *transcript, s uintptr) args { return args{t.poolMemory(4096, s), s} })
	c.add("cuMemFreeAsync", "memory of cuMemAlloc, s", func(t *transcript, s uintptr) args { return args{t.device(4096), s} })
	c.add("cuMemFree_v2", "memory of a pool", func(t *transcript, s uintptr) args { return args{t.poolMemory(4096, s)} })
	c.add("cuMemFree_v2", "managed", func(t *transcript, _ uintptr) args {
		p, _ := t.managed(4096)
		return args{p}
	})
	c.add("cuMemAllocManaged", "&p, 4096, 1", func(_ *transcript, _ uintptr) args { return args{ptr(new(uint64)), 4096, 1} })
	c.add("cuMemAllocPitch_v2", "&p, &pitch, 100, 100, 4", func(_ *transcript, _ uintptr) args {
		return args{ptr(new(uint64)), ptr(new(uint64)), 100, 100, 4}
	})
	c.add("cuMemAllocHost_v2", "&p, 4096", func(_ *transcript, _ uintptr) args { return args{ptr(new(uint64)), 4096} })
	c.add("cuMemPoolCreate", "&pool, props", func(_ *transcript, _ uintptr) args { return args{ptr(new(uint64)), ptr(devicePool(0))} })
	c.add("cuMemPoolDestroy", "an empty pool", func(t *transcript, _ uintptr) args { return args{t.pool()} })
	c.add("cuMemPoolTrimTo", "pool, 0", func(t *transcript, _ uintptr) args { return args{t.pool(), 0} })
	c.add("cuMemPrefetchAsync", "managed, 4096, 0, s", func(t *transcript, s uintptr) args {
		p, _ := t.managed(4096)
		return args{p, 4096, 0, s}
	})
	c.add("cuMemPrefetchAsync", "managed, 4096, the host, s", func(t *transcript, s uintptr) args {
		p, _ := t.managed(4096)
		return args{p, 4096, word(-1), s}
	})
	c.add("cuMemPrefetchAsync_v2", "managed, 8 MiB, device 0, 0, s", func(t *transcript, s uintptr) args {
		p, _ := t.managed(8 << 20)
		return args{p, 8 << 20, place(abi.CU_MEM_LOCATION_TYPE_DEVICE, 0), 0, s}
	})
	c.add("cuMemAdvise", "managed, 4096, read mostly, 0", func(t *transcript, _ uintptr) args {
		p, _ := t.managed(4096)
		return args{p, 4096, uintptr(abi.CU_MEM_ADVISE_SET_READ_MOSTLY), 0}
	})
	c.add("cuMemAdvise", "managed, 4096, preferred, 0", func(t *transcript, _ uintptr) args {
		p, _ := t.managed(4096)
		return args{p, 4096, uintptr(abi.CU_MEM_ADVISE_SET_PREFERRED_LOCATION), 0}
	})
	c.add("cuMemRangeGetAttribute", "&v, 4, read mostly, managed, 4096", func(t *transcript, _ uintptr) args {
		p, _ := t.managed(4096)
		return args{ptr(new(uint64)), 4, 1, p, 4096}
	})
	c.add("cuStreamAttachMemAsync", "s, managed, 0, single", func(t *transcript, s uintptr) args {
		p, _ := t.managed(4096)
		return args{s, p, 0, uintptr(abi.CU_MEM_ATTACH_SINGLE)}
	})
	c.add("cuPointerSetAttribute", "&on, SYNC_MEMOPS, device", func(t *transcript, _ uintptr) args {
		on := uint32(1)
		return args{ptr(&on), uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), t.device(4096)}
	})
	return c.testCase
}()

// syncBehindHeldStream asks which of the synchronous calls wait for a blocking
// stream that is held: all have their place behind it, and some return at once.
var syncBehindHeldStream = func() testCase {
	c := heldCalls{testCase{name: "synchronous-calls-behind-held-work"}, abi.CU_STREAM_DEFAULT}
	type args = []uintptr
	c.add("cuMemsetD8_v2", "device, 1, 64", func(t *transcript, _ uintptr) args { return args{t.device(64), 1, 64} })
	c.add("cuMemsetD8_v2", "pinned, 1, 64", func(t *transcript, _ uintptr) args {
		p, _ := t.pinned(64)
		return args{p, 1, 64}
	})
	c.add("cuMemsetD8_v2", "managed, 1, 64", func(t *transcript, _ uintptr) args {
		p, _ := t.managed(64)
		return args{p, 1, 64}
	})
	c.add("cuMemsetD2D8_v2", "device, 32, 1, 16, 4", func(t *transcript, _ uintptr) args { return args{t.device(256), 32, 1, 16, 4} })
	synced := func(t *transcript) uintptr {
		p, on := t.device(256), uint32(1)
		t.must("cuPointerSetAttribute", ptr(&on), uintptr(abi.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), p)
		return p
	}
	c.add("cuMemsetD8_v2", "device with SYNC_MEMOPS, 1, 64", func(t *transcript, _ uintptr) args { return args{synced(t), 1, 64} })
	c.add("cuMemcpyDtoD_v2", "device, device, 64", func(t *transcript, _ uintptr) args { return args{t.device(64), t.device(64), 64} })
	c.add("cuMemcpyDtoD_v2", "device with SYNC_MEMOPS, device, 64", func(t *transcript, _ uintptr) args { return args{synced(t), t.device(64), 64} })
	c.add("cuMemcpyDtoD_v2", "device, device with SYNC_MEMOPS, 64", func(t *transcript, _ uintptr) args { return args{t.device(64), synced(t), 64} })
	c.add("cuMemcpy", "device, device, 64", func(t *transcript, _ uintptr) args { return args{t.device(64), t.device(64), 64} })
	c.add("cuMemcpy", "pageable, pageable, 64", func(_ *transcript, _ uintptr) args { return args{mapping(4096), mapping(4096), 64} })
	c.add("cuMemcpy", "device, managed, 64", func(t *transcript, _ uintptr) args {
		p, _ := t.managed(64)
		return args{t.device(64), p, 64}
	})
	c.add("cuMemcpy2D_v2", "device, device", func(t *transcript, _ uintptr) args {
		return args{rowsOf(deviceSide(t.device(256)), deviceSide(t.device(256)))}
	})
	c.add("cuMemcpyPeer", "device, device, 64", func(t *transcript, _ uintptr) args {
		var ctx abi.Context
		t.must("cuCtxGetCurrent", ptr(&ctx))
		return args{t.device(64), uintptr(ctx), t.device(64), uintptr(ctx), 64}
	})
	return c.testCase
}()

// hostCopiesBehindHeldStream asks the same of copies between host and device. (A
// case of its own: each call that waits takes a second of the case's time.)
var hostCopiesBehindHeldStream = func() testCase {
	c := heldCalls{testCase{name: "host-copies-behind-held-work"}, abi.CU_STREAM_DEFAULT}
	type args = []uintptr
	for _, n := range []int{64, 64 << 10, 64<<10 + 1, 1 << 20} {
		c.add("cuMemcpyHtoD_v2", fmt.Sprintf("device, pageable, %d", n), func(t *transcript, _ uintptr) args {
			return args{t.device(n), mapping(1 << 20), uintptr(n)}
		})
		c.add("cuMemcpyHtoD_v2", fmt.Sprintf("device, pinned, %d", n), func(t *transcript, _ uintptr) args {
			p, _ := t.pinned(n)
			return args{t.device(n), p, uintptr(n)}
		})
	}
	c.add("cuMemcpyDtoH_v2", "pageable, device, 64", func(t *transcript, _ uintptr) args { return args{mapping(4096), t.device(64), 64} })
	c.add("cuMemcpyDtoH_v2", "pinned, device, 64", func(t *transcript, _ uintptr) args {
		p, _ := t.pinned(64)
		return args{p, t.device(64), 64}
	})
	c.add("cuMemcpy2D_v2", "device, pageable", func(t *transcript, _ uintptr) args {
		return args{rowsOf(deviceSide(t.device(256)), hostSide(make([]byte, 256)))}
	})
	c.add("cuMemcpy2D_v2", "pageable, device", func(t *transcript, _ uintptr) args {
		return args{rowsOf(hostSide(make([]byte, 256)), deviceSide(t.device(256)))}
	})
	c.add("cuMemcpyHtoD_v2_ptds", "device, pageable, 64, beside a blocking stream", func(t *transcript, _ uintptr) args {
		return args{t.device(64), mapping(4096), 64}
	})
	return c.testCase
}()
