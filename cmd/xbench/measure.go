package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

func decisionCommand() *cobra.Command {
	var c common
	var e experiment.Decision
	cmd := &cobra.Command{
		Use:   "decision",
		Short: "Time from a ready edge in one process to the gate word of another",
		Long: `Measures the row decision with two clients that talk to the daemon by the board
alone, and the daemon's CPU time while nothing changes. The GPU is not used.
floor_* is measured in the same run: how long the kernel takes from a write to an
eventfd until a thread of another process, blocked in epoll_wait as the daemon's
is, runs; with the same pauses. With more --clients the others are registered and idle
meanwhile; in the end up to 50 of them make --edges-per-s together, and daemon_busy is
what the daemon then takes of a core.`,
		Example: "  xbench decision --edges 2000\n  xbench decision --clients 256 --edges-per-s 10000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				row, _, err := lab.RunDecision(ctx, e, p.report)
				p.done()
				if err != nil {
					return err
				}
				return c.emit(cmd.OutOrStdout(), []rows.Row{row}, []string{"clients", "spin_us"}, []string{"p50_us", "p90_us", "p99_us", "max_us", "floor_p50_us", "floor_p99_us", "daemon_idle_pct", "edges_per_s", "daemon_busy_pct"})
			})
		},
	}
	c.flags(cmd)
	cmd.Flags().IntVar(&e.Edges, "edges", 1000, "ready edges")
	cmd.Flags().DurationVar(&e.Spin, "spin", 0, "how long the daemon looks for another edge before it sleeps; see xserver --spin")
	cmd.Flags().IntVar(&e.Clients, "clients", 2, "registered tasks")
	cmd.Flags().Float64Var(&e.Rate, "edges-per-s", 10_000, "edges that the further clients make together in the end; 0: none")
	cmd.Flags().DurationVar(&e.Idle, "idle", 5*time.Second, "how long the daemon's CPU time is read while nothing changes")
	return cmd
}

func startupCommand() *cobra.Command {
	var c common
	var e experiment.Startup
	cmd := &cobra.Command{
		Use:   "startup",
		Short: "How much later a preloaded program starts",
		Long: `Measures the row startup: a program's first cuInit without us and preloaded, and a
program that uses no CUDA with nothing preloaded, with a library that contains
nothing (empty_preload_extra_us) and with ours (extra_us; over_empty_us is the
difference of the two). Differences are medians of those of neighbours in time.`,
		Example: "  xbench startup",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				measured, err := lab.RunStartup(ctx, e, p.report)
				p.done()
				if err != nil {
					return err
				}
				return c.emit(cmd.OutOrStdout(), measured, []string{"program"}, []string{
					"native_init_ms", "preloaded_init_ms", "first_init_extra_ms",
					"native_us", "noise_us", "extra_us", "empty_preload_extra_us", "over_empty_us", "over_empty_noise_ratio",
				})
			})
		},
	}
	c.flags(cmd)
	cmd.Flags().IntVar(&e.InitPairs, "init-pairs", 11, "pairs of processes that initialise CUDA")
	cmd.Flags().IntVar(&e.PlainPairs, "plain-pairs", 400, "rounds of processes that do not use CUDA")
	return cmd
}
