package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	lib := filepath.Join(simtest.Built(t, "bin/xrun", "lib/libxmsched.so", "lib/sim/*.so.1"), "lib")
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

// TestLevel3ShowsHowItIsUsed beside how long it takes without preparation.
func TestLevel3ShowsHowItIsUsed(t *testing.T) {
	times := func(median float64) *sheet.Times { return &sheet.Times{MedianUS: median, WorstUS: 2 * median} }
	stops := func(stop, resume float64) *sheet.Stops {
		return &sheet.Stops{Stop: times(stop), Resume: times(resume)}
	}
	s := &sheet.Sheet{Measured: &sheet.Measured{Levels: []sheet.Level{
		{Level: 2, Unit: "command", Idle: stops(100, 10)},
		{Level: 3, Unit: "instruction", Idle: stops(1700, 400), Busy: stops(1800, 2200), Request: stops(540, 360)},
	}}}
	var out strings.Builder
	p := page{w: &out, sheet: s, from: "measured"}
	p.levels()
	if p.err != nil {
		t.Fatal(p.err)
	}
	var rows [][]string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1))
	}
	last := rows[len(rows)-1]
	want := []string{"armed (1 us), for another's request", "-", "540 / 1080 us", "360 / 720 us", "-", "measured"}
	if !slices.Equal(last, want) {
		t.Errorf("%q, want %q in\n%s", last, want, &out)
	}
	s.Measured.Levels[1].Request = nil // of a sheet from before
	out.Reset()
	if p.levels(); strings.Contains(out.String(), "request") {
		t.Errorf("shown without having been measured:\n%s", &out)
	}
}

// TestFreedHostMemoryHasARow: what was seen in it, or that nobody has looked.
func TestFreedHostMemoryHasARow(t *testing.T) {
	seen := sheet.Isolation{Allocator: "cuMemCreate HOST_NUMA", WrittenBytes: 1 << 30, ReadBytes: 2 << 30, FreeBytes: 64 << 30}
	visible := seen
	visible.WordsSeen = 12
	for _, c := range []struct {
		have *sheet.Isolation
		want []string
	}{
		{&seen, []string{"freed host memory of cuMemCreate HOST_NUMA", "nothing of it seen: 1 GiB written by one process, 2 GiB read by the next, of 64 GiB free", "measured"}},
		{&visible, []string{"freed host memory of cuMemCreate HOST_NUMA", "VISIBLE: 12 of its words seen: 1 GiB written by one process, 2 GiB read by the next, of 64 GiB free", "measured"}},
		{nil, []string{"freed host memory", "not measured"}},
	} {
		var out strings.Builder
		p := page{w: &out, sheet: &sheet.Sheet{Measured: &sheet.Measured{HostIsolation: c.have}}, from: "measured"}
		p.figures()
		if p.err != nil {
			t.Fatal(p.err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(lines[len(lines)-1]), -1)
		if !slices.Equal(last, c.want) {
			t.Errorf("%q, want %q", last, c.want)
		}
	}
}
