package doors

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
)

// gated builds gated_run and its agent, which governs it, and returns their folder.
var gated = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "gated"), build("gated")
})

// suspended runs one case of gated_run on a simulated device of its own.
func suspended(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	r, path := onDevice(t)
	r.output(t, path, name)
}

// onDevice returns how to run gated_run on a simulated device.
func onDevice(t *testing.T) (r run, path string) {
	t.Helper()
	device := simtest.Start(t) // and the driver that it is linked to
	folder, err := gated()
	if err != nil {
		t.Fatal(err)
	}
	ptx := filepath.Join(t.TempDir(), "kernels.ptx")
	if err := os.WriteFile(ptx, kernels.PTX(), 0o600); err != nil {
		t.Fatal(err)
	}
	return run{driver: "-", env: append(device, "XM_PTX="+ptx, "XMSCHED_LIB="+folder)}, filepath.Join(folder, "gated_run")
}

// Each of these runs a program whose gate is closed for a while, and looks at
// the order, bytes and results that it sees; the comments are in gated_run.c.
func TestCase09LegacyStreamScheduled(t *testing.T)       { suspended(t, "legacy") }
func TestCase11SynchronousCallsInOrder(t *testing.T)     { suspended(t, "synchronous") }
func TestCase12AsynchronousCallsInOrder(t *testing.T)    { suspended(t, "asynchronous") }
func TestCase13PageableCopyHasTheBytes(t *testing.T)     { suspended(t, "pageable") }
func TestCase14PoolMemory(t *testing.T)                  { suspended(t, "pools") }
func TestCase15QueriesTellTheEnd(t *testing.T)           { suspended(t, "queries") }
func TestCase16BadLaunchesWhileGated(t *testing.T)       { suspended(t, "bad_launches") }
func TestCase17CaptureAtClosedGate(t *testing.T)         { suspended(t, "capture") }
func TestCase18StreamsThatWaitForEachOther(t *testing.T) { suspended(t, "crossing") }
func TestCase19FreeBehindSuspendedQueue(t *testing.T)    { suspended(t, "blocked") }

// TestCase21LibrariesGiveTheSameResults runs cuBLAS, cuBLASLt, cuDNN, cuFFT, graphs
// and NCCL by PyTorch without us, and under a gate that opens and closes at random.
// It needs a real GPU.
func TestCase21LibrariesGiveTheSameResults(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	if err := exec.Command(python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())").Run(); err != nil {
		t.Skip("no PyTorch with a GPU here")
	}
	simtest.Library(t)
	folder, err := gated()
	if err != nil {
		t.Fatal(err)
	}
	alone, _ := run{driver: "-", bare: true}.output(t, python, "../testdata/libraries.py")
	gated, _ := run{driver: "-", env: []string{"XMSCHED_LIB=" + folder, "GOVERNOR_ROVES=1"}}.output(t, python, "../testdata/libraries.py")
	if len(lines(alone)) != 6 || alone != gated {
		t.Errorf("without us:\n%swith a gate that roves:\n%s", alone, gated)
	}
}

// TestCase19BlockedCallsGoOnWithoutDaemon: threads that wait inside the driver
// for a closed gate go on when the daemon hangs, and when it has gone and closed
// the gate as its last deed.
func TestCase19BlockedCallsGoOnWithoutDaemon(t *testing.T) {
	for _, name := range []string{"blocked_hung", "blocked_gone"} {
		t.Run(name, func(t *testing.T) { suspended(t, name) })
	}
}

// TestLeavingAtClosedGate: a program that ends is held by nobody.
func TestLeavingAtClosedGate(t *testing.T) {
	for _, name := range []string{"leaves", "leaves_late"} {
		t.Run(name, func(t *testing.T) { suspended(t, name) })
	}
}

// TestContextDestroyedAtClosedGate: who waits for its turn inside the driver is
// not told idle.
func TestContextDestroyedAtClosedGate(t *testing.T) { suspended(t, "context_goes") }

// TestAddressesComeAgain: what we registered for contexts that are long gone is in nobody's way.
func TestAddressesComeAgain(t *testing.T) { suspended(t, "addresses_come_again") }

// TestKilledAtClosedGate: the device serves the next program as before.
func TestKilledAtClosedGate(t *testing.T) {
	t.Parallel()
	r, path := onDevice(t)
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := r.command(ctx, path, "killed")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
			t.Fatalf("%q: %v", line, err)
		}
		cancel() // kills it
		_ = cmd.Wait()
		r.output(t, path, "legacy")
	}
}
