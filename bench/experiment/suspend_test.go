package experiment

import (
	"slices"
	"strings"
	"testing"

	"xmsched/bench/workloads"
)

// Of three requests the first finds the background stopped 300 us after it began and
// going on 400 us after its resumption was asked for; the second finds it stopped
// before; at the end of the third it runs.
func TestStopsArePairedWithRequests(t *testing.T) {
	const ms = 1_000_000
	w := &workloads.Watched{
		Still: []workloads.Span{{FromNS: 10*ms + 300_000, ToNS: 19 * ms}, {FromNS: 29 * ms, ToNS: 39 * ms}, {FromNS: 50 * ms, ToNS: 51 * ms}},
		Asked: []workloads.Asked{
			{AtNS: 10 * ms, Hold: true}, {AtNS: 10*ms + 200_000, Hold: true, Done: true, TookUS: 180},
			{AtNS: 19*ms - 400_000}, {AtNS: 19 * ms, Done: true, TookUS: 350},
		},
		GapUS: 7,
	}
	got := stops([]int64{10 * ms, 30 * ms, 50 * ms}, []int64{18 * ms, 38 * ms, 58 * ms}, w)
	if !slices.Equal(got.StopUS, []float64{300, 0}) || !slices.Equal(got.ResumeUS, []float64{400}) || got.Running != 1 {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(got.HoldUS, []float64{180}) || !slices.Equal(got.ReleaseUS, []float64{350}) || got.GapUS != 7 {
		t.Errorf("%+v", got)
	}
	m, n, err := got.metrics(SceneBusy)
	if err != nil || n != 2 || m["stop_max_us"] != 300 || m["resume_p99_us"] != 400 || m["running_count"] != 1 || m["hold_call_p50_us"] != 180 {
		t.Errorf("%v, %d, %v", m, n, err)
	}
	if _, _, err := (seen{Running: 5}).metrics(SceneIdle); err == nil || !strings.Contains(err.Error(), "it ran at the end of 5") {
		t.Errorf("error %v", err)
	}
}

// Of short requests only the first instruction is told: what is asked for meanwhile
// belongs to other requests.
func TestArmedTellsFirstInstructions(t *testing.T) {
	m, n, err := seen{FirstUS: []float64{190, 180}, StopUS: []float64{1}}.metrics(SceneArmed)
	if err != nil || n != 2 || m["first_p99_us"] != 190 || len(m) != 3 {
		t.Errorf("%v, %d, %v", m, n, err)
	}
}

func TestAround(t *testing.T) {
	spans := []workloads.Span{{FromNS: 10, ToNS: 20}, {FromNS: 30, ToNS: 40}}
	for at, want := range map[int64]int64{10: 10, 15: 10, 20: 10, 30: 30, 40: 30, 5: 0, 25: 0, 41: 0} {
		got, ok := around(spans, at)
		if ok != (want != 0) || got.FromNS != want {
			t.Errorf("%d is in %v, %v", at, got, ok)
		}
	}
	if _, ok := around(nil, 1); ok {
		t.Error("found in nothing")
	}
}

func TestSuspendValidate(t *testing.T) {
	good := Suspend{KernelsUS: []float64{10}, Scenes: Scenes(), Requests: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Suspend){
		"kernel-us is 0":      func(s *Suspend) { s.KernelsUS = []float64{0} },
		"kernel lengths is 0": func(s *Suspend) { s.KernelsUS = nil },
		`scene "trap"`:        func(s *Suspend) { s.Scenes = []string{"trap"} },
		"scenes is 0":         func(s *Suspend) { s.Scenes = nil },
		"requests is 0":       func(s *Suspend) { s.Requests = 0 },
		"pinning is":          func(s *Suspend) { s.Pinning = 1 << 40 },
	} {
		s := good
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
