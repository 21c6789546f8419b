package main_test

import (
	"regexp"
	"strings"
	"testing"

	"xmsched/hal/sim/simtest"
)

// example runs an example on a simulated device of its own.
func example(t *testing.T, name string) string {
	t.Helper()
	library := simtest.Library(t)
	return run(t, simtest.Start(t), compile(t, "examples/"+name+".c", "-L"+library, "-l:libcuda.so.1"))
}

func TestExampleTwoModels(t *testing.T) {
	out := example(t, "twomodels")
	t.Logf("simulated:\n%s", out)
	line := regexp.MustCompile(`^policy (HPF|WRR)  requests: median \d+\.\d ms, worst \d+\.\d ms; the other model: \d+ runs\n?$`)
	n := 0
	for l := range strings.Lines(out) {
		if n++; !line.MatchString(l) {
			t.Errorf("line %q", l)
		}
	}
	if n != 2 {
		t.Errorf("%d lines, want one a policy", n)
	}
}

func TestExampleManual(t *testing.T) {
	want := "request 0: the batch stood still: true\nrequest 1: the batch stood still: true\n" +
		"request 2: the batch stood still: true\nbatch: 60 layers done"
	if got := example(t, "manual"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// At most what was about to be launched goes beside the urgent command, and what is launched
// after its end until that was noticed; without a scheduler some 20 do.
func TestExampleOwnQueue(t *testing.T) {
	out := run(t, nil, compile(t, "examples/ownqueue.c"))
	if !regexp.MustCompile(`^launched beside the urgent command: [0-9]\nbatch: 50 commands done$`).MatchString(out) {
		t.Errorf("got\n%s", out)
	}
}
