package simtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xmsched/hal/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program compiles testdata/name.c and prepares a run of it.
func program(t *testing.T, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	bin := simtest.CompileC(t, filepath.Join("testdata", name+".c"), simtest.Library(t))
	return command(t, bin, env, args...)
}

func command(t *testing.T, bin string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(bin, args...)
	ptx := filepath.Join(simtest.Root(t), "hal", "kernels", "kernels.ptx")
	cmd.Env = append(append(os.Environ(), env...), "XM_PTX="+ptx)
	cmd.Stderr = os.Stderr
	return cmd
}

// run expects a program to succeed within five minutes.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(cmd.Path), err)
	}
	return strings.TrimSpace(string(out))
}

func TestBytesOfEveryKind(t *testing.T) {
	if got := run(t, program(t, "basic", simtest.Start(t))); got != "ok" {
		t.Fatalf("basic says %q", got)
	}
}
