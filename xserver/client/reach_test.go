package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/xserver/internal/peer"
)

// listen opens a control socket behind which there is no daemon.
func listen(t *testing.T, dir string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, ControlSocket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lock locks a run directory as a daemon does.
func lock(t *testing.T, dir, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// TestHungDaemon connects to one whose socket takes connections and that does no
// more.
func TestHungDaemon(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var silent *SilentError
	if _, err := Dial(ctx, dir); !errors.As(err, &silent) || silent.PID != os.Getpid() || silent.Stopped {
		t.Fatalf("%#v, want a SilentError of pid %d", err, os.Getpid())
	}
	if want := fmt.Sprintf("kill -9 %d; ", os.Getpid()); !strings.Contains(silent.Error(), want) || strings.Contains(silent.Error(), "no daemon") {
		t.Errorf("%q, want %q in it", silent, want)
	}
}

// TestStoppedDaemon asks one that got SIGSTOP: by a connection, and when no more
// of them fit its queue.
func TestStoppedDaemon(t *testing.T) {
	dir := t.TempDir()
	l := listen(t, dir)
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "100") // listening is what makes it the peer; it does not know
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = f.Close() }()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); !peer.Stopped(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("it does not stop")
		}
	}
	lock(t, dir, fmt.Sprintln(cmd.Process.Pid))
	if err := unix.Listen(int(f.Fd()), 0); err != nil { // a queue for one
		t.Fatal(err)
	}
	for range 4 {
		conn, err := net.DialTimeout("unix", filepath.Join(dir, ControlSocket), time.Second)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	var silent *SilentError
	if _, err := Dial(t.Context(), dir); !errors.As(err, &silent) || !silent.Stopped || silent.PID != cmd.Process.Pid {
		t.Fatalf("with a full queue: %#v, want a SilentError of pid %d", err, cmd.Process.Pid)
	}
	if want := fmt.Sprintf("kill -CONT %d", cmd.Process.Pid); !strings.HasSuffix(silent.Error(), want) {
		t.Errorf("%q, want %q at its end", silent, want)
	}
}

// TestDaemonWithoutItsSocket looks for a daemon that holds its lock and whose
// socket was taken away.
func TestDaemonWithoutItsSocket(t *testing.T) {
	dir := t.TempDir()
	lock(t, dir, "4711\n")
	var stranded *StrandedError
	if _, err := Dial(t.Context(), dir); !errors.As(err, &stranded) || stranded.PID != 4711 || !strings.Contains(err.Error(), "kill 4711; ") {
		t.Errorf("%#v, want a StrandedError of pid 4711", err)
	}
	l := listen(t, dir) // a stale one, of an earlier daemon
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := Dial(t.Context(), dir); !errors.As(err, &stranded) {
		t.Errorf("a stale socket under a lock: %#v, want a StrandedError", err)
	}
}

// TestCrowdedDaemon is refused by one that has enough connections.
func TestCrowdedDaemon(t *testing.T) {
	dir := t.TempDir()
	l := listen(t, dir)
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(Refusal("there are enough"))
			_ = conn.Close()
		}
	}()
	var crowded *CrowdedError
	if _, err := Dial(t.Context(), dir); !errors.As(err, &crowded) || crowded.Message != "there are enough" {
		t.Errorf("%#v, want a CrowdedError", err)
	}
}

// TestDirectoryOfAnotherUser asks as another user, in a directory that is closed
// to him.
func TestDirectoryOfAnotherUser(t *testing.T) {
	if dir := os.Getenv("XMSCHED_OTHER_DIR"); dir != "" {
		var denied *DeniedError
		_, err := Dial(t.Context(), dir)
		if !errors.As(err, &denied) {
			t.Fatalf("%#v, want a DeniedError", err)
		}
		for _, words := range []string{"uid 65534 may not use", dir + " is closed to it (it belongs to uid 0)", "--shared", "XMSCHED_DIR=/tmp/xmsched-65534"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%q, want %q in it", err, words)
			}
		}
		if err := Enterable(dir); !errors.As(err, &denied) {
			t.Errorf("%v, want a DeniedError", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("a second user needs root")
	}
	dir, err := os.MkdirTemp("", "xm")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := Enterable(dir); err != nil {
		t.Error(err)
	}
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestDirectoryOfAnotherUser$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "XMSCHED_OTHER_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestDirectoryOfAnotherUser") {
		t.Fatalf("%v\n%s", err, out)
	}
}
