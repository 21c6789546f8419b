package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/cmd/internal/cli"
	"xmsched/memory"
)

func swapCommand() *cobra.Command {
	var c common
	var e experiment.Swap
	var given []string
	var level, mode, piece string
	cmd := &cobra.Command{
		Use:   "swap",
		Short: "Memory out of one process and into another at once",
		Long: `Measures the row swap, beside a program that keeps the GPU busy.

ours        two tasks of which only one fits take turns, and one with hardly any memory
            after each, beside which the memory of the two changes places; an observer
            reads from their boards when each is told to go and how its bytes move. out
            and in are medians, from being told to the last byte, in from when the other
            is told to go; cold is the first time, when memory of the host has to be
            pinned. On a machine that shows little memory at first, that is used once
            before; swaps count when they are whole
prefetch    managed memory of two programs that the driver is told to move, at once
checkpoint  the driver's own checkpoint of a process, and its restoration

floor is the time that the link takes by itself, both ways busy, as measured in the run.`,
		Example: "  xbench swap --size 8GiB,16GiB,32GiB\n  xbench swap --sim --ways ours",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if e.Level, err = experiment.ParseLevel(level); err != nil {
				return cli.Usagef("%v", err)
			}
			if e.Mode, err = memory.ModeByName(mode); err != nil {
				return cli.Usagef("--memory-policy: %v", err)
			}
			read := func(simulated bool) (err error) {
				sizes := sizeFlag{"size", given, []string{"8GiB", "16GiB", "32GiB"}, []string{"128MiB"}}
				if e.Sizes, err = sizes.read(simulated); err != nil {
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
				measured, err := measure(ctx, cmd, &c, e, lab.RunSwap, []string{"way", "gib"}, []string{
					"out_gb_per_s", "in_gb_per_s", "out_of_link_pct", "in_of_link_pct", "cold_out_gb_per_s", "floor_ms", "longest_ms", "wrong_count",
				})
				return errors.Join(err, harm(measured))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&given, "size", nil, "memory that moves each way, `SIZES` (default 8GiB,16GiB,32GiB; simulated 128MiB)")
	f.StringVar(&piece, "piece", "", "memory that a kernel goes over, `SIZE` (default 256MiB; simulated 8MiB)")
	f.IntVar(&e.Times, "times", 6, "swaps of each size")
	f.StringSliceVar(&e.Ways, "ways", experiment.SwapWays(), "ways to swap: "+strings.Join(experiment.SwapWays(), ", "))
	f.StringVar(&mode, "memory-policy", "predict", "how memory is planned under us: "+strings.Join(memory.Modes(), ", "))
	f.StringVar(&level, "level", "3", "preemption level: auto, 1, 2, 3")
	return cmd
}
