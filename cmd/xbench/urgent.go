package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/cmd/internal/cli"
	"xmsched/memory"
)

func urgentCommand() *cobra.Command {
	var c common
	var e experiment.Urgent
	var backgrounds []string
	var level, budget, foreground, piece string
	cmd := &cobra.Command{
		Use:   "urgent",
		Short: "Requests that read much memory beside backgrounds with which they do not fit",
		Long: `Measures the row urgent: bursts of requests of a higher class (policy HPF), each of
which reads all memory of its program, beside endless programs that go over theirs;
together they have more than --budget. First each is run alone, without us.

P99 and its ratio are those of the requests, from their release by the clock;
background is what the others make together, each as a part of what it makes alone.
Rows are compared with that of --policy swap, if it is among them. They begin when no more
host memory is made ahead, a minute later at most; host is how much there is then.`,
		Example: "  xbench urgent --foreground 20GiB --background 110GiB,30GiB --policy predict,swap",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if e.Level, err = experiment.ParseLevel(level); err != nil {
				return cli.Usagef("%v", err)
			}
			read := func(simulated bool) (err error) {
				if e.Budget, err = budgetSize(budget, "auto", "128MiB", simulated); err != nil {
					return err
				}
				if e.Foreground, err = oneSize("foreground", foreground, "20GiB", "32MiB", simulated); err != nil {
					return err
				}
				list := sizeFlag{"background", backgrounds, []string{"110GiB", "30GiB"}, []string{"64MiB", "64MiB"}}
				if e.Backgrounds, err = list.read(simulated); err != nil {
					return err
				}
				if e.Piece, err = pieceSize(piece); err != nil {
					return err
				}
				if err := e.Validate(); err != nil {
					return cli.Usagef("%v", err)
				}
				return nil
			}
			if err := forBoth(read); err != nil {
				return err
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				if err := read(lab.Facts.Simulated); err != nil {
					return err
				}
				measured, err := measure(ctx, cmd, &c, e, lab.RunUrgent, []string{"policy", "foreground_gib", "background_gib"}, []string{
					"p50_us", "p99_us", "p99_ratio", "max_us", "background_pct", "moved_gib", "p99_over_swap_ratio", "background_over_swap_ratio", "wrong_count",
				})
				return errors.Join(err, harm(measured))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&budget, "budget", "", "what all programs together may have on the GPU, `SIZE` or auto (default auto; simulated 128MiB)")
	f.StringVar(&foreground, "foreground", "", "memory that each request reads, `SIZE` (default 20GiB; simulated 32MiB)")
	f.StringSliceVar(&backgrounds, "background", nil, "memory of each background, `SIZES` (default 110GiB,30GiB; simulated 64MiB,64MiB)")
	f.StringVar(&piece, "piece", "", "memory that a kernel goes over, `SIZE` (default 256MiB; simulated 8MiB)")
	f.DurationVar(&e.Period, "period", 50*time.Millisecond, "time between two requests of a burst")
	f.IntVar(&e.Burst, "burst", 40, "requests of a burst")
	f.DurationVar(&e.Pause, "pause", 5*time.Second, "time between two bursts")
	f.DurationVar(&e.Span, "span", 30*time.Second, "length of each measured part")
	f.StringSliceVar(&e.Policies, "policy", []string{"predict", "swap"}, "how memory is planned: "+strings.Join(memory.Modes(), ", "))
	f.StringVar(&level, "level", "3", "preemption level: auto, 1, 2, 3")
	return cmd
}
