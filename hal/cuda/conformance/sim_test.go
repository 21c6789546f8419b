package conformance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"xmsched/hal/sim/simtest"
)

const (
	recorded   = "testdata/h200.txt"
	exceptions = "testdata/sim-exceptions.txt"
)

// simulated runs the suite on a simulated device.
func simulated(t *testing.T) string {
	t.Helper()
	var got strings.Builder
	if err := runner(simtest.Start(t)).Run(context.Background(), &got, nil); err != nil {
		t.Fatal(err)
	}
	return got.String()
}

// The simulated driver answers every question as the recorded one does, but for
// the listed exceptions.
func TestSimulatorAnswersAsTheH200(t *testing.T) {
	want, err := os.ReadFile(recorded)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not recorded yet: `bin/xbench conformance --out %[1]s` on the machine with the GPU", recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(exceptions)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := ParseExceptions(string(list))
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range Compare(string(want), simulated(t), allowed) {
		t.Error(difference)
	}
}

// What holds on any device, without a recording: every case comes to its end,
// and the results of kernels and copies are right.
func TestSimulatorComesThrough(t *testing.T) {
	got := simulated(t)
	lines, order := parse(got)
	if len(order) != len(cases) {
		t.Fatalf("%d cases ran, of %d", len(order), len(cases))
	}
	for _, name := range order {
		if len(lines[name]) == 0 {
			t.Errorf("%s: no line", name)
		}
		for _, l := range lines[name] {
			if strings.HasSuffix(l, "(did not return)") || strings.HasSuffix(l, "(not exported)") || strings.Contains(l, ", needed by what follows") {
				t.Errorf("%s: %s", name, l)
			}
		}
	}
	for _, l := range []string{"    right: 10000\n", "    right: 100003\n", "    checksum 450045000\n"} {
		if !strings.Contains(got, l) {
			t.Errorf("no line %q", l)
		}
	}
	if again := simulated(t); again != got {
		t.Errorf("a second run answers otherwise: %v", Compare(got, again, nil))
	}
}
