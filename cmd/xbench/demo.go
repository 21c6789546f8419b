package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/plots"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

func demoCommand() *cobra.Command {
	var c common
	var out string
	var quick bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Two programs on one GPU: alone, sharing it without us, under xmsched; and memory for half of them",
		Long: `Runs a latency-critical program (bursts of 1 ms requests) and a background one
(an endless queue of 1 ms kernels) as two unmodified processes: the first alone,
then both sharing the GPU without us, then both under xmsched with priorities
10 and 0. Then four programs that together have twice the memory that they may have
on the GPU: one after the other, and all at once under xmsched, which moves it. Every
result that the GPU computed is compared with its closed form.

Prints a table, and writes plots and rows to the folder that --out names.
Takes under a minute. The GPU is the real one if its driver answers, else the
simulated one.`,
		Example: "  xbench demo\n  xbench demo --sim --quick --out /tmp/demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.withLab(cmd, func(ctx context.Context, lab *experiment.Lab) error {
				return runDemo(ctx, cmd, lab, c, quick, out)
			})
			if err != nil && cmd.Context().Err() == nil {
				return fmt.Errorf("%w\nWhat to do next: `xcli doctor` looks at driver, libraries and sockets and says what is missing", err)
			}
			return err
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&out, "out", "demo-results", "folder for plots and rows")
	cmd.Flags().BoolVar(&quick, "quick", false, "fewer requests: a look, not a measurement")
	return cmd
}

var phaseNames = map[string]string{
	rows.ModeAlone: "alone", rows.ModeNative: "sharing without us", rows.ModeXmsched: "under xmsched",
}

func runDemo(ctx context.Context, cmd *cobra.Command, lab *experiment.Lab, c common, quick bool, out string) error {
	demo := experiment.DefaultDemo(quick)
	if !c.json {
		fmt.Fprintf(cmd.OutOrStdout(), "On %s, %s%s.\n", lab.Facts.Device, lab.Facts.Driver, simulatedNote(lab.Facts.Simulated))
	}
	p := newProgress(cmd.ErrOrStderr())
	phases, err := lab.RunDemo(ctx, demo, func(what string, done, total int) {
		if name, ok := phaseNames[what]; ok {
			what = name
		}
		p.report(what, done, total)
	})
	if err != nil {
		p.done()
		return err
	}
	shown, err := lab.RunMemoryDemo(ctx, p.report)
	p.done()
	if err != nil {
		return fmt.Errorf("more memory than there is: %w", err)
	}
	measured := append(demoRows(lab, demo, phases), shown.Rows(lab)...)
	if err := writeDemoFiles(lab, phases, measured, out); err != nil {
		return err
	}
	if c.json {
		return c.emit(cmd.OutOrStdout(), measured, nil, nil)
	}
	if c.results != "" {
		if err := c.emit(io.Discard, measured, nil, nil); err != nil {
			return err
		}
	}
	return printDemo(cmd.OutOrStdout(), lab, phases, shown, out)
}

func simulatedNote(simulated bool) string {
	if simulated {
		return " (simulated: these times show the mechanism and are no evidence)"
	}
	return ""
}

func demoRows(lab *experiment.Lab, demo experiment.Demo, phases []experiment.DemoPhase) []rows.Row {
	var out []rows.Row
	for _, ph := range phases {
		out = append(out, lab.Row("demo", ph.Mode, ph.Latency.N, demo.Params(ph.Mode, ph.Level), rows.Metrics{
			"p50_us": ph.Latency.P50, "p90_us": ph.Latency.P90, "p99_us": ph.Latency.P99, "max_us": ph.Latency.Max,
			"p99_ratio": ph.P99Ratio, "background_per_s": ph.BackgroundPerS, "background_ratio": ph.ShareOfAlone,
		}))
	}
	return out
}

// writeDemoFiles replaces what an earlier demonstration left in the folder.
func writeDemoFiles(lab *experiment.Lab, phases []experiment.DemoPhase, measured []rows.Row, out string) error {
	file := filepath.Join(out, "demo.jsonl")
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replace the last demonstration's rows: %w", err)
	}
	if err := rows.Append(file, measured...); err != nil {
		return err
	}
	var series []plots.Series
	var bars []plots.Bar
	for _, ph := range phases {
		series = append(series, plots.Series{Name: phaseNames[ph.Mode], SampleUS: ph.LatencyUS})
		bars = append(bars, plots.Bar{Name: phaseNames[ph.Mode], Value: ph.BackgroundPerS})
	}
	caption := plots.Caption{Title: "Latency of 1 ms requests beside a background program", Device: lab.Facts.Device, Simulated: lab.Facts.Simulated}
	if err := plots.Latency(filepath.Join(out, "latency"), caption, series...); err != nil {
		return err
	}
	caption.Title = "What the background program got"
	return plots.Bars(filepath.Join(out, "background"), caption, "kernels per second", bars...)
}

func printDemo(w io.Writer, lab *experiment.Lab, phases []experiment.DemoPhase, shown experiment.MemoryShown, out string) error {
	t := cli.NewTable("PHASE", "P50 us", "P90 us", "P99 us", "P99 / ALONE", "BACKGROUND kernels/s", "OF ALONE")
	verified := uint64(0)
	for _, ph := range phases {
		style := cli.Plain
		if ph.Mode == rows.ModeXmsched {
			style = cli.Bold
		}
		t.Row(cli.Cell{Text: phaseNames[ph.Mode], Style: style},
			figure(ph.Latency.P50), figure(ph.Latency.P90), figure(ph.Latency.P99),
			fmt.Sprintf("%.2fx", ph.P99Ratio), fmt.Sprintf("%.0f", ph.BackgroundPerS), fmt.Sprintf("%.0f %%", 100*ph.ShareOfAlone))
		verified += ph.Verified
	}
	fmt.Fprintln(w)
	if err := t.Write(w); err != nil {
		return err
	}
	if err := printMemory(w, shown); err != nil {
		return err
	}
	verified += shown.Verified
	_, err := fmt.Fprintf(w, "\n%d result words were compared with their closed form; all are right.\nWritten to %s: latency.png, latency.svg, background.png, background.svg, demo.jsonl%s\n",
		verified, out, simulatedNote(lab.Facts.Simulated))
	return err
}

// printMemory shows the part with more memory than there is.
func printMemory(w io.Writer, s experiment.MemoryShown) error {
	fmt.Fprintf(w, "\n%d programs of %s each, where %s may be on the GPU:\n\n", s.Tasks, s.Task, s.Budget)
	t := cli.NewTable("MEMORY", "TIME s", "TO ONE BY ONE", "MOVED IN", "MOVED OUT")
	t.Row("one after the other", figure(s.OneByOne.Seconds()), "1.00x", "-", "-")
	t.Row(cli.Cell{Text: "all at once, under xmsched", Style: cli.Bold}, figure(s.Together.Seconds()), fmt.Sprintf("%.2fx", s.Ratio()), s.In.String(), s.Out.String())
	return t.Write(w)
}
