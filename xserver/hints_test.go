package xserver_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"xmsched/compute"
	"xmsched/xserver/client"
)

// every is a value for each hint.
var every = compute.Hints{
	Priority: -7, Quantum: 3 * time.Millisecond, IdleAfter: time.Millisecond,
	Utilization: 75, Weight: 4, Deadline: 40 * time.Millisecond, K: 2,
	Laxity: compute.Laxity{After: 30 * time.Millisecond, Low: -1, High: 9},
	Window: ":0", Gang: "ranks", MinShare: 0.05, SLO: 20 * time.Millisecond,
}

// TestCase35EveryHintByItself changes one hint after the other, and takes them
// back: each touches what it names alone.
func TestCase35EveryHintByItself(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	p := join(t, c, client.Registration{TaskToken: "p"})
	var want compute.Hints
	change := func(from compute.Hints, hint compute.Hint) {
		t.Helper()
		if err := hint.Parse(hint.Format(from), &want); err != nil {
			t.Fatal(err)
		}
		_, have, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Change(from, hint.Name))
		if diff := cmp.Diff(want, client.HintsOf(have)); err != nil || diff != "" {
			t.Fatalf("%s: %v\n%s", hint.Name, err, diff)
		}
	}
	for _, hint := range compute.HintList() {
		change(every, hint)
	}
	if want != every {
		t.Fatalf("not all hints were changed: %+v", want)
	}
	change(compute.Hints{NoExecute: true}, compute.HintList()[0])
	for _, hint := range compute.HintList() {
		change(compute.Hints{}, hint)
	}
}

// TestHintsAtTheStart are told as they are given, all of them.
func TestHintsAtTheStart(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	join(t, c, client.Registration{Hints: every, Priority: 5})
	want := every
	want.Priority = 5
	if diff := cmp.Diff(want, client.HintsOf(list(t, c)[0].Hints)); diff != "" {
		t.Error(diff)
	}
}

// TestCase34HintsOutOfRange are refused with the range, and change nothing.
func TestCase34HintsOutOfRange(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	p := join(t, c, client.Registration{Hints: every})
	for _, k := range []struct {
		wild    compute.Hints
		hint    string // that is named, and that is at fault
		field   string
		allowed string
	}{
		{compute.Hints{Priority: -257}, "priority", "priority", "-255 to 255"},
		{compute.Hints{Utilization: 101}, "utilization", "utilization", "1 to 100"},
		{compute.Hints{Utilization: -1}, "utilization", "utilization", "1 to 100"},
		{compute.Hints{Weight: 1001}, "weight", "weight", "1 to 1000"},
		{compute.Hints{Deadline: time.Microsecond}, "deadline", "deadline", "100µs to 1h0m0s"},
		{compute.Hints{Deadline: 2 * time.Hour}, "deadline", "deadline", "100µs to 1h0m0s"},
		{compute.Hints{K: 257}, "k-deadline", "k-deadline", "1 to 256"},
		{compute.Hints{Laxity: compute.Laxity{After: -1}}, "laxity", "laxity", "100µs to 1h0m0s"},
		{compute.Hints{Laxity: compute.Laxity{Low: -256}}, "laxity", "laxity's low priority", "-255 to 255"},
		{compute.Hints{Laxity: compute.Laxity{Low: 3, High: 2}}, "laxity", "laxity's high priority", "3 to 255"},
		{compute.Hints{MinShare: 0.91}, "min-share", "min-share", "0 to 0.9"},
		{compute.Hints{MinShare: -0.1}, "min-share", "min-share", "0 to 0.9"},
		{compute.Hints{Gang: "two words"}, "gang", "gang", "a name of at most 64 bytes, without spaces and control characters"},
		{compute.Hints{Window: strings.Repeat("x", 65)}, "window", "window", "a name of at most 64 bytes, without spaces and control characters"},
	} {
		_, _, steered := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Change(k.wild, k.hint))
		_, started := c.Attach(t.Context(), client.Registration{Hints: k.wild})
		for _, err := range []error{steered, started} {
			var r *client.RejectedError
			if !errors.As(err, &r) || r.Field != k.field || !slices.Equal(r.Allowed, []string{k.allowed}) {
				t.Errorf("%+v: %v, want %s refused with %s", k.wild, err, k.field, k.allowed)
			}
		}
	}
	if tasks := list(t, c); len(tasks) != 1 || client.HintsOf(tasks[0].Hints) != every {
		t.Errorf("something was changed: %v", tasks)
	}
}

// TestOneWindowInFront: a display that a task gets is another's no more.
func TestOneWindowInFront(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	first := join(t, c, client.Registration{TaskToken: "a", Hints: compute.Hints{Window: ":0"}})
	other := join(t, c, client.Registration{TaskToken: "b", Hints: compute.Hints{Window: ":1"}})
	second := join(t, c, client.Registration{TaskToken: "c"})
	display := ":0"
	if _, _, err := c.SetHints(t.Context(), client.Target{Task: second.Task}, client.Hints{Window: &display}); err != nil {
		t.Fatal(err)
	}
	third := join(t, c, client.Registration{TaskToken: "d", Hints: compute.Hints{Window: ":1"}})
	want := map[uint64]string{first.Task: "", other.Task: "", second.Task: ":0", third.Task: ":1"}
	for _, task := range list(t, c) {
		if task.Hints.Window != want[task.Id] {
			t.Errorf("task %d: window %q, want %q", task.Id, task.Hints.Window, want[task.Id])
		}
	}
}

// TestCase31EveryHintOutlivesTheDaemon kills a daemon after all hints were changed.
func TestCase31EveryHintOutlivesTheDaemon(t *testing.T) {
	dir := rundir(t)
	first := spawn(t, part{Role: "daemon", Dir: dir})
	c := dial(t, dir)
	r := client.Registration{TaskToken: "token", Nonce: 77}
	p := join(t, c, r)
	var names []string
	for _, hint := range compute.HintList() {
		names = append(names, hint.Name)
	}
	if _, _, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Change(every, names...)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetPolicy(t.Context(), "rr"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the journal", func() bool {
		text, err := os.ReadFile(dir + "/" + client.JournalFile)
		return err == nil && strings.Contains(string(text), `"min-share":"0.05"`) && strings.Contains(string(text), `"RR"`)
	})
	first.kill()
	p.Gone()
	serve(t, dir)
	c = dial(t, dir)
	join(t, c, r)
	if diff := cmp.Diff(every, client.HintsOf(list(t, c)[0].Hints)); diff != "" {
		t.Error(diff)
	}
}

// TestPoliciesAreDescribed, each in a line.
func TestPoliciesAreDescribed(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	present, infos, err := c.Policies(t.Context())
	if err != nil || present != "HPF" {
		t.Fatalf("%q, %v", present, err)
	}
	var names []string
	for _, p := range infos {
		names = append(names, p.Name)
		if p.Summary == "" || strings.Contains(p.Summary, "\n") {
			t.Errorf("%s: summary %q", p.Name, p.Summary)
		}
		for _, hint := range p.Hints {
			if _, ok := compute.HintByName(hint); !ok {
				t.Errorf("%s heeds %q, which is no hint", p.Name, hint)
			}
		}
	}
	if !slices.Equal(names, compute.PolicyNames()) {
		t.Errorf("%v, want %v", names, compute.PolicyNames())
	}
}

// TestConcurrentHintsAgree: of changes that come at once, the one that is listed is
// the one that is in force.
func TestConcurrentHintsAgree(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	p := join(t, c, client.Registration{TaskToken: "a"})
	other := join(t, c, client.Registration{TaskToken: "b"})
	p.ready(true)
	other.ready(true)
	for round := range 60 {
		var all sync.WaitGroup
		for _, priority := range []int{5, -5, 6, -6} {
			all.Go(func() {
				if _, _, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Hints{Priority: &priority}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, task := range list(t, c) {
			above := task.Hints.Priority > 0
			if task.Id != p.Task {
				continue
			}
			// The loop may be about to store the gate's word still.
			eventually(t, fmt.Sprintf("the gate of who is listed with priority %d in round %d", task.Hints.Priority, round), func() bool {
				return p.board.Device(0).Gate().Open() == above
			})
		}
	}
}
