package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"xmsched/cmd/internal/cli"
	"xmsched/hal/sim/device"
	"xmsched/nvx/measure"
	"xmsched/xserver/client"
)

// simStartTime is how long the simulated device may take to start.
const simStartTime = 10 * time.Second

// children says how the measuring processes are started.
func (d *deviceOptions) children(ctx context.Context, progress io.Writer) (measure.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return measure.Config{}, fmt.Errorf("find the running program: %w", err)
	}
	lib, found := checkLibrary()
	if !found.OK {
		return measure.Config{}, fmt.Errorf("%s: run `make build`, or set XMSCHED_LIB to the folder of the libraries", found.Detail)
	}
	cfg := measure.Config{
		Program: self, Args: []string{workerName}, Preload: filepath.Join(lib, "libxmsched.so"),
		Env: os.Environ(), Tool: cli.Version, Progress: newSteps(progress).report,
	}
	if d.sim {
		cfg.Env, err = d.simulated(ctx, lib)
	}
	return cfg, err
}

// simulated points the children at the simulated GPU of the run directory, which
// is started if it does not run.
func (d *deviceOptions) simulated(ctx context.Context, lib string) ([]string, error) {
	driver := filepath.Join(lib, "sim")
	if _, err := os.Stat(filepath.Join(driver, "libcuda.so.1")); err != nil {
		return nil, fmt.Errorf("the simulated driver is not in %s: run `make build`, or set XMSCHED_LIB to its folder", driver)
	}
	if _, err := device.FromEnv(); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	dir, err := d.runDir()
	if err != nil {
		return nil, err
	}
	if _, err := client.MakeRunDir(dir, false); err != nil {
		return nil, fmt.Errorf("make the run directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, simStartTime)
	defer cancel()
	socket, err := device.Ensure(ctx, dir)
	if err != nil {
		return nil, err
	}
	env := []string{"LD_LIBRARY_PATH=" + driver, "XMSCHED_SIM_SOCKET=" + socket}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LD_LIBRARY_PATH=") && !strings.HasPrefix(kv, "XMSCHED_SIM_SOCKET=") {
			env = append(env, kv)
		}
	}
	return env, nil
}

// steps shows what is being measured: on a terminal in one line, elsewhere a line
// each.
type steps struct {
	w        io.Writer
	terminal bool
}

func newSteps(w io.Writer) *steps {
	f, ok := w.(*os.File)
	return &steps{w, ok && term.IsTerminal(int(f.Fd()))}
}

func (s *steps) report(what string, done, total int) {
	line := what
	if total > 0 {
		line = fmt.Sprintf("%2d of %d: %s", done+1, total, what)
	}
	if s.terminal && total > 0 {
		end := ""
		if done+1 == total {
			end = "\r\x1b[K"
		}
		fmt.Fprintf(s.w, "\r\x1b[K%s%s", line, end)
		return
	}
	fmt.Fprintln(s.w, line)
}
