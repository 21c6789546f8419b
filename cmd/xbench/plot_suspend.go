package main

import (
	"path/filepath"

	"xmsched/bench/experiment"
	"xmsched/bench/plots"
	"xmsched/bench/rows"
)

// suspendLines are what the plot of the row preempt at Level 3 shows.
var suspendLines = []struct{ scene, metric, name string }{
	{experiment.SceneNative, "first_p99_us", "first instruction, sharing without us"},
	{experiment.SceneArmed, "first_p99_us", "first instruction, armed"},
	{experiment.SceneBusy, "stop_p99_us", "background stands still, busy GPU"},
	{experiment.SceneIdle, "stop_p99_us", "background stands still, idle GPU"},
}

// plotSuspend draws the times over the lengths of the background's kernels; it
// leaves out what was not measured.
func plotSuspend(lab *experiment.Lab, measured []rows.Row, path string) error {
	if path == "" {
		return nil
	}
	var lines []plots.Line
	for _, l := range suspendLines {
		line := plots.Line{Name: l.name}
		for _, r := range measured {
			us, _ := r.Params["kernel_us"].(float64)
			if v := r.Metrics[l.metric]; r.Params["scene"] == l.scene && us > 0 && v > 0 {
				line.X, line.Y = append(line.X, us), append(line.Y, v)
			}
		}
		if len(line.X) > 0 {
			lines = append(lines, line)
		}
	}
	caption := plots.Caption{Title: "P99 from a request, over the background's kernels", Device: lab.Facts.Device, Simulated: lab.Facts.Simulated}
	return plots.Lines(filepath.Clean(path), caption, "length of the background's kernels (us)", "us", lines...)
}
