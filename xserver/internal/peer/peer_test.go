package peer

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connect gives the two ends of a connection.
func connect(t *testing.T) (server, client *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, c.(*net.UnixConn)
}

func TestOfIsTheKernelsWord(t *testing.T) {
	s, _ := connect(t)
	p, err := Of(s)
	start, serr := StartTime(os.Getpid())
	want := Peer{PID: os.Getpid(), UID: uint32(os.Geteuid()), StartTime: start}
	if err != nil || serr != nil || p != want || start == 0 {
		t.Errorf("%+v, %v, %v, want %+v", p, err, serr, want)
	}
	fd, err := Pidfd(s, p)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil || n != 0 {
		t.Errorf("the descriptor says that a living process ended: %d, %v", n, err)
	}
}

// TestStartTimeOfAwkwardNames has a program with blanks and parentheses in its
// name, which stand in the middle of what is read.
func TestStartTimeOfAwkwardNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep on this machine")
	}
	path := filepath.Join(t.TempDir(), "a) R 1 (b")
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "30")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for start := time.Now(); Name(cmd.Process.Pid) != "a) R 1 (b"; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("the program calls itself %q", Name(cmd.Process.Pid))
		}
	}
	own, err := StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	its, err := StartTime(cmd.Process.Pid)
	if err != nil || its < own || its > own+100*60*10 {
		t.Errorf("started at tick %d, %v; this test at %d", its, err, own)
	}
}

func TestGoneProcess(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := StartTime(cmd.Process.Pid); !os.IsNotExist(err) {
		t.Errorf("%v, want that it does not exist", err)
	}
	if n := Name(cmd.Process.Pid); n != "" {
		t.Errorf("name %q of a process that is gone", n)
	}
}

// TestZombieIsDead looks at a process that ended and that nobody asked after yet.
func TestZombieIsDead(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "30")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, err := StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := Peer{PID: cmd.Process.Pid, StartTime: start}
	if !p.Alive() || Stopped(p.PID) {
		t.Error("it runs, and counts as dead or stopped")
	}
	if other := (Peer{PID: p.PID, StartTime: start + 1}); other.Alive() {
		t.Error("another process with its number counts as alive")
	}
	_ = cmd.Process.Kill()
	for began := time.Now(); p.Alive(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it was killed, and counts as alive")
		}
	}
	if _, err := StartTime(p.PID); err != nil {
		t.Errorf("it is no zombie: %v", err)
	}
	_ = cmd.Wait()
	if p.Alive() || !(Peer{UID: 5}).Alive() {
		t.Error("one that is gone counts as alive, or one that cannot be named as dead")
	}
}
