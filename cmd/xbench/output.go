package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xmsched/bench/experiment"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

// common are the flags of every measuring subcommand.
type common struct {
	json    bool
	sim     bool
	results string
}

func (c *common) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.json, "json", false, "print the rows, one JSON object a line, instead of a table")
	cmd.Flags().BoolVar(&c.sim, "sim", false, "use the simulated GPU even where a real one works")
	cmd.Flags().StringVar(&c.results, "results", "", "append the rows to `DIR`/<row>-<date>-<commit>.jsonl as well")
}

// interruptible runs f with a context that SIGINT and SIGTERM end, so that
// children are ended and files removed before the process goes.
func interruptible(cmd *cobra.Command, f func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := f(ctx)
	if ctx.Err() != nil && err != nil {
		return &cli.ExitError{Code: 130, Err: errors.New("interrupted; what was started has been ended")}
	}
	return err
}

// withLab runs f on a device and closes it.
func (c *common) withLab(cmd *cobra.Command, f func(context.Context, *experiment.Lab) error) error {
	return interruptible(cmd, func(ctx context.Context) error {
		places, err := experiment.FindPlaces()
		if err != nil {
			return err
		}
		lab, err := experiment.Open(ctx, experiment.Config{Places: places, Commit: experiment.Commit(cli.Version), Sim: c.sim,
			Note: func(note string) { fmt.Fprintln(cmd.ErrOrStderr(), note) }})
		if err != nil {
			return err
		}
		defer lab.Close()
		return f(ctx, lab)
	})
}

// emit prints rows and keeps them where --results says.
func (c *common) emit(w io.Writer, measured []rows.Row, params, metrics []string) error {
	if c.results != "" {
		for _, r := range measured {
			path := filepath.Join(c.results, rows.FileName(r.Row, r.Time.Time, r.Commit))
			if err := rows.Append(path, r); err != nil {
				return err
			}
		}
	}
	if c.json {
		return writeJSON(w, measured)
	}
	return writeTable(w, measured, params, metrics)
}

func writeJSON(w io.Writer, measured []rows.Row) error {
	for _, r := range measured {
		line, err := rows.Encode(r)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// writeTable shows the named params and metrics of each row; a metric's unit is
// in its name. A metric that no row has is left out.
func writeTable(w io.Writer, measured []rows.Row, params, metrics []string) error {
	if len(measured) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, describeDevice(measured[0])); err != nil {
		return err
	}
	metrics = slices.DeleteFunc(slices.Clone(metrics), func(m string) bool {
		return !slices.ContainsFunc(measured, func(r rows.Row) bool { _, ok := r.Metrics[m]; return ok })
	})
	heads := []string{"MODE", "N"}
	for _, p := range params {
		heads = append(heads, head(p))
	}
	for _, m := range metrics {
		heads = append(heads, head(m))
	}
	t := cli.NewTable(heads...)
	for _, r := range measured {
		cells := []any{r.Mode, r.N}
		for _, p := range params {
			if v, ok := r.Params[p]; ok {
				cells = append(cells, v)
			} else {
				cells = append(cells, "-")
			}
		}
		for _, m := range metrics {
			if v, ok := r.Metrics[m]; ok {
				cells = append(cells, figure(v))
			} else {
				cells = append(cells, "-")
			}
		}
		t.Row(cells...)
	}
	return t.Write(w)
}

func describeDevice(r rows.Row) string {
	s := fmt.Sprintf("%s: %s, %s", r.Row, r.Device, r.Driver)
	if r.Simulated {
		s += " (simulated: these times are no evidence)"
	}
	return s
}

// head makes a column's head of a metric's name: p99_us -> "P99 us".
func head(name string) string {
	i := strings.LastIndexByte(name, '_')
	if i < 0 || !slices.Contains(append(rows.Units(), "ms", "us"), name[i+1:]) {
		return strings.ToUpper(strings.ReplaceAll(name, "_", " "))
	}
	return strings.ToUpper(strings.ReplaceAll(name[:i], "_", " ")) + " " + name[i+1:]
}

// figure shows four significant digits, and large numbers whole.
func figure(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// measure runs an experiment with its progress shown and prints its rows, which it
// returns. What was measured before a failure is kept: a run takes minutes.
func measure[E any](ctx context.Context, cmd *cobra.Command, c *common, e E,
	run func(context.Context, E, func(what string, done, total int)) ([]rows.Row, error), params, metrics []string,
) ([]rows.Row, error) {
	p := newProgress(cmd.ErrOrStderr())
	measured, err := run(ctx, e, p.report)
	p.done()
	return measured, errors.Join(err, c.emit(cmd.OutOrStdout(), measured, params, metrics))
}
