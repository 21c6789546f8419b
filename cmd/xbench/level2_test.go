package main

import (
	"testing"

	"xmsched/bench/rows"
)

// At Level 1 what is queued runs on, up to the bound; at Level 2 the program
// stops at its next command.
func TestPreempt(t *testing.T) {
	r := measured(t, xbench(t, "preempt", "--sim", "--json", "--level", "1,2", "--kernel-us", "3000", "--closings", "12"))
	if len(r) != 2 {
		t.Fatalf("%d rows, want Level 1 and 2", len(r))
	}
	for i, row := range r {
		m := row.Metrics
		if row.Row != "preempt" || row.Params["level"] != float64(i+1) || row.N < 3 {
			t.Fatalf("row %+v", row)
		}
		if m["kernel_p50_us"] < 1000 || m["kernel_p50_us"] > 20_000 {
			t.Errorf("level %d: kernels of 3000 us end every %v us", i+1, m["kernel_p50_us"])
		}
	}
	queued, one := r[0].Metrics, r[1].Metrics
	if queued["stop_p50_us"] < 2*queued["kernel_p50_us"] {
		t.Errorf("level 1 stopped after %v us, though kernels of %v us were queued", queued["stop_p50_us"], queued["kernel_p50_us"])
	}
	// Half a kernel is expected; two are wide enough for a machine with other work.
	if one["stop_p50_us"] > 2*one["kernel_p50_us"] {
		t.Errorf("level 2 stopped after %v us, kernels are of %v us", one["stop_p50_us"], one["kernel_p50_us"])
	}
	left(t)
}

// With the default bound, single requests wait for one kernel of the background
// at Level 2, and for all that it has queued at Level 1.
func TestP99Levels(t *testing.T) {
	r := measured(t, xbench(t, "p99", "--sim", "--json", "--request-us", "2000", "--count", "60", "--gap-us", "50", "--burst", "20",
		"--pause-us", "100000", "--background-us", "2000", "--rounds", "1", "--level", "1,2"))
	var ours []rows.Row
	for _, row := range r {
		if row.Mode == rows.ModeXmsched {
			ours = append(ours, row)
		}
	}
	if len(ours) != 2 || ours[0].Params["level"] != 1.0 || ours[1].Params["level"] != 2.0 {
		t.Fatalf("%d rows under xmsched, want Level 1 and 2: %+v", len(ours), ours)
	}
	if one, two := ours[0].Metrics["p50_us"], ours[1].Metrics["p50_us"]; two >= one {
		t.Errorf("half of the requests take %v us at Level 2, %v at Level 1", two, one)
	}
	if n := ours[1].Metrics["gated_count"]; n < 20 {
		t.Errorf("%v of 60 requests found the background gated", n)
	}
	if ratio := ours[1].Metrics["gated_p50_us"] / byMode(t, r, rows.ModeAlone).Metrics["p50_us"]; ratio > 2 {
		t.Errorf("half of the gated requests take %v times what they take alone", ratio)
	}
	left(t)
}

// Waits in front of kernels of 500 us are a small part of the run time.
func TestLaunchGated(t *testing.T) {
	r := measured(t, xbench(t, "launch", "--sim", "--json", "--modes", "gated", "--threads", "1", "--kernel-us", "500", "--rounds", "2", "--reps", "2", "--rep-ms", "40"))
	if len(r) != 1 || r[0].Mode != rows.ModeGated || r[0].Params["level"] != 2.0 {
		t.Fatalf("%+v", r)
	}
	if m := r[0].Metrics; m["native_ns"] < 450_000 || m["overhead_pct"] > 50 {
		t.Errorf("%v", m)
	}
	left(t)
}
