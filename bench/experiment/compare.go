package experiment

import (
	"fmt"

	"xmsched/bench/rows"
	"xmsched/memory"
)

// situation is what two rows of different policies must have in common to be compared.
func situation(r rows.Row) string {
	return fmt.Sprint(r.Params["workload"], r.Params["footprint_pct"], r.Params["slice_ms"], r.Params["tasks"], r.Params["background_gib"])
}

// compareOversub says of each row of ours what it makes of what the others made in the
// same situation of the same run: over_<policy>_ratio, and how much less moved for the
// same work: moved_under_<policy>_ratio.
func compareOversub(measured []rows.Row) {
	for _, r := range measured {
		if r.Mode != rows.ModeXmsched {
			continue
		}
		for _, other := range measured {
			policy, _ := other.Params["policy"].(string)
			if policy == "" || policy == r.Params["policy"] || situation(other) != situation(r) {
				continue
			}
			compareRows(r.Metrics, other.Metrics, policy)
		}
	}
}

func compareRows(ours, others rows.Metrics, policy string) {
	if theirs := others["of_in_memory_pct"]; theirs > 0 {
		ours["over_"+policy+"_ratio"] = ours["of_in_memory_pct"] / theirs
	}
	moved, ok := others["moved_gib"]
	if !ok || policy == PolicyPaging {
		return
	}
	// For the same work: what moved for each percent of a device in memory.
	here := ours["moved_gib"] / max(ours["of_in_memory_pct"]*ours["span_s"], 1e-9)
	there := moved / max(others["of_in_memory_pct"]*others["span_s"], 1e-9)
	if least := 1e-3 / float64(memory.GiB); here > least {
		ours["moved_under_"+policy+"_ratio"] = there / here
	}
}
