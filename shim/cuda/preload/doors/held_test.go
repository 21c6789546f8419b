package doors

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"xmsched/hal/kernels"
)

// held runs one case of held_run on a simulated device of its own.
func held(t *testing.T, name string, env ...string) {
	t.Helper()
	t.Parallel()
	r, path := onDevice(t)
	probe := filepath.Join(t.TempDir(), "probe.ptx")
	if err := os.WriteFile(probe, kernels.ProbePTX(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = append(append(r.env, "XM_PROBE="+probe), env...)
	r.output(t, filepath.Join(filepath.Dir(path), "held_run"), name)
}

// Each of these runs a program that a daemon holds by its channels; what the
// cases look at stands in held_run.c.
func TestHoldIsCarriedOutAndTold(t *testing.T)    { held(t, "obeys") }
func TestHoldChangedWhileCarriedOut(t *testing.T) { held(t, "changes_its_mind") }
func TestHoldEndsWithDeadDaemon(t *testing.T)     { held(t, "lease") }
func TestHoldEndsWithSession(t *testing.T)        { held(t, "session_ends") }
func TestHoldBesideGate(t *testing.T)             { held(t, "gated_too") }
func TestContextMadeWhileHeld(t *testing.T)       { held(t, "another_context") }
func TestHoldWithoutContext(t *testing.T)         { held(t, "no_context") }
func TestSeveralContextsAreNotArmed(t *testing.T) { held(t, "several") }
func TestLeavingWhileHeld(t *testing.T)           { held(t, "leaves") }
func TestCase08RefusedHoldIsUndone(t *testing.T)  { held(t, "refused", "XMSCHED_SIM_RM=refuse-hold") }
func TestWaitedFromOfIdleEdge(t *testing.T)       { held(t, "waits") }

// TestCase08Level3OffWithReason: the board says why there is no level 3. A
// debugger's session is none: libcuda has one of its own for every context.
func TestCase08Level3OffWithReason(t *testing.T) {
	const layout, refused, mps, debugger, mig = 4, 5, 6, 7, 8
	for how, why := range map[string]int{
		"none": layout, "unknown": layout, "refuse": refused, "mps": mps, "profiler": debugger, "mig": mig,
	} {
		t.Run(how, func(t *testing.T) { held(t, "off", "XMSCHED_SIM_RM="+how, "XM_WHY="+strconv.Itoa(why)) })
	}
}
