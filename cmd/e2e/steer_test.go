package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCase35ConfigureSuspendedTask changes the numbers of a program that stands at
// a closed gate, one by one, and lets it go on.
func TestCase35ConfigureSuspendedTask(t *testing.T) {
	w, _, low, high := rivals(t)
	task := strconv.FormatUint(w.list("low")[0].Task, 10)
	for _, c := range []struct{ change, want string }{
		{"--threshold 4", "level auto, threshold 4, batch 8"},
		{"--level 1", "level 1, threshold 4, batch 8"},
		{"--batch 1", "level 1, threshold 4, batch 1"},
		{"--level 2", "level 2, threshold 4, batch 1"},
		{"--level auto --threshold 32", "level auto, threshold 32, batch 1"},
	} {
		start := time.Now()
		out, code := w.run("xcli", append([]string{"config", "--task", task}, strings.Fields(c.change)...)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Fatalf("%s: exit %d: %s", c.change, code, out)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s took %v", c.change, took)
		}
	}
	row := w.list("low")[0]
	if row.Asked != "auto" || row.Threshold != 32 || row.Batch != 1 || row.State != "gated" {
		t.Errorf("%+v", row)
	}
	low.stands()
	high.end()
	low.progress()
}

// TestQuantaAreObeyed has two busy programs under RR whose turns differ by four.
// On a busy machine their gaps are long, and none is to end a turn here; and the
// turns are long beside what the daemon itself waits for a core.
func TestQuantaAreObeyed(t *testing.T) {
	w := newWorld(t)
	w.daemon("--policy", "RR")
	short := w.spin("short", 0, "--quantum", "50ms", "--idle-after", "500ms")
	long := w.spin("long", 0, "--idle-after", "500ms")
	w.scheduled("short", "long")
	out, code := w.run("xcli", "hint", "--pid", strconv.Itoa(long.cmd.Process.Pid), "--quantum", "200ms")
	if code != 0 || !strings.Contains(out, "quantum 200ms") {
		t.Fatalf("exit %d: %s", code, out)
	}
	short.progress()
	long.progress()
	// The machine is shared: what matters is that the longer turn is longer. Two
	// turns that are alike have a ratio of 1 the more, the longer one looks.
	sum := map[string]float64{}
	eventually(t, "turns that differ by four, widely", func() bool {
		for name, ms := range w.ranFor(time.Second, "short", "long") {
			sum[name] += ms
		}
		t.Logf("ran %.0f ms by turns of 200 ms, %.0f by turns of 50", sum["long"], sum["short"])
		ratio := sum["long"] / sum["short"]
		return sum["long"]+sum["short"] > 2500 && ratio > 1.7 && ratio < 8
	})
}

// ranFor says for how many milliseconds of the next span programs that share the
// device had it.
func (w *world) ranFor(span time.Duration, names ...string) map[string]float64 {
	w.t.Helper()
	before := w.list(names...)
	time.Sleep(span)
	after := w.list(names...)
	if len(before) != len(names) || len(after) != len(names) {
		w.t.Fatalf("listed %+v, then %+v", before, after)
	}
	ran := map[string]float64{}
	for i, row := range after {
		if row.Mode != "bounded" {
			w.t.Errorf("%s is %s under RR, want bounded", row.Name, row.Mode)
		}
		ran[row.Name] = row.RunTimeMS - before[i].RunTimeMS
	}
	return ran
}

// TestTreeOfProcesses has one xrun start a program whose processes are forked,
// spawned and executed: they are one task, which stops and goes on as a whole.
func TestTreeOfProcesses(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	w := newWorld(t)
	w.daemon()
	job := w.xrun([]string{"--name", "job"}, python, filepath.Join(here, "testdata/tree.py"), filepath.Join(built, "kernels.ptx"), "20000")
	eventually(t, "three processes of one task", func() bool {
		rows := w.list("job")
		pids := map[int]bool{}
		for _, r := range rows {
			if r.Task == rows[0].Task && r.Mode != "" {
				pids[r.PID] = true
			}
		}
		return len(rows) == 3 && len(pids) == 3
	})
	job.progress()
	high := w.spin("high", 5)
	w.scheduled("high")
	high.progress()
	job.stands()
	eventually(t, "every process of the job kept out while the other computes", func() bool { // on a busy machine that one pauses
		return !slices.ContainsFunc(w.list("job"), func(r row) bool { return r.State != "gated" && r.State != "idle" })
	})
	high.end()
	job.progress()
}
