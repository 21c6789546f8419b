package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/bench/rows"
)

// The Go and the C program run on the simulated device; what they compute is
// right in every phase.
func TestModels(t *testing.T) {
	out := xbench(t, "models", "--sim", "--json", "--seconds", "0.5", "--rounds", "1", "--layers", "3", "--kernels", "1",
		"--kernel-us", "500", "--gap-us", "2000")
	got := map[string]int{}
	for _, r := range measured(t, out) {
		if r.Row != "models" || r.Metrics["identical"] != 1 || r.Metrics["p99_us"] <= 0 {
			t.Errorf("row %+v", r)
		}
		if r.Mode == rows.ModeAlone && r.Metrics["p99_ratio"] != 1 {
			t.Errorf("alone compared with itself: %v", r.Metrics)
		}
		got[r.Params["interface"].(string)+" "+r.Mode]++
	}
	for _, want := range []string{"go alone", "go native", "go xmsched", "c alone", "c native", "c xmsched"} {
		if got[want] != 1 {
			t.Errorf("%d rows %q, want 1", got[want], want)
		}
	}
}

// PyTorch's program runs with stand-ins for PyTorch, whose modules launch on the
// simulated device.
func TestModelsOfPretendedPyTorch(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 on this machine")
	}
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	var path []string
	for _, p := range []string{"testdata/pretend", "../../shim/python"} {
		abs, err := filepath.Abs(p)
		if err != nil {
			t.Fatal(err)
		}
		path = append(path, abs)
	}
	t.Setenv("PYTHONPATH", strings.Join(path, ":"))
	ptx, err := filepath.Abs("../../hal/kernels/kernels.ptx")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XM_PTX", ptx)
	out := xbench(t, "models", "--sim", "--json", "--interfaces", "python", "--seconds", "1", "--rounds", "1",
		"--torch-layers", "4", "--torch-gap-ms", "2")
	got := measured(t, out)
	if len(got) != 3 {
		t.Fatalf("%d rows, want 3", len(got))
	}
	for i, mode := range []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched} {
		r := got[i]
		if r.Mode != mode || r.Params["interface"] != "python" || r.Metrics["identical"] != 1 || r.N < 3 {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if got[2].Metrics["other_ratio"] <= 0 {
		t.Error("the other model did not run beside the first")
	}
}
