package main

import (
	"path/filepath"
	"strings"
	"testing"

	"xmsched/bench/rows"
)

// rightWords checks that rows compared words, and that none was wrong.
func rightWords(t *testing.T, r rows.Row) {
	t.Helper()
	if r.Metrics["verified_count"] <= 0 || r.Metrics["wrong_count"] != 0 {
		t.Errorf("%s %s %v: %v", r.Row, r.Mode, r.Params, r.Metrics)
	}
}

func TestOversub(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "oversub")
	r := measured(t, xbench(t, "oversub", "--sim", "--json", "--budget", "64MiB", "--task", "32MiB", "--footprint", "150", "--slice", "100ms",
		"--span", "300ms", "--cycles", "1", "--policy", "predict,paging", "--plot", plot))
	if len(r) != 3 || r[0].Mode != rows.ModeAlone || r[1].Mode != rows.ModeXmsched || r[2].Mode != rows.ModeNative {
		t.Fatalf("%+v", r)
	}
	for _, row := range r {
		rightWords(t, row)
	}
	p, m := r[1].Params, r[1].Metrics
	if p["workload"] != "read" || p["footprint_pct"] != 150.0 || p["slice_ms"] != 100.0 || p["policy"] != "predict" || p["tasks"] != 3.0 || p["level"] != 3.0 {
		t.Errorf("%+v", p)
	}
	for _, name := range []string{"of_in_memory_pct", "moved_gib", "stall_pct", "ceiling_pct", "over_paging_ratio"} {
		if _, ok := m[name]; !ok {
			t.Errorf("no %s in %v", name, m)
		}
	}
	if m["of_in_memory_pct"] <= 0 || r[2].Params["policy"] != "paging" || r[2].Metrics["of_in_memory_pct"] <= 0 {
		t.Errorf("nothing was made: %v, %v", m, r[2])
	}
	checkPicture(t, plot+"-read-150")
	left(t)
}

// TestOversubOfParts has tasks whose turns touch a part of what they have.
func TestOversubOfParts(t *testing.T) {
	ofParts(t, 4, "--workload", "sparse,experts", "--budget", "64MiB", "--task", "40MiB", "--piece", "1MiB", "--slice", "100ms", "--span", "200ms")
}

// ofParts measures two tasks whose turns touch a part of what they have: so many rows.
func ofParts(t *testing.T, n int, args ...string) []rows.Row {
	t.Helper()
	r := measured(t, xbench(t, append([]string{"oversub", "--sim", "--json", "--tasks", "2", "--cycles", "1", "--policy", "predict"}, args...)...))
	if len(r) != n {
		t.Fatalf("%+v", r)
	}
	for _, row := range r {
		rightWords(t, row)
	}
	left(t)
	return r
}

// TestOversubOfLargeParts has parts that are large enough for a short stop: memory is
// exchanged within tasks, in their turns and between them, and every word is right.
func TestOversubOfLargeParts(t *testing.T) {
	r := ofParts(t, 2, "--workload", "models", "--budget", "640MiB", "--task", "640MiB", "--piece", "32MiB", "--slice", "300ms", "--span", "1s")
	if r[1].Metrics["moved_gib"] <= 0 {
		t.Errorf("nothing moved: %v", r[1].Metrics)
	}
}

func TestSwap(t *testing.T) {
	quietly(t, func() error {
		out, err := try(t, "swap", "--sim", "--json", "--ways", "ours,prefetch", "--size", "32MiB", "--times", "2")
		if err != nil {
			return err // on a busy machine a turn may be over before its swap
		}
		r := measured(t, out)
		if len(r) != 2 || r[0].Params["way"] != "ours" || r[1].Params["way"] != "prefetch" || r[0].Params["gib"] != 0.031 {
			t.Fatalf("%+v", r)
		}
		rightWords(t, r[0])
		for _, row := range r {
			for _, name := range []string{"out_gb_per_s", "in_gb_per_s", "floor_ms"} {
				if row.Metrics[name] <= 0 {
					t.Errorf("%s: no %s in %v", row.Params["way"], name, row.Metrics)
				}
			}
		}
		return nil
	})
	left(t)
}

func TestUrgent(t *testing.T) {
	r := measured(t, xbench(t, "urgent", "--sim", "--json", "--budget", "64MiB", "--foreground", "16MiB", "--background", "32MiB,32MiB", "--piece", "8MiB",
		"--period", "100ms", "--burst", "5", "--pause", "200ms", "--span", "1s"))
	if len(r) != 3 || r[0].Mode != rows.ModeAlone || r[1].Params["policy"] != "predict" || r[2].Params["policy"] != "swap" {
		t.Fatalf("%+v", r)
	}
	for _, row := range r {
		rightWords(t, row)
		if row.Metrics["p99_us"] <= 0 {
			t.Errorf("%v", row.Metrics)
		}
	}
	if r[1].Params["background_gib"] != "0.031+0.031" || r[1].Metrics["p99_over_swap_ratio"] <= 0 {
		t.Errorf("%+v", r[1])
	}
	left(t)
}

func TestPreemptWhileThePoolGrows(t *testing.T) {
	r := measured(t, xbench(t, "preempt", "--sim", "--json", "--level", "3", "--scenes", "busy", "--kernel-us", "5000", "--requests", "3", "--growing", "96MiB"))
	if len(r) != 1 || r[0].Params["scene"] != "busy+growing" || r[0].Params["growing_bytes"] != 96.0*(1<<20) {
		t.Fatalf("%+v", r)
	}
	left(t)
}

func TestMemoryTablesSaySimulated(t *testing.T) {
	out := xbench(t, "oversub", "--sim", "--budget", "64MiB", "--task", "32MiB", "--tasks", "1", "--slice", "100ms", "--span", "200ms", "--policy", "predict")
	for _, want := range []string{"simulated: these times are no evidence", "OF IN MEMORY pct", "WRONG count"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	left(t)
}
