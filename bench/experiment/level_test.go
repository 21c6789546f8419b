package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"xmsched/bench/rows"
	xserverv1 "xmsched/xserver/api/v1"
)

func TestParseLevels(t *testing.T) {
	got, err := ParseLevels([]string{"auto", " 2", "1"})
	if err != nil || !slices.Equal(got, []Level{LevelAuto, 2, 1}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]string{{"3"}, {"0"}, {""}, {"1", "1"}, {"high"}} {
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
		{mode: rows.ModeAlone}:             {latency: []float64{110, 100, 100}, gated: []float64{100, 100}},
		{mode: rows.ModeNative}:            {latency: []float64{300, 330, 300}, perS: []float64{50, 70}},
		{mode: rows.ModeXmsched, level: 2}: {latency: []float64{220, 102, 101}, gated: []float64{102, 101}, perS: []float64{10}, level: 2},
	}
	got, err := l.p99Rows(p, all)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]float64{
		{"p99_us": 110, "p99_ratio": 1},
		{"p99_us": 330, "p99_ratio": 3, "background_per_s": 60},
		{"p99_us": 220, "p99_ratio": 2, "gated_p99_us": 102, "gated_p99_ratio": 1.02, "gated_count": 2},
	} {
		for name, v := range want {
			if got[i].Row.Metrics[name] != v {
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
