package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketName = "sim.sock"
	lockName   = "sim.lock"
	logName    = "sim.log"
)

// Ensure gives the socket of a live device in dir, starting one when there is
// none: `xrun sim-device`, detached, which ends itself ten seconds after its last
// client left. Callers that race start one device, by a lock file. dir must
// exist. The device is xrun beside this executable, or in ../bin from
// $XMSCHED_LIB; XMSCHED_SIM_DEVICES, XMSCHED_SIM_HBM and XMSCHED_SIM_SCALE
// configure it.
func Ensure(ctx context.Context, dir string) (string, error) {
	socket := filepath.Join(dir, socketName)
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock simulated device: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := lockFile(ctx, lock); err != nil {
		return "", err
	}
	if alive(socket) {
		return socket, nil
	}
	dead, err := start(dir, socket)
	if err != nil {
		return "", err
	}
	for !alive(socket) {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for simulated device: %w", ctx.Err())
		case err := <-dead:
			said, _ := os.ReadFile(filepath.Join(dir, logName))
			return "", fmt.Errorf("simulated device ended: %w: %s", err, said)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return socket, nil
}

func lockFile(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return fmt.Errorf("lock simulated device: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock simulated device: %w", ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// alive tells whether somebody accepts there. It counts as a client, so a device
// about to leave stays.
func alive(socket string) bool {
	conn, err := net.Dial("unixpacket", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// start runs the device in a session of its own; the channel gets its end.
func start(dir, socket string) (<-chan error, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	cfg, err := FromEnv()
	if err != nil {
		return nil, fmt.Errorf("start simulated device: %w", err)
	}
	out, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start simulated device: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(program, "sim-device", "--socket", socket,
		"--devices", strconv.Itoa(cfg.Devices), "--hbm", strconv.FormatUint(cfg.HBM, 10), "--scale", strconv.FormatFloat(cfg.Scale, 'g', -1, 64))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = "/"
	// The engine and its workers may each hold a processor for a while; the
	// control connections must not wait for them.
	cmd.Env = append(withoutPreload(os.Environ()), "GOMAXPROCS=4")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start simulated device: %w", err)
	}
	dead := make(chan error, 1)
	go func() { // ends with the device, or with this process
		err := cmd.Wait()
		if err == nil {
			err = errors.New("without an error")
		}
		dead <- err
	}()
	return dead, nil
}

// withoutPreload keeps the device out of the scheduler that its clients are in.
func withoutPreload(env []string) []string {
	var out []string
	for _, e := range env {
		if len(e) < 11 || e[:11] != "LD_PRELOAD=" {
			out = append(out, e)
		}
	}
	return out
}

// program finds xrun.
func program() (string, error) {
	var tried []string
	if self, err := os.Executable(); err == nil {
		if filepath.Base(self) == "xrun" {
			return self, nil
		}
		tried = append(tried, filepath.Join(filepath.Dir(self), "xrun"))
	}
	if lib := os.Getenv("XMSCHED_LIB"); lib != "" {
		tried = append(tried, filepath.Join(lib, "..", "bin", "xrun"))
	}
	for _, p := range tried {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", fmt.Errorf("start simulated device: no xrun among %v", tried)
}
