package conformance

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"xmsched/hal/sim/simtest"
)

const (
	recorded   = "testdata/h200.txt"
	exceptions = "testdata/sim-exceptions.txt"
)

// transcriptOfH200 fails when it is missing: then nothing would hold the
// simulator to anything.
func transcriptOfH200(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatalf("%v; record it on the machine with the GPU, as hal/cuda/conformance/record says", err)
	}
	return string(text)
}

// unfit are ends of lines that no usable transcript has: the question was not
// answered, or not asked.
var unfit = []string{"(did not return)", "(not exported)"}

func checkFit(t *testing.T, text string) {
	t.Helper()
	lines, order := parse(text)
	if want := Cases(); !slices.Equal(want, order) {
		t.Errorf("cases %v, want %v", order, want)
	}
	for _, name := range order {
		if len(lines[name]) == 0 {
			t.Errorf("%s: no line", name)
		}
		for _, l := range lines[name] {
			if strings.Contains(l, ", needed by what follows = ") || slices.ContainsFunc(unfit, func(end string) bool { return strings.HasSuffix(l, end) }) {
				t.Errorf("%s: %s", name, l)
			}
		}
	}
}

// The recorded transcript is whole: every question of every case was asked, no
// case that is one story was cut short, and the device computed what it should.
func TestTranscriptIsWhole(t *testing.T) {
	text := transcriptOfH200(t)
	checkFit(t, text)
	lines, _ := parse(text)
	for _, c := range cases {
		if len(c.questions) == 1 && slices.Contains(lines[c.name], c.name+" = ("+EndsTheProcess+")") {
			t.Errorf("%s: the recorded driver ended the process", c.name)
		}
	}
	for _, l := range []string{"    right: 10000\n", "    right: 100003\n", "    checksum 450045000\n"} {
		if !strings.Contains(text, l) {
			t.Errorf("no line %q", l)
		}
	}
}

// The simulated driver answers every question as the recorded one does, but for
// the listed exceptions, each of which is needed.
func TestSimulatorAnswersAsTheH200(t *testing.T) {
	want := transcriptOfH200(t)
	list, err := os.ReadFile(exceptions)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := ParseExceptions(string(list))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := runner(simtest.Start(t)).Run(context.Background(), &got, nil); err != nil {
		t.Fatal(err)
	}
	checkFit(t, got.String())
	if strings.Contains(got.String(), "("+EndsTheProcess+")") {
		t.Error("the simulated driver ends its caller's process")
	}
	for _, difference := range Compare(want, got.String(), allowed) {
		t.Error(difference)
	}
}
