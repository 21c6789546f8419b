package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/workloads"
	"xmsched/cmd/internal/cli"
)

func modelsCommand() *cobra.Command {
	var c common
	var e experiment.Models
	cmd := &cobra.Command{
		Use:   "models",
		Short: "Two models in one process that schedules itself",
		Long: `Measures the row models: two Llama-shaped models in one process, without a daemon.
One makes a token after every gap, the other without pause; the row has the first
one's latency alone, beside the other as the driver has it, and with both behind
XQueues under HPF, where a command is one layer. other_ratio is what the other gets
of what it gets alone.

go, c      a chain of kernels with the shape of a model, by the Go and C interfaces
python     PyTorch's models by the Python package; needs torch and transformers, and a
           real GPU`,
		Example: "  xbench models --interfaces go,c,python --seconds 10",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				_, err := measure(ctx, cmd, &c, e, lab.RunModels, []string{"interface", "threshold", "layers"}, []string{
					"p50_us", "p99_us", "p50_ratio", "p99_ratio", "other_ratio", "identical",
				})
				return err
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&e.Interfaces, "interfaces", []string{experiment.InterfaceGo, experiment.InterfaceC}, "go, c, python")
	f.Float64Var(&e.Seconds, "seconds", 6, "length of each of the four phases, in s")
	f.IntVar(&e.Rounds, "rounds", 2, "rounds in which the phases take turns")
	f.IntVar(&e.Threshold, "threshold", 2, "layers of the other model that are outstanding")
	f.IntVar(&e.Layers, "layers", 32, "layers of a token")
	f.IntVar(&e.Kernels, "kernels", 8, "kernels of a layer")
	f.Float64Var(&e.KernelUS, "kernel-us", 16, "length of a kernel, in us")
	f.Float64Var(&e.GapUS, "gap-us", 5000, "pause between two tokens, in us")
	f.StringVar(&e.Python, "python", "python3", "interpreter")
	f.IntVar(&e.TorchLayers, "torch-layers", 32, "layers of PyTorch's models")
	f.Float64Var(&e.TorchGapMS, "torch-gap-ms", 20, "pause between two tokens of PyTorch's model, in ms")
	return cmd
}

func workModels() *cobra.Command {
	var m workloads.Models
	var seconds, gap float64
	cmd := &cobra.Command{
		Use: "models", Short: "Two models in one process", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.Gap, m.Span = micros(gap), time.Duration(seconds*float64(time.Second))
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunModels(st, say, m) })
		},
	}
	f := cmd.Flags()
	f.Float64Var(&seconds, "seconds", 4, "length of each phase, in s")
	f.IntVar(&m.Rounds, "rounds", 2, "rounds in which the phases take turns")
	f.IntVar(&m.Threshold, "threshold", 2, "layers of the other model that are outstanding")
	f.IntVar(&m.Layers, "layers", 32, "layers of a token")
	f.IntVar(&m.Kernels, "kernels", 8, "kernels of a layer")
	f.Float64Var(&m.KernelUS, "kernel-us", 16, "length of a kernel, in us")
	f.Float64Var(&gap, "gap-us", 5000, "pause between two tokens, in us")
	return cmd
}
