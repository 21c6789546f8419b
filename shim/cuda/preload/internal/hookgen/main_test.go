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
	stream := []param{{"CUdeviceptr", "dptr"}, {"CUstream", "hStream"}}
	for _, c := range []struct {
		symbol string
		params []param
		want   string
	}{
		{"cuLaunchHostFunc_ptsz", stream[1:], `
CUresult cuLaunchHostFunc_ptsz(CUstream hStream)
{
    xm_admit(hStream, XM_PTDS);
    return xm_done(XM_DRIVER(cuLaunchHostFunc_ptsz)(hStream));
}
`},
		{"cuMemsetD8Async_ptsz", stream, `
CUresult cuMemsetD8Async_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    int touched;
    CUresult result;

    xm_admit(hStream, XM_PTDS);
    touched = xm_touch(dptr, 0);
    result = xm_done(XM_DRIVER(cuMemsetD8Async_ptsz)(dptr, hStream));
    xm_untouch(touched);
    return result;
}
`},
		{"cuMemcpyDtoH_v2", []param{{"void *", "dst"}}, `
CUresult cuMemcpyDtoH_v2(void *dst)
{
    CUresult result;

    xm_wait_begins();
    xm_admit(NULL, 0);
    result = xm_done(XM_DRIVER(cuMemcpyDtoH_v2)(dst));
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
