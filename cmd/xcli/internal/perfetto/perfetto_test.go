package perfetto

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	xserverv1 "xmsched/xserver/api/v1"
)

const gpu0, gpu1 = "GPU-0a0b0c0d-0000-0000-0000-000000000000", "GPU-1a1b1c1d-0000-0000-0000-000000000000"

func at(us uint64, task uint64, device, state, reason string) *xserverv1.TraceEvent {
	return &xserverv1.TraceEvent{
		AtNs: 5e9 + us*1e3, Task: task, Device: device, State: state, Reason: reason,
		Ready: state != "idle" && state != "gone",
	}
}

func policy(us uint64, name string) *xserverv1.TraceEvent {
	return &xserverv1.TraceEvent{AtNs: 5e9 + us*1e3, Policy: name}
}

func sample() Trace {
	return Trace{
		Events: []*xserverv1.TraceEvent{
			policy(0, "HPF"),
			at(0, 1, gpu0, "armed", "runs in short slices"),
			at(0, 2, gpu0, "idle", ""),
			at(0, 1, gpu1, "idle", ""),
			at(100, 1, gpu0, "gated", "another goes first"),
			at(100, 2, gpu0, "running", ""),
			at(1500, 1, gpu0, "held", "long request"),
			at(4000, 2, gpu0, "idle", ""),
			at(4000, 1, gpu0, "switching", "waits for the end of a suspension"),
			at(4400, 1, gpu0, "running", ""),
			policy(5000, "RR"),
			at(5000, 3, gpu1, "newcomer", ""),
			at(5200, 3, gpu1, "running", ""),
			at(6000, 3, gpu1, "idle", ""),
			at(6000, 3, gpu1, "gone", ""),
		},
		EndNS: 5e9 + 7e6, Lost: 2,
		Tasks: []*xserverv1.Task{
			{Id: 1, Name: "train", Devices: []*xserverv1.Device{{Uuid: gpu0, Name: "NVIDIA H200"}}},
			{Id: 2, Name: "say \"hi\""},
		},
	}
}

func TestGolden(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, sample()); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/sample.json"
	if os.Getenv("XMSCHED_TEST_REWRITE") != "" {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestSpansNest holds what both viewers need: it is JSON, spans of a track lie within
// each other or apart, and time goes on.
func TestSpansNest(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, sample()); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Events []event `json:"traceEvents"`
	}
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	type line struct {
		pid int
		tid uint64
	}
	open := map[line][]float64{} // ends
	last := 0.0
	for _, e := range file.Events {
		if e.Phase != "X" {
			continue
		}
		if e.TS < last || e.Dur < 0 {
			t.Errorf("%+v comes after %v", e, last)
		}
		last = e.TS
		l := line{e.PID, e.TID}
		for len(open[l]) > 0 && open[l][len(open[l])-1] <= e.TS {
			open[l] = open[l][:len(open[l])-1]
		}
		if n := len(open[l]); n > 0 && e.TS+e.Dur > open[l][n-1] {
			t.Errorf("%+v ends after what holds it, at %v", e, open[l][n-1])
		}
		open[l] = append(open[l], e.TS+e.Dur)
	}
}

func TestNothingTraced(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, Trace{}); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("%v, %s", err, out.String())
	}
}
