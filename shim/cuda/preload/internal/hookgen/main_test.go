package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	factsDir = "../../../../../hal/cuda/abi/facts"
	outDir   = "../.."
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	hooks, err := load(factsDir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files(hooks) {
		got, err := os.ReadFile(filepath.Join(outDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run go generate ./shim/cuda/preload/...", name)
		}
	}
}

// TestRulesNameDriverFunctions: a rule for a name that no driver has is a
// spelling mistake, and the function it was meant for is not hooked.
func TestRulesNameDriverFunctions(t *testing.T) {
	var declared []declaration
	if err := read(filepath.Join(factsDir, "declarations.json"), &declared); err != nil {
		t.Fatal(err)
	}
	bases := map[string]bool{}
	for _, d := range declared {
		base, _ := splitName(d.Symbol)
		bases[base] = true
	}
	for name := range byName {
		if !bases[name] {
			t.Errorf("rule for %s: no such function", name)
		}
	}
	for name := range quiet {
		if !bases[name] {
			t.Errorf("quiet %s: no such function", name)
		}
	}
}

func TestSplitName(t *testing.T) {
	for symbol, want := range map[string]string{
		"cuLaunchKernel":           "cuLaunchKernel",
		"cuLaunchKernel_ptsz":      "cuLaunchKernel*",
		"cuMemcpyHtoD_v2_ptds":     "cuMemcpyHtoD*",
		"cuCtxCreate_v4":           "cuCtxCreate",
		"cuGraphicsGLRegister_vbo": "cuGraphicsGLRegister_vbo",
	} {
		base, perThread := splitName(symbol)
		if perThread {
			base += "*"
		}
		if base != want {
			t.Errorf("%s: %s, want %s", symbol, base, want)
		}
	}
}

func TestBodies(t *testing.T) {
	stream := []param{{"CUdeviceptr", "dstDevice"}, {"size_t", "N"}, {"CUstream", "hStream"}}
	for _, c := range []struct {
		symbol string
		params []param
		want   string
	}{
		{"cuLaunchHostFunc_ptsz", stream[2:], `
CUresult cuLaunchHostFunc_ptsz(CUstream hStream)
{
    XM_SITE(other, hStream, XM_PTDS, 0);
    xm_admit(hStream, XM_PTDS);
    return xm_done(XM_DRIVER(cuLaunchHostFunc_ptsz)(hStream));
}
`},
		{"cuMemsetD8Async_ptsz", stream, `
CUresult cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, size_t N, CUstream hStream)
{
    int touched;
    CUresult result;

    XM_SITE(fill, hStream, XM_PTDS, N);
    xm_admit(hStream, XM_PTDS);
    touched = xm_touch(dstDevice, 0);
    result = xm_done(XM_DRIVER(cuMemsetD8Async_ptsz)(dstDevice, N, hStream));
    xm_untouch(touched);
    if (xm_recording() && result == CUDA_SUCCESS)
        xm_record_fill(hStream, XM_PTDS, dstDevice, 0, (size_t)N * 1, 1);
    return result;
}
`},
		{"cuMemcpyDtoH_v2", []param{{"void *", "dstHost"}, {"CUdeviceptr", "srcDevice"}, {"size_t", "ByteCount"}}, `
CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    int touched;
    CUresult result;

    xm_wait_begins();
    XM_SITE(copy, NULL, 0, ByteCount);
    xm_admit(NULL, 0);
    touched = xm_touch(srcDevice, 0);
    result = xm_done(XM_DRIVER(cuMemcpyDtoH_v2)(dstHost, srcDevice, ByteCount));
    xm_untouch(touched);
    if (xm_recording() && result == CUDA_SUCCESS)
        xm_record_copy(NULL, 0, (uintptr_t)dstHost, srcDevice, ByteCount, XM_COMMAND_DST_HOST);
    if (result == CUDA_SUCCESS)
        xm_synced_stream(NULL, 0);
    return result;
}
`},
	} {
		d := declaration{Symbol: c.symbol, Params: c.params}
		r, ok := ruleOf(d)
		if !ok {
			t.Fatalf("%s has no rule", c.symbol)
		}
		_, perThread := splitName(c.symbol)
		if got := (hook{d, r, perThread}).body(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.symbol, got, strings.TrimSpace(c.want))
		}
	}
}
