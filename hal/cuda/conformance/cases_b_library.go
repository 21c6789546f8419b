package conformance

import (
	"fmt"

	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// libraries asks about code that belongs to no context.
func libraries(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var library, kernel, again, f, m uintptr
	load := func(what, code string) {
		library = 1
		t.call("cuLibraryLoadData", "&library, "+what+", …", ptr(&library), text(code), 0, 0, 0, 0, 0, 0)
		t.note("library %s", pointerState(library))
	}
	t.section("without a context")
	load("nonsense", "this is no library")
	load("PTX with an error", ptxHead+".visible .entry broken() { nonsense; }\n")
	load("the kernels", string(kernels.PTX()))
	t.call("cuLibraryGetKernel", "&kernel, library, \"xm_increment\"", ptr(&kernel), library, text("xm_increment"))
	t.note("set: %v", kernel > 1)
	t.call("cuLibraryGetKernel", "&kernel, library, \"xm_increment\", again", ptr(&again), library, text("xm_increment"))
	t.note("the same: %v", again == kernel)
	again = 1
	t.call("cuLibraryGetKernel", "&kernel, library, \"xm_none\"", ptr(&again), library, text("xm_none"))
	t.note("pointer %s", pointerState(again))
	count := uint32(99)
	t.call("cuLibraryGetKernelCount", "&n, library", ptr(&count), library)
	t.note("%d kernels of %d", count, len(kernels.All()))
	t.call("cuKernelGetFunction", "&f, kernel", ptr(&f), kernel)
	t.call("cuLibraryGetModule", "&m, library", ptr(&m), library)
	var offset, size uint64
	t.call("cuKernelGetParamInfo", "kernel, 0, &offset, &size", kernel, 0, ptr(&offset), ptr(&size))
	t.note("offset %d, size %d", offset, size)

	t.section("with a context")
	if !t.context() {
		return
	}
	t.call("cuKernelGetFunction", "&f, kernel", ptr(&f), kernel)
	t.note("set: %v, the kernel itself: %v", f != 0, f == kernel)
	t.call("cuLibraryGetModule", "&m, library", ptr(&m), library)
	var g uintptr
	t.call("cuModuleGetFunction", "&g, m, \"xm_increment\"", ptr(&g), m, text("xm_increment"))
	t.note("the kernel's: %v", f == g)
	for i := uintptr(0); i < 3; i++ {
		t.call("cuKernelGetParamInfo", fmt.Sprintf("kernel, %d, &offset, &size", i), kernel, i, ptr(&offset), ptr(&size))
		t.note("offset %d, size %d", offset, size)
	}
	var name *byte
	t.call("cuKernelGetName", "&name, kernel", ptr(&name), kernel)
	t.note("%s", goString(name))
	var owner uintptr
	t.call("cuKernelGetLibrary", "&library, kernel", ptr(&owner), kernel)
	t.note("its own: %v", owner == library)
	list := make([]uintptr, len(kernels.All())+2)
	t.call("cuLibraryEnumerateKernels", "kernels, 2, library", ptr(&list[0]), 2, library)
	t.note("set: %v, the third: %v", list[0] != 0 && list[1] != 0, list[2] != 0)
	v := int32(-99)
	t.call("cuKernelGetAttribute", "&v, MAX_THREADS_PER_BLOCK, kernel, 0", ptr(&v), 0, kernel, 0)
	t.note("%d", v)
	t.call("cuKernelSetAttribute", "MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0", uintptr(abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 65536, kernel, 0)
	t.call("cuKernelGetAttribute", "&v, MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0", ptr(&v), uintptr(abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), kernel, 0)
	t.note("%d", v)
	t.call("cuFuncGetAttribute", "&v, MAX_DYNAMIC_SHARED_SIZE_BYTES, f", ptr(&v), uintptr(abi.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), f)
	t.note("%d", v)

	t.section("launches")
	const n = 32
	a := t.alloc(4 * n)
	t.must("cuMemsetD32_v2", uintptr(a), 0, n)
	t.launch("a kernel", abi.Function(kernel), 1, n, 0, params(a, n))
	t.launch("its function", abi.Function(f), 1, n, 0, params(a, n))
	t.note("a %d", t.words(a, 1))
	r := t.launchEx(abi.Function(kernel), 1, n, 0, 0, params(a, n))
	t.line("cuLaunchKernelEx(a kernel) = %s", r.String())
	t.call("cuLaunchCooperativeKernel", "a kernel, …", kernel, 1, 1, 1, n, 1, 1, 0, 0, params(a, n))
	t.note("a %d", t.words(a, 1))

	t.section("another context")
	var other abi.Context
	t.must("cuCtxCreate_v2", ptr(&other), 0, 0)
	var h, m2 uintptr
	t.call("cuKernelGetFunction", "&f, kernel", ptr(&h), kernel)
	t.note("another function: %v", h != f)
	t.call("cuLibraryGetModule", "&m, library", ptr(&m2), library)
	t.note("another module: %v", m2 != m)
	b := t.alloc(4 * n)
	t.must("cuMemsetD32_v2", uintptr(b), 0, n)
	t.launch("the kernel", abi.Function(kernel), 1, n, 0, params(b, n))
	t.launch("the function of the other context", abi.Function(f), 1, n, 0, params(b, n))
	t.note("b %d", t.words(b, 1))
	t.call("cuLibraryUnload", "library", library)
	t.call("cuCtxSynchronize", "")
	t.section("in a graph")
	load("the kernels", string(kernels.PTX()))
	t.must("cuLibraryGetKernel", ptr(&kernel), library, text("xm_increment"))
	var graph, node uintptr
	t.must("cuGraphCreate", ptr(&graph), 0)
	p := kernelNode(0, 1, n, params(b, n))
	p.Kern = kernel
	t.call("cuGraphAddKernelNode_v2", "&node, graph, NULL, 0, a kernel", ptr(&node), graph, 0, 0, ptr(p))
	p = kernelNode(abi.Function(kernel), 1, n, params(b, n))
	t.call("cuGraphAddKernelNode_v2", "&node, graph, NULL, 0, a kernel as its function", ptr(&node), graph, 0, 0, ptr(p))
	t.call("cuGraphLaunch", "exec, NULL", t.instantiate(graph), 0)
	t.note("b %d", t.words(b, 1))
}

// nullLibraries are calls with handles that are none. Each may end the process.
var nullLibraries = testCase{"null-libraries", []question{
	one("cuLibraryLoadData", "NULL, NULL, …", 0, 0, 0, 0, 0, 0, 0, 0),
	one("cuLibraryUnload", "NULL", 0),
	one("cuLibraryGetKernel", "NULL, NULL, NULL", 0, 0, 0),
	one("cuLibraryGetModule", "NULL, NULL", 0, 0),
	one("cuLibraryGetKernelCount", "NULL, NULL", 0, 0),
	one("cuKernelGetFunction", "NULL, NULL", 0, 0),
	one("cuKernelGetName", "NULL, NULL", 0, 0),
	one("cuKernelGetParamInfo", "NULL, 0, NULL, NULL", 0, 0, 0, 0),
	withKernel("cuFuncGetParamInfo", "a kernel, 0, &offset, &size", func(k uintptr) []uintptr { return []uintptr{k, 0, ptr(new(uint64)), ptr(new(uint64))} }),
	withKernel("cuFuncGetAttribute", "&v, 0, a kernel", func(k uintptr) []uintptr { return []uintptr{ptr(new(uint64)), 0, k} }),
	withKernel("cuFuncGetModule", "&m, a kernel", func(k uintptr) []uintptr { return []uintptr{ptr(new(uint64)), k} }),
	withKernel("cuFuncGetName", "&name, a kernel", func(k uintptr) []uintptr { return []uintptr{ptr(new(uint64)), k} }),
	{"cuLibraryUnload(twice)", func(t *transcript) {
		if t.context() {
			var library uintptr
			t.must("cuLibraryLoadData", ptr(&library), ptxText(), 0, 0, 0, 0, 0, 0)
			t.must("cuLibraryUnload", library)
			t.call("cuLibraryUnload", "twice", library)
		}
	}},
	{"cuLaunchKernel(a kernel of an unloaded library)", func(t *transcript) {
		if t.context() {
			var library, kernel uintptr
			t.must("cuLibraryLoadData", ptr(&library), ptxText(), 0, 0, 0, 0, 0, 0)
			t.must("cuLibraryGetKernel", ptr(&kernel), library, text("xm_empty"))
			t.must("cuLibraryUnload", library)
			t.call("cuLaunchKernel", "a kernel of an unloaded library", kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
		}
	}},
}}

// withKernel is a question of one call about a library's kernel.
func withKernel(symbol, what string, args func(kernel uintptr) []uintptr) question {
	return question{symbol + "(" + what + ")", func(t *transcript) {
		if !t.context() {
			return
		}
		var library, kernel uintptr
		t.must("cuLibraryLoadData", ptr(&library), ptxText(), 0, 0, 0, 0, 0, 0)
		t.must("cuLibraryGetKernel", ptr(&kernel), library, text("xm_increment"))
		t.call(symbol, what, args(kernel)...)
	}}
}
