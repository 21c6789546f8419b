package experiment

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"xmsched/bench/rows"
	xserverv1 "xmsched/xserver/api/v1"
)

func TestParseLevels(t *testing.T) {
	got, err := ParseLevels([]string{"auto", " 2", "1"})
	if err != nil || !slices.Equal(got, []Level{LevelAuto, 2, 1}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]string{{"4"}, {"0"}, {""}, {"1", "1"}, {"high"}} {
		if _, err := ParseLevels(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestLevelInForce(t *testing.T) {
	tasks := []*xserverv1.Task{{Processes: []*xserverv1.Process{
		{Pid: 7},
		{Pid: 8, Devices: []*xserverv1.ProcessDevice{{Uuid: "GPU-a", Level: 2}, {Uuid: "GPU-b", Level: 1, LevelWhy: "no waits"}}},
	}}}
	if d := deviceOf(tasks, 7, "GPU-a"); d != nil {
		t.Errorf("a process without devices has %v", d)
	}
	if level, err := judged(deviceOf(tasks, 8, "GPU-a"), LevelAuto); err != nil || level != 2 {
		t.Errorf("level %d, %v", level, err)
	}
	_, err := judged(deviceOf(tasks, 8, "GPU-b"), 2)
	var wrong *LevelError
	if !errors.As(err, &wrong) || wrong.Got != 1 || !strings.Contains(err.Error(), "no waits") {
		t.Errorf("error %v, want level 1 and why", err)
	}
}

func TestVariants(t *testing.T) {
	p := P99{Modes: []string{rows.ModeAlone, rows.ModeXmsched, rows.ModeNative}, Levels: []Level{1, LevelAuto}}
	var names []string
	for _, v := range p.variants() {
		names = append(names, v.String())
	}
	if want := []string{"alone", "xmsched level 1", "xmsched level auto", "native"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// The ratios are to the mode alone: all requests to all, the gated ones to all
// but the first of each burst.
func TestP99Rows(t *testing.T) {
	l := &Lab{commit: "c"}
	p := P99{Modes: []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched}, Levels: []Level{2}, Requests: Requests{Burst: 3}}
	all := map[variant]*collected{
		{mode: rows.ModeAlone}:             {latency: []float64{110, 100, 100}, gated: []float64{100, 100}, wall: time.Second},
		{mode: rows.ModeNative}:            {latency: []float64{300, 330, 300}, kernels: 120, wall: 2 * time.Second},
		{mode: rows.ModeXmsched, level: 2}: {latency: []float64{220, 102, 101}, gated: []float64{102, 101}, kernels: 99.7, wall: time.Second, idle: []float64{99}, level: 2},
	}
	got, err := l.p99Rows(p, all, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]float64{
		{"p99_us": 110, "p99_ratio": 1, "p99_over_us": 0},
		{"p99_us": 330, "p99_ratio": 3, "p99_over_us": 220, "background_per_s": 60, "background_alone_ratio": 0.6, "background_native_ratio": 1},
		{
			"p99_us": 220, "p99_ratio": 2, "gated_p99_us": 102, "gated_p99_ratio": 1.02, "gated_count": 2,
			// Of a second 3 ms were lost, in which three requests of 100 us ran.
			"background_lost_us": 900, "background_idle_ratio": 0.99,
		},
	} {
		for name, v := range want {
			if math.Abs(got[i].Row.Metrics[name]-v) > 1e-6 {
				t.Errorf("%s: %s is %v, want %v", got[i].Name, name, got[i].Row.Metrics[name], v)
			}
		}
	}
	if _, ok := got[1].Row.Metrics["gated_p99_us"]; ok {
		t.Error("requests without us are said to be gated")
	}
	if level := got[2].Row.Params["level"]; level != 2 {
		t.Errorf("level %v", level)
	}
	if _, ok := got[0].Row.Params["level"]; ok {
		t.Error("the mode alone has a level")
	}
}

// A mode that was left out has no row, and what is not known has no metric.
func TestP99RowsWithoutAMode(t *testing.T) {
	l := &Lab{commit: "c"}
	p := P99{Modes: []string{rows.ModeAlone, rows.ModeMPS, rows.ModeXmsched}, Levels: []Level{3}}
	all := map[variant]*collected{
		{mode: rows.ModeAlone}:             {latency: []float64{100}, wall: time.Second},
		{mode: rows.ModeXmsched, level: 3}: {latency: []float64{100}, wall: time.Second, level: 3},
	}
	got, err := l.p99Rows(p, all, 0)
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, name := range []string{"background_native_ratio", "background_alone_ratio", "background_lost_us", "background_idle_ratio"} {
		if v, ok := got[1].Row.Metrics[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func TestEndsPerS(t *testing.T) {
	var ended []int64
	for i := range int64(100) {
		ended = append(ended, 1e9+i*10e6)
	}
	for _, c := range []struct {
		from, to int64
		ok       bool
	}{{0, 3e9, true}, {1005e6, 1503e6, true}, {1005e6, 1030e6, false}, {3e9, 4e9, false}, {0, 0, false}} {
		got, ok := endsPerS(ended, c.from, c.to)
		if ok != c.ok || ok && math.Abs(got-100) > 1e-9 {
			t.Errorf("from %d to %d: %v, %v", c.from, c.to, got, ok)
		}
	}
	if _, ok := endsPerS(nil, 0, 1); ok {
		t.Error("a rate of nothing")
	}
}

func TestLongLoad(t *testing.T) {
	if (Load{KernelUS: 4700, InFlight: 16}).long() || !(Load{KernelUS: 5e6, InFlight: 1}).long() {
		t.Error("a load of 75 ms is waited for, one of 5 s is not")
	}
}
