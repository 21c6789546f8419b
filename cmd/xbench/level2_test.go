package main

import (
	"errors"
	"testing"

	"xmsched/bench/rows"
)

// At Level 1 what is queued runs on, up to the bound; at Level 2 the program
// stops at its next command. The kernels are longer than the observer usually
// waits for a core of a busy machine.
func TestPreempt(t *testing.T) {
	quietly(t, func() error {
		// It gives up, and says why, when it saw too little.
		out, err := try(t, "preempt", "--sim", "--json", "--level", "1,2", "--kernel-us", "10000", "--closings", "8")
		if err != nil {
			return err
		}
		r := measured(t, out)
		if len(r) != 2 {
			t.Fatalf("%d rows, want Level 1 and 2", len(r))
		}
		var wrong []error
		for i, row := range r {
			if row.Row != "preempt" || row.Params["level"] != float64(i+1) {
				t.Fatalf("row %+v", row)
			}
			us := row.Metrics["kernel_p50_us"]
			wrong = append(wrong, unless(row.N >= 3, "level %d: %d of 8 closings were seen", i+1, row.N),
				unless(us >= 5000 && us <= 50_000, "level %d: kernels of 10000 us end every %v us", i+1, us))
		}
		queued, one := r[0].Metrics, r[1].Metrics
		wrong = append(wrong, unless(queued["stop_p50_us"] >= 2*queued["kernel_p50_us"],
			"level 1 stopped after %v us, though kernels of %v us were queued", queued["stop_p50_us"], queued["kernel_p50_us"]))
		// Half a kernel is expected; two are wide enough for a machine with other work.
		wrong = append(wrong, unless(one["stop_p50_us"] <= 2*one["kernel_p50_us"],
			"level 2 stopped after %v us, kernels are of %v us", one["stop_p50_us"], one["kernel_p50_us"]))
		t.Logf("the observer paused for up to %v and %v us", queued["observer_gap_max_us"], one["observer_gap_max_us"])
		return errors.Join(wrong...)
	})
	left(t)
}

// With the default bound, single requests wait for one kernel of the background
// at Level 2, and for all that it has queued at Level 1.
func TestP99Levels(t *testing.T) {
	quietly(t, func() error {
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
		one, two, gated := ours[0].Metrics["p50_us"], ours[1].Metrics["p50_us"], ours[1].Metrics["gated_count"]
		return errors.Join(
			unless(two < one, "half of the requests take %v us at Level 2, %v at Level 1", two, one),
			unless(gated >= 20, "%v of 60 requests found the background gated", gated),
			gatedAsAlone(t, r, ours[1]))
	})
	left(t)
}

// Waits in front of kernels of 500 us are a small part of the run time.
func TestLaunchGated(t *testing.T) {
	quietly(t, func() error {
		r := measured(t, xbench(t, "launch", "--sim", "--json", "--modes", "gated", "--threads", "1", "--kernel-us", "500", "--rounds", "2", "--reps", "2", "--rep-ms", "40"))
		if len(r) != 1 || r[0].Mode != rows.ModeGated || r[0].Params["level"] != 2.0 {
			t.Fatalf("%+v", r)
		}
		m := r[0].Metrics
		return unless(m["native_ns"] >= 450_000 && m["overhead_pct"] <= 50, "%v", m)
	})
	left(t)
}
