package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/plots"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

func p99Command() *cobra.Command {
	var c common
	var plot string
	var e experiment.P99
	var levels []string
	cmd := &cobra.Command{
		Use:   "p99",
		Short: "Latency of requests alone, beside a load without us, and under xmsched",
		Long: `Measures the row p99: requests of --request-us, --gap-us apart, beside --backgrounds
programs that each keep --in-flight kernels of --background-us queued for ever.
The modes alternate in rounds; under xmsched each --level is measured. Mode mps is
NVIDIA's MPS with the requests at high priority; where it cannot be started, it is
left out and said so.

p99_over           P99 beyond that alone
background_*       kernels per second of all backgrounds, as they are, and as a ratio to
                   the backgrounds alone and to mode native; *_idle_ratio while the
                   requests' program is there and idle, for --idle
background_lost    what they lost for each request beyond the time that it takes alone

Backgrounds whose queue is longer than 2 s (--background-us 5000000 --in-flight 1)
are killed at the end, and their progress is not told.

With --burst, gated_p99_us is that of the requests that had the GPU for
themselves because the background was stopped: those that began after its last
kernel of the burst had ended, and never a burst's first. gated_p99_ratio
compares them with all but the first of each burst alone.`,
		Example: "  xbench p99 --request-us 450 --count 1000 --background-us 4700\n  xbench p99 --request-us 6000 --count 500 --backgrounds 4 --json\n  xbench p99 --level 3 --modes alone,native,mps,xmsched --rounds 2\n  xbench p99 --burst 400 --gap-us 50 --pause-us 200000 --count 2400 --level 1,2",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if e.Levels, err = experiment.ParseLevels(levels); err != nil {
				return cli.Usagef("%v", err)
			}
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				results, err := lab.RunP99(ctx, e, p.report)
				p.done()
				if err != nil {
					return err
				}
				return emitP99(cmd, c, lab, e, results, plot)
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.Float64Var(&e.Requests.RequestUS, "request-us", 450, "length of a request on the idle GPU, in us")
	f.IntVar(&e.Requests.Kernels, "kernels", 1, "kernels that make a request")
	f.IntVar(&e.Requests.Count, "count", 1000, "requests of each mode, over all rounds")
	f.Float64Var(&e.Requests.GapUS, "gap-us", 3000, "time between two requests, in us")
	f.IntVar(&e.Requests.Burst, "burst", 0, "requests between two pauses; 0: no pauses")
	f.Float64Var(&e.Requests.PauseUS, "pause-us", 0, "length of a pause, in us")
	f.IntVar(&e.Requests.Priority, "priority", 10, "priority of the requests under xmsched, -255 to 255")
	f.IntVar(&e.Load.Programs, "backgrounds", 1, "background programs")
	f.Float64Var(&e.Load.KernelUS, "background-us", 4700, "length of a background kernel, in us")
	f.IntVar(&e.Load.InFlight, "in-flight", 16, "kernels that a background keeps queued")
	f.IntVar(&e.Load.Threshold, "threshold", 0, "under xmsched: background commands outstanding a queue; 0: the default")
	f.IntVar(&e.Load.Batch, "batch", 0, "under xmsched: background commands between completion writes; 0: the default")
	f.StringSliceVar(&levels, "level", []string{"auto"}, "preemption levels of the backgrounds under xmsched: auto, 1, 2, 3")
	f.DurationVar(&e.Load.Idle, "idle", time.Second, "how long the backgrounds are measured alone, and beside the idle program; 0: not at all")
	f.IntVar(&e.Rounds, "rounds", 3, "rounds; each measures every mode once")
	f.StringSliceVar(&e.Modes, "modes", []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched}, "modes to measure: alone, native, mps, xmsched")
	f.StringVar(&plot, "plot", "", "write the latencies to `PATH`.png and PATH.svg")
	return cmd
}

func emitP99(cmd *cobra.Command, c common, lab *experiment.Lab, e experiment.P99, results []experiment.P99Result, plot string) error {
	var measured []rows.Row
	var series []plots.Series
	for _, r := range results {
		measured = append(measured, r.Row)
		series = append(series, plots.Series{Name: r.Name, SampleUS: r.LatencyUS})
	}
	if plot != "" {
		caption := plots.Caption{Title: fmt.Sprintf("Latency of %v us requests beside %d background programs", e.Requests.RequestUS, e.Load.Programs), Device: lab.Facts.Device, Simulated: lab.Facts.Simulated}
		if err := plots.Latency(filepath.Clean(plot), caption, series...); err != nil {
			return err
		}
	}
	return c.emit(cmd.OutOrStdout(), measured, []string{"level", "request_us", "backgrounds", "background_us"},
		[]string{
			"p50_us", "p90_us", "p99_us", "p99_ratio", "p99_over_us", "gated_count", "gated_p50_us", "gated_p99_us", "gated_p99_ratio",
			"background_per_s", "background_alone_ratio", "background_native_ratio", "background_idle_ratio", "background_lost_us",
		})
}
