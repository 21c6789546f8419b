package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCase31HintOutlivesTheDaemon changes a program's priority while it runs, and
// kills the daemon, and ends it: the program that comes back has it still.
func TestCase31HintOutlivesTheDaemon(t *testing.T) {
	w, daemon, low, high := rivals(t)
	out, code := w.run("xcli", "hint", "--pid", strconv.Itoa(low.cmd.Process.Pid), "--priority", "20")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	high.stands()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		if end == syscall.SIGKILL {
			eventually(t, "the journal", func() bool {
				text, err := os.ReadFile(filepath.Join(w.dir, "journal"))
				return err == nil && strings.Contains(string(text), `"priority":"20"`)
			})
		}
		daemon.signal(end)
		<-daemon.ended
		high.progress()
		daemon = w.daemon()
		w.scheduled("low", "high")
		if rows := w.list("low"); len(rows) != 1 || rows[0].Priority != 20 {
			t.Fatalf("after %v: %+v, want priority 20", end, rows)
		}
		high.stands()
		low.progress()
	}
}

// unreachable asks everybody who can be asked about a daemon that cannot, and
// checks that each of them says the same true thing and where it ends, what to
// type.
func (w *world) unreachable(remedy string, words ...string) {
	w.t.Helper()
	for _, line := range []string{"xcli status", "xcli list", "xcli hint --task 1 --priority 1", "xcli doctor",
		"xrun --require-daemon -- /bin/true", "xrun -- /bin/true"} {
		args := strings.Fields(line)
		out, code := w.run(args[0], args[1:]...)
		if (code != 1) != (line == "xrun -- /bin/true") {
			w.t.Errorf("%s: exit %d: %s", line, code, out)
		}
		for _, word := range words {
			if !strings.Contains(out, word) {
				w.t.Errorf("%s: %q does not say %q", line, out, word)
			}
		}
		for _, lie := range []string{"no daemon answers", "no task is scheduled"} {
			if strings.Contains(out, lie) {
				w.t.Errorf("%s: says %q", line, lie)
			}
		}
		if line == "xcli doctor" && !strings.HasSuffix(out, "next: "+remedy+"\n") {
			w.t.Errorf("doctor: %q does not end with %q", out, remedy)
		}
	}
}

// TestStoppedDaemonIsNotAbsent stops the daemon; what is said to help does.
func TestStoppedDaemonIsNotAbsent(t *testing.T) {
	w := newWorld(t)
	d := w.daemon()
	pid := strconv.Itoa(d.cmd.Process.Pid)
	d.signal(syscall.SIGSTOP)
	w.unreachable("kill -CONT "+pid, "(pid "+pid+") is stopped", "kill -CONT "+pid)
	p := w.spin("early", 0)
	p.progress()
	time.Sleep(1500 * time.Millisecond) // the agent has had its try
	if said := p.said(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "is stopped") {
		t.Errorf("warned with %q, want one line", said)
	}
	w.shell("kill -CONT " + pid)
	w.scheduled("early")
}

// TestDaemonWhoseSocketIsGone moves the socket away under a daemon.
func TestDaemonWhoseSocketIsGone(t *testing.T) {
	w := newWorld(t)
	d := w.daemon()
	pid := strconv.Itoa(d.cmd.Process.Pid)
	if err := os.Rename(filepath.Join(w.dir, "xserver.sock"), filepath.Join(w.dir, "away")); err != nil {
		t.Fatal(err)
	}
	remedy := "kill " + pid + "; sleep 1; " + bin("xserver") + " --dir " + w.dir + " &"
	w.unreachable(remedy, "(pid "+pid+") runs and its socket xserver.sock is gone", "kill "+pid)
	server := w.start("the remedy", "/bin/sh", "-c", strings.TrimSuffix(remedy, " &"))
	eventually(t, "the next daemon", func() bool { _, code := w.run("xcli", "status"); return code == 0 })
	server.end()
}

// shell types a line.
func (w *world) shell(line string) {
	w.t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", line).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", line, err, out)
	}
}

const nobody = 65534

// public opens what was built, and the folder of the run directory, to other
// users.
func (w *world) public() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("a second user needs root")
	}
	for _, dir := range []string{built, filepath.Dir(w.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
}

// as runs a command as another user.
func (w *world) as(uid uint32, name string, args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.Command(bin(name), args...)
	cmd.Env, cmd.Dir = w.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestDirectoryOfAnotherUser has another user come to root's daemon: closed to
// him he is told so, and by what; shared it serves him.
func TestDirectoryOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	w.public()
	d := w.daemon()
	for _, line := range []string{"xcli status", "xcli list", "xcli doctor", "xrun --require-daemon -- /bin/true"} {
		args := strings.Fields(line)
		out, code := w.as(nobody, args[0], args[1:]...)
		if code != 1 || !strings.Contains(out, "uid 65534 may not use the daemon in "+w.dir+": "+w.dir+" is closed to it") || !strings.Contains(out, "--shared") {
			t.Errorf("%s: exit %d: %s", line, code, out)
		}
		if line == "xcli doctor" && (!strings.Contains(out, "FAIL  run directory") || !strings.HasSuffix(out, "next: export XMSCHED_DIR=/tmp/xmsched-65534\n")) {
			t.Errorf("doctor: %s", out)
		}
	}
	d.signal(syscall.SIGTERM)
	<-d.ended
	w.daemon("--shared")
	if out, code := w.as(nobody, "xcli", "list"); code != 0 || !strings.Contains(out, "no task is scheduled") {
		t.Errorf("shared: exit %d: %s", code, out)
	}
	if out, code := w.as(nobody, "xrun", "--sim", "--", "/bin/true"); code != 1 || !strings.Contains(out, "belongs to uid 0") || !strings.Contains(out, "export XMSCHED_DIR=/tmp/xmsched-65534") {
		t.Errorf("a simulated device in root's directory: exit %d: %s", code, out)
	}
	if out, code := w.as(nobody, "xserver", "--dir", "/tmp/xmsched-65534", "--shared"); code != 2 || !strings.Contains(out, "only root") {
		t.Errorf("another user shares: exit %d: %s", code, out)
	}
}

// TestSimulatorFirst has root start a program on the simulated GPU before there is
// a daemon: the directory is no other than the daemon would have made.
func TestSimulatorFirst(t *testing.T) {
	w := newWorld(t)
	w.public()
	if out, code := w.run("xrun", "--sim", "--", "/bin/true"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	w.daemon("--shared")
	if out, code := w.as(nobody, "xcli", "status"); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestJSONLines holds that every answer is one object a line.
func TestJSONLines(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	w.spin("one", 0).progress()
	w.scheduled("one")
	for _, line := range []string{"list", "top", "status", "doctor", "policy get", "policy set HPF", "hint --task 1 --priority 2", "config --task 1 --batch 4"} {
		out, code := w.run("xcli", append(strings.Fields(line), "--json")...)
		if code != 0 || out == "" {
			t.Errorf("%s: exit %d: %s", line, code, out)
		}
		for text := range strings.Lines(out) {
			var object map[string]any
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				t.Errorf("%s: %q: %v", line, text, err)
			}
		}
	}
}

// TestLaunchesOfAnIdleProgram lists a program that launched once, and again three
// times, and does nothing since.
func TestLaunchesOfAnIdleProgram(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	line := "sleep 60 | exec " + filepath.Join(built, "streams") + " " + filepath.Join(built, "kernels.ptx")
	w.xrun([]string{"--name", "once"}, "/bin/sh", "-c", line+" 1 1")
	w.xrun([]string{"--name", "more"}, "/bin/sh", "-c", line+" 5 2")
	eventually(t, "3 launches of one and 30 of the other", func() bool {
		one, more := w.list("once"), w.list("more")
		return len(one) == 1 && one[0].Launches == 3 && len(more) == 1 && more[0].Launches == 30
	})
}
