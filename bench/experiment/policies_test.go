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
	all := []*shared{
		{target: 50, alonePS: 100, ownPS: 96, fill: 1, kernelUS: 10}, {target: 30, alonePS: 10, ownPS: 9.6, fill: 0.98, kernelUS: 100},
		{target: 20, alonePS: 1, ownPS: 0.96, fill: 0.99, kernelUS: 1000},
	}
	m, err := shareMetrics(all, []float64{48, 2.88, 0.096}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The third has 11.1 % instead of 20: 44 % too little.
	for name, want := range map[string]float64{"ratio": 5.0 / 3, "total_pct": 86.4, "share1_pct": 500.0 / 9, "error_pct": 400.0 / 9, "fill_pct": 98} {
		if math.Abs(m[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	if _, err := shareMetrics(all, []float64{0.5, 0, 0.1}, 1); err == nil {
		t.Error("a ratio to nothing")
	}
	if got := spanError(all, time.Second); math.Abs(got-0.5) > 1e-9 { // a kernel of the third's 200
		t.Errorf("expected error %v %%", got)
	}
	for least, want := range map[time.Duration]time.Duration{time.Second: 2 * time.Second, 5 * time.Second: 5 * time.Second} { // 400 of the third's
		if got := spanOf(all, least); got != want {
			t.Errorf("measured for %v where %v was asked for, want %v", got, least, want)
		}
	}
}

// Rates are those between two ends of the program that has the fewest: a kernel that
// the span cuts would make its rate inexact.
func TestRatesBetweenEndsOfTheRarest(t *testing.T) {
	ms := func(at ...int64) (ns []int64) {
		for _, v := range at {
			ns = append(ns, v*1e6)
		}
		return ns
	}
	often, err := endsOf(workloads.Event{Count: 32, EndedNS: ms(8, 1, 2, 3, 4, 5, 6, 7)}, 4, 1e6, 9e6)
	if err != nil {
		t.Fatal(err)
	}
	rare, err := endsOf(workloads.Event{Count: 4, EndedNS: ms(0, 3, 5, 7)}, 1, 1e6, 9e6)
	if err != nil {
		t.Fatal(err)
	}
	if got := ratesOf([]ends{often, rare}); math.Abs(got[0]-4000) > 1e-6 || math.Abs(got[1]-500) > 1e-6 {
		t.Errorf("%v kernels a second, want 16 and 2 in 4 ms", got)
	}
	if got := ratesOf([]ends{often, {}}); got[0] != 0 || got[1] != 0 {
		t.Errorf("%v kernels a second beside a program that ended none", got)
	}
	if _, err := endsOf(workloads.Event{Count: 33, EndedNS: ms(1, 2)}, 4, 0, 1e9); err == nil {
		t.Error("ends that were not kept were taken for none")
	}
}

// TestRatesOverWholeRounds: two programs have turns of 90 and 10 ms in a span that holds
// one turn of the smaller more than of the other.
func TestRatesOverWholeRounds(t *testing.T) {
	var often, rare ends
	often.kernels, rare.kernels = 1, 1
	for at := int64(1); at <= 1010; at++ {
		if at%100 >= 1 && at%100 <= 10 {
			rare.atNS = append(rare.atNS, at*1e6)
		} else {
			often.atNS = append(often.atNS, at*1e6)
		}
	}
	if got := ratesOf([]ends{often, rare}); math.Abs(got[0]/got[1]-9) > 0.01 {
		t.Errorf("%v kernels a second, want 9 to 1", got)
	}
	single := ends{[]int64{0, 1e8, 2e8, 3e8}, 1} // a kernel a turn
	if from, to := single.rounds(); from != 0 || to != 3e8 {
		t.Errorf("rounds from %d to %d", from, to)
	}
}

func TestFilled(t *testing.T) {
	for _, c := range []struct{ perS, kernelUS, periodUS, want float64 }{
		{19_000, 50, 52, 0.988}, // the device has a gap between two kernels
		{9_000, 50, 52, 0.468},  // the program does not keep up
		{100_000, 1, 10, 0.6},   // nor does the driver
	} {
		if got := filled(c.perS, c.kernelUS, c.periodUS); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestShareLoad(t *testing.T) {
	for us, want := range map[float64]Load{
		1: {Programs: 1, KernelUS: 1, InFlight: 256, Group: 16}, 50: {Programs: 1, KernelUS: 50, InFlight: 256, Group: 8},
		5000: {Programs: 1, KernelUS: 5000, InFlight: 20, Group: 1}, 1e6: {Programs: 1, KernelUS: 1e6, InFlight: 4, Group: 1},
	} {
		if got := shareLoad(us); got != want || got.Validate() != nil {
			t.Errorf("kernels of %v us: %+v, %v", us, got, got.Validate())
		}
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
