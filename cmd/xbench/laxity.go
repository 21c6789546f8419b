package main

import (
	"context"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/cmd/internal/cli"
)

func laxityCommand() *cobra.Command {
	var c common
	var e experiment.Laxity
	var level string
	cmd := &cobra.Command{
		Use:   "laxity",
		Short: "25 frames a second beside long work every 3 seconds, under several policies",
		Long: `Measures the row laxity: a task with a frame every 40 ms and one with long work every
3 s, which together use 90 % of the GPU. Under LAX both say how long they can wait,
under HPF the frames have the higher priority, under FCFS nothing is said.

frame_*      from a frame's being due until it is done; ratio: to frames alone
frame_late   frames that were done after the next was due
missed       periods of the long work that were not done before the next began`,
		Example: "  xbench laxity --policy LAX,FCFS,HPF --jobs 4",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if e.Level, err = experiment.ParseLevel(level); err != nil {
				return cli.Usagef("%v", err)
			}
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				_, err := measure(ctx, cmd, &c, e, lab.RunLaxity, []string{"policy", "level"}, []string{
					"frame_p50_us", "frame_p99_us", "frame_p99_ratio", "frame_late_count", "job_max_ms", "missed_count", "jobs_count",
				})
				return err
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&e.Policies, "policy", []string{"LAX", "FCFS", "HPF"}, "policies to measure")
	f.BoolVar(&e.Native, "native", true, "measure sharing without us, too")
	f.Float64Var(&e.FrameUS, "frame-us", 10_000, "GPU time of a frame, in us")
	f.Float64Var(&e.JobUS, "job-us", 1_950_000, "GPU time of the long work, in us")
	f.IntVar(&e.Jobs, "jobs", 4, "periods of the long work")
	f.StringVar(&level, "level", "2", "preemption level of both: auto, 1, 2, 3")
	return cmd
}
