package conformance

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// load loads the project's kernels.
func (t *transcript) load() (abi.Module, bool) {
	var m abi.Module
	ok := t.must("cuModuleLoadData", ptr(&m), text(string(kernels.PTX())))
	return m, ok
}

func (t *transcript) function(m abi.Module, name string) abi.Function {
	var f abi.Function
	t.must("cuModuleGetFunction", ptr(&f), uintptr(m), text(name))
	return f
}

const ptxHead = ".version 6.0\n.target sm_70\n.address_size 64\n"

// brokenModules are modules that a compiler may refuse; not all are broken.
var brokenModules = []struct{ what, text string }{
	{"PTX with an error", ptxHead + ".visible .entry broken() { nonsense; }\n"},
	{"PTX without entries", ptxHead},
	{"PTX behind a blank line and a comment", "\n// text\n" + ptxHead + ".visible .entry f() { ret; }\n"},
	{"PTX without .version", ".target sm_70\n.address_size 64\n.visible .entry f() { ret; }\n"},
	{"PTX without .target", ".version 6.0\n.address_size 64\n.visible .entry f() { ret; }\n"},
	{"PTX without .address_size", ".version 6.0\n.target sm_70\n.visible .entry f() { ret; }\n"},
	{"PTX of version 99.9", ".version 99.9\n.target sm_70\n.address_size 64\n.visible .entry f() { ret; }\n"},
	{"PTX for sm_999", ".version 6.0\n.target sm_999\n.address_size 64\n.visible .entry f() { ret; }\n"},
	{"PTX for sm_100", ".version 8.7\n.target sm_100\n.address_size 64\n.visible .entry f() { ret; }\n"},
	{"PTX with an open brace", ptxHead + ".visible .entry f() { ret;\n"},
	{"PTX with an open parenthesis", ptxHead + ".visible .entry f( { ret; }\n"},
	{"PTX with an open comment", ptxHead + ".visible .entry f() { ret; } /* \n"},
	{"PTX with an unknown directive", ptxHead + ".nonsense\n"},
	{"PTX with a word where a directive belongs", ptxHead + "nonsense\n"},
	{"PTX with an entry twice", ptxHead + ".visible .entry f() { ret; }\n.visible .entry f() { ret; }\n"},
	{"PTX with an entry without a name", ptxHead + ".visible .entry () { ret; }\n"},
	{"PTX with an entry without a body", ptxHead + ".visible .entry f()\n"},
	{"PTX with a parameter without a type", ptxHead + ".visible .entry f(.param p) { ret; }\n"},
	{"PTX with an unknown register", ptxHead + ".visible .entry f() { mov.u32 %r1, 1; ret; }\n"},
	{"PTX with an unknown label", ptxHead + ".visible .entry f() { bra NOWHERE; }\n"},
	{"PTX with an unknown modifier", ptxHead + ".visible .entry f() { .reg .u32 %r<2>; mov.nonsense %r1, 1; ret; }\n"},
	{"PTX without a semicolon", ptxHead + ".visible .entry f() { ret }\n"},
}

func modules(t *transcript) {
	if !t.context() {
		return
	}
	var m abi.Module
	var f abi.Function
	t.call("cuModuleLoadData", "&m, nonsense", ptr(&m), text("this is no module"))
	t.call("cuModuleLoadData", "&m, empty text", ptr(&m), text(""))
	for _, broken := range brokenModules {
		t.call("cuModuleLoadData", "&m, "+broken.what, ptr(&m), text(broken.text))
	}
	t.call("cuModuleLoadData", "&m, the kernels", ptr(&m), text(string(kernels.PTX())))
	t.call("cuModuleGetFunction", "&f, m, \"xm_empty\"", ptr(&f), uintptr(m), text("xm_empty"))
	t.note("set: %v", f != 0)
	f = 1
	t.call("cuModuleGetFunction", "&f, m, \"xm_none\"", ptr(&f), uintptr(m), text("xm_none"))
	t.note("pointer %s", pointerState(uintptr(f)))
	t.call("cuModuleGetFunction", "&f, m, \"\"", ptr(&f), uintptr(m), text(""))
	t.call("cuModuleGetFunction", "&f, m, \"XM_EMPTY\"", ptr(&f), uintptr(m), text("XM_EMPTY"))
	t.call("cuModuleUnload", "m", uintptr(m))
	t.call("cuModuleLoadDataEx", "&m, the kernels, 0, NULL, NULL", ptr(&m), text(string(kernels.PTX())), 0, 0, 0)
	t.call("cuModuleUnload", "m", uintptr(m))
	t.call("cuModuleUnload", "NULL", 0)
}

func parameterLayout(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	for _, k := range kernels.All() {
		f := t.function(m, k.Name)
		for i := 0; ; i++ {
			var offset, size uint64
			r := t.quiet("cuFuncGetParamInfo", uintptr(f), uintptr(i), ptr(&offset), ptr(&size))
			if r != abi.CUDA_SUCCESS {
				t.line("cuFuncGetParamInfo(%s, %d) = %s", k.Name, i, r.String())
				break
			}
			t.line("cuFuncGetParamInfo(%s, %d) = %s, offset %d, size %d", k.Name, i, r.String(), offset, size)
			if i > 16 {
				break
			}
		}
	}
	f := t.function(m, "xm_fill")
	var offset, size uint64
	t.call("cuFuncGetParamInfo", "xm_fill, 0, NULL, NULL", uintptr(f), 0, 0, 0)
	t.call("cuFuncGetParamInfo", "xm_fill, 1, &offset, NULL", uintptr(f), 1, ptr(&offset), 0)
	t.call("cuFuncGetParamInfo", "xm_fill, 99, &offset, &size", uintptr(f), 99, ptr(&offset), ptr(&size))
	t.call("cuFuncGetParamInfo", "NULL, 0, &offset, &size", 0, 0, ptr(&offset), ptr(&size))
}

// params is a kernelParams array over 64-bit slots.
func params(values ...uint64) uintptr {
	list := make([]unsafe.Pointer, len(values))
	for i := range values {
		list[i] = unsafe.Pointer(&values[i])
	}
	ptr(&values[0])
	return ptr(&list[0])
}

// launch launches a grid of 1D blocks and writes the result.
func (t *transcript) launch(name string, f abi.Function, blocks, threads uint32, s abi.Stream, args uintptr) {
	t.call("cuLaunchKernel", fmt.Sprintf("%s, %d, 1, 1, %d, 1, 1, 0, …", name, blocks, threads),
		uintptr(f), uintptr(blocks), 1, 1, uintptr(threads), 1, 1, 0, uintptr(s), args, 0)
}

// words reads n words from the device.
func (t *transcript) words(p uint64, n int) []uint32 {
	raw := make([]byte, 4*n)
	if !t.must("cuMemcpyDtoH_v2", ptr(&raw[0]), uintptr(p), uintptr(len(raw))) {
		return nil
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return out
}

// alloc allocates device memory that later calls need.
func (t *transcript) alloc(n int) uint64 {
	var p uint64
	t.must("cuMemAlloc_v2", ptr(&p), uintptr(n))
	return p
}

func count[T any](list []T, good func(int, T) bool) int {
	n := 0
	for i, v := range list {
		if good(i, v) {
			n++
		}
	}
	return n
}

func kernelResults(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	const n = 10000
	a, b, c := t.alloc(4*n), t.alloc(4*n), t.alloc(4*n)

	t.launch("xm_empty", t.function(m, "xm_empty"), 3, 64, 0, 0)
	t.call("cuCtxSynchronize", "")

	t.launch("xm_fill a 7", t.function(m, "xm_fill"), 40, 256, 0, params(a, 7, n))
	t.note("right: %d", count(t.words(a, n), func(_ int, v uint32) bool { return v == 7 }))

	t.launch("xm_spin b 1000", t.function(m, "xm_spin"), 10, 1000, 0, params(b, 1000))
	t.note("right: %d", count(t.words(b, n), func(i int, v uint32) bool { return v == kernels.SpinResult(uint32(i), 1000) }))

	t.launch("xm_vector_add c a b", t.function(m, "xm_vector_add"), 7, 128, 0, params(c, a, b, n))
	t.note("right: %d", count(t.words(c, n), func(i int, v uint32) bool { return v == 7+kernels.SpinResult(uint32(i), 1000) }))

	t.launch("xm_increment a", t.function(m, "xm_increment"), 1, 1, 0, params(a, n))
	t.launch("xm_increment a", t.function(m, "xm_increment"), 2, 1024, 0, params(a, n))
	t.note("right: %d", count(t.words(a, n), func(_ int, v uint32) bool { return v == 9 }))

	t.launch("xm_copy b a", t.function(m, "xm_copy"), 5, 32, 0, params(b, a, n))
	t.note("right: %d", count(t.words(b, n), func(_ int, v uint32) bool { return v == 9 }))

	out := t.alloc(8)
	t.must("cuMemsetD8_v2", uintptr(out), 0, 8)
	t.launch("xm_checksum out a", t.function(m, "xm_checksum"), 8, 96, 0, params(out, a, n))
	sum := t.words(out, 2)
	if len(sum) == 2 {
		t.note("checksum %d", uint64(sum[1])<<32|uint64(sum[0]))
	}

	t.section("two- and three-dimensional shapes")
	f := t.function(m, "xm_empty")
	for _, s := range [][6]uintptr{{2, 3, 4, 8, 4, 2}, {1, 65535, 1, 1, 1, 64}, {2147483647, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1024, 1}} {
		if s[0] == 2147483647 {
			continue // takes a real device seconds
		}
		t.call("cuLaunchKernel", fmt.Sprintf("xm_empty, %d, %d, %d, %d, %d, %d, 0, …", s[0], s[1], s[2], s[3], s[4], s[5]),
			uintptr(f), s[0], s[1], s[2], s[3], s[4], s[5], 0, 0, 0, 0)
	}
	t.call("cuCtxSynchronize", "")

	t.section("arguments in one buffer")
	var buffer [16]byte
	binary.LittleEndian.PutUint64(buffer[0:], a)
	binary.LittleEndian.PutUint32(buffer[8:], n)
	size := uint64(12)
	extra := []uintptr{abi.CU_LAUNCH_PARAM_BUFFER_POINTER, ptr(&buffer), abi.CU_LAUNCH_PARAM_BUFFER_SIZE, ptr(&size), abi.CU_LAUNCH_PARAM_END}
	t.call("cuLaunchKernel", "xm_increment, 1, 1, 1, 256, 1, 1, 0, NULL, NULL, buffer",
		uintptr(t.function(m, "xm_increment")), 1, 1, 1, 256, 1, 1, 0, 0, 0, ptr(&extra[0]))
	t.note("right: %d", count(t.words(a, n), func(_ int, v uint32) bool { return v == 10 }))
	t.call("cuModuleUnload", "m", uintptr(m))
}

func launchRefusals(t *transcript) {
	if !t.context() {
		return
	}
	m, ok := t.load()
	if !ok {
		return
	}
	empty := uintptr(t.function(m, "xm_empty"))
	ask := func(what string, f uintptr, s [7]uintptr) {
		t.call("cuLaunchKernel", what, f, s[0], s[1], s[2], s[3], s[4], s[5], s[6], 0, 0, 0)
	}
	ask("grid 0, 1, 1", empty, [7]uintptr{0, 1, 1, 1, 1, 1, 0})
	ask("grid 1, 0, 1", empty, [7]uintptr{1, 0, 1, 1, 1, 1, 0})
	ask("grid 1, 1, 0", empty, [7]uintptr{1, 1, 0, 1, 1, 1, 0})
	ask("block 0, 1, 1", empty, [7]uintptr{1, 1, 1, 0, 1, 1, 0})
	ask("block 1, 1, 0", empty, [7]uintptr{1, 1, 1, 1, 1, 0, 0})
	ask("block 1025, 1, 1", empty, [7]uintptr{1, 1, 1, 1025, 1, 1, 0})
	ask("block 32, 32, 2", empty, [7]uintptr{1, 1, 1, 32, 32, 2, 0})
	ask("block 1, 1, 65", empty, [7]uintptr{1, 1, 1, 1, 1, 65, 0})
	ask("grid 1, 65536, 1", empty, [7]uintptr{1, 65536, 1, 1, 1, 1, 0})
	ask("grid 1, 1, 65536", empty, [7]uintptr{1, 1, 65536, 1, 1, 1, 0})
	ask("grid 2^31, 1, 1", empty, [7]uintptr{1 << 31, 1, 1, 1, 1, 1, 0})
	ask("48 KiB shared memory", empty, [7]uintptr{1, 1, 1, 1, 1, 1, 48 << 10})
	ask("48 KiB + 1 shared memory", empty, [7]uintptr{1, 1, 1, 1, 1, 1, 48<<10 + 1})
	ask("1 MiB shared memory", empty, [7]uintptr{1, 1, 1, 1, 1, 1, 1 << 20})
	t.section("arguments")
	size := uint64(1)
	var buffer [8]byte
	extra := []uintptr{abi.CU_LAUNCH_PARAM_BUFFER_POINTER, ptr(&buffer), abi.CU_LAUNCH_PARAM_BUFFER_SIZE, ptr(&size), abi.CU_LAUNCH_PARAM_END}
	fill := uintptr(t.function(m, "xm_fill"))
	t.call("cuLaunchKernel", "xm_fill, a buffer of 1 byte", fill, 1, 1, 1, 1, 1, 1, 0, 0, 0, ptr(&extra[0]))
	for _, n := range []uint64{0, 15, 16, 64} {
		size = n
		big := [64]byte{}
		extra[1] = ptr(&big)
		t.call("cuLaunchKernel", fmt.Sprintf("xm_fill, a buffer of %d bytes", n), fill, 1, 1, 1, 1, 1, 1, 0, 0, 0, ptr(&extra[0]))
	}
	extra[0] = 99
	t.call("cuLaunchKernel", "xm_fill, a buffer with an unknown key", fill, 1, 1, 1, 1, 1, 1, 0, 0, 0, ptr(&extra[0]))
	extra[0] = abi.CU_LAUNCH_PARAM_BUFFER_POINTER
	t.call("cuLaunchKernel", "xm_fill, parameters and a buffer", fill, 1, 1, 1, 1, 1, 1, 0, 0, params(0, 0, 0), ptr(&extra[0]))
	t.section("the context is unharmed")
	ask("1, 1, 1, 1, 1, 1", empty, [7]uintptr{1, 1, 1, 1, 1, 1, 0})
	t.call("cuCtxSynchronize", "")
	ask("NULL function", 0, [7]uintptr{1, 1, 1, 1, 1, 1, 0})
}
