package device

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// beDevice is what `xrun sim-device` does, for the test of Ensure: this binary
// stands in for xrun.
func beDevice(args []string) int {
	var cfg Config
	set := flag.NewFlagSet("sim-device", flag.ContinueOnError)
	set.StringVar(&cfg.Socket, "socket", "", "")
	set.Uint64Var(&cfg.HBM, "hbm", 0, "")
	set.Float64Var(&cfg.Scale, "scale", 0, "")
	set.IntVar(&cfg.Devices, "devices", 0, "")
	if err := set.Parse(args); err != nil {
		return 2
	}
	cfg.IdleExit = 300 * time.Millisecond
	if f, err := os.OpenFile(cfg.Socket+".starts", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintf(f, "%d %d %v\n", cfg.Devices, cfg.HBM, cfg.Scale)
		_ = f.Close()
	}
	if err := Serve(context.Background(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestEnsureStartsOneDevice(t *testing.T) {
	dir, err := os.MkdirTemp("", "xmens")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "lib", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(dir, "bin", "xrun")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XMSCHED_LIB", filepath.Join(dir, "lib"))
	t.Setenv("XMSCHED_SIM_DEVICES", "3")
	t.Setenv("XMSCHED_SIM_HBM", "128M")
	t.Setenv("XMSCHED_SIM_SCALE", "2.5")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	run := filepath.Join(dir, "run")
	// A socket that somebody left behind is in the way of nobody.
	if err := os.WriteFile(filepath.Join(run, socketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			socket, err := Ensure(ctx, run)
			if err != nil || socket != filepath.Join(run, socketName) {
				t.Errorf("Ensure: %q, %v", socket, err)
			}
		})
	}
	wait.Wait()
	starts, err := os.ReadFile(filepath.Join(run, socketName) + ".starts")
	if err != nil || string(starts) != "3 134217728 2.5\n" {
		t.Errorf("devices started: %q, %v", starts, err)
	}
	c := dial(t, filepath.Join(run, socketName))
	time.Sleep(500 * time.Millisecond) // longer than its patience: a client keeps it
	c.well()
	c.close()
	for alive(filepath.Join(run, socketName)) {
		time.Sleep(600 * time.Millisecond) // asking keeps it, too
		if ctx.Err() != nil {
			t.Fatal("the device outlives its clients")
		}
	}
}

func TestEnsureSaysWhatIsMissing(t *testing.T) {
	t.Setenv("XMSCHED_LIB", t.TempDir())
	if _, err := Ensure(context.Background(), t.TempDir()); err == nil {
		t.Error("a device without xrun")
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]uint64{"1": 1, "64K": 64 << 10, "2m": 2 << 20, "1G": 1 << 30, "3GiB": 3 << 30, "1T": 1 << 40, " 5 ": 5} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "G", "-1", "1.5G", "1X", "99999999999999999999", "9999999999T"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("ParseBytes(%q) = %d", s, got)
		}
	}
}
