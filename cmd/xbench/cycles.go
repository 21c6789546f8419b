package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/cmd/internal/cli"
)

func cyclesCommand() *cobra.Command {
	var c common
	var e experiment.Cycles
	cmd := &cobra.Command{
		Use:   "cycles",
		Short: "Suspend and resume a program at random moments, and look at every result",
		Long: `Measures the row cycles. A program with the library preloaded, without a daemon,
suspends its own channels and resumes them, --cycles times, after random times of up
to --run-for and --hold-for, while one thread each does:

in-place     kernels that write memory in place, round by round
atomics      additions and compare-and-swaps by many threads
cooperative  blocks of a grid that wait for each other
cluster      blocks of a cluster that read each other's shared memory (sm_90)
graph        a captured graph of kernels
copies       host to device, device to device, device to host
managed      kernels that fault on memory that the CPU touches in turn

wrong counts the words that differ from the closed form, of verified ones. xid counts
the lines with an Xid that the kernel's log got meanwhile; where the log cannot be
read, that is said, and there is no such figure.

Exit code 1 when a word is wrong or an Xid was seen; the row is kept.`,
		Example: "  xbench cycles --cycles 10000 --hold compute,all\n  xbench cycles --sim --cycles 100 --work in-place,copies",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				measured, err := measure(ctx, cmd, &c, e, lab.RunCycles, []string{"hold", "kernel_log"}, []string{
					"hold_p50_us", "hold_p99_us", "hold_max_us", "resume_p50_us", "resume_p99_us", "resume_max_us", "verified_count", "wrong_count", "xid_count",
				})
				return errors.Join(err, harm(measured))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&e.Settings.Count, "cycles", 1000, "suspensions of each kind")
	f.StringSliceVar(&e.Holds, "hold", []string{"compute", "all"}, "what is suspended: compute groups, all groups")
	f.StringSliceVar(&e.Settings.Work, "work", nil, "kinds of work (default: all)")
	f.DurationVar(&e.Settings.RunFor, "run-for", time.Millisecond, "longest time between two suspensions")
	f.DurationVar(&e.Settings.HoldFor, "hold-for", 500*time.Microsecond, "longest time of a suspension")
	f.Uint64Var(&e.Settings.Seed, "seed", 1, "of the random moments")
	return cmd
}

// harm is the error of rows that show that something was lost.
func harm(measured []rows.Row) error {
	for _, r := range measured {
		if n := r.Metrics["wrong_count"]; n > 0 {
			return fmt.Errorf("%v of %v words are wrong", n, r.Metrics["verified_count"])
		}
		if n := r.Metrics["xid_count"]; n > 0 {
			return fmt.Errorf("the kernel's log got %v lines with an Xid", n)
		}
	}
	return nil
}

func workCycles() *cobra.Command {
	var c workloads.Cycles
	cmd := &cobra.Command{
		Use: "cycles", Short: "Work that is suspended and resumed at random moments", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunCycles(st, say, c) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Count, "cycles", 1000, "suspensions")
	f.StringVar(&c.Hold, "hold", "compute", "compute or all")
	f.StringSliceVar(&c.Work, "work", nil, "kinds of work")
	f.DurationVar(&c.RunFor, "run-for", time.Millisecond, "longest time between two suspensions")
	f.DurationVar(&c.HoldFor, "hold-for", 500*time.Microsecond, "longest time of a suspension")
	f.Uint64Var(&c.Seed, "seed", 1, "of the random moments")
	return cmd
}
