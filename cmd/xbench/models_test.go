package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"xmsched/bench/rows"
)

// The Go and the C program run on the simulated device; what they compute is
// right in every phase. PyTorch's program needs a real one.
func TestModels(t *testing.T) {
	lib := filepath.Join(build(t), "..", "lib", "libxmsched_api.so")
	if _, err := os.Stat(lib); err != nil {
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", lib, "xmsched/shim/api")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
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
