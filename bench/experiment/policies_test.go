package experiment

import (
	"math"
	"strings"
	"testing"
	"time"

	"xmsched/bench/workloads"
)

func TestTargetsAndKernels(t *testing.T) {
	got, err := parseTarget("50:30:20")
	if err != nil || len(got) != 3 || got[2] != 20 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "100", "75:26", "75:25:0", "a:b", "75;25", "-10:110", "NaN:50"} {
		if _, err := parseTarget(bad); err == nil {
			t.Errorf("target %q was read", bad)
		}
	}
	us, err := parseKernels("50+5000")
	if err != nil || len(us) != 2 || us[1] != 5000 {
		t.Errorf("%v, %v", us, err)
	}
	for _, bad := range []string{"", "0", "50+", "50,5000", "NaN"} {
		if _, err := parseKernels(bad); err == nil {
			t.Errorf("kernels %q were read", bad)
		}
	}
}

func TestShareMetrics(t *testing.T) {
	// Gated the programs make 4 % less than without us.
	all := []*shared{{target: 50, alonePS: 100, ownPS: 96}, {target: 30, alonePS: 10, ownPS: 9.6}, {target: 20, alonePS: 1, ownPS: 0.96}}
	m, err := shareMetrics(all, []float64{48, 2.88, 0.096}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The third has 11.1 % instead of 20: 44 % too little.
	for name, want := range map[string]float64{"ratio": 5.0 / 3, "total_pct": 86.4, "share1_pct": 500.0 / 9, "error_pct": 400.0 / 9} {
		if math.Abs(m[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	if _, err := shareMetrics(all, []float64{0.5, 0, 0.1}, 1); err == nil {
		t.Error("a ratio to nothing")
	}
}

func TestProgressOverExactlyTheSpan(t *testing.T) {
	p := &shared{load: &background{}}
	done := workloads.Event{Count: 4, EndedNS: []int64{5, 10, 1e9, 3e9}}
	if got := progress(p, done, 10, 2e9+10); math.Abs(got-1) > 1e-9 {
		t.Errorf("%v kernels a second, want 2 in 2 s", got)
	}
}

func TestLaxityMetrics(t *testing.T) {
	alone := 0.0
	if _, err := laxityMetrics([]float64{10_000, 11_000}, nil, &alone); err != nil || alone != 11_000 {
		t.Errorf("alone %v, %v", alone, err)
	}
	m, err := laxityMetrics([]float64{22_000, 41_000}, []float64{2_900_000, 3_100_000}, &alone)
	if err != nil || m["frame_late_count"] != 1 || m["missed_count"] != 1 || m["jobs_count"] != 2 || m["job_max_ms"] != 3100 {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := laxityMetrics(nil, nil, &alone); err == nil {
		t.Error("frames of none")
	}
}

func TestPoliciesValidate(t *testing.T) {
	share := Share{Targets: []string{"75:25"}, Kernels: []string{"50"}, Span: time.Second}
	if err := share.Validate(); err != nil {
		t.Error(err)
	}
	share.Span = 0
	if err := share.Validate(); err == nil || !strings.Contains(err.Error(), "span is 0") {
		t.Errorf("error %v", err)
	}
	lax := Laxity{FrameUS: 10_000, JobUS: 1_950_000, Jobs: 1, Policies: []string{"LAX"}}
	if err := lax.Validate(); err != nil {
		t.Error(err)
	}
	lax.FrameUS = 50_000
	if err := lax.Validate(); err == nil || !strings.Contains(err.Error(), "frame-us is 50000") {
		t.Errorf("error %v", err)
	}
}

func TestXidsAreFoundByTheirForm(t *testing.T) {
	for line, want := range map[string]bool{
		"NVRM: Xid (PCI:0000:04:00): 31, pid=1, MMU Fault": true,
		"NVRM: loading NVIDIA UNIX Open Kernel Module":     false,
		"usb 1-1: Xid of something else":                   false,
	} {
		if isXid(line) != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

func TestWithin(t *testing.T) {
	if n := within([]int64{1, 5, 9, 10}, 5, 10); n != 2 {
		t.Errorf("%d of 2", n)
	}
}
