package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/bench/workloads"
)

// SkippedError says that a mode cannot be measured on this machine, which is no
// failure of the run.
type SkippedError struct {
	Mode string
	Why  error
}

func (e *SkippedError) Error() string { return fmt.Sprintf("mode %s is left out: %v", e.Mode, e.Why) }

func (e *SkippedError) Unwrap() error { return e.Why }

// mpsControl is NVIDIA's program that is both the control daemon and the way to
// talk to it.
const mpsControl = "nvidia-cuda-mps-control"

// mpsTimeout bounds what the control daemon does at once: start, answer, quit.
const mpsTimeout = 10 * time.Second

// mps is a control daemon of the lab's own, in a folder of the lab's own, with
// the server that it starts for its first client.
type mps struct {
	lab     *Lab
	program string
	daemon  *Child
}

// mpsClient runs a program as a client of the daemon. Of two clients the one of
// high priority goes first; so does a stream of high priority within one.
type mpsClient struct {
	mps  *mps
	high bool
}

// Client priorities of MPS (CUDA_MPS_CLIENT_PRIORITY): 0 normal, the highest
// that there is; 1 below normal.
const (
	mpsNormal = "0"
	mpsBelow  = "1"
)

func (c mpsClient) dress(_ *Lab, path string, args []string) (string, []string, []string, error) {
	priority := mpsBelow
	if c.high {
		priority = mpsNormal
	}
	return path, args, append(c.mps.env(), "CUDA_MPS_CLIENT_PRIORITY="+priority), nil
}

// overMPS runs a program under the daemon and as a client of MPS.
type overMPS struct {
	under  *Under
	client way
}

func (o overMPS) dress(l *Lab, path string, args []string) (string, []string, []string, error) {
	path, args, env, err := o.under.dress(l, path, args)
	if err != nil {
		return "", nil, nil, err
	}
	_, _, more, err := o.client.dress(l, path, args)
	return path, args, append(env, more[len(l.env):]...), err
}

func (m *mps) dir(name string) string { return filepath.Join(m.lab.dir, "mps", name) }

func (m *mps) env() []string {
	return append(append([]string(nil), m.lab.env...), "CUDA_MPS_PIPE_DIRECTORY="+m.dir("pipe"), "CUDA_MPS_LOG_DIRECTORY="+m.dir("log"))
}

// clientOfMPS gives the way of a client, starting the lab's control daemon if it
// does not run yet.
func (l *Lab) clientOfMPS(ctx context.Context, high bool) (way, error) {
	if l.mps == nil {
		m, err := l.startMPS(ctx)
		if err != nil {
			return nil, err
		}
		l.mps = m
	}
	return mpsClient{l.mps, high}, nil
}

func (l *Lab) stopMPS() {
	if l.mps != nil {
		l.mps.quit()
		l.mps = nil
	}
}

// startMPS starts a control daemon and makes sure that a client of it works. A
// *SkippedError says why there is none. The caller quits it.
func (l *Lab) startMPS(ctx context.Context) (*mps, error) {
	m := &mps{lab: l}
	if l.Facts.Simulated {
		return nil, &SkippedError{Mode: "mps", Why: errors.New("the simulated GPU has no MPS")}
	}
	if err := m.start(ctx); err != nil {
		m.quit()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &SkippedError{Mode: "mps", Why: err}
	}
	return m, nil
}

func (m *mps) start(ctx context.Context) error {
	var err error
	if m.program, err = exec.LookPath(mpsControl); err != nil {
		return err
	}
	for _, name := range []string{"pipe", "log"} {
		if err := os.MkdirAll(m.dir(name), 0o700); err != nil {
			return fmt.Errorf("make a folder for MPS: %w", err)
		}
	}
	if m.daemon, err = Start(Spec{Name: mpsControl, Path: m.program, Args: []string{"-f"}, Env: m.env()}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("MPS did not start in time"))
	defer cancel()
	if err := m.listening(ctx); err != nil {
		return err
	}
	return m.serves(ctx)
}

// listening waits until the daemon answers.
func (m *mps) listening(ctx context.Context) error {
	for {
		_, err := m.say(ctx, "get_server_list")
		if err == nil {
			return nil
		}
		select {
		case <-m.daemon.ended:
			return m.daemon.failed(orEnd(m.daemon.err))
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// serves runs a first client, for which the daemon starts its server.
func (m *mps) serves(ctx context.Context) error {
	c, err := m.lab.startWork("a first client of MPS", mpsClient{m, true}, "facts", "--context")
	if err != nil {
		return err
	}
	defer c.Kill()
	e, err := c.Await(ctx, workloads.KindReady)
	if err != nil {
		return err
	}
	var ready workloads.Event
	if err := e.Into(&ready); err != nil {
		return err
	}
	if ready.Facts == nil || !ready.MPS {
		return errors.New("the driver does not share the device by MPS")
	}
	return c.Finish(ctx)
}

// say gives one command to the daemon and returns its answer.
func (m *mps) say(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mpsTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.program)
	cmd.Env = m.env()
	cmd.Stdin = strings.NewReader(command + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w: %s", mpsControl, command, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// quit ends the server and the daemon: as the manual says, and what is left of
// the two after that by a signal. Safe for a daemon that never started.
func (m *mps) quit() {
	if m.daemon == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mpsTimeout)
	defer cancel()
	servers := m.servers(ctx)
	if _, err := m.say(ctx, "quit"); err == nil {
		select {
		case <-m.daemon.ended:
		case <-ctx.Done():
		}
	}
	m.daemon.Kill()
	for _, pid := range servers {
		endMPSServer(pid)
	}
}

// servers gives the processes that this daemon started.
func (m *mps) servers(ctx context.Context) []int {
	out, err := m.say(ctx, "get_server_list")
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(out) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && isMPSServer(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isMPSServer(pid int) bool {
	exe, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(exe), "nvidia-cuda-mps")
}

// endMPSServer ends a server that outlived its daemon.
func endMPSServer(pid int) {
	for i := range 50 {
		if !isMPSServer(pid) {
			return
		}
		if i == 30 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
