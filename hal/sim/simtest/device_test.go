package simtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"xmsched/hal/sim/simtest"
)

func TestCase20SignalsInterruptNothing(t *testing.T) { run(t, program(t, "signals", simtest.Start(t))) }

func TestModuleTexts(t *testing.T) { run(t, quiet(program(t, "ptx", simtest.Start(t)))) }

func quiet(cmd *exec.Cmd) *exec.Cmd {
	cmd.Stderr = nil
	return cmd
}

// Simulated time is what events show, whatever the scale; wall time follows it. What the
// device's thread finds when it gets a core again has come, for it, when it lost it: so
// one quiet run is enough.
func TestScale(t *testing.T) {
	for _, scale := range []float64{1, 0.25, 3} {
		env := simtest.Start(t, simtest.Scale(scale))
		for try := 1; ; try++ {
			var simulated, wall float64
			if _, err := fmt.Sscan(run(t, program(t, "times", env)), &simulated, &wall); err != nil {
				t.Fatal(err)
			}
			t.Logf("scale %v: simulated %v us, wall %v us", scale, simulated, wall)
			if simulated >= 20000 && simulated < 200000 && wall >= scale*simulated*0.99 {
				break
			}
			if try == 10 {
				t.Fatalf("scale %v: 20 kernels of 1 ms took %v simulated us, which passed in %v us", scale, simulated, wall)
			}
		}
	}
}

// cpu is what this process, which is the device, has computed.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The device sleeps when nobody runs, and while a long kernel does; and a closed
// gate costs little. The limits are ten times what is seen.
func TestDeviceSleeps(t *testing.T) {
	env := simtest.Start(t)
	measure := func(what string, limit time.Duration) {
		t.Helper()
		time.Sleep(20 * time.Millisecond)
		before := cpu(t)
		time.Sleep(500 * time.Millisecond)
		used := cpu(t) - before
		t.Logf("%s: %v in 500 ms", what, used)
		if used > limit {
			t.Errorf("%s: the device computes for %v in 500 ms", what, used)
		}
	}
	measure("nobody", 10*time.Millisecond)
	running(t, program(t, "hold", env))
	measure("a long kernel", 50*time.Millisecond)
	_, fd := sharedPage(t)
	cmd := program(t, "gate", env, "keep")
	cmd.ExtraFiles = []*os.File{fd}
	running(t, cmd)
	measure("a closed gate", 200*time.Millisecond)
}

// Clients that come, work and are killed at any moment leave no memory, no
// descriptor and no mapping, and those that live see nothing of it.
func TestKilledAtAnyMoment(t *testing.T) {
	env := simtest.Start(t)
	before := freeMemory(t, env)
	descriptors, mappings := held(t)
	library := simtest.Library(t)
	basic := simtest.CompileC(t, "testdata/basic.c", library)
	order := simtest.CompileC(t, "testdata/order.c", library)
	var wait sync.WaitGroup
	defer wait.Wait()
	for i := range 3 {
		wait.Go(func() {
			for j := range 8 {
				cmd := quiet(command(t, order, env))
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(3+(i*8+j)*5) * time.Millisecond)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
	}
	for range 5 {
		if got := run(t, command(t, basic, env, "beside")); got != "ok" {
			t.Errorf("beside dying clients basic says %q", got)
		}
	}
	wait.Wait()
	waitFor(t, func() bool { return freeMemory(t, env) == before })
	waitFor(t, func() bool {
		d, m := held(t)
		return d <= descriptors && m <= mappings
	})
}

// held counts this process's descriptors, and its mappings of device memory.
func held(t *testing.T) (descriptors, mappings int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds), strings.Count(string(maps), "xmsched-sim")
}

// The library exports what the driver does, without versions, and one thing more.
func TestExports(t *testing.T) {
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(simtest.Library(t), "libcuda.so.1")).Output()
	if err != nil {
		t.Fatal(err)
	}
	stubs, err := os.ReadFile(filepath.Join(simtest.Root(t), "hal", "sim", "libcuda", "gen", "stubs.c"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"xm_sim_ioctl": true, "xm_sim_open": true} // which stand for the driver in the kernel
	for _, m := range regexp.MustCompile(`(?m)^(?:STUB|OURS)\((\w+)\)$`).FindAllStringSubmatch(string(stubs), -1) {
		want[m[1]] = true
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		name := fields[len(fields)-1]
		if !want[name] {
			t.Errorf("exports %s, which the driver does not", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("does not export %d of the driver's functions: %v", len(want), want)
	}
	dyn, err := exec.Command("readelf", "-d", filepath.Join(simtest.Library(t), "libcuda.so.1")).Output()
	if err != nil || !strings.Contains(string(dyn), "[libcuda.so.1]") {
		t.Errorf("soname: %v", err)
	}
}
