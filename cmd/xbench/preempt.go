package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/cmd/internal/cli"
)

func preemptCommand() *cobra.Command {
	var c common
	var e experiment.Preempt
	var levels []string
	cmd := &cobra.Command{
		Use:   "preempt",
		Short: "How long a background runs on after its gate closes",
		Long: `Measures the row preempt. A background program launches kernels of --kernel-us,
each of which itself writes into host memory at its end; a client of a higher
class, which uses no GPU, is ready and idle in turn, so the daemon closes and
opens the background's gate; an observer in a process of its own reads, without
pause and with one clock, the gate word and what the kernels write. The observer
is in nobody's way, and the background's queue holds kernels and nothing else.

stop_*         from the closing of the gate word until the last kernel ended
stop_p99_over  the same less one kernel
resume_*       from the opening until the next kernel began (its end, less the length)
kernel_p50     median time between the ends of two kernels while the gate is open
unstopped      closings after which kernels may still have been running when the
               gate opened again; idle: closings that found nothing running
observer_gap   longest time between two looks of the observer: no stop is known better

At Level 1 all that is queued runs on, up to the bound; at Level 2 one kernel.`,
		Example: "  xbench preempt --level 2 --kernel-us 10,100,1000,10000\n  xbench preempt --sim --level 1,2 --kernel-us 2000 --closings 50",
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
				measured, err := lab.RunPreempt(ctx, e, p.report)
				p.done()
				// What was measured before a failure is kept.
				return errors.Join(err, c.emit(cmd.OutOrStdout(), measured, []string{"level", "kernel_us"}, []string{
					"stop_p50_us", "stop_p99_us", "stop_p99_over_us", "resume_p50_us", "resume_p99_us", "kernel_p50_us", "unstopped_count", "idle_count", "observer_gap_max_us",
				}))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&levels, "level", []string{"1", "2"}, "preemption levels: auto, 1, 2")
	f.Float64SliceVar(&e.KernelsUS, "kernel-us", []float64{10, 100, 1000, 10_000}, "lengths of the kernels, in us")
	f.IntVar(&e.Closings, "closings", 100, "closings of the gate for each level and length")
	f.IntVar(&e.InFlight, "in-flight", 64, "kernels that the background keeps queued where nothing bounds it")
	f.IntVar(&e.Threshold, "threshold", 0, "background commands outstanding a queue; 0: the default")
	f.IntVar(&e.Batch, "batch", 0, "background commands between completion writes; 0: the default")
	return cmd
}
