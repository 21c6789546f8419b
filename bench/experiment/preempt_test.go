package experiment

import (
	"math"
	"strings"
	"testing"
	"time"

	"xmsched/bench/workloads"
)

func TestStopMetrics(t *testing.T) {
	s := &workloads.Stops{
		StopUS: []float64{0, 40, 90, 110}, HoldUS: []float64{400, 400, 400, 250}, ResumeUS: []float64{120, 130, 140, 150},
		IntervalUS: []float64{99, 101, 100, 300, 98}, Idle: 2, GapUS: 7,
	}
	m, err := stopMetrics(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"stop_p50_us": 40, "stop_p99_us": 110, "stop_max_us": 110, "stop_p99_over_us": 10,
		"resume_p50_us": 30, "resume_p99_us": 50, "kernel_p50_us": 100, "unstopped_count": 1, "idle_count": 2, "observer_gap_max_us": 7,
	} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	for name, bad := range map[string]*workloads.Stops{
		"nothing":      {Idle: 7},
		"no intervals": {StopUS: []float64{1}, HoldUS: []float64{2}, ResumeUS: []float64{1}},
	} {
		if _, err := stopMetrics(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Before the gate opens again, all that may run on must have had its time.
func TestPulsesLetEverythingStop(t *testing.T) {
	for _, us := range []float64{10, 4700, 100_000} {
		kernel := time.Duration(us * 1e3)
		for level, kernels := range map[Level]time.Duration{LevelAuto: 24, 1: 24, 2: 1} {
			p := Preempt{Closings: 5}.pulses(level, us)
			if p.hold < (kernels+2)*kernel || p.rest < 3*kernel || p.count != 5 {
				t.Errorf("level %s, kernels of %s: %+v", level, kernel, p)
			}
		}
	}
	wide := Preempt{Closings: 1, Threshold: 100, Batch: 50}.pulses(1, 1000)
	if wide.hold < 152*time.Millisecond {
		t.Errorf("a bound of 100 and 50 kernels of 1 ms: closed for %s", wide.hold)
	}
}

func TestPreemptValidate(t *testing.T) {
	good := Preempt{Levels: []Level{2}, KernelsUS: []float64{10}, Closings: 1, InFlight: 64}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Preempt){
		"no level":                      func(p *Preempt) { p.Levels = nil },
		"kernel lengths is 0":           func(p *Preempt) { p.KernelsUS = nil },
		"kernel-us is NaN":              func(p *Preempt) { p.KernelsUS = []float64{10, math.NaN()} },
		"closings is 0, want 1 to 1000": func(p *Preempt) { p.Closings = 0 },
		"in-flight is 0":                func(p *Preempt) { p.InFlight = 0 },
		"batch is 257, want 0 to 256":   func(p *Preempt) { p.Batch = 257 },
	} {
		p := good
		spoil(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
