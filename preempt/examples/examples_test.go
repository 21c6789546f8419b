// Package examples holds programs that use package preempt, one a folder, and
// the tests that run each of them on the simulated GPU. They are for reading:
// nothing imports them.
package examples

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"xmsched/hal/sim/simtest"
)

// build builds a command of the module into dir.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	out := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "xmsched/"+pkg)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, said)
	}
	return out
}

func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s%s", filepath.Base(argv[0]), err, out, stderr.String())
	}
	return string(out)
}

// example runs an example on a simulated device of its own.
func example(t *testing.T, name string) string {
	t.Helper()
	return run(t, simtest.Start(t), build(t, t.TempDir(), "preempt/examples/"+name))
}

func TestHints(t *testing.T) {
	want := "high 0\nhigh 1\nmiddle 0\nmiddle 1\nlow 0\nlow 1\n"
	if got := example(t, "hints"); got != want {
		t.Errorf("the order is\n%swant\n%s", got, want)
	}
}

// The figures are simulated; what is held is that every policy's line is there
// and that somebody worked under each.
func TestTwoModels(t *testing.T) {
	out := example(t, "twomodels")
	t.Logf("simulated:\n%s", out)
	for _, policy := range []string{"none", "HPF", "WRR"} {
		line := regexp.MustCompile(`(?m)^policy ` + policy + ` +requests: median +\d+\.\d ms, worst +\d+\.\d ms; the other model: +\d+ runs/s$`)
		if !line.MatchString(out) {
			t.Errorf("no line for policy %s", policy)
		}
	}
}

func TestManual(t *testing.T) {
	want := "request 0: the batch stood still: true\nrequest 1: the batch stood still: true\n" +
		"request 2: the batch stood still: true\nbatch: 100 layers done\n"
	if got := example(t, "manual"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// At most what was about to be launched goes beside the urgent command, and what is launched
// after its end until that was noticed; without a scheduler some 20 do.
func TestOwnQueue(t *testing.T) {
	out := run(t, nil, build(t, t.TempDir(), "preempt/examples/ownqueue"))
	if !regexp.MustCompile(`^launched beside the urgent command: [0-9]\nbatch: 50 commands done\n$`).MatchString(out) {
		t.Errorf("got\n%s", out)
	}
}

// Two runs of a program that knows nothing of us, under the daemon, one with a
// priority by its flag and one by XSched's variable.
func TestTransparent(t *testing.T) {
	dir, err := os.MkdirTemp("", "xmex") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := simtest.Build(dir); err != nil {
		t.Fatal(err)
	}
	lib, bin := filepath.Join(dir, "lib"), filepath.Join(dir, "bin")
	xrun, program := filepath.Join(bin, "xrun"), build(t, dir, "preempt/examples/transparent")
	env := []string{"XMSCHED_DIR=" + filepath.Join(dir, "run"), "XMSCHED_LIB=" + lib, "XMSCHED_STATE=" + dir}
	daemon := exec.Command(filepath.Join(bin, "xserver"), "--sim", "--no-probe")
	daemon.Env = append(os.Environ(), env...)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait()
	})
	socket := filepath.Join(dir, "run", "board.sock") // the second that it opens
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the daemon does not open its sockets")
		}
	}
	background := make(chan string, 1)
	go func() {
		out, err := func() ([]byte, error) {
			cmd := exec.Command(xrun, "--sim", "--", program)
			cmd.Env = append(append(os.Environ(), env...), "XSCHED_AUTO_XQUEUE_PRIORITY=-5")
			return cmd.CombinedOutput()
		}()
		if err != nil {
			out = append(out, err.Error()...)
		}
		background <- string(out)
	}()
	want := "all layers done, and right\n"
	if got := run(t, env, xrun, "--sim", "--priority", "10", "--", program); got != want {
		t.Errorf("the program says %q", got)
	}
	if got := <-background; got != want {
		t.Errorf("the other one says %q", got)
	}
}
