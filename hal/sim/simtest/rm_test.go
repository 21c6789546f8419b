package simtest_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"xmsched/hal/sim/simtest"
)

// The driver makes the objects that a real one makes, by ioctls that the program
// sees, and answers for them; another process's are nobody's.
func TestObjectsOfTheResourceManager(t *testing.T) {
	env := simtest.Start(t)
	other, err := running(t, program(t, "rm_hold", env, "stay")).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, program(t, "rm_objects", env, strings.TrimSpace(other))); got != "ok" {
		t.Errorf("rm_objects says %q", got)
	}
}

// Channels that are taken off stand still, and so does what is behind them; copies
// go on unless theirs are taken off too; every byte is right in the end.
func TestSuspendedInMidFlight(t *testing.T) {
	if got := run(t, program(t, "rm_hold", simtest.Start(t, simtest.Scale(10)))); got != "ok" {
		t.Errorf("rm_hold says %q", got)
	}
}

// controlTimes is what the quickest of suspensions and resumptions take, in us: what
// else the machine does only adds.
func controlTimes(t *testing.T, bin string, env []string, n int) (off, on int) {
	t.Helper()
	if _, err := fmt.Sscan(run(t, command(t, bin, env, "time", fmt.Sprint(n))), &off, &on); err != nil {
		t.Fatal(err)
	}
	return off, on
}

// Controls take the H200's time: 1.2 to 2.2 ms alone, 0.6 ms beside a busy process,
// resumption 0.3 to 0.5; and they wait for each other over all processes.
func TestControlsTakeTheirTime(t *testing.T) {
	env := simtest.Start(t, simtest.Devices(2))
	bin := simtest.CompileC(t, "testdata/rm_hold.c", simtest.Library(t))
	off, on := controlTimes(t, bin, env, 40)
	t.Logf("alone: suspend %d us, resume %d us", off, on)
	if off < 1700 || on < 400 {
		t.Errorf("alone: suspend %d us, resume %d us", off, on)
	}
	running(t, program(t, "hold", env))
	off, on = controlTimes(t, bin, env, 40)
	t.Logf("beside a busy process: suspend %d us, resume %d us", off, on)
	if off < 600 || off >= 1200 || on < 400 {
		t.Errorf("beside a busy process: suspend %d us, resume %d us", off, on)
	}
	begun := time.Now()
	var wait sync.WaitGroup
	for i := range 3 {
		wait.Go(func() { // on either device: the driver has one lock
			own := append(env, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%d", i%2))
			if out, err := command(t, bin, own, "time", "50").Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()
	if took := time.Since(begun); took < 3*50*(600+400)*time.Microsecond {
		t.Errorf("150 suspensions and resumptions of three processes took %v: they ran at once", took)
	}
}

// A process that ends, or frees its objects, while it is suspended leaves the device
// as if it had never been.
func TestKilledWhileSuspended(t *testing.T) {
	env := simtest.Start(t)
	before := freeMemory(t, env)
	bin := simtest.CompileC(t, "testdata/rm_hold.c", simtest.Library(t))
	for _, how := range []string{"stay", "free"} {
		cmd := command(t, bin, env, how)
		running(t, cmd)
		promptly(t, env)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		waitFor(t, func() bool { return freeMemory(t, env) == before })
		promptly(t, env)
	}
}

func TestOtherDrivers(t *testing.T) {
	env := simtest.Start(t)
	bin := simtest.CompileC(t, "testdata/rm_driver.c", simtest.Library(t))
	for how, want := range map[string]string{
		"":             "calls 1, learnt 1, groups 4, slice 0, hold 0, release 0",
		"refuse":       "calls 1, learnt 1, groups 4, slice 0x1b, hold 0x1b, release 0x1b",
		"refuse-hold":  "calls 1, learnt 1, groups 4, slice 0, hold 0x1b, release 0",
		"refuse-slice": "calls 1, learnt 1, groups 4, slice 0x1b, hold 0, release 0",
		"unknown":      "calls 1, learnt 0, groups 0",
		"mps":          "calls 1, learnt 1, groups 0, 0x900e",
		"debugger":     "calls 1, learnt 1, groups 4, 0x83de, slice 0, hold 0, release 0",
		"profiler":     "calls 1, learnt 1, groups 4, 0xb2cc, slice 0, hold 0, release 0",
		"mig":          "calls 1, learnt 1, groups 4, 0xc637, slice 0, hold 0, release 0",
		"none":         "calls 0, learnt 0, groups 0",
	} {
		if got := run(t, command(t, bin, append(env, "XMSCHED_SIM_RM="+how))); got != want {
			t.Errorf("XMSCHED_SIM_RM=%s: %q, want %q", how, got, want)
		}
	}
}
