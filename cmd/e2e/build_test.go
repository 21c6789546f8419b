package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
)

// built is where everything that the tests run lies: bin and lib as make build
// lays them out, the C programs, and the kernels.
var built string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "xme2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built = dir
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	return m.Run()
}

// program is the command that builds a C program which uses the GPU.
func program(dir, name string) []string {
	return []string{"gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(dir, name),
		filepath.Join(here, "testdata", name+".c"), "-L" + filepath.Join(dir, "lib", "sim"), "-l:libcuda.so.1"}
}

// here is this folder.
var here = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}()

// build makes the programs of the tests beside what `make build` makes.
func build(dir string) error {
	if err := simtest.Build(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kernels.ptx"), kernels.PTX(), 0o644); err != nil {
		return err
	}
	for _, step := range [][]string{
		program(dir, "spinner"),
		program(dir, "queue"),
		program(dir, "streams"),
		program(dir, "job"),
		program(dir, "passes"),
		program(dir, "part"),
		program(dir, "pins"),
		program(dir, "learner"),
		{"gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", filepath.Join(dir, "still"), filepath.Join(here, "testdata/still.c")},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", step, err, out)
		}
	}
	return nil
}
