package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"xmsched/hal/sim/simtest"
	"xmsched/nvx/sheet"
	"xmsched/xserver/client"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"xcli": main})
}

// deviceScript runs a script with bin and lib as make build lays them out.
func deviceScript(t *testing.T, file, lib string) {
	testscript.Run(t, testscript.Params{
		Files: []string{filepath.Join("testdata", file)},
		Setup: func(env *testscript.Env) error {
			env.Setenv("XMSCHED_LIB", lib)
			env.Setenv("XMSCHED_STATE", filepath.Join(env.WorkDir, "state"))
			// The path of a socket is short.
			run, err := os.MkdirTemp("", "xmcli")
			if err != nil {
				return err
			}
			env.Setenv("XMSCHED_DIR", run)
			env.Defer(func() {
				endDevice(t, filepath.Join(run, client.SimSocket))
				_ = os.RemoveAll(run)
			})
			return nil
		},
	})
}

// endDevice ends the simulated device that serves a socket, if there is one: by
// itself it would stay for ten seconds.
func endDevice(t *testing.T, socket string) {
	conn, err := net.Dial("unixpacket", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	if err := raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			_ = unix.Kill(int(peer.Pid), unix.SIGTERM)
		}
	}); err != nil {
		t.Error(err)
	}
}

// buildAll builds what a simulated device needs, and gives the folder of the
// libraries.
func buildAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	for _, step := range [][]string{
		{"make", "-s", "-C", "shim/cuda/preload", "OUT=" + lib, "all"},
		{"make", "-s", "-C", "hal/sim/libcuda", "OUT=" + filepath.Join(lib, "sim"), "all"},
		{"go", "build", "-o", filepath.Join(dir, "bin", "xrun"), "./cmd/xrun"},
	} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir = simtest.Root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
	// What the measuring does not use, and xcli looks for.
	if err := os.WriteFile(filepath.Join(lib, "libxagent.so"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return lib
}

func TestDeviceWithoutAGPU(t *testing.T) {
	lib := t.TempDir()
	for _, name := range []string{"libxmsched.so", "libxagent.so"} {
		if out, err := exec.Command("gcc", "-shared", "-x", "c", "/dev/null", "-o", filepath.Join(lib, name)).CombinedOutput(); err != nil {
			t.Fatalf("build a library: %v\n%s", err, out)
		}
	}
	if _, _, err := sheet.InstalledDriver(); err == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	deviceScript(t, "device_absent.txt", lib)
}

func TestDeviceSimulated(t *testing.T) { deviceScript(t, "device_sim.txt", buildAll(t)) }

func TestFiguresForPeople(t *testing.T) {
	for want, have := range map[string]string{
		"-":             span(nil),
		"9.5 / 12 us":   span(&sheet.Times{MedianUS: 9.5, WorstUS: 12}),
		"640 / 9999 us": span(&sheet.Times{MedianUS: 640, WorstUS: 9999}),
		"0.64 / 10 ms":  span(&sheet.Times{MedianUS: 640, WorstUS: 10_000}),
		"1 us":          micros(1),
		"1000 ms":       micros(1e6),
		"0 us":          micros(0),
		"140 GiB":       size(150_754_820_096),
		"2 MiB":         size(2 << 20),
		"526 MiB":       size(526 << 20),
		"12 bytes":      size(12),
	} {
		if have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
}
