package main

import (
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/workloads"
)

// The programs of the row preempt at Level 3.

func workBeats() *cobra.Command {
	var b workloads.Beats
	cmd := &cobra.Command{
		Use: "beats", Short: "Kernels that fill the device and count up a word of host memory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunBeats(st, say, b) })
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&b.Iterations, "iterations", 1_000_000, "of each thread of a kernel")
	f.IntVar(&b.Every, "every", 1000, "iterations between two looks at the clock")
	f.IntVar(&b.InFlight, "in-flight", 2, "kernels kept queued")
	f.IntVar(&b.Direct, "direct", 0, "suspend itself so often")
	f.DurationVar(&b.RunFor, "run-for", time.Millisecond, "between two suspensions")
	f.DurationVar(&b.HoldFor, "hold-for", time.Millisecond, "within one")
	return cmd
}

func workBeatWatch() *cobra.Command {
	var w workloads.BeatWatch
	cmd := &cobra.Command{
		Use: "beat-watch", Short: "See from outside when beats stand still", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunBeatWatch(st, say, w) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&w.Pid, "pid", 0, "process that beats")
	f.IntVar(&w.WordsFD, "words-fd", 0, "its descriptor of its words")
	f.StringVar(&w.UUID, "uuid", "", "device; empty: it has no board")
	f.DurationVar(&w.Still, "still", 100*time.Microsecond, "what is longer without a beat is told")
	return cmd
}

func workFirst() *cobra.Command {
	var p workloads.First
	cmd := &cobra.Command{
		Use: "first", Short: "Requests that tell when their first instruction ran", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunFirst(st, say, p) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Count, "count", 100, "requests that count")
	f.IntVar(&p.Warm, "warm", 0, "requests before those")
	f.DurationVar(&p.Gap, "gap", time.Millisecond, "time between two requests")
	f.Uint64Var(&p.Iterations, "iterations", 0, "of a kernel behind the first one; 0: none")
	return cmd
}

func workPin() *cobra.Command {
	var p workloads.Pin
	cmd := &cobra.Command{
		Use: "pin", Short: "Pin host memory and give it back, over and over", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunPin(st, say, p) })
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&p.Bytes, "bytes", 1<<30, "together")
	f.Uint64Var(&p.Chunk, "chunk", 32<<20, "of one call")
	return cmd
}
