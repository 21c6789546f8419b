// Package python holds the Python package xmsched; this is its test as `make
// test` runs it: the package's own tests, the examples on the simulated GPU, and
// the wheel. Without a python3 it is skipped.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"xmsched/hal/sim/simtest"
)

var build = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "xmpy"); err == nil {
		err = simtest.Build(dir, "lib/libxmsched_api.so")
	}
	return filepath.Join(dir, "lib"), err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(dir))
	}
	os.Exit(code)
}

// run runs Python with the built library, and gives its output.
func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	dir, err := build()
	if err != nil {
		t.Fatalf("build the library: %v", err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, args...)
	cmd.Env = append(append(os.Environ(), env...), "XMSCHED_API_LIBRARY="+filepath.Join(dir, "libxmsched_api.so"),
		"PYTHONPATH="+here, "PYTHONDONTWRITEBYTECODE=1", "XM_PTX="+filepath.Join(simtest.Root(t), "hal", "kernels", "kernels.ptx"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	timer := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3 %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func TestPackage(t *testing.T) { run(t, nil, "tests/test_xmsched.py") }

func TestExampleTwoModels(t *testing.T) {
	out := run(t, simtest.Start(t), "examples/two_models.py")
	t.Logf("simulated:\n%s", out)
	line := regexp.MustCompile(`(?m)^policy (HPF|WRR)  requests: median \d+\.\d ms, worst \d+\.\d ms; the other model: \d+ runs$`)
	if n := len(line.FindAllString(out, -1)); n != 2 {
		t.Errorf("%d lines, want one a policy:\n%s", n, out)
	}
}

func TestExampleManual(t *testing.T) {
	want := "request 0: the batch stood still: True\nrequest 1: the batch stood still: True\n" +
		"request 2: the batch stood still: True\nbatch: 40 layers done\n"
	if got := run(t, simtest.Start(t), "examples/manual.py"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// At most what was about to be launched goes beside the urgent command, and what is launched
// after its end until that was noticed; without a scheduler some 20 do.
func TestExampleOwnQueue(t *testing.T) {
	out := run(t, nil, "examples/own_queue.py")
	if !regexp.MustCompile(`^launched beside the urgent command: [0-9]\nbatch: 50 commands done\n$`).MatchString(out) {
		t.Errorf("got\n%s", out)
	}
}

// The wheel is built without a network and works where nothing else of us is.
func TestWheel(t *testing.T) {
	dir := t.TempDir()
	name := strings.TrimSpace(run(t, []string{"XMSCHED_VERSION=1.2.3"}, "-c",
		"import sys; sys.path.insert(0, 'backend'); import wheel_of_one_library as w; print(w.build_wheel(sys.argv[1]))", dir))
	if !regexp.MustCompile(`^xmsched-1\.2\.3-py3-none-linux_\w+\.whl$`).MatchString(name) {
		t.Fatalf("the wheel is %q", name)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	target := filepath.Join(dir, "installed")
	cmd := exec.Command(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
		"--target", target, filepath.Join(dir, name))
	if out, err := cmd.CombinedOutput(); err != nil {
		if exec.Command(python, "-m", "pip", "--version").Run() != nil {
			t.Skip("no pip on this machine")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	cmd = exec.Command(python, "-c", "import xmsched; print(xmsched.policies()[0], xmsched.__file__)")
	cmd.Dir = dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "XMSCHED_") && !strings.HasPrefix(e, "PYTHONPATH=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "PYTHONPATH="+target)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "HPF ") || !strings.Contains(string(out), target) {
		t.Errorf("%v\n%s", err, out)
	}
}
