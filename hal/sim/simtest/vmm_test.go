package simtest_test

import (
	"testing"

	"xmsched/hal/sim/simtest"
)

// Memory that is mapped by hand: strict about sizes and places, real bytes, a fault
// where nothing is mapped, and a switch that takes memory along in mid-kernel.
func TestMemoryMappedByHand(t *testing.T) {
	if got := run(t, program(t, "vmm", simtest.Start(t, simtest.HBM(256<<20)))); got != "ok" {
		t.Errorf("vmm says %q", got)
	}
}

func TestMemorySharedByDescriptor(t *testing.T) {
	env := simtest.Start(t)
	for _, where := range [][]string{nil, {"make", "on the host"}} {
		if got := run(t, program(t, "vmm_share", env, where...)); got != "ok" {
			t.Errorf("vmm_share %v says %q", where, got)
		}
	}
}

func TestMappedSanitized(t *testing.T) {
	library := simtest.SanitizedLibrary(t)
	env := append(simtest.StartWith(t, library), "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1")
	for _, name := range []string{"vmm", "vmm_share"} {
		bin := simtest.CompileC(t, "testdata/"+name+".c", library, "-fsanitize=address,undefined")
		run(t, command(t, bin, env))
	}
}
