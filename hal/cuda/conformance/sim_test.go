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
	unrecorded = "testdata/unrecorded.txt"
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

// casesToRecord are the cases that the H200 has not been asked yet. The list fails
// when it names what is recorded, so that it cannot stay behind.
func casesToRecord(t *testing.T, recorded string) []string {
	t.Helper()
	text, err := os.ReadFile(unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	list := ParseUnrecorded(string(text))
	for _, stale := range StaleUnrecorded(list, recorded) {
		t.Error(stale)
	}
	return list
}

// recordedCases are the cases of the recorded transcript: all but the listed ones.
func recordedCases(t *testing.T, recorded string) []string {
	t.Helper()
	missing := casesToRecord(t, recorded)
	return slices.DeleteFunc(Cases(), func(name string) bool { return slices.Contains(missing, name) })
}

// unfit are ends of lines that no usable transcript has: the question was not
// answered, or not asked.
var unfit = []string{"(did not return)", "(not exported)"}

func checkFit(t *testing.T, text string, want []string) {
	t.Helper()
	lines, order := parse(text)
	if !slices.Equal(want, order) {
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
	checkFit(t, text, recordedCases(t, text))
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
	var all strings.Builder
	if err := runner(simtest.Start(t)).Run(context.Background(), &all, nil); err != nil {
		t.Fatal(err)
	}
	got := WithoutCases(all.String(), casesToRecord(t, want))
	if strings.Contains(got, "("+EndsTheProcess+")") {
		t.Error("the simulated driver ends its caller's process")
	}
	checkFit(t, got, recordedCases(t, want))
	for _, difference := range Compare(want, got, allowed) {
		t.Error(difference)
	}
}
