package main

import (
	"errors"
	"strings"
	"testing"

	"xmsched/bench/rows"
)

// tried is try with what the command said on its standard error.
func tried(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := command(t, args...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("xbench %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), said.String())
	}
	return out.String(), said.String()
}

// Armed, a request does not wait for the kernel of the background, nor for its time
// slice; what MPS would do is left out where there is none, and said so.
func TestP99Level3(t *testing.T) {
	quietly(t, func() error {
		out, said := tried(t, "p99", "--sim", "--json", "--request-us", "1000", "--count", "40", "--gap-us", "5000", "--background-us", "20000",
			"--in-flight", "4", "--rounds", "1", "--level", "3", "--modes", "alone,native,mps,xmsched", "--idle", "300ms")
		if !strings.Contains(said, "mode mps is left out: the simulated GPU has no MPS") {
			t.Errorf("it said %q", said)
		}
		r := measured(t, out)
		if len(r) != 3 || r[2].Mode != rows.ModeXmsched || r[2].Params["level"] != 3.0 {
			t.Fatalf("%d rows: %+v", len(r), r)
		}
		for _, name := range []string{"p99_over_us", "background_alone_ratio", "background_native_ratio", "background_idle_ratio", "background_lost_us"} {
			if _, ok := r[2].Metrics[name]; !ok {
				t.Errorf("the row has no %s", name)
			}
		}
		native, ours := r[1].Metrics["p50_us"], r[2].Metrics["p50_us"]
		return unless(ours < native, "half of the requests take %v us at Level 3, %v without us", ours, native)
	})
	left(t)
}

// One kernel of seconds: it is killed in the midst of it.
func TestP99BesideALongKernel(t *testing.T) {
	r := measured(t, xbench(t, "p99", "--sim", "--json", "--request-us", "1000", "--count", "10", "--background-us", "10000000", "--in-flight", "1",
		"--rounds", "1", "--level", "3"))
	if len(r) != 3 {
		t.Fatalf("%d rows", len(r))
	}
	if _, ok := r[1].Metrics["background_per_s"]; ok {
		t.Error("progress of a kernel that was killed")
	}
	left(t)
}

func TestPreemptLevel3(t *testing.T) {
	quietly(t, func() error {
		out, err := try(t, "preempt", "--sim", "--json", "--level", "3", "--kernel-us", "1000000", "--requests", "8", "--pinning", "4MiB")
		if err != nil {
			return err
		}
		r := measured(t, out)
		byScene := map[string]rows.Row{}
		for _, row := range r {
			if row.Row != "preempt" || row.Params["pinning_bytes"] != float64(4<<20) {
				t.Fatalf("row %+v", row)
			}
			byScene[strings.TrimSuffix(row.Params["scene"].(string), "+pinning")] = row
		}
		var wrong []error
		for scene, metric := range map[string]string{
			"alone": "first_p50_us", "native": "first_p50_us", "armed": "first_p50_us", "busy": "stop_p50_us", "idle": "stop_p50_us",
			"direct": "stop_p50_us", "beside": "hold_call_p50_us",
		} {
			v, ok := byScene[scene].Metrics[metric]
			if !ok {
				t.Fatalf("scene %s has no %s: %+v", scene, metric, byScene[scene])
			}
			// Its kernels are of a second: whoever waits for one to end takes longer.
			wrong = append(wrong, unless(v < 200_000, "scene %s: %s is %v", scene, metric, v))
		}
		return errors.Join(wrong...)
	})
	left(t)
}

// Every word of every kind of work is what it must be, however often it was stopped.
func TestCycles(t *testing.T) {
	out, said := tried(t, "cycles", "--sim", "--json", "--cycles", "12", "--seed", "3")
	r := measured(t, out)
	if len(r) != 2 || r[0].Params["hold"] != "compute" || r[1].Params["hold"] != "all" {
		t.Fatalf("%+v", r)
	}
	for _, row := range r {
		m := row.Metrics
		if row.Mode != rows.ModeDirect || row.N != 12 || m["identical"] != 1 || m["wrong_count"] != 0 || m["compute_groups_count"] < 1 || m["channels_count"] < 8 {
			t.Errorf("%+v", row)
		}
		for _, kind := range []string{"in_place", "atomics", "cooperative", "graph", "copies", "managed"} {
			if m[kind+"_rounds_count"] < 1 {
				t.Errorf("no round of %s", kind)
			}
		}
		if _, read := m["xid_count"]; read != (row.Params["kernel_log"] == "read") {
			t.Errorf("the kernel's log is %v, the row has an Xid count: %v", row.Params["kernel_log"], read)
		}
	}
	if !strings.Contains(said, "work cluster is left out: the simulated GPU has no clusters") {
		t.Errorf("it said %q", said)
	}
	left(t)
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "7": 7, "2KiB": 2048, "512MiB": 512 << 20, "8GiB": 8 << 30} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for _, bad := range []string{"GiB", "-1", "8 GiB", "8GB", "99999999999GiB", "1.5GiB"} {
		if _, err := parseBytes(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
