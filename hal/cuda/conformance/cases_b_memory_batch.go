package conformance

import (
	"bytes"
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// When a copy of a batch may read its source; CUmemcpySrcAccessOrder.
const (
	orderStream     = 1
	orderDuringCall = 2
	orderAny        = 3
)

// boxOperand is the driver's CUmemcpy3DOperand for a pointer, boxCopy its
// CUDA_MEMCPY3D_BATCH_OP.
type boxOperand struct {
	kind                   uint32
	_                      uint32
	address                uint64
	rowLength, layerHeight uint64
	_                      abi.CUmemLocation // a hint, left out
}

type boxCopy struct {
	from, to             boxOperand
	width, height, depth uint64
	order, flags         uint32
}

// batch is the arguments of a batch of copies.
type batch struct {
	to, from, sizes []uint64
	attributes      []abi.CUmemcpyAttributes
	first           []uint64
	failed          *uint64
}

func (b *batch) add(to, from uintptr, n int) {
	b.to, b.from, b.sizes = append(b.to, uint64(to)), append(b.from, uint64(from)), append(b.sizes, uint64(n))
}

// args are those of cuMemcpyBatchAsync, or of its version 2.
func (b *batch) args(version int, s abi.Stream) []uintptr {
	list := []uintptr{first(b.to), first(b.from), first(b.sizes), uintptr(len(b.to)),
		first(b.attributes), first(b.first), uintptr(len(b.attributes))}
	if version == 1 {
		b.failed = new(uint64)
		*b.failed = 77
		list = append(list, ptr(b.failed))
	}
	return append(list, uintptr(s))
}

// first is the address of a list, NULL of an empty one.
func first[T any](list []T) uintptr {
	if len(list) == 0 {
		return 0
	}
	return ptr(&list[0])
}

func (t *transcript) copyBatch(b *batch, version int, what string, s abi.Stream) abi.Result {
	symbol := "cuMemcpyBatchAsync"
	if version == 2 {
		symbol += "_v2"
	}
	r := t.call(symbol, what, b.args(version, s)...)
	if version == 1 && r != abi.CUDA_SUCCESS {
		t.note("failed: %s", failedIndex(*b.failed))
	}
	return r
}

func failedIndex(i uint64) string {
	switch i {
	case 77:
		return "untouched"
	case 1<<64 - 1:
		return "none of them"
	}
	return fmt.Sprint(i)
}

func copyBatches(t *transcript) {
	if !t.context() {
		return
	}
	const n = 3000
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	source, target := t.region(n, 5), t.region(n, 6)
	pinned, b := t.pinned(n)
	copy(b, pattern(n, 7))
	pageable := pattern(n, 8)
	ask := func(version int, what string, k *batch, moved func()) {
		if t.copyBatch(k, version, what, s) == abi.CUDA_SUCCESS {
			moved()
		}
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.check(target)
	}
	for version := 1; version <= 2; version++ {
		for _, order := range []uint32{orderStream, orderDuringCall, orderAny} {
			k := copyBatchOf(uintptr(target.p), uintptr(source.p)+100, 500, order)
			k.add(uintptr(target.p)+600, pinned+17, 400)
			ask(version, fmt.Sprintf("from device and pinned, order %d, s", order), k, func() {
				copy(target.want, source.want[100:600])
				copy(target.want[600:], b[17:417])
			})
			k = copyBatchOf(uintptr(target.p)+1700, ptr(&pageable[0]), 1001, order)
			ask(version, fmt.Sprintf("from pageable, order %d, s", order), k, func() { copy(target.want[1700:], pageable[:1001]) })
			t.must("cuMemsetD8_v2", uintptr(target.p), uintptr(order), n)
			t.must("cuCtxSynchronize")
			copy(target.want, bytes.Repeat([]byte{byte(order)}, n))
		}
	}
	t.section("to the host")
	k := &batch{attributes: []abi.CUmemcpyAttributes{{SrcAccessOrder: orderStream}, {SrcAccessOrder: orderAny, Flags: 1}}, first: []uint64{0, 1}}
	out := make([]byte, n)
	k.add(pinned, uintptr(source.p), n)
	k.add(ptr(&out[0]), uintptr(source.p), n)
	t.copyBatch(k, 2, "2 copies, 2 attributes, s", s)
	t.call("cuStreamSynchronize", "s", uintptr(s))
	t.note("right: %d, %d", count(b, func(i int, v byte) bool { return v == source.want[i] }), count(out, func(i int, v byte) bool { return v == source.want[i] }))

	t.section("boxes")
	box := boxCopy{
		from:  boxOperand{kind: 1, address: source.p + 3, rowLength: 40, layerHeight: 10},
		to:    boxOperand{kind: 1, address: target.p + 5, rowLength: 50, layerHeight: 8},
		width: 30, height: 7, depth: 3, order: orderStream,
	}
	tight := boxCopy{from: boxOperand{kind: 1, address: source.p}, to: boxOperand{kind: 1, address: target.p + 2000},
		width: 20, height: 5, depth: 2, order: orderStream}
	boxes := []boxCopy{box, tight}
	failed := uint64(77)
	move := func() {
		for z := range uint64(3) {
			for y := range uint64(7) {
				copy(target.want[5+z*400+y*50:][:30], source.want[3+z*400+y*40:])
			}
		}
		copy(target.want[2000:2200], source.want)
	}
	t.call("cuMemcpy3DBatchAsync", "2 boxes, 0, s", 2, ptr(&boxes[0]), ptr(&failed), 0, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	move()
	t.check(target)
	t.must("cuMemsetD8_v2", uintptr(target.p), 0, n)
	clear(target.want)
	t.must("cuCtxSynchronize")
	t.call("cuMemcpy3DBatchAsync_v2", "2 boxes, 0, s", 2, ptr(&boxes[0]), 0, uintptr(s))
	t.call("cuStreamSynchronize", "s", uintptr(s))
	move()
	t.check(target)
}

var batchRefusals = refusals("copy-batch-refusals", []asks[batch]{
	{"as it is", func(*batch) {}},
	{"the second of no bytes", func(k *batch) { k.sizes[1] = 0 }},
	{"the second to 0", func(k *batch) { k.to[1] = 0 }},
	{"order 0", func(k *batch) { k.attributes[0].SrcAccessOrder = 0 }},
	{"order 4", func(k *batch) { k.attributes[0].SrcAccessOrder = 4 }},
	{"flags 2", func(k *batch) { k.attributes[0].Flags = 2 }},
	{"attributes from the second copy on", func(k *batch) { k.first[0] = 1 }},
	{"two attributes of one copy", func(k *batch) {
		k.attributes, k.first = append(k.attributes, k.attributes[0]), append(k.first, 0)
	}},
	{"attributes of a copy that is none", func(k *batch) {
		k.attributes, k.first = append(k.attributes, k.attributes[0]), append(k.first, 2)
	}},
	{"no attributes", func(k *batch) { k.attributes, k.first = nil, nil }},
	{"no copies", func(k *batch) { k.to, k.from, k.sizes = nil, nil, nil }},
}, func(t *transcript, what string, change func(*batch)) {
	for version := 1; version <= 2; version++ {
		k := t.usualBatch()
		change(k)
		t.copyBatch(k, version, what, t.stream(abi.CU_STREAM_NON_BLOCKING))
	}
})

// usualBatch is a batch that nothing is wrong with.
func (t *transcript) usualBatch() *batch {
	k := copyBatchOf(t.device(4096), t.device(4096), 100, orderStream)
	k.add(t.device(4096), t.device(4096), 100)
	return k
}

func usualBox(a, b uintptr) boxCopy {
	return boxCopy{from: boxOperand{kind: 1, address: uint64(a)}, to: boxOperand{kind: 1, address: uint64(b)}, width: 10, height: 5, depth: 2, order: orderStream}
}

var boxRefusals = refusals("box-batch-refusals", []asks[boxCopy]{
	{"as it is", func(*boxCopy) {}},
	{"no width", func(k *boxCopy) { k.width = 0 }},
	{"no depth", func(k *boxCopy) { k.depth = 0 }},
	{"kind 0", func(k *boxCopy) { k.to.kind = 0 }},
	{"kind 3", func(k *boxCopy) { k.to.kind = 3 }},
	{"order 0", func(k *boxCopy) { k.order = 0 }},
	{"flags 2", func(k *boxCopy) { k.flags = 2 }},
	{"rows shorter than the width", func(k *boxCopy) { k.to.rowLength = 9 }},
	{"layers lower than the height", func(k *boxCopy) { k.to.layerHeight = 4 }},
	{"to 0", func(k *boxCopy) { k.to.address = 0 }},
}, func(t *transcript, what string, change func(*boxCopy)) {
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	box, failed := usualBox(t.device(4096), t.device(4096)), uint64(77)
	change(&box)
	if t.call("cuMemcpy3DBatchAsync", what, 1, ptr(&box), ptr(&failed), 0, uintptr(s)) != abi.CUDA_SUCCESS {
		t.note("failed: %s", failedIndex(failed))
	}
	t.call("cuMemcpy3DBatchAsync_v2", what, 1, ptr(&box), 0, uintptr(s))
})

// batchStreams asks which streams take batches.
func batchStreams(t *transcript) {
	if !t.context() {
		return
	}
	s := uintptr(t.stream(abi.CU_STREAM_NON_BLOCKING))
	t.copyBatch(t.usualBatch(), 1, "NULL stream", 0)
	t.copyBatch(t.usualBatch(), 2, "NULL stream", 0)
	t.copyBatch(t.usualBatch(), 2, "legacy stream", abi.CU_STREAM_LEGACY)
	t.copyBatch(t.usualBatch(), 2, "per-thread stream", abi.CU_STREAM_PER_THREAD)
	t.copyBatch(t.usualBatch(), 2, "a blocking stream", t.stream(abi.CU_STREAM_DEFAULT))
	t.call("cuMemcpyBatchAsync_ptsz", "NULL stream", t.usualBatch().args(1, 0)...)
	t.call("cuMemcpyBatchAsync_v2_ptsz", "NULL stream", t.usualBatch().args(2, 0)...)
	t.section("boxes")
	box := usualBox(t.device(4096), t.device(4096))
	t.call("cuMemcpy3DBatchAsync_v2", "flags 1", 1, ptr(&box), 1, s)
	t.call("cuMemcpy3DBatchAsync_v2", "no boxes", 0, 0, 0, s)
	t.call("cuMemcpy3DBatchAsync_v2", "NULL stream", 1, ptr(&box), 0, 0)
	t.call("cuMemcpy3DBatchAsync_v2_ptsz", "NULL stream", 1, ptr(&box), 0, 0)
	t.call("cuCtxSynchronize", "")
}

var _ = [1]struct{}{}[unsafe.Sizeof(boxCopy{})-112] // the driver's size
