package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/cmd/internal/cli"
)

func preemptCommand() *cobra.Command {
	var c common
	var e experiment.Preempt
	var s experiment.Suspend
	var levels []string
	var pinning, growing, plot string
	cmd := &cobra.Command{
		Use:   "preempt",
		Short: "How long a background runs on after its gate closes, or a request comes",
		Long: `Measures the row preempt.

Level 1 and 2: a background program launches kernels of --kernel-us, each of which
itself writes into host memory at its end; a client of a higher class, which uses no
GPU, is ready and idle in turn, so the daemon closes and opens the background's gate;
an observer in a process of its own reads, without pause and with one clock, the gate
word and what the kernels write. The observer is in nobody's way, and the background's
queue holds kernels and nothing else.

stop_*         from the closing of the gate word until the last kernel ended
stop_p99_over  the same less one kernel
resume_*       from the opening until the next kernel began (its end, less the length)
kernel_p50     median time between the ends of two kernels while the gate is open
unstopped      closings after which kernels may still have been running when the
               gate opened again; idle: closings that found nothing running
observer_gap   longest time between two looks of the observer: no stop is known better

At Level 1 all that is queued runs on, up to the bound; at Level 2 one kernel.

Level 3: the background's kernels are ordinary computation that fills the GPU, of so
many iterations as take --kernel-us alone. Whichever of their threads runs counts up a
word of host memory, a beat every 10 us, and the observer sees when they stand still:
stops look up to 10 us shorter, resumptions up to 10 us longer than they are. Scenes:

alone   short requests with nothing beside them
native  short requests beside the background, without us
armed   short requests: the hardware switches, the slice having been shortened before
busy    requests of 8 ms: the background is suspended while they use the GPU
idle    the same by a client that uses no GPU
direct  the background suspends itself by the library's own functions, no daemon
beside  the same while another program uses the GPU

first_*         from a request until its first instruction wrote host memory
stop_*          from a request until the background's last beat
resume_*        from the resumption's being asked for until the first beat
hold_call_*, release_call_*  the calls into the driver
running         requests at whose end the background still ran`,
		Example: "  xbench preempt --level 2 --kernel-us 10,100,1000,10000\n  xbench preempt --level 3 --kernel-us 10,1000,5000000 --pinning 8GiB\n  xbench preempt --sim --level 1,2 --kernel-us 2000 --closings 50",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			third, err := preemptSettings(&e, &s, levels, pinning, growing)
			if err != nil {
				return cli.Usagef("%v", err)
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				p := newProgress(cmd.ErrOrStderr())
				defer p.done()
				if len(e.Levels) > 0 {
					measured, err := lab.RunPreempt(ctx, e, p.report)
					p.done()
					// What was measured before a failure is kept.
					err = errors.Join(err, c.emit(cmd.OutOrStdout(), measured, []string{"level", "kernel_us"}, []string{
						"stop_p50_us", "stop_p99_us", "stop_p99_over_us", "resume_p50_us", "resume_p99_us", "kernel_p50_us", "unstopped_count", "idle_count", "observer_gap_max_us",
					}))
					if err != nil {
						return err
					}
				}
				if !third {
					return nil
				}
				measured, err := lab.RunSuspend(ctx, s, p.report)
				p.done()
				return errors.Join(err, c.emit(cmd.OutOrStdout(), measured, []string{"scene", "kernel_us", "pinning_bytes"}, []string{
					"first_p50_us", "first_p99_us", "stop_p50_us", "stop_p99_us", "stop_max_us", "resume_p50_us", "resume_p99_us",
					"hold_call_p50_us", "hold_call_p99_us", "release_call_p99_us", "running_count",
				}), plotSuspend(lab, measured, plot))
			})
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&levels, "level", []string{"1", "2"}, "preemption levels: auto, 1, 2, 3")
	f.Float64SliceVar(&e.KernelsUS, "kernel-us", []float64{10, 100, 1000, 10_000}, "lengths of the kernels, in us")
	f.IntVar(&e.Closings, "closings", 100, "closings of the gate for each level and length")
	f.IntVar(&e.InFlight, "in-flight", 64, "Level 1 and 2: kernels that the background keeps queued where nothing bounds it")
	f.IntVar(&e.Threshold, "threshold", 0, "Level 1 and 2: background commands outstanding a queue; 0: the default")
	f.IntVar(&e.Batch, "batch", 0, "Level 1 and 2: background commands between completion writes; 0: the default")
	f.StringSliceVar(&s.Scenes, "scenes", experiment.Scenes(), "Level 3: what is measured")
	f.IntVar(&s.Requests, "requests", 100, "Level 3: requests, or suspensions, of each scene and length")
	f.StringVar(&pinning, "pinning", "", "Level 3: so much host memory is pinned by another process meanwhile, over and over, as 8GiB")
	f.StringVar(&growing, "growing", "", "Level 3: our own pool of host memory grows by so much meanwhile, as another task allocates far beyond the budget, as 8GiB")
	f.StringVar(&plot, "plot", "", "Level 3: write the times over the kernels' lengths to `PATH`.png and PATH.svg")
	return cmd
}

// preemptSettings parts Level 3, which is measured otherwise, from the others, and
// checks both.
func preemptSettings(e *experiment.Preempt, s *experiment.Suspend, levels []string, pinning, growing string) (third bool, err error) {
	if e.Levels, err = experiment.ParseLevels(levels); err != nil {
		return false, err
	}
	if s.Pinning, err = parseBytes(pinning); err != nil {
		return false, fmt.Errorf("pinning: %w", err)
	}
	if s.Growing, err = parseBytes(growing); err != nil {
		return false, fmt.Errorf("growing: %w", err)
	}
	if i := slices.Index(e.Levels, 3); i >= 0 {
		third = true
		e.Levels = slices.Delete(e.Levels, i, i+1)
		s.KernelsUS = e.KernelsUS
		if err := s.Validate(); err != nil {
			return false, err
		}
	}
	if len(e.Levels) == 0 && third {
		return third, nil
	}
	return third, e.Validate()
}

// parseBytes reads a number of bytes with one of the endings KiB, MiB, GiB, or
// none; nothing is 0.
func parseBytes(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	number, shift := text, 0
	for i, ending := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(text, ending); ok {
			number, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n<<shift>>shift != n {
		return 0, fmt.Errorf("%q is not a size such as 512MiB or 8GiB", text)
	}
	return n << shift, nil
}
