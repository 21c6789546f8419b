package conformance

import (
	"fmt"

	"xmsched/hal/cuda/abi"
)

// memOp is one operation of a batch: kind, address, value, flags, alias.
func memOp(kind abi.StreamBatchMemOpType, address, value uint64, flags uint32) abi.CUstreamBatchMemOpParams {
	return abi.CUstreamBatchMemOpParams{uint64(kind), address, value, uint64(flags)}
}

// wholeOp is an operation without an address: kind and flags are neighbours.
func wholeOp(kind abi.StreamBatchMemOpType, flags uint32) abi.CUstreamBatchMemOpParams {
	return abi.CUstreamBatchMemOpParams{uint64(kind) | uint64(flags)<<32}
}

func (t *transcript) batch(symbol, what string, s abi.Stream, flags uintptr, ops ...abi.CUstreamBatchMemOpParams) abi.Result {
	list := uintptr(0)
	if len(ops) > 0 {
		list = ptr(&ops[0])
	}
	return t.call(symbol, what, uintptr(s), uintptr(len(ops)), list, flags)
}

// memoryOperations asks about several stream memory operations in one call.
func memoryOperations(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(8)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	const (
		wait32  = abi.CU_STREAM_MEM_OP_WAIT_VALUE_32
		wait64  = abi.CU_STREAM_MEM_OP_WAIT_VALUE_64
		write32 = abi.CU_STREAM_MEM_OP_WRITE_VALUE_32
		write64 = abi.CU_STREAM_MEM_OP_WRITE_VALUE_64
	)
	for _, symbol := range []string{"cuStreamBatchMemOp", "cuStreamBatchMemOp_v2"} {
		for i := range g {
			g[i].store(0)
		}
		t.batch(symbol, "s, 2 writes and 1 of 64 bits", s, 0,
			memOp(write32, g[0].device, 1, 0), memOp(write32, g[1].device, 2, 0), memOp(write64, g[2].device, 5<<32|4, 0))
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.note("words %d %d %d %d", g[0].load(), g[1].load(), g[2].load(), g[3].load())
		t.batch(symbol, "s, a wait, then a write", s, 0,
			memOp(wait32, g[4].device, 1, uint32(abi.CU_STREAM_WAIT_VALUE_EQ)), memOp(write32, g[5].device, 9, 0))
		t.note("%s, word %d", t.held(s), g[5].load())
		g[4].store(1)
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.note("word %d", g[5].load())
		t.batch(symbol, "s, a wait of 64 bits, GEQ", s, 0, memOp(wait64, g[6].device, 1<<32, uint32(abi.CU_STREAM_WAIT_VALUE_GEQ)))
		t.note("%s", t.held(s))
		g[7].store(2)
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.batch(symbol, "s, none", s, 0)
		t.batch(symbol, "s, 1, flags 1", s, 1, memOp(write32, g[0].device, 1, 0))
		t.batch(symbol, "s, an unknown operation", s, 0, memOp(99, g[0].device, 1, 0))
		t.batch(symbol, "s, a write to nobody's memory", s, 0, memOp(write32, 0x1000, 1, 0))
		t.batch(symbol, "s, a write to 2 beside a word", s, 0, memOp(write32, g[0].device+2, 1, 0))
		t.batch(symbol, "s, a write of 64 bits to 4 beside one", s, 0, memOp(write64, g[1].device, 1, 0))
		t.batch(symbol, "s, a wait of flags 8", s, 0, memOp(wait32, g[0].device, 1, 8))
		t.batch(symbol, "s, a write of flags 1", s, 0, memOp(write32, g[0].device, 1, 1))
		t.batch(symbol, "s, FLUSH_REMOTE_WRITES", s, 0, wholeOp(abi.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0))
		t.batch(symbol, "s, BARRIER 0", s, 0, wholeOp(abi.CU_STREAM_MEM_OP_BARRIER, 0))
		t.batch(symbol, "s, BARRIER 1", s, 0, wholeOp(abi.CU_STREAM_MEM_OP_BARRIER, 1))
		t.section("all or nothing")
		g[0].store(0)
		t.batch(symbol, "s, a good write, then a bad one", s, 0, memOp(write32, g[0].device, 7, 0), memOp(write32, 0x1000, 1, 0))
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.note("word %d", g[0].load())
		t.section("how many")
		for _, n := range []int{255, 256, 257, 1000} {
			ops := make([]abi.CUstreamBatchMemOpParams, n)
			for i := range ops {
				ops[i] = memOp(write32, g[0].device, uint64(i), 0)
			}
			t.batch(symbol, fmt.Sprintf("s, %d writes", n), s, 0, ops...)
			t.call("cuStreamSynchronize", "s", uintptr(s))
			t.note("word %d", g[0].load())
		}
	}
	t.section("other streams")
	t.batch("cuStreamBatchMemOp_v2", "NULL, a write", 0, 0, memOp(write32, g[0].device, 11, 0))
	t.call("cuStreamSynchronize", "NULL", 0)
	t.note("word %d", g[0].load())
	t.batch("cuStreamBatchMemOp_v2", "per-thread, a write", 2, 0, memOp(write32, g[0].device, 12, 0))
	t.call("cuStreamSynchronize", "per-thread", 2)
	t.note("word %d", g[0].load())
}

// wideValues asks about waits for, and writes of, words of 64 bits.
func wideValues(t *transcript) {
	if !t.context() {
		return
	}
	g := t.gates(2)
	s := t.stream(abi.CU_STREAM_NON_BLOCKING)
	store := func(v uint64) { g[1].store(uint32(v >> 32)); g[0].store(uint32(v)) }
	for _, c := range []struct {
		how    string
		flags  abi.StreamWaitValueFlags
		value  uint64
		no, ok uint64
	}{
		{"EQ", abi.CU_STREAM_WAIT_VALUE_EQ, 7 << 40, 7, 7 << 40},
		{"GEQ", abi.CU_STREAM_WAIT_VALUE_GEQ, 7 << 40, 7<<40 - 1, 7<<40 + 1},
		{"GEQ across the wrap", abi.CU_STREAM_WAIT_VALUE_GEQ, 2, 0xfffffffffffffff0, 3},
		{"AND", abi.CU_STREAM_WAIT_VALUE_AND, 1 << 50, 1<<50 - 1, 3 << 50},
		{"NOR", abi.CU_STREAM_WAIT_VALUE_NOR, 0xfffffffffffffff0, 0xf, 0},
	} {
		store(c.no)
		t.call("cuStreamWaitValue64_v2", fmt.Sprintf("s, word, %#x, %s", c.value, c.how), uintptr(s), uintptr(g[0].device), uintptr(c.value), uintptr(c.flags))
		t.note("at %#x: %s", c.no, t.held(s))
		store(c.ok)
		t.call("cuStreamSynchronize", "s", uintptr(s))
	}
	for _, symbol := range []string{"cuStreamWriteValue64", "cuStreamWriteValue64_v2"} {
		store(0)
		t.call(symbol, "s, word, 3<<40|5, 0", uintptr(s), uintptr(g[0].device), 3<<40|5, 0)
		t.call("cuStreamSynchronize", "s", uintptr(s))
		t.note("words %d %d", g[0].load(), g[1].load())
		t.call(symbol, "s, word + 4, 0, 0", uintptr(s), uintptr(g[1].device), 0, 0)
		t.call(symbol, "s, word, 0, 1", uintptr(s), uintptr(g[0].device), 0, 1)
	}
}
