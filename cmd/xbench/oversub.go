package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/plots"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

// sizes are flags in bytes, of which the defaults depend on the device.
type sizes struct{ budget, task, piece string }

func (s *sizes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.budget, "budget", "", "what all tasks together may have on the GPU, `SIZE` or auto: what the card has (default 16GiB; simulated 128MiB)")
	f.StringVar(&s.task, "task", "", "memory of a task, `SIZE` (default 8GiB; simulated 64MiB)")
	f.StringVar(&s.piece, "piece", "", "memory that a kernel goes over, `SIZE` (default 256MiB, or what the workload needs; simulated 8MiB)")
}

// read reads them for a device.
func (s sizes) read(e *experiment.Oversub, simulated bool) (err error) {
	if e.Budget, err = budgetSize(s.budget, "16GiB", "128MiB", simulated); err != nil {
		return err
	}
	if e.Task, err = oneSize("task", s.task, "8GiB", "64MiB", simulated); err != nil {
		return err
	}
	if e.Piece, err = pieceSize(s.piece); err != nil {
		return err
	}
	if err := e.Validate(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

func oversubCommand() *cobra.Command {
	var c common
	var e experiment.Oversub
	var s sizes
	var level, plot string
	cmd := &cobra.Command{
		Use:   "oversub",
		Short: "Programs that take turns and whose memory together exceeds the GPU's",
		Long: `Measures the row oversub: tasks of --task memory each take turns of --slice (policy
RR) under a budget that holds fewer of them. Every word says where it belongs, and all
that was read, and all that is there in the end, is compared.

--footprint is what all tasks have together, in percent of the budget; --tasks gives
their number instead. A step of a workload touches:

read     all of a task's memory, read
dense    all of it, read and written
long     the same, by kernels of --rounds times through a piece: longer than a turn
stencil  all of it: every second piece is worked out of the one before
sparse   a tenth of one allocation, read and written; another tenth in each turn
experts  an eighth in every step and two of the other pieces, out of four in each turn; read
models   one of four parts, another in each turn; read
decode   a language model's token, train a training's step, mix: tasks of both (PyTorch)

--policy: how memory is planned (predict, allocation, swap, serial), or paging: the
driver's own managed memory without us, on a card that is played to have no more than
the budget (mode native).

of in memory  what the tasks make together, each as a part of what it makes alone
ceiling       the most of that which the link allows turns of --slice that end on time, by
              the bytes that have to come in at least (Belady) and the link as measured; a
              turn goes on until the next task's memory is there, and may come to more
turn          how long a turn lasted, with the passing of it to the next
stall         time that a task whose turn it was stood still for its memory
least share   what the task made that got least, of an equal share

Exit code 1 when a word is wrong; the rows are kept.`,
		Example: "  xbench oversub --footprint 150,200,300 --slice 50ms,100ms,250ms,1s\n  xbench oversub --budget auto --task 60GiB --tasks 3 --slice 2s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if e.Level, err = experiment.ParseLevel(level); err != nil {
				return cli.Usagef("%v", err)
			}
			if err := forBoth(func(simulated bool) error { return s.read(&e, simulated) }); err != nil {
				return err
			}
			return c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				if err := s.read(&e, lab.Facts.Simulated); err != nil {
					return err
				}
				measured, err := measure(ctx, cmd, &c, e, lab.RunOversub, []string{"workload", "footprint_pct", "slice_ms", "policy"}, []string{
					"of_in_memory_pct", "ceiling_pct", "turn_ms", "moved_gib", "out_of_in_pct", "stall_pct", "least_share_pct", "switches_count", "steps_per_s", "gb_per_s", "wrong_count",
				})
				return errors.Join(err, plotOversub(lab, measured, plot), harm(measured))
			})
		},
	}
	c.flags(cmd)
	s.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&e.Workloads, "workload", []string{"read"}, "what the tasks do: "+strings.Join(experiment.MemoryWorkloads(), ", "))
	f.IntSliceVar(&e.Footprints, "footprint", []int{150, 200, 300}, "memory of all tasks, in percent of the budget")
	f.IntVar(&e.Tasks, "tasks", 0, "number of tasks, in place of --footprint")
	f.StringSliceVar(&e.Policies, "policy", []string{"predict", "allocation", "swap", "serial", "paging"}, "how memory is planned: "+strings.Join(experiment.MemoryPolicies(), ", "))
	f.DurationSliceVar(&e.Slices, "slice", []time.Duration{100 * time.Millisecond, time.Second}, "lengths of a turn")
	f.DurationVar(&e.Span, "span", 3*time.Second, "length of each measured part, at least")
	f.IntVar(&e.Cycles, "cycles", 3, "turns of each task in a measured part, at least")
	f.BoolVar(&e.Native, "native", false, "measure sharing without us as well, where all tasks fit the card")
	f.IntVar(&e.Rounds, "rounds", 2000, "times that a kernel of the workload long goes over its piece")
	f.StringVar(&level, "level", "3", "preemption level of the tasks: auto, 1, 2, 3")
	f.StringVar(&e.Python, "python", "python3", "interpreter")
	f.IntVar(&e.Layers, "layers", 16, "layers of the language model")
	f.IntVar(&e.Batch, "batch", 80, "images of a training step")
	f.StringVar(&plot, "plot", "", "draw of in memory over the length of turns to `PATH`-<workload>-<footprint>.png and .svg")
	return cmd
}

// plotOversub draws, for each workload and footprint, a line for each policy.
func plotOversub(lab *experiment.Lab, measured []rows.Row, path string) error {
	if path == "" {
		return nil
	}
	type picture struct {
		workload  string
		footprint int
	}
	var order []picture
	lines := map[picture][]plots.Line{}
	add := func(at picture, name string, x, y float64) {
		if !slices.Contains(order, at) {
			order = append(order, at)
		}
		i := slices.IndexFunc(lines[at], func(l plots.Line) bool { return l.Name == name })
		if i < 0 {
			i = len(lines[at])
			lines[at] = append(lines[at], plots.Line{Name: name})
		}
		lines[at][i].X, lines[at][i].Y = append(lines[at][i].X, x), append(lines[at][i].Y, y)
	}
	for _, r := range measured {
		slice, _ := r.Params["slice_ms"].(float64)
		y := r.Metrics["of_in_memory_pct"]
		if slice <= 0 || y <= 0 {
			continue
		}
		workload, _ := r.Params["workload"].(string)
		footprint, _ := r.Params["footprint_pct"].(int)
		policy, _ := r.Params["policy"].(string)
		at := picture{workload, footprint}
		add(at, policy, slice, y)
		if c := r.Metrics["ceiling_pct"]; c > 0 && policy == "predict" {
			add(at, "turns that end on time, at best", slice, c)
		}
	}
	for _, at := range order {
		caption := plots.Caption{
			Title:  fmt.Sprintf("Programs that take turns on %d %% of the memory that there is: %s", at.footprint, at.workload),
			Device: lab.Facts.Device, Simulated: lab.Facts.Simulated,
		}
		name := fmt.Sprintf("%s-%s-%d", filepath.Clean(path), at.workload, at.footprint)
		if err := plots.Lines(name, caption, "length of a turn (ms)", "% of what they make in memory", lines[at]...); err != nil {
			return err
		}
	}
	return nil
}
