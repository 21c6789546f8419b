package main

import (
	"testing"

	"xmsched/bench/rows"
)

func TestShare(t *testing.T) {
	quietly(t, func() error {
		out, err := try(t, "share", "--sim", "--json", "--target", "75:25", "--kernel-us", "2000", "--span", "2s", "--level", "2")
		if err != nil {
			return err
		}
		r := measured(t, out)
		if len(r) != 1 || r[0].Row != "share" || r[0].Params["target"] != "75:25" || r[0].Params["kernel_us"] != "2000" {
			t.Fatalf("%+v", r)
		}
		m := r[0].Metrics
		return unless(m["ratio"] > 2 && m["ratio"] < 4.5 && m["total_pct"] > 50, "%v", m)
	})
	left(t)
}

func TestLaxity(t *testing.T) {
	r := measured(t, xbench(t, "laxity", "--sim", "--json", "--jobs", "1", "--native=false", "--policy", "LAX,HPF", "--job-us", "600000", "--frame-us", "2000"))
	if len(r) != 3 || r[0].Mode != rows.ModeAlone || r[1].Params["policy"] != "LAX" || r[2].Params["policy"] != "HPF" {
		t.Fatalf("%+v", r)
	}
	if _, ok := r[0].Metrics["missed_count"]; ok {
		t.Error("frames alone have missed periods of the other")
	}
	for _, row := range r[1:] {
		if row.N != 75 || row.Metrics["jobs_count"] != 1 || row.Metrics["frame_p99_ratio"] <= 0 {
			t.Errorf("%+v", row)
		}
	}
	left(t)
}

func TestDecisionOfMany(t *testing.T) {
	r := measured(t, xbench(t, "decision", "--sim", "--json", "--clients", "12", "--edges", "20", "--idle", "1s", "--edges-per-s", "400"))
	m := r[0].Metrics
	if r[0].Params["clients"] != 12.0 || r[0].Params["edges_per_s"] != 400.0 {
		t.Errorf("%+v", r[0].Params)
	}
	// A machine with other work makes fewer, never more.
	if m["edges_per_s"] <= 0 || m["edges_per_s"] > 500 {
		t.Errorf("%v edges a second, asked for 400", m["edges_per_s"])
	}
	if _, ok := m["daemon_busy_pct"]; !ok {
		t.Error("the daemon's share of a core is not there")
	}
	left(t)
}
