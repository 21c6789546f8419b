package main

import (
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/workloads"
)

func workTouch() *cobra.Command {
	var t workloads.Touch
	var paged bool
	cmd := &cobra.Command{
		Use: "touch", Short: "A program with much memory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error {
				if paged {
					return workloads.RunPaged(st, say, t)
				}
				return workloads.RunTouch(st, say, t)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.Pattern, "pattern", workloads.PatternRead, "what a step touches")
	f.Uint64Var(&t.Bytes, "bytes", 256<<20, "all its memory")
	f.Uint64Var(&t.Piece, "piece", 32<<20, "bytes that a kernel goes over")
	f.Uint64Var(&t.First, "first", 0, "content of the first piece")
	f.IntVar(&t.Phase, "phase", 1, "steps until another part is touched")
	f.IntVar(&t.Rounds, "rounds", 1, "times that a kernel goes over its piece")
	f.IntVar(&t.Steps, "steps", 0, "steps to make; 0: until told to end")
	f.DurationVar(&t.Period, "period", 0, "release a step so often")
	f.IntVar(&t.Burst, "burst", 0, "steps between two pauses")
	f.DurationVar(&t.Pause, "pause", 0, "length of a pause")
	f.Uint64Var(&t.Together, "together", 0, "bytes of all paged programs")
	f.BoolVar(&paged, "paged", false, "managed memory, in turns that the parent gives")
	return cmd
}

func workLink() *cobra.Command {
	var l workloads.Link
	cmd := &cobra.Command{
		Use: "link", Short: "Pinned copies both ways at once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(_ workloads.Steering, say *workloads.Speaker) error { return workloads.RunLink(say, l) })
		},
	}
	cmd.Flags().Uint64Var(&l.Bytes, "bytes", 128<<20, "of a copy")
	cmd.Flags().DurationVar(&l.Span, "span", time.Second, "length of the measurement")
	return cmd
}

func workPrefetch() *cobra.Command {
	var p workloads.Prefetch
	cmd := &cobra.Command{
		Use: "prefetch", Short: "Managed memory that the driver moves when told", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunPrefetch(st, say, p) })
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&p.Bytes, "bytes", 256<<20, "that move")
	f.Uint64Var(&p.Piece, "piece", 1<<30, "bytes of a call")
	f.Uint64Var(&p.Together, "together", 0, "bytes of all such programs")
	f.BoolVar(&p.Out, "out", false, "to the host instead of to the device")
	return cmd
}

func workCheckpoint() *cobra.Command {
	var c workloads.Checkpoint
	cmd := &cobra.Command{
		Use: "checkpoint", Short: "The driver's own checkpoint of a process", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(_ workloads.Steering, say *workloads.Speaker) error { return workloads.RunCheckpoint(say, c) })
		},
	}
	cmd.Flags().IntVar(&c.Pid, "pid", 0, "process")
	cmd.Flags().Uint64Var(&c.Bytes, "bytes", 0, "that it has")
	return cmd
}

func workMemoryWatch() *cobra.Command {
	var w workloads.MemoryWatch
	cmd := &cobra.Command{
		Use: "memory-watch", Short: "See the memory of processes move", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error {
				return workloads.RunMemoryWatch(st, say, w)
			})
		},
	}
	cmd.Flags().IntSliceVar(&w.Pids, "pid", nil, "processes")
	cmd.Flags().StringVar(&w.UUID, "uuid", "", "device")
	return cmd
}
