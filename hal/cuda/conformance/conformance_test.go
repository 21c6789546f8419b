package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xmsched/hal/cuda"
)

// TestChild is where the children of the other tests start.
func TestChild(t *testing.T) {
	if !Child() {
		t.Skip("runs as the child of another test")
	}
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(context.Background(), nil, d); err != nil {
		t.Fatal(err)
	}
}

// runner starts TestChild in an environment.
func runner(env []string, only ...string) Runner {
	return Runner{
		Only: only,
		Command: func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$")
			// A child built with the race detector would sleep a second at its end.
			cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
			return cmd
		},
	}
}

func TestCallsThatEndTheProcessAreAnswers(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,-soname,"+cuda.Library,
		"-o", filepath.Join(dir, cuda.Library), "testdata/crashing/crash.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	var got strings.Builder
	r := runner([]string{"LD_LIBRARY_PATH=" + dir}, "init", "null-pointers")
	if err := r.Run(context.Background(), &got, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	want := []string{
		"== init",
		"cuInit(0) = CUDA_SUCCESS",
		"cuInit(0) = CUDA_SUCCESS",
		"cuInit(1) = CUDA_ERROR_INVALID_VALUE",
		"cuDriverGetVersion(&version) = CUDA_SUCCESS",
		"    version 13000",
		"cuDriverGetVersion(NULL) = CUDA_ERROR_INVALID_VALUE",
		"== null-pointers",
		"cuGetErrorName(0, NULL) = (ends the process)",
		"cuGetErrorString(0, NULL) = (ends the process)",
		"cuDeviceGetCount(NULL) = CUDA_ERROR_INVALID_VALUE",
		"cuDeviceGet(NULL, 0) = (not exported)",
	}
	if diff := cmp.Diff(want, lines[:min(len(want), len(lines))]); diff != "" {
		t.Error(diff)
	}
	if n := len(lines); n < 7+len(nullPointers.questions) {
		t.Errorf("the transcript ends early, after %d lines", n)
	}
}

func TestRefusesWithoutDriver(t *testing.T) {
	if err := Run(context.Background(), &strings.Builder{}, nil); err == nil {
		t.Error("a run without a driver")
	}
	var got strings.Builder
	err := runner([]string{"LD_LIBRARY_PATH=" + t.TempDir()}, "init").Run(context.Background(), &got, nil)
	if paths, _ := filepath.Glob("/usr/l*/*/libcuda.so.1"); len(paths) == 0 && err == nil {
		t.Error("children without a driver were taken for a run")
	}
	if err != nil && got.String() != "== init\n" {
		t.Errorf("a case that did not run has lines: %q", got.String())
	}
}

func TestCompare(t *testing.T) {
	recorded := "== a\nf(1) = CUDA_SUCCESS\n    value 3\nf(2) = CUDA_ERROR_INVALID_VALUE\n== b\ng() = (ends the process)\n== c\nh(x = 1) = CUDA_SUCCESS\n"
	for name, c := range map[string]struct {
		got        string
		exceptions string
		want       []string
	}{
		"the same": {got: recorded},
		"a survivor where the recorded died": {
			got: strings.Replace(recorded, "(ends the process)", "CUDA_ERROR_INVALID_VALUE", 1),
		},
		"another result and value": {
			got: "== a\nf(1) = CUDA_SUCCESS\n    value 4\nf(2) = CUDA_SUCCESS\n== b\ng() = x\n== c\nh(x = 1) = CUDA_SUCCESS\n",
			want: []string{
				`a: recorded "value 3", here "value 4"`,
				`a: recorded "f(2) = CUDA_ERROR_INVALID_VALUE", here "f(2) = CUDA_SUCCESS"`,
			},
		},
		"an exception": {
			got:        strings.Replace(recorded, "value 3", "value 4", 1),
			exceptions: "# why\na | value 3 | it counts otherwise\n",
		},
		"an exception that nothing needs": {
			got:        recorded,
			exceptions: "a | f(9) = CUDA_SUCCESS | once upon a time\n",
			want:       []string{`a: exception "f(9) = CUDA_SUCCESS" is needed no more`},
		},
		"a case that stops": {
			got:  strings.Replace(recorded, "h(x = 1) = CUDA_SUCCESS\n", "", 1),
			want: []string{`c: ends before "h(x = 1) = CUDA_SUCCESS"`},
		},
		"another question": {
			got:  strings.Replace(recorded, "h(x = 1)", "h(x = 2)", 1),
			want: []string{`c: recorded "h(x = 1) = CUDA_SUCCESS", here "h(x = 2) = CUDA_SUCCESS"`, `c: out of step after "h(x = 1) = CUDA_SUCCESS"`},
		},
		"an unrecorded case": {
			got:  recorded + "== d\n",
			want: []string{"d: not in the recorded transcript; record it"},
		},
	} {
		exceptions, err := ParseExceptions(c.exceptions)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, Compare(recorded, c.got, exceptions)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := ParseExceptions("a | no reason\n"); err == nil {
		t.Error("an exception without a reason was taken")
	}
}

func TestUnrecordedCases(t *testing.T) {
	list := ParseUnrecorded("# why\n\ninit\n devices \ninit\nno-such-case\n")
	if diff := cmp.Diff([]string{"init", "devices", "init", "no-such-case"}, list); diff != "" {
		t.Fatal(diff)
	}
	recorded := "== devices\na() = x\n== streams\nb() = x\n"
	want := []string{
		"devices: listed as unrecorded, and recorded",
		"init: listed as unrecorded twice",
		"no-such-case: listed as unrecorded, and there is no such case",
	}
	if diff := cmp.Diff(want, StaleUnrecorded(list, recorded)); diff != "" {
		t.Error(diff)
	}
	if got := WithoutCases(recorded, list); got != "== streams\nb() = x\n" {
		t.Errorf("left of the transcript: %q", got)
	}
}
