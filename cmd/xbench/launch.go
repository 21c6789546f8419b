package main

import (
	"context"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

func launchCommand() *cobra.Command {
	var c common
	var e experiment.Launch
	cmd := &cobra.Command{
		Use:   "launch",
		Short: "What a kernel launch costs without us and preloaded",
		Long: `Measures the row launch with a foreign C program: processes without us and
preloaded alternate, and the overhead is the median of the pairs' differences.
Mode free has no competitor; in the modes bounded (Level 1) and gated (Level 2: a
wait for the gate in front of every kernel) one of a higher class is registered
that never becomes ready. With --kernel-us the launches fill the queue, and the
overhead is that of the run time. Mode gated wants kernels of at least 100 us.`,
		Example: "  xbench launch\n  xbench launch --modes bounded,gated --threads 1 --kernel-us 100",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				measured, err := lab.RunLaunch(ctx, e, p.report)
				p.done()
				if err != nil {
					return err
				}
				return c.emit(cmd.OutOrStdout(), measured, []string{"threads", "kernel_us"},
					[]string{"native_ns", "preloaded_ns", "overhead_ns", "overhead_pct", "native_spread_ns"})
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&e.Modes, "modes", []string{rows.ModeFree, rows.ModeBounded}, "modes to measure")
	f.IntSliceVar(&e.Threads, "threads", []int{1, 2, 8}, "launching threads, each with its own stream")
	f.Float64Var(&e.KernelUS, "kernel-us", 0, "length of the kernel, in us; 0: an empty one")
	f.IntVar(&e.Rounds, "rounds", 7, "pairs of processes")
	f.IntVar(&e.Reps, "reps", 5, "repetitions of each thread count in a process")
	f.IntVar(&e.RepMS, "rep-ms", 100, "length of a repetition, in ms")
	f.IntVar(&e.SyncEvery, "sync-every", 0, "wait for the stream after so many launches; 0: only at the end")
	return cmd
}
