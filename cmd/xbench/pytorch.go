package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

func pytorchCommand() *cobra.Command {
	var c common
	var e experiment.PyTorch
	var level string
	cmd := &cobra.Command{
		Use:   "pytorch",
		Short: "Unmodified PyTorch: a language model's decode beside a training",
		Long: `Measures the row pytorch: a Llama-shaped decode and a ResNet-152 training, each
alone (twice, which must be identical), both without us, both as clients of NVIDIA's
MPS with the decode at high priority (left out, and said so, where it cannot be
started), both under xmsched, and both under xmsched as clients of MPS (xmsched-mps; at
Level 2, as MPS has no other). "identical" is 1 when tokens and losses are those of
the repeated runs alone; train_ratio is what the training got of what it gets alone.
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
				measured, err := measure(ctx, cmd, &c, e, lab.RunPyTorch, []string{"level", "layers", "batch"}, []string{
					"llm_p50_ms", "llm_p99_ms", "llm_p99_ratio", "llm_tokens_per_s", "train_img_per_s", "train_ratio", "identical",
				})
				return errors.Join(err, c.trainingNote(cmd.OutOrStdout(), measured))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&e.Python, "python", "python3", "interpreter")
	f.Float64Var(&e.Seconds, "seconds", 15, "length of each measured part, in s")
	f.IntVar(&e.Layers, "layers", 32, "layers of the language model")
	f.IntVar(&e.Batch, "batch", 256, "images of a training step")
	f.BoolVar(&e.Once, "once", false, "run each alone once: later runs are compared with that one")
	f.IntVar(&e.Priority, "priority", 10, "priority of the decode under xmsched, -255 to 255")
	f.StringVar(&level, "level", "auto", "preemption level under xmsched: auto, 1, 2 or 3")
	f.StringSliceVar(&e.Modes, "modes", []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched}, "modes to measure; alone must be the first: alone, native, mps, xmsched, xmsched-mps")
	return cmd
}

// trainingNote says what the decode's latency costs the training, which a reader
// of the first columns would not look for.
func (c *common) trainingNote(w io.Writer, measured []rows.Row) error {
	for _, r := range measured {
		share, ok := r.Metrics["train_ratio"]
		if c.json || !ok || r.Params["level"] == nil {
			continue
		}
		_, err := fmt.Fprintf(w, "%s: beside the decode, of the higher class, the training got %.1f %% of what it gets alone, under HPF at level %v.\n", r.Mode, 100*share, r.Params["level"])
		if err != nil {
			return err
		}
	}
	return nil
}
