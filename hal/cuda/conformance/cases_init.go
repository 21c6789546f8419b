package conformance

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"xmsched/hal/cuda/abi"
)

// word is a signed value as a C argument.
func word(v int) uintptr { return uintptr(v) }

func beforeInit(t *transcript) {
	var n int32
	var p uint64
	t.call("cuDeviceGetCount", "&n", ptr(&n))
	t.call("cuDeviceGet", "&dev, 0", ptr(&n), 0)
	t.call("cuDeviceGetName", "name, 16, 0", ptr(new([16]byte)), 16, 0)
	t.call("cuDeviceGetUuid_v2", "&uuid, 0", ptr(new([16]byte)), 0)
	t.call("cuDeviceGetAttribute", "&n, 1, 0", ptr(&n), 1, 0)
	t.call("cuDeviceTotalMem_v2", "&p, 0", ptr(&p), 0)
	t.call("cuDevicePrimaryCtxRetain", "&ctx, 0", ptr(&p), 0)
	t.call("cuDevicePrimaryCtxGetState", "0, &flags, &active", 0, ptr(&n), ptr(&n))
	t.call("cuCtxCreate_v2", "&ctx, 0, 0", ptr(&p), 0, 0)
	t.call("cuCtxGetCurrent", "&ctx", ptr(&p))
	t.call("cuCtxSetCurrent", "NULL", 0)
	t.call("cuCtxGetDevice", "&dev", ptr(&n))
	t.call("cuCtxPopCurrent_v2", "&ctx", ptr(&p))
	t.call("cuCtxSynchronize", "")
	t.call("cuModuleLoadData", "&module, text", ptr(&p), text("not a module"))
	t.call("cuMemAlloc_v2", "&p, 4096", ptr(&p), 4096)
	t.call("cuMemFree_v2", "0", 0)
	t.call("cuMemGetInfo_v2", "&free, &total", ptr(&p), ptr(new(uint64)))
	t.call("cuMemHostAlloc", "&p, 4096, 0", ptr(&p), 4096, 0)
	t.call("cuStreamCreate", "&stream, 0", ptr(&p), 0)
	t.call("cuStreamQuery", "NULL", 0)
	t.call("cuStreamSynchronize", "NULL", 0)
	t.call("cuEventCreate", "&event, 0", ptr(&p), 0)
	t.call("cuMemsetD8_v2", "4096, 0, 16", 4096, 0, 16)
	t.section("what needs no initialisation")
	t.call("cuDriverGetVersion", "&n", ptr(&n))
	var name *byte
	t.call("cuGetErrorName", "1, &name", 1, ptr(&name))
	t.note("%s", goString(name))
	t.call("cuInit", "1", 1)
	t.call("cuDeviceGetCount", "&n", ptr(&n))
}

func initialise(t *transcript) {
	var version int32
	t.call("cuInit", "0", 0)
	t.call("cuInit", "0", 0)
	t.call("cuInit", "1", 1)
	t.call("cuDriverGetVersion", "&version", ptr(&version))
	t.note("version %d", version)
	t.call("cuDriverGetVersion", "NULL", 0)
}

func errorNames(t *transcript) {
	values := []int{-1, 9, 12, 42, 998, 1000, 123456, math.MaxInt32}
	for v := range 1000 {
		if abi.Result(v).Text() != "" {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	for _, v := range values {
		var name, sentence *byte
		a := t.quiet("cuGetErrorName", word(v), ptr(&name))
		b := t.quiet("cuGetErrorString", word(v), ptr(&sentence))
		t.line("error %d = %s, %s: %s: %s", v, a.String(), b.String(), goString(name), goString(sentence))
	}
}

// asked are names and versions for cuGetProcAddress; the table test of
// abi/generate covers all names, this shows that the calls themselves obey.
var asked = []struct {
	name     string
	versions []int
}{
	{"cuInit", []int{1999, 2000, 13000}},
	{"cuCtxCreate", []int{2000, 3020, 11040, 12050, 13000}},
	{"cuGetProcAddress", []int{11020, 11030, 11080, 12000, 13000}},
	{"cuGetProcAddress_v2", []int{12000}},
	{"cuLaunchKernel", []int{3020, 4000, 6050, 7000, 13000}},
	{"cuLaunchKernelEx", []int{11050, 11060, 13000}},
	{"cuMemAlloc", []int{2000, 3020, 13000}},
	{"cuMemAlloc_v2", []int{13000}},
	{"cuMemcpy", []int{3020, 4000, 7000}},
	{"cuMemcpyHtoD", []int{2000, 3020, 7000}},
	{"cuMemcpyHtoDAsync", []int{2000, 3020, 7000}},
	{"cuMemcpyBatchAsync", []int{12080, 13000}},
	{"cuStreamWaitValue32", []int{7050, 8000, 11070}},
	{"cuStreamWriteValue32", []int{8000, 11070}},
	{"cuStreamGetCaptureInfo", []int{10010, 11030, 12030}},
	{"cuEventRecord", []int{2000, 7000}},
	{"cuEventElapsedTime", []int{2000, 12080}},
	{"cuDeviceGetUuid", []int{9020, 11040}},
	{"cuNoSuchFunction", []int{12000}},
	{"cuinit", []int{12000}},
	{"", []int{12000}},
}

func procAddress(t *transcript) {
	for _, a := range asked {
		for _, version := range a.versions {
			for flags := range 3 {
				var f, g uintptr
				var status int32 = -1
				r := t.quiet("cuGetProcAddress_v2", text(a.name), ptr(&f), word(version), word(flags), ptr(&status))
				old := t.quiet("cuGetProcAddress", text(a.name), ptr(&g), word(version), word(flags))
				t.line("cuGetProcAddress_v2(%q, %d, %d) = %s, status %d, %s; first version = %s, %s",
					a.name, version, flags, r.String(), status, t.symbolAt(a.name, f), old.String(), t.symbolAt(a.name, g))
			}
		}
	}
}

// symbolAt names a function by comparing its address with the exported symbols
// that a name may stand for.
func (t *transcript) symbolAt(name string, address uintptr) string {
	if address == 0 {
		return "NULL"
	}
	for _, version := range []string{"", "_v2", "_v3", "_v4"} {
		for _, variant := range []string{"", "_ptds", "_ptsz"} {
			symbol := name + version + variant
			if p, ok := t.proc(symbol); ok && p.Address() == address {
				return symbol
			}
		}
	}
	return "a function that is no exported version of it"
}

func procAddressRefusals(t *transcript) {
	var f uintptr
	var status int32
	ask := func(what string, name string, version int, flags uint64, withStatus bool) {
		f, status = 1, 77
		s := ptr(&status)
		if !withStatus {
			s = 0
		}
		r := t.quiet("cuGetProcAddress_v2", text(name), ptr(&f), word(version), uintptr(flags), s)
		t.line("cuGetProcAddress_v2 %s = %s, pointer %s, status %d", what, r.String(), pointerState(f), status)
		f = 1
		r = t.quiet("cuGetProcAddress", text(name), ptr(&f), word(version), uintptr(flags))
		t.line("cuGetProcAddress %s = %s, pointer %s", what, r.String(), pointerState(f))
	}
	ask("newer than the driver", "cuInit", 99999, 0, true)
	ask("negative version", "cuInit", -1, 0, true)
	ask("version 0", "cuInit", 0, 0, true)
	ask("flags 3", "cuMemcpy", 12000, 3, true)
	ask("flags 4", "cuMemcpy", 12000, 4, true)
	ask("flags 1<<32", "cuMemcpy", 12000, 1<<32, true)
	ask("without status, found", "cuInit", 12000, 0, false)
	ask("without status, unknown", "cuNoSuchFunction", 12000, 0, false)
	ask("without status, too old", "cuMemAllocAsync", 2000, 0, false)
	ask("unknown and newer than the driver", "cuNoSuchFunction", 99999, 0, true)
	ask("unknown with flags 4", "cuNoSuchFunction", 12000, 4, true)
}

func pointerState(f uintptr) string {
	switch f {
	case 0:
		return "NULL"
	case 1:
		return "untouched"
	}
	return "set"
}

func devices(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	var n, dev int32
	t.call("cuDeviceGetCount", "&n", ptr(&n))
	t.note("at least one: %v", n >= 1)
	t.call("cuDeviceGet", "&dev, 0", ptr(&dev), 0)
	t.note("device %d", dev)
	t.call("cuDeviceGet", "&dev, -1", ptr(&dev), word(-1))
	t.call("cuDeviceGet", "&dev, count", ptr(&dev), uintptr(n))

	t.section("name")
	var name [256]byte
	t.call("cuDeviceGetName", "name, 256, 0", ptr(&name), 256, 0)
	full := goString(&name[0])
	t.note("has a name: %v", full != "")
	short := [8]byte{1, 1, 1, 1, 1, 1, 1, 1}
	t.call("cuDeviceGetName", "name, 5, 0", ptr(&short), 5, 0)
	t.note("the first 4 letters and NUL: %v, the rest untouched: %v", strings.HasPrefix(full, goString(&short[0])) && short[4] == 0, short[5] == 1)
	t.call("cuDeviceGetName", "name, 256, 99", ptr(&name), 256, 99)
	t.call("cuDeviceGetName", "name, 256, -1", ptr(&name), 256, word(-1))

	t.section("identity and memory")
	var a, b [16]byte
	t.call("cuDeviceGetUuid", "&uuid, 0", ptr(&a), 0)
	t.call("cuDeviceGetUuid_v2", "&uuid, 0", ptr(&b), 0)
	t.note("not zero: %v, both the same: %v", b != [16]byte{}, a == b)
	t.call("cuDeviceGetUuid_v2", "&uuid, 99", ptr(&a), 99)
	var total uint64
	t.call("cuDeviceTotalMem_v2", "&total, 0", ptr(&total), 0)
	t.note("at least 64 MiB: %v, whole pages: %v", total >= 64<<20, total%4096 == 0)
	t.call("cuDeviceTotalMem_v2", "&total, 99", ptr(&total), 99)
	var v int32
	t.call("cuDeviceGetAttribute", "&v, 0, 0", ptr(&v), 0, 0)
	t.call("cuDeviceGetAttribute", "&v, -1, 0", ptr(&v), word(-1), 0)
	t.call("cuDeviceGetAttribute", "&v, 100000, 0", ptr(&v), 100000, 0)
	t.call("cuDeviceGetAttribute", "&v, 1, 99", ptr(&v), 1, 99)
}

// Attributes that differ between two cards of a kind, or between two places to
// put one.
var ownAttributes = []abi.DeviceAttribute{
	abi.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
	abi.CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
	abi.CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
	abi.CU_DEVICE_ATTRIBUTE_NUMA_ID,
	abi.CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
	abi.CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID,
}

func deviceAttributes(t *transcript) {
	if !t.must("cuInit", 0) {
		return
	}
	for a := abi.DeviceAttribute(1); a < abi.CU_DEVICE_ATTRIBUTE_MAX; a++ {
		var v int32
		r := t.quiet("cuDeviceGetAttribute", ptr(&v), uintptr(a), 0)
		value := fmt.Sprint(v)
		if slices.Contains(ownAttributes, a) {
			value = "(its own)"
		}
		if r != abi.CUDA_SUCCESS {
			value = "none"
		}
		t.line("%s = %s, %s", a.String(), r.String(), value)
	}
}
