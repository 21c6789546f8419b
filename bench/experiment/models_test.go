package experiment

import (
	"math"
	"strings"
	"testing"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
)

func goodModels() Models {
	return Models{
		Interfaces: []string{InterfaceGo}, Seconds: 1, Rounds: 1, Threshold: 2, Layers: 32, Kernels: 8, KernelUS: 16,
		GapUS: 5000, TorchLayers: 32, TorchGapMS: 20,
	}
}

func TestModelsValidate(t *testing.T) {
	if err := goodModels().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Models){
		"no interface": func(m *Models) { m.Interfaces = nil },
		"none of go":   func(m *Models) { m.Interfaces = []string{"fortran"} },
		"threshold":    func(m *Models) { m.Threshold = 0 },
		"kernel-us":    func(m *Models) { m.KernelUS = math.NaN() },
		"torch-layers": func(m *Models) { m.TorchLayers = 1000 },
	} {
		m := goodModels()
		change(&m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %q", err, want)
		}
	}
}

func TestModelRows(t *testing.T) {
	lab := &Lab{Facts: workloads.Facts{Device: "Test GPU", UUID: "GPU-0", Driver: "x"}, commit: "c"}
	end := modelsEnd{Models: &workloads.ModelsResult{Phases: []workloads.ModelsPhase{
		{Mode: "alone", LatencyUS: []float64{100, 100, 100}, SpanS: 2},
		{Mode: "other", Tokens: 100, SpanS: 2},
		{Mode: "native", LatencyUS: []float64{200, 200, 200}, Tokens: 80, SpanS: 2},
		{Mode: "xmsched", LatencyUS: []float64{105, 105, 105}, Tokens: 60, SpanS: 2},
	}}}
	got, err := lab.modelRows(goodModels(), InterfaceC, end)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		mode         string
		ratio, other float64
	}{{rows.ModeAlone, 1, 0}, {rows.ModeNative, 2, 0.8}, {rows.ModeXmsched, 1.05, 0.6}} {
		r := got[i]
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		if r.Mode != want.mode || r.Metrics["p99_ratio"] != want.ratio || r.Metrics["other_ratio"] != want.other || r.Metrics["identical"] != 1 {
			t.Errorf("row %d: %s %v, want %+v", i, r.Mode, r.Metrics, want)
		}
	}
	end.Differing = 1
	if got, err = lab.modelRows(goodModels(), InterfacePython, end); err != nil || got[0].Metrics["identical"] != 0 {
		t.Errorf("differing tokens: %v, %v", got, err)
	}
	end.Models.Phases = end.Models.Phases[1:]
	if _, err := lab.modelRows(goodModels(), InterfaceGo, end); err == nil {
		t.Error("no error without the phase alone")
	}
}
