// Package simtest gives a test a simulated GPU of its own, and real C programs
// that use it.
//
// It is for tests only. The device runs inside the test process; programs find
// it through the environment that Start returns. Everything ends with the test.
package simtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"xmsched/hal/sim/device"
)

// Option changes the devices before they start.
type Option func(*device.Config)

// Devices sets how many there are.
func Devices(n int) Option { return func(c *device.Config) { c.Devices = n } }

// HBM sets each device's memory in bytes.
func HBM(n uint64) Option { return func(c *device.Config) { c.HBM = n } }

// Scale sets the wall time per simulated time.
func Scale(f float64) Option { return func(c *device.Config) { c.Scale = f } }

// Start builds the simulated driver when it is stale, runs a device until the
// test ends, and returns the environment that makes a program use both:
// LD_LIBRARY_PATH and XMSCHED_SIM_SOCKET, as NAME=value.
func Start(t testing.TB, options ...Option) []string {
	t.Helper()
	return StartWith(t, Library(t), options...)
}

// StartWith is Start with a driver that is already built, given by its folder.
func StartWith(t testing.TB, library string, options ...Option) []string {
	t.Helper()
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "xmsim")
	if err != nil {
		t.Fatal(err)
	}
	cfg := device.Config{Socket: filepath.Join(dir, "s")}
	for _, o := range options {
		o(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- device.Serve(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("simulated device: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if conn, err := net.Dial("unixpacket", cfg.Socket); err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the simulated device does not start")
		}
	}
	return []string{"LD_LIBRARY_PATH=" + library, "XMSCHED_SIM_SOCKET=" + cfg.Socket}
}

// Library builds the simulated driver into lib/sim when its sources are newer,
// and returns that folder.
func Library(t testing.TB) string {
	t.Helper()
	return build(t, "all", filepath.Join(Root(t), "lib", "sim"))
}

// SanitizedLibrary is Library built with address and undefined-behaviour
// sanitizers, in the folder beside.
func SanitizedLibrary(t testing.TB) string {
	t.Helper()
	return filepath.Join(build(t, "asan", filepath.Join(Root(t), "lib", "sim")), "asan")
}

func build(t testing.TB, target, out string) string {
	t.Helper()
	unlock, err := lock(out)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	cmd := exec.Command("make", "-s", "-C", filepath.Join(Root(t), "hal", "sim", "libcuda"), "OUT="+out, target)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the simulated driver: %v\n%s", err, said)
	}
	return out
}

// Root is the repository's root.
func Root(t testing.TB) string {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// CompileC compiles a C program against the simulated driver and returns its
// path. Extra arguments go to the compiler.
func CompileC(t testing.TB, source, library string, extra ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(source)+".bin")
	args := append([]string{
		"-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", out, source,
		"-L" + library, "-l:libcuda.so.1", "-pthread",
	}, extra...)
	if said, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("compile %s: %w\n%s", source, err, said))
	}
	return out
}
