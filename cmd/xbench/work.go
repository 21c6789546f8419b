package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/workloads"
	"xmsched/cmd/internal/cli"
	"xmsched/xserver/client"
)

// workCommand holds the programs that the experiments run. They know nothing of
// xmsched (but `client`, which is one of its clients), speak JSON lines and obey
// their stdin; see package workloads.
func workCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "work",
		Short:  "The programs that the experiments run",
		Hidden: true,
	}
	cmd.AddCommand(workFacts(), workCalibrate(), workRequest(), workBackground(), workChain(), workObserve(), workWake(), workClient(), workModels(), workCycles(), workBeats(), workBeatWatch(), workFirst(), workPin(),
		workTouch(), workLink(), workPrefetch(), workCheckpoint(), workMemoryWatch(), workScience())
	return cmd
}

// perform runs a program until its end, its stdin's end or a signal. Its error
// is its last line, and its exit code 1.
func perform(cmd *cobra.Command, f func(workloads.Steering, *workloads.Speaker) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	say := workloads.NewSpeaker(cmd.OutOrStdout())
	err := f(workloads.Steer(ctx, cmd.InOrStdin()), say)
	if err != nil {
		// Nil when it was said: the parent shows it, and needs it once.
		return &cli.ExitError{Code: cli.ExitFailure, Err: say.Say(workloads.Event{Kind: workloads.KindError, Message: err.Error()})}
	}
	return nil
}

func workFacts() *cobra.Command {
	var withContext bool
	cmd := &cobra.Command{
		Use: "facts", Short: "Say which device a program would use", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(_ workloads.Steering, say *workloads.Speaker) error { return workloads.RunFacts(say, withContext) })
		},
	}
	cmd.Flags().BoolVar(&withContext, "context", false, "make a context as well")
	return cmd
}

func workCalibrate() *cobra.Command {
	return &cobra.Command{
		Use: "calibrate", Short: "Measure the spin kernel's iterations in a microsecond", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(_ workloads.Steering, say *workloads.Speaker) error { return workloads.RunCalibrate(say) })
		},
	}
}

// micros is a flag in microseconds.
func micros(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }

func workRequest() *cobra.Command {
	var r workloads.Request
	var gap, pause, period, length float64
	cmd := &cobra.Command{
		Use: "request", Short: "Requests whose latency matters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Gap, r.Pause, r.Period = micros(gap), micros(pause), micros(period)
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error {
				iterations, err := workloads.Iterations(r.Iterations, length/float64(max(r.Kernels, 1)))
				if err != nil {
					return err
				}
				r.Iterations = iterations
				return workloads.RunRequest(st, say, r)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&r.Iterations, "iterations", 0, "iterations of each kernel; 0: calibrate for --request-us")
	f.Float64Var(&length, "request-us", 450, "length of a request, in us, where --iterations is 0")
	f.IntVar(&r.Kernels, "kernels", 1, "kernels that make a request")
	f.IntVar(&r.Count, "count", 1000, "requests")
	f.Float64Var(&gap, "gap-us", 3000, "time between two requests, in us")
	f.IntVar(&r.Burst, "burst", 0, "requests between two pauses; 0: no pauses")
	f.Float64Var(&pause, "pause-us", 0, "length of a pause, in us")
	f.Float64Var(&period, "period-us", 0, "release a request so often instead, in us")
	f.BoolVar(&r.High, "high-priority", false, "give its stream the highest priority")
	return cmd
}

func workBackground() *cobra.Command {
	var b workloads.Background
	var length float64
	cmd := &cobra.Command{
		Use: "background", Short: "An endless queue of kernels", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error {
				iterations, err := workloads.Iterations(b.Iterations, length)
				if err != nil {
					return err
				}
				b.Iterations = iterations
				return workloads.RunBackground(st, say, b)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&b.Iterations, "iterations", 0, "iterations of each kernel; 0: calibrate for --kernel-us")
	f.Float64Var(&length, "kernel-us", 4700, "length of a kernel, in us, where --iterations is 0")
	f.IntVar(&b.InFlight, "in-flight", 16, "kernels kept queued")
	f.IntVar(&b.Group, "group", 1, "kernels, the last of which writes its results")
	f.BoolVar(&b.Pace, "pace", false, "measure beforehand how fast queued kernels end")
	return cmd
}

func workChain() *cobra.Command {
	var c workloads.Chain
	cmd := &cobra.Command{
		Use: "chain", Short: "Kernels that write into host memory that they ended", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunChain(st, say, c) })
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&c.Iterations, "iterations", 0, "iterations of each kernel")
	f.IntVar(&c.InFlight, "in-flight", 64, "kernels kept queued")
	return cmd
}

func workObserve() *cobra.Command {
	var o workloads.Observe
	cmd := &cobra.Command{
		Use: "observe", Short: "Time a chain's stops from outside", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunObserve(st, say, o) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Pid, "pid", 0, "process of the chain")
	f.IntVar(&o.WordsFD, "words-fd", 0, "the chain's descriptor of its words")
	f.StringVar(&o.UUID, "uuid", "", "device")
	return cmd
}

func workWake() *cobra.Command {
	var w workloads.Wake
	cmd := &cobra.Command{
		Use: "wake", Short: "One end of an eventfd", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error { return workloads.RunWake(st, say, w) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&w.FD, "fd", 3, "the eventfd, inherited")
	f.BoolVar(&w.Ring, "ring", false, "write it instead of waiting for it")
	f.IntVar(&w.Count, "count", 1000, "writes")
	return cmd
}

func workClient() *cobra.Command {
	var c workloads.Client
	var role string
	cmd := &cobra.Command{
		Use: "client", Short: "A client of the daemon that uses no device", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return perform(cmd, func(st workloads.Steering, say *workloads.Speaker) error {
				var err error
				if c.Dir, err = client.RunDir(); err != nil {
					return err
				}
				c.Role = workloads.Role(role)
				return workloads.RunClient(st, say, c)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "idle", "idle, watch, toggle or pulse")
	f.StringVar(&c.UUID, "uuid", "", "device to claim")
	f.IntVar(&c.Priority, "priority", 0, "priority, -255 to 255")
	f.IntVar(&c.Edges, "edges", 1000, "ready edges that a toggler or pulser makes")
	f.DurationVar(&c.Hold, "hold", time.Millisecond, "how long a pulser stays ready")
	f.DurationVar(&c.Rest, "rest", time.Millisecond, "how long a pulser stays idle")
	f.BoolVar(&c.Paced, "paced", false, "keep to the clock")
	f.DurationVar(&c.Spread, "spread", 0, "up to so much longer, evenly spread")
	return cmd
}
