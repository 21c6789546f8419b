package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/hal/sim/device"
)

// Timeouts of one step. They bound a hang, not a measurement.
const (
	setupTimeout  = 60 * time.Second // a context on a busy card, a module, a calibration
	daemonTimeout = 10 * time.Second
)

// Config of a lab.
type Config struct {
	Places Places
	Commit string
	// Sim asks for the simulated device even where a real one works.
	Sim bool
	// Note, if set, is told what a reader of the rows should know besides, such as
	// why a mode was left out.
	Note func(string)
}

// Lab is a device with a way to run programs on it. Not safe for concurrent use.
type Lab struct {
	Facts  workloads.Facts
	Places Places

	commit          string
	env             []string // of every child: ours, cleaned, and the simulated device's
	dir             string   // private folder: the daemon's run directory and files for children
	note            func(string)
	daemon          *Child
	mps             *mps   // nil: none runs
	simSocket       string // of the simulated device; empty on a real one
	iterationsPerUS float64
	fullPerUS       float64 // the same of each thread of a kernel that fills the device
	linkRates       linkRates
}

// Open finds a device: the real one when its driver answers, else the simulated
// one. The caller closes the lab.
func Open(ctx context.Context, c Config) (*Lab, error) {
	dir, err := privateDir()
	if err != nil {
		return nil, err
	}
	l := &Lab{Places: c.Places, commit: c.Commit, env: cleanEnv(), dir: dir, note: c.Note}
	if l.note == nil {
		l.note = func(string) {}
	}
	if err := l.findDevice(ctx, c.Sim); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// privateDir is a folder whose path leaves room for socket names: a Unix
// address holds 108 bytes.
func privateDir() (string, error) {
	const room = 80
	dir, err := os.MkdirTemp("", "xbench-")
	if err == nil && len(dir) > room {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "xbench-")
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for the run: %w", err)
	}
	return dir, nil
}

func (l *Lab) findDevice(ctx context.Context, sim bool) error {
	var real error
	if !sim {
		if real = l.probe(ctx); real == nil {
			return nil
		}
		if ctx.Err() != nil {
			return real
		}
	}
	driver, err := l.Places.Library("sim", "libcuda.so.1")
	if err != nil {
		return errors.Join(real, err)
	}
	simDir := filepath.Join(l.dir, "sim")
	if err := os.Mkdir(simDir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the simulated device: %w", err)
	}
	socket, err := device.Ensure(ctx, simDir)
	if err != nil {
		return errors.Join(real, fmt.Errorf("start the simulated device: %w", err))
	}
	l.simSocket = socket
	for _, name := range []string{"XMSCHED_SIM_HBM", "XMSCHED_SIM_SCALE"} {
		if v, ok := os.LookupEnv(name); ok {
			l.env = append(l.env, name+"="+v)
		}
	}
	l.env = append(l.env, "XMSCHED_SIM_SOCKET="+socket, "LD_LIBRARY_PATH="+filepath.Dir(driver)+libraryPath())
	if err := l.probe(ctx); err != nil {
		return errors.Join(real, fmt.Errorf("simulated device: %w", err))
	}
	l.Facts.Simulated = true
	return nil
}

func libraryPath() string {
	if p := os.Getenv("LD_LIBRARY_PATH"); p != "" {
		return ":" + p
	}
	return ""
}

// probe asks a child which device it sees.
func (l *Lab) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("the driver did not answer in time"))
	defer cancel()
	c, err := l.startWork("device facts", nil, "facts")
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
	if ready.Facts == nil {
		return errors.New("device facts: the line is empty")
	}
	l.Facts = *ready.Facts
	return nil
}

// Close ends the daemons and the simulated device and removes the private folder.
func (l *Lab) Close() {
	l.stopMPS()
	if l.daemon != nil {
		l.daemon.Kill()
	}
	if l.simSocket != "" {
		endListener(l.simSocket)
	}
	_ = os.RemoveAll(l.dir)
}

// endListener ends the process that listens on a socket of the lab's own folder,
// which only the device can be that the lab started. Should that not work, the
// device ends itself some seconds after its last client.
func endListener(path string) {
	conn, err := net.Dial("unixpacket", path)
	if err != nil {
		return // it is gone
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && peer.Pid > 1 {
			_ = unix.Kill(int(peer.Pid), unix.SIGTERM)
		}
	})
}

// RunDir is the run directory of the lab's daemon.
func (l *Lab) RunDir() string { return filepath.Join(l.dir, "run") }

// Daemon starts the lab's own daemon if it does not run yet.
func (l *Lab) Daemon(ctx context.Context) error { return l.startDaemon(ctx) }

// startDaemon is Daemon with further arguments for one that is started.
func (l *Lab) startDaemon(ctx context.Context, more ...string) error {
	if l.daemon != nil {
		return nil
	}
	path, err := l.Places.Program("xserver")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.RunDir(), 0o700); err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	args := []string{"--no-probe"} // it would disturb what is measured; see daemonFor
	if l.Facts.Simulated {
		args = append(args, "--sim")
	}
	args = append(args, more...)
	d, err := Start(Spec{Name: "xserver", Path: path, Args: args, Env: l.scheduledEnv()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, daemonTimeout, errors.New("it did not open its sockets in time"))
	defer cancel()
	for _, socket := range []string{"xserver.sock", "board.sock"} {
		if err := awaitSocket(ctx, d, filepath.Join(l.RunDir(), socket)); err != nil {
			d.Kill()
			return err
		}
	}
	l.daemon = d
	return nil
}

// daemonFor starts the lab's own daemon as Daemon does, after making sure of what
// the level needs: Level 3 is offered where the device's sheet says so, and to
// measure that sheet beside a run would disturb it.
func (l *Lab) daemonFor(ctx context.Context, level Level) error {
	if l.daemon == nil && level == 3 {
		if err := l.ensureSheet(ctx); err != nil {
			return err
		}
	}
	return l.Daemon(ctx)
}

// DaemonPid is the daemon's process, 0 when none runs.
func (l *Lab) DaemonPid() int {
	if l.daemon == nil {
		return 0
	}
	return l.daemon.Pid()
}

// StopDaemon ends the daemon, so that the next phase runs without one.
func (l *Lab) StopDaemon() {
	if l.daemon != nil {
		l.daemon.Kill()
		l.daemon = nil
	}
}

func awaitSocket(ctx context.Context, d *Child, path string) error {
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-d.ended:
			return d.failed(orEnd(d.err))
		case <-ctx.Done():
			return d.failed(context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (l *Lab) scheduledEnv() []string {
	return append(append([]string(nil), l.env...), "XMSCHED_DIR="+l.RunDir(), "XMSCHED_LIB="+l.Places.Lib, "XMSCHED_STATE="+l.stateDir(),
		"XMSCHED_TEMPLATES="+filepath.Join(l.dir, "templates"))
}

// start starts a program in the given way; nil: by itself.
func (l *Lab) start(name string, w way, onEvent func(Event), path string, args ...string) (*Child, error) {
	if w == nil {
		w = (*Under)(nil)
	}
	path, args, env, err := w.dress(l, path, args)
	if err != nil {
		return nil, err
	}
	return Start(Spec{Name: name, Path: path, Args: args, Env: env, OnEvent: onEvent})
}

// startWork starts one of the hidden `xbench work` programs.
func (l *Lab) startWork(name string, w way, args ...string) (*Child, error) {
	return l.startWatched(name, w, nil, args...)
}

func (l *Lab) startWatched(name string, w way, onEvent func(Event), args ...string) (*Child, error) {
	self, err := l.Places.Program("xbench")
	if err != nil {
		return nil, err
	}
	return l.start(name, w, onEvent, self, append([]string{"work"}, args...)...)
}

// startClient starts a hidden `xbench work` program that talks to the daemon
// itself instead of being preloaded.
func (l *Lab) startClient(name string, onEvent func(Event), args ...string) (*Child, error) {
	self, err := l.Places.Program("xbench")
	if err != nil {
		return nil, err
	}
	return Start(Spec{Name: name, Path: self, Args: append([]string{"work"}, args...), Env: l.scheduledEnv(), OnEvent: onEvent})
}

// Calibrate gives how many iterations the spin kernel does in a microsecond on
// this device while nothing else uses it; measured once a lab.
func (l *Lab) Calibrate(ctx context.Context) (float64, error) {
	err := l.calibrate(ctx)
	return l.iterationsPerUS, err
}

// calibrateFull gives how many iterations each thread of a kernel that fills the
// device does in a microsecond; measured with Calibrate.
func (l *Lab) calibrateFull(ctx context.Context) (float64, error) {
	err := l.calibrate(ctx)
	return l.fullPerUS, err
}

func (l *Lab) calibrate(ctx context.Context) error {
	if l.iterationsPerUS > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("calibration did not end in time"))
	defer cancel()
	c, err := l.startWork("calibrate", nil, "calibrate")
	if err != nil {
		return err
	}
	defer c.Kill()
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return err
	}
	var result workloads.Event
	if err := e.Into(&result); err != nil {
		return err
	}
	if !(result.IterationsPerUS > 0) || !(result.FullPerUS > 0) {
		return fmt.Errorf("calibrate: %v and %v iterations in a microsecond", result.IterationsPerUS, result.FullPerUS)
	}
	l.iterationsPerUS, l.fullPerUS = result.IterationsPerUS, result.FullPerUS
	return c.Finish(ctx)
}

// Row makes a row of this lab's device and source, as of now.
func (l *Lab) Row(name, mode string, n int, params rows.Params, metrics rows.Metrics) rows.Row {
	return rows.Row{
		Schema: rows.Schema, Row: name, Mode: mode,
		Device: l.Facts.Device, UUID: l.Facts.UUID, Driver: l.Facts.Driver, Simulated: l.Facts.Simulated,
		Commit: l.commit, Time: rows.Time{Time: time.Now().UTC().Truncate(time.Second)},
		N: n, Params: params, Metrics: metrics,
	}
}

// prepare checks an experiment's settings and where its programs lie. What it returns
// is report, or one that says nothing where there is none.
func (l *Lab) prepare(settings interface{ Validate() error }, report func(what string, done, total int)) (func(string, int, int), error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	if err := l.Places.Complete(); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	return report, nil
}
