package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaseLimit is thirty times what the system promises, that gates open 1 s after the
// daemon's heart stood still: CI machines are shared.
const leaseLimit = 30 * time.Second

// rivals starts a daemon and two spinners of which the lower one stands.
func rivals(t *testing.T) (w *world, daemon, low, high *proc) {
	t.Helper()
	w = newWorld(t)
	daemon = w.daemon()
	low = w.spin("low", 0)
	w.scheduled("low")
	low.progress()
	high = w.spin("high", 10)
	w.scheduled("high")
	high.progress()
	low.stands()
	return w, daemon, low, high
}

func TestPrioritiesAreObeyed(t *testing.T) {
	w, _, low, high := rivals(t)
	high.progress()
	if rows := w.list("low", "high"); len(rows) != 2 || rows[0].Mode != "bounded" || rows[1].Mode != "top" {
		t.Errorf("%+v", rows)
	}
	high.end()
	low.progress()
	eventually(t, "free run", func() bool { rows := w.list("low"); return len(rows) == 1 && rows[0].Mode == "free" })
}

func TestHintTurnsTheTables(t *testing.T) {
	w, _, low, high := rivals(t)
	out, code := w.run("xcli", "hint", "--pid", strconv.Itoa(low.cmd.Process.Pid), "--priority", "20")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	low.progress()
	high.stands()
}

func TestRoundRobinServesBoth(t *testing.T) {
	w, _, low, high := rivals(t)
	if out, code := w.run("xcli", "policy", "set", "rr"); code != 0 || out != "policy is RR\n" {
		t.Fatalf("exit %d: %s", code, out)
	}
	for range 3 {
		low.progress()
		high.progress()
	}
	if out, _ := w.run("xcli", "policy", "get"); !strings.HasPrefix(out, "RR ") {
		t.Error(out)
	}
	if out, code := w.run("xcli", "policy", "set", "HPF"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	low.stands()
}

// TestCase31KilledDaemon kills the daemon while a gate is closed. Both programs go
// on, and are scheduled again when it is back, under their numbers.
func TestCase31KilledDaemon(t *testing.T) {
	w, daemon, low, high := rivals(t)
	before := w.list("low", "high")
	daemon.signal(syscall.SIGKILL)
	if took := low.progress(); took > leaseLimit {
		t.Errorf("a program stood for %v after its daemon was killed, limit %v", took, leaseLimit)
	} else {
		t.Logf("the gate was open %v after the daemon was killed", took)
	}
	high.progress()
	w.daemon()
	w.scheduled("low", "high")
	low.stands()
	high.progress()
	after := w.list("low", "high")
	if len(after) != 2 || after[0].Task != before[0].Task || after[1].Task != before[1].Task {
		t.Errorf("tasks were %+v, are %+v", before, after)
	}
	for _, p := range []*proc{low, high} {
		if n := strings.Count(p.said(), "\n"); n != 1 {
			t.Errorf("%s was warned with %d lines, want 1: %s", p.name, n, p.said())
		}
	}
}

// TestCase31HungDaemon stops the daemon: gates open, and close again when it runs
// on.
func TestCase31HungDaemon(t *testing.T) {
	w, daemon, low, high := rivals(t)
	daemon.signal(syscall.SIGSTOP)
	if took := low.progress(); took > leaseLimit {
		t.Errorf("a program stood for %v after its daemon was stopped, limit %v", took, leaseLimit)
	} else {
		t.Logf("the gate was open %v after the daemon was stopped", took)
	}
	high.progress()
	daemon.signal(syscall.SIGCONT)
	low.stands()
	high.progress()
	if rows := w.list("low"); len(rows) != 1 || !strings.Contains(rows[0].Why, "gate opened") {
		t.Errorf("xcli list does not say that a gate was opened without the daemon: %+v", rows)
	}
}

func TestDaemonThatEndsLetsEverybodyGoOn(t *testing.T) {
	_, daemon, low, high := rivals(t)
	daemon.signal(syscall.SIGTERM)
	<-daemon.ended
	low.progress()
	high.progress()
}

// TestCase32StoppedAndKilledPrograms have a foreground stopped, and killed, while
// it keeps the other out.
func TestCase32StoppedAndKilledPrograms(t *testing.T) {
	_, _, low, high := rivals(t)
	high.signal(syscall.SIGSTOP)
	// What it had queued still runs: the device is shared up to the bound.
	t.Logf("the other got on %v after the foreground was stopped", low.progress())
	high.signal(syscall.SIGCONT)
	high.progress()
	low.stands()
	high.signal(syscall.SIGKILL)
	t.Logf("the other got on %v after the foreground was killed", low.progress())
}

func TestDaemonAbsent(t *testing.T) {
	w := newWorld(t)
	p := w.spin("alone", 0)
	p.progress()
	time.Sleep(500 * time.Millisecond) // the agent has had its try as well
	if said := p.said(); strings.Count(said, "\n") != 1 || !strings.Contains(said, w.dir) {
		t.Errorf("warned with %q, want one line that names %s", said, w.dir)
	}
	out, code := w.run("xcli", "list")
	if code != 1 || !strings.Contains(out, bin("xserver")+" --dir "+w.dir) || !strings.Contains(out, "daemon absent") {
		t.Errorf("list: exit %d: %s", code, out)
	}
	if out, code := w.run("xrun", "--sim", "--require-daemon", "--", "/bin/true"); code != 1 || !strings.Contains(out, "no daemon") {
		t.Errorf("--require-daemon: exit %d: %s", code, out)
	}
}

// TestCase40DaemonAfterProgram starts the daemon when the program has been running
// for a while.
func TestCase40DaemonAfterProgram(t *testing.T) {
	w := newWorld(t)
	low := w.spin("low", 0)
	low.progress()
	w.daemon()
	w.scheduled("low")
	high := w.spin("high", 10)
	w.scheduled("high")
	high.progress()
	low.stands()
}

// TestOneXrunIsOneTask starts two processes in one xrun.
func TestOneXrunIsOneTask(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	line := strings.Join(spinner(4), " ")
	job := w.xrun([]string{"--name", "job"}, "/bin/sh", "-c", line+" & "+line+" & wait")
	eventually(t, "two processes of one task", func() bool {
		rows := w.list("job")
		return len(rows) == 2 && rows[0].Task == rows[1].Task && rows[0].PID != rows[1].PID
	})
	job.progress()
	high := w.spin("high", 5)
	w.scheduled("high")
	high.progress()
	job.stands()
}

func TestPreloadedWithoutXrun(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	// A device for it to use, which a program under xrun starts.
	first := w.spin("first", 0)
	first.progress()
	w.env = append(w.env, "XMSCHED_SIM_SOCKET="+filepath.Join(w.dir, "sim.sock"), "LD_LIBRARY_PATH="+filepath.Join(built, "lib", "sim"))
	stranger := w.start("stranger", spinner(4)...)
	stranger.progress()
	rows := w.list("spinner")
	if len(rows) != 1 || rows[0].State != "unscheduled" || rows[0].Why != "not started with xrun" {
		t.Errorf("%+v", rows)
	}
}

func TestStaticProgramIsNamedAndRuns(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	p := w.xrun(nil, filepath.Join(built, "still"))
	<-p.lines // it runs; its standard input has ended, so it may be gone already
	if !strings.Contains(p.said(), "cannot be scheduled") {
		t.Errorf("xrun said %q", p.said())
	}
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	for _, c := range []struct {
		line  string
		words []string
	}{
		{"xcli policy set FIFO", []string{"FIFO", "HPF", "RR"}},
		{"xcli hint --pid 1 --priority 3", []string{"pid 1"}},
		{"xcli hint --task 77 --priority 3", []string{"task 77"}},
		{"xcli hint --task 1 --priority 256", []string{"256", "-255 to 255"}},
		{"xcli hint --task 1", []string{"--priority", "--quantum", "--idle-after"}},
		{"xcli hint --task 1 --quantum 99us", []string{"quantum", "100µs to 10s"}},
		{"xcli hint --task 1 --quantum 11s", []string{"quantum", "100µs to 10s"}},
		{"xcli hint --task 1 --idle-after 2s", []string{"idle-after", "1µs to 1s"}},
		{"xcli config --task 1", []string{"--level", "--threshold", "--batch"}},
		{"xcli config --task 77 --level 1", []string{"task 77"}},
		{"xcli config --task 1 --level 4", []string{`level "4"`, "auto, 1, 2, 3"}},
		{"xserver --idle-after 2s", []string{"idle-after", "1µs to 1s"}},
		{"xserver --idle-after 0", []string{"idle-after", "1µs to 1s"}},
		{"xcli hint --priority 1", []string{"--task", "--pid"}},
		{"xcli top --interval 1ms", []string{"1ms", "100ms"}},
		{"xcli lits", []string{"lits"}},
		{"xserver --policy FIFO", []string{"FIFO", "HPF", "RR"}},
		{"xserver --log loud", []string{"loud", "debug"}},
		{"xrun --level 4 -- /bin/true", []string{"4", "auto", "1", "3"}},
		{"xrun --priority 300 -- /bin/true", []string{"300", "-255", "255"}},
	} {
		words := strings.Fields(c.line)
		out, code := w.run(words[0], words[1:]...)
		if code != 2 {
			t.Errorf("%s: exit %d, want 2: %s", c.line, code, out)
		}
		for _, word := range c.words {
			if !strings.Contains(out, word) {
				t.Errorf("%s: %q does not name %q", c.line, out, word)
			}
		}
	}
	if out, _ := w.run("xcli", "policy", "get"); !strings.HasPrefix(out, "HPF ") {
		t.Errorf("the policy was changed: %s", out)
	}
}

func TestSecondDaemon(t *testing.T) {
	w := newWorld(t)
	first := w.daemon()
	out, code := w.run("xserver")
	if code != 1 || !strings.Contains(out, "pid "+strconv.Itoa(first.cmd.Process.Pid)) {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestDoctor(t *testing.T) {
	w := newWorld(t)
	out, code := w.run("xcli", "doctor")
	if code != 1 || !strings.HasSuffix(out, "next: "+bin("xserver")+" --dir "+w.dir+" &\n") {
		t.Errorf("without a daemon: exit %d: %s", code, out)
	}
	w.daemon()
	out, code = w.run("xcli", "doctor")
	if code != 0 || !strings.Contains(out, "glibc") || !strings.HasSuffix(out, "next: "+bin("xbench")+" demo --sim\n") {
		t.Errorf("with a daemon: exit %d: %s", code, out)
	}
}

// TestTopOnATerminal looks at what top draws on a terminal that does not know its
// size, and ends it with a key.
func TestTopOnATerminal(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	p := w.spin("shown", 3)
	w.scheduled("shown")
	p.progress()
	master, slave := openTerminal(t)
	cmd := exec.Command(bin("xcli"), "top", "--interval", "100ms")
	cmd.Env = append(w.env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	var screen strings.Builder
	seen := func(what string) bool { return strings.Contains(screen.String(), what) }
	_ = master.SetReadDeadline(time.Now().Add(20 * time.Second))
	for buf := make([]byte, 4096); !seen("shown"); {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, screen.String())
		}
		screen.Write(buf[:n])
	}
	if _, err := master.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(master) // ends with EIO when the terminal's last user went
	screen.Write(rest)
	if err := cmd.Wait(); err != nil {
		t.Errorf("top: %v", err)
	}
	if !seen("\x1b[?1049h") || strings.LastIndex(screen.String(), "\x1b[?1049l") < strings.LastIndex(screen.String(), "\x1b[?1049h") {
		t.Errorf("the screen was not left as it was found: %q", screen.String())
	}
}

// openTerminal makes a terminal and gives its two ends.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return master, slave
}
