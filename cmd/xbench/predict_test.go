package main

import "testing"

// The scientific kernels run on the simulated device, are learnt from and foretold.
func TestPredict(t *testing.T) {
	got, stated := map[string]float64{}, false
	for _, r := range measured(t, xbench(t, "predict", "--sim", "--json", "--mib", "4", "--rounds", "4")) {
		if r.Row != "predict" || r.Params["workload"] != "science" || r.Metrics["launches"] < 6 || r.Metrics["eval_ns"] <= 0 {
			t.Errorf("row %+v", r)
		}
		if r.Mode == "stated" {
			if r.Metrics["false_negative_bytes_pct"] > 5 {
				t.Errorf("taught to the byte, %v %% of the bytes are missed", r.Metrics["false_negative_bytes_pct"])
			}
			stated = true
			continue
		}
		got[r.Mode] = r.Metrics["false_positive_pct"]
		if r.Mode == "allocation" && r.Metrics["false_negative_pct"] != 0 {
			t.Errorf("whole allocations missed %v %%", r.Metrics["false_negative_pct"])
		}
		if r.Mode == "template" && r.Metrics["known_launches_pct"] != 100 {
			t.Errorf("of the launches %v %% were of kernels that had been seen", r.Metrics["known_launches_pct"])
		}
	}
	if len(got) != 2 || !stated || got["template"] > got["allocation"] {
		t.Errorf("in vain: %v; a row taught to the byte: %t", got, stated)
	}
}
