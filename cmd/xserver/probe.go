package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"xmsched/hal/sim/device"
	"xmsched/nvx/sheet"
	"xmsched/xserver"
	"xmsched/xserver/client"
)

// probeLimit is how long a probe of all devices may take.
const probeLimit = 60 * time.Second

// probing is how devices are probed.
type probing struct {
	none bool // not at all
	sim  bool // the simulated one
}

// sheets says where the spec sheets of the devices are, and who makes them. Without
// a place for them there are none, and no Level 3.
func (p probing) sheets(runDir string, log *slog.Logger) xserver.Sheets {
	dir, err := client.StateDir()
	if err != nil {
		log.Warn("no level 3", "why", err)
		return xserver.Sheets{}
	}
	s := xserver.Sheets{Dir: dir}
	if p.sim {
		s.Driver = func() (string, error) { return sheet.SimulatedDriver, nil }
		s.AtStart = true
	} else {
		s.Present = installed()
	}
	if !p.none {
		s.Probe = func(ctx context.Context) error { return p.probe(ctx, runDir, dir) }
	}
	return s
}

// probe has xcli probe all devices.
func (p probing) probe(ctx context.Context, runDir, stateDir string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return fmt.Errorf("find xcli: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(exe), "xcli"), "device", "--probe")
	cmd.Env = append(os.Environ(), "XMSCHED_DIR="+runDir, "XMSCHED_STATE="+stateDir)
	if p.sim {
		if cmd.Env, err = simulated(ctx, cmd.Env, exe, runDir); err != nil {
			return err
		}
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	// It and whatever it started end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("it did not end within %v", probeLimit)
		}
		return fmt.Errorf("%w: %s", err, lastLine(said.String()))
	}
	return nil
}

// lastLine is what a command said last.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// simulated points xcli at the simulated device of the run directory, as xrun --sim
// does with programs.
func simulated(ctx context.Context, env []string, exe, runDir string) ([]string, error) {
	socket, err := device.Ensure(ctx, runDir)
	if err != nil {
		return nil, err
	}
	driver, err := simulatedDriver(exe)
	if err != nil {
		return nil, err
	}
	path := driver
	if there := os.Getenv("LD_LIBRARY_PATH"); there != "" {
		path += ":" + there
	}
	return append(env, "LD_LIBRARY_PATH="+path, "XMSCHED_SIM_SOCKET="+socket), nil
}

// simulatedDriver is the folder of the simulated libcuda.so.1: below $XMSCHED_LIB,
// else ../lib/xmsched or ../lib from this executable's folder.
func simulatedDriver(exe string) (string, error) {
	lib := filepath.Join(filepath.Dir(exe), "..", "lib")
	folders := []string{filepath.Join(lib, "xmsched"), lib}
	if dir := os.Getenv("XMSCHED_LIB"); dir != "" {
		folders = []string{dir}
	}
	for _, dir := range folders {
		driver := filepath.Join(dir, "sim")
		if _, err := os.Stat(filepath.Join(driver, "libcuda.so.1")); err == nil {
			return driver, nil
		}
	}
	return "", fmt.Errorf("the simulated driver is not in %s: run `make build`, or set XMSCHED_LIB to its folder", strings.Join(folders, " or "))
}

// installed are the UUIDs of the NVIDIA devices of this machine, by the kernel
// module's word; none where there is no such module.
func installed() []string {
	files, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information") // the pattern is sound
	var uuids []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		uuids = append(uuids, uuidOf(string(text))...)
	}
	return uuids
}

// uuidOf finds the line "GPU UUID: GPU-…".
func uuidOf(information string) []string {
	for line := range strings.Lines(information) {
		name, value, _ := strings.Cut(line, ":")
		if uuid := strings.TrimSpace(value); strings.TrimSpace(name) == "GPU UUID" && sheet.CheckUUID(uuid) == nil {
			return []string{uuid}
		}
	}
	return nil
}
