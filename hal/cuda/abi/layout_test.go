package abi

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"xmsched/hal/cuda/abi/internal/facts"
)

func TestGoLayoutsAreTheRecorded(t *testing.T) {
	set, err := facts.Load(os.DirFS("facts"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]facts.Struct{}
	for _, s := range set.Structs {
		known[s.Name] = s
	}
	for _, l := range goLayouts {
		s, ok := known[l.name]
		if !ok {
			t.Errorf("%s is not in the facts", l.name)
			continue
		}
		if int64(l.size) != s.Size {
			t.Errorf("%s has %d bytes, the driver's %d", l.name, l.size, s.Size)
		}
		for _, f := range s.Fields {
			if got, ok := l.offsets[f.Name]; ok && int64(got) != f.Offset {
				t.Errorf("%s.%s at %d, the driver's at %d", l.name, f.Name, got, f.Offset)
			}
		}
	}
	if len(goLayouts) < 20 {
		t.Errorf("only %d layouts", len(goLayouts))
	}
}

func TestResultsSpeakAsTheDriver(t *testing.T) {
	if got := CUDA_ERROR_NOT_READY.String(); got != "CUDA_ERROR_NOT_READY" {
		t.Errorf("name %q", got)
	}
	if got, want := CUDA_ERROR_OUT_OF_MEMORY.Error(), "CUDA_ERROR_OUT_OF_MEMORY: out of memory"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if got := Result(123456).Error(); got != "CUresult(123456)" {
		t.Errorf("unknown code is %q", got)
	}
	err := fmt.Errorf("cuMemAlloc: %w", CUDA_ERROR_OUT_OF_MEMORY)
	if !errors.Is(err, CUDA_ERROR_OUT_OF_MEMORY) || errors.Is(err, CUDA_ERROR_INVALID_VALUE) {
		t.Error("a wrapped code is not told apart")
	}
	if got := CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.String(); got != "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT" {
		t.Errorf("attribute name %q", got)
	}
}
