package main

import (
	"context"
	"errors"
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
	e := experiment.P99{Requests: experiment.Requests{Kernels: 1, Priority: 10}, Level: 1}
	cmd := &cobra.Command{
		Use:   "p99",
		Short: "Latency of requests alone, beside a load without us, and under xmsched",
		Long: `Measures the row p99: requests of --request-us, --gap-us apart, beside --backgrounds
programs that each keep --in-flight kernels of --background-us queued for ever.
The modes alternate in rounds.`,
		Example: "  xbench p99 --request-us 450 --count 1000 --background-us 4700\n  xbench p99 --request-us 6000 --count 500 --backgrounds 4 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	f.IntVar(&e.Rounds, "rounds", 3, "rounds; each measures every mode once")
	f.StringSliceVar(&e.Modes, "modes", []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched}, "modes to measure")
	f.StringVar(&plot, "plot", "", "write the latencies to `PATH`.png and PATH.svg")
	return cmd
}

func emitP99(cmd *cobra.Command, c common, lab *experiment.Lab, e experiment.P99, results []experiment.P99Result, plot string) error {
	var measured []rows.Row
	var series []plots.Series
	for _, r := range results {
		measured = append(measured, r.Row)
		series = append(series, plots.Series{Name: r.Row.Mode, SampleUS: r.LatencyUS})
	}
	if plot != "" {
		caption := plots.Caption{Title: fmt.Sprintf("Latency of %v us requests beside %d background programs", e.Requests.RequestUS, e.Load.Programs), Device: lab.Facts.Device, Simulated: lab.Facts.Simulated}
		if err := plots.Latency(filepath.Clean(plot), caption, series...); err != nil {
			return err
		}
	}
	return c.emit(cmd.OutOrStdout(), measured, []string{"request_us", "backgrounds", "background_us"},
		[]string{"p50_us", "p90_us", "p99_us", "p99_ratio", "background_per_s"})
}

func launchCommand() *cobra.Command {
	var c common
	var e experiment.Launch
	cmd := &cobra.Command{
		Use:   "launch",
		Short: "What a kernel launch costs without us and preloaded",
		Long: `Measures the row launch with a foreign C program: processes without us and
preloaded alternate, and the overhead is the median of the pairs' differences.
Mode free has no competitor; in mode bounded one of a higher class is registered
that never becomes ready.`,
		Example: "  xbench launch\n  xbench launch --modes bounded --threads 1 --kernel-us 100",
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

func decisionCommand() *cobra.Command {
	var c common
	var e experiment.Decision
	cmd := &cobra.Command{
		Use:   "decision",
		Short: "Time from a ready edge in one process to the gate word of another",
		Long: `Measures the row decision with two clients that talk to the daemon by the board
alone, and the daemon's CPU time while nothing changes. The GPU is not used.`,
		Example: "  xbench decision --edges 2000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.Edges < 1 || e.Idle < time.Second {
				return cli.Usagef("--edges is %d and --idle %s: want at least 1 and 1s", e.Edges, e.Idle)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				row, _, err := lab.RunDecision(ctx, e, p.report)
				p.done()
				if err != nil {
					return err
				}
				return c.emit(cmd.OutOrStdout(), []rows.Row{row}, nil, []string{"p50_us", "p90_us", "p99_us", "max_us", "daemon_idle_pct"})
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
		Use:     "startup",
		Short:   "How much later a preloaded program starts",
		Long:    "Measures the row startup: a program's first cuInit, and a program that uses no CUDA.",
		Example: "  xbench startup",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.InitPairs < 1 || e.PlainPairs < 4 {
				return cli.Usagef("--init-pairs is %d and --plain-pairs %d: want at least 1 and 4", e.InitPairs, e.PlainPairs)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				measured, err := lab.RunStartup(ctx, e, p.report)
				p.done()
				if err != nil {
					return err
				}
				return c.emit(cmd.OutOrStdout(), measured, []string{"program"}, []string{
					"native_init_ms", "preloaded_init_ms", "first_init_extra_ms", "native_us", "extra_us", "noise_us", "extra_over_noise_ratio",
				})
			})
		},
	}
	c.flags(cmd)
	cmd.Flags().IntVar(&e.InitPairs, "init-pairs", 11, "pairs of processes that initialise CUDA")
	cmd.Flags().IntVar(&e.PlainPairs, "plain-pairs", 400, "pairs of processes that do not use CUDA")
	return cmd
}

func pytorchCommand() *cobra.Command {
	var c common
	var e experiment.PyTorch
	cmd := &cobra.Command{
		Use:   "pytorch",
		Short: "Unmodified PyTorch: a language model's decode beside a training",
		Long: `Measures the row pytorch: a Llama-shaped decode and a ResNet-152 training, each
alone (twice, which must be identical), both without us, and both under xmsched.
"identical" is 1 when tokens and losses are those of the first run alone.
Needs a python3 with torch, torchvision and transformers, and a real GPU.`,
		Example: "  xbench pytorch --layers 16 --batch 128 --seconds 15",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.Seconds <= 0 || e.Layers < 1 || e.Batch < 1 {
				return cli.Usagef("--seconds, --layers and --batch must be positive")
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				if lab.Facts.Simulated {
					return errors.New("the simulated GPU cannot run PyTorch's kernels: this row needs a real one")
				}
				p := newProgress(cmd.ErrOrStderr())
				measured, err := lab.RunPyTorch(ctx, e, p.report)
				p.done()
				// What was measured before a failure is kept: a run takes minutes.
				return errors.Join(err, c.emit(cmd.OutOrStdout(), measured, []string{"layers", "batch"}, []string{
					"llm_p50_ms", "llm_p99_ms", "llm_p99_ratio", "llm_tokens_per_s", "train_img_per_s", "identical",
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
	f.StringSliceVar(&e.Modes, "modes", []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched}, "modes to measure; alone must be the first")
	return cmd
}
