package main

import (
	"context"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/workloads"
	"xmsched/cmd/internal/cli"
)

func predictCommand() *cobra.Command {
	var c common
	var e experiment.Predict
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Foretell what kernels touch, and compare with what they do",
		Long: `Measures the row predict: programs run under xrun --learn with some sizes, then with
others, and what was learnt from the first foretells what the launches of the second
touched, as their page faults tell.

science            eight kernels of our own, each launch with sizes of its own
resnet152, vgg19, inception_v3, densenet201
                   images classified, other batches and sizes of images
training           a ResNet-152's, other batches
llama              a language model's decode, other lengths of prompts
                   (PyTorch, torchvision, transformers, and a real GPU)

false_negative     what was touched and not foretold, in blocks of 2 MiB
false_positive     what was foretold and not touched
missed, vain       launches with any of these
*_bytes            in bytes, mode stated
known_*            of launches whose kernel had been seen while learning
eval               one prediction
learn              the runs that were learnt from, all in all

mode allocation takes every allocation that a launch has a pointer into as touched.
mode stated        is taught by what kernels of ours state that they touch, not by page
                   faults, which tell blocks and no bytes.`,
		Example: "  xbench predict --workloads science\n  xbench predict --workloads resnet152,llama --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Validate(); err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				_, err := measure(ctx, cmd, &c, e, lab.RunPredict, []string{"workload"}, []string{
					"launches", "false_negative_pct", "false_positive_pct", "missed_launches_pct", "vain_launches_pct", "known_launches_pct",
					"known_false_negative_pct", "known_false_positive_pct", "false_negative_bytes_pct", "false_positive_bytes_pct", "eval_ns", "learn_s",
				})
				return err
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&e.Workloads, "workloads", []string{experiment.WorkloadScience}, "science, resnet152, vgg19, inception_v3, densenet201, training, llama")
	f.StringVar(&e.Python, "python", "python3", "interpreter")
	f.IntVar(&e.MiB, "mib", 0, "MiB of each buffer of the scientific kernels; 0: as suits the device")
	f.IntVar(&e.Rounds, "rounds", 40, "launches of each scientific kernel in a run; numbers 1, 2, 4, 8, … are looked at")
	f.StringVar(&e.Logs, "logs", "", "keep what was seen and learnt in `DIRECTORY`, which is there")
	f.IntVar(&e.Layers, "layers", 32, "layers of the language model")
	return cmd
}

func workScience() *cobra.Command {
	var s workloads.Science
	cmd := &cobra.Command{
		Use: "science", Short: "Scientific kernels with sizes drawn anew", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunScience(st, say, s) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.MiB, "mib", 32, "MiB of each buffer")
	f.IntVar(&s.Rounds, "rounds", 24, "launches of each kernel")
	f.Uint64Var(&s.Seed, "seed", 1, "of the sizes")
	f.IntVar(&s.Dense, "dense", 150, "largest side of a matrix that is multiplied")
	return cmd
}
