package main

import (
	"context"
	"errors"
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
is, runs; with the same pauses.`,
		Example: "  xbench decision --edges 2000",
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
				return c.emit(cmd.OutOrStdout(), []rows.Row{row}, nil, []string{"p50_us", "p90_us", "p99_us", "max_us", "floor_p50_us", "floor_p99_us", "daemon_idle_pct"})
			})
		},
	}
	c.flags(cmd)
	cmd.Flags().IntVar(&e.Edges, "edges", 1000, "ready edges")
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

func pytorchCommand() *cobra.Command {
	var c common
	var e experiment.PyTorch
	var level string
	cmd := &cobra.Command{
		Use:   "pytorch",
		Short: "Unmodified PyTorch: a language model's decode beside a training",
		Long: `Measures the row pytorch: a Llama-shaped decode and a ResNet-152 training, each
alone (twice, which must be identical), both without us, and both under xmsched.
"identical" is 1 when tokens and losses are those of the repeated runs alone;
train_ratio is what the training got of what it gets alone.
Needs a python3 with torch, torchvision and transformers, and a real GPU.`,
		Example: "  xbench pytorch --layers 16 --batch 128 --seconds 15",
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
				if lab.Facts.Simulated {
					return errors.New("the simulated GPU cannot run PyTorch's kernels: this row needs a real one")
				}
				p := newProgress(cmd.ErrOrStderr())
				measured, err := lab.RunPyTorch(ctx, e, p.report)
				p.done()
				// What was measured before a failure is kept: a run takes minutes.
				return errors.Join(err, c.emit(cmd.OutOrStdout(), measured, []string{"level", "layers", "batch"}, []string{
					"llm_p50_ms", "llm_p99_ms", "llm_p99_ratio", "llm_tokens_per_s", "train_img_per_s", "train_ratio", "identical",
				}))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&e.Python, "python", "python3", "interpreter")
	f.Float64Var(&e.Seconds, "seconds", 15, "length of each measured part, in s")
	f.IntVar(&e.Layers, "layers", 32, "layers of the language model")
	f.IntVar(&e.Batch, "batch", 256, "images of a training step")
	f.IntVar(&e.Priority, "priority", 10, "priority of the decode under xmsched, -255 to 255")
	f.StringVar(&level, "level", "auto", "preemption level under xmsched: auto, 1 or 2")
	f.StringSliceVar(&e.Modes, "modes", []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched}, "modes to measure; alone must be the first")
	return cmd
}
