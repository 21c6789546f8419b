package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/cmd/internal/cli"
)

func shareCommand() *cobra.Command {
	var c common
	var e experiment.Share
	var level string
	cmd := &cobra.Command{
		Use:   "share",
		Short: "Endless programs that are to get given shares of the GPU",
		Long: `Measures the row share: programs that always have work run under a policy of shares,
each with its --target as utilisation hint.

ratio      the first's time to the second's; a program's time is its kernels a second as
           a part of what it makes when it always has its turn (an idle competitor beside)
error      the farthest that a program's share of the time is from its target, of that
span error how far a share can be off because whole kernels and turns are counted: one
           kernel of its program in the span
fill       the least part of the device that a program uses alone; where it is under 97 %,
           there is no row: of what programs leave unused no scheduler can make shares
total      what all made together, each as a part of what it makes alone without us, in
           percent of what they make together without us

A share is measured for --span, or for as long as each program needs to make 400 kernels
if that is longer: of 5 ms kernels a tenth of the device makes 100 in 5 s, in turns of two
or three, so that one turn more or less is 2 or 3 percent of it. span_s is what it was.

--kernel-us takes one length for all programs, or one for each joined by + (mixed).`,
		Example: "  xbench share --target 75:25 --kernel-us 50,5000,50+5000\n  xbench share --target 50:30:20 --policy PUP --span 20s",
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
				_, err := measure(ctx, cmd, &c, e, lab.RunShare, []string{"target", "kernel_us", "policy", "level"}, []string{
					"ratio", "error_pct", "total_pct", "share1_pct", "share2_pct", "share3_pct", "native_pct", "fill_pct", "span_error_pct",
				})
				return err
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&e.Targets, "target", []string{"75:25", "90:10", "50:30:20"}, "shares in percent")
	f.StringSliceVar(&e.Kernels, "kernel-us", []string{"50", "5000", "50+5000"}, "lengths of the kernels, in us")
	f.DurationVar(&e.Span, "span", 10*time.Second, "length of each measured part, at least")
	f.StringVar(&e.Policy, "policy", "PUP", "policy")
	f.DurationVar(&e.Quantum, "quantum", 0, "length of a turn; 0: the policy's")
	f.StringVar(&level, "level", "2", "preemption level of the programs: auto, 1, 2, 3")
	return cmd
}
