package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"xmsched/hal/sim/simtest"
)

// build has the library made once for all tests.
var build = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "xmapi"); err == nil {
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

func library(t *testing.T) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// compile makes a program of a C file that uses the library.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := append([]string{"-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-I../include", "-o", bin, source,
		"-L" + library(t), "-lxmsched_api", "-pthread", "-ldl"}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", source, err, out)
	}
	return bin
}

// run expects a program to succeed within five minutes; it finds the library, and
// the simulated driver where env names one.
func run(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	libraries := library(t)
	for _, e := range env {
		if dir, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			libraries += ":" + dir
		}
	}
	cmd.Env = append(append(os.Environ(), env...), "LD_LIBRARY_PATH="+libraries,
		"XM_PTX="+filepath.Join(simtest.Root(t), "hal", "kernels", "kernels.ptx"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", filepath.Base(program), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
