package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/cmd/xcli/internal/perfetto"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

const (
	minTrace = 10 * time.Millisecond
	maxTrace = 10 * time.Minute
	// maxTraced bounds what is kept in memory, and the file: some 150 MB.
	maxTraced = 1 << 20
)

func traceCommand(o *options) *cobra.Command {
	var file string
	span := 5 * time.Second
	c := &cobra.Command{
		Use:   "trace -o FILE [--for D]",
		Short: "Record what is decided, for Perfetto or Chrome's tracing page",
		Long: `trace records for a while what the tasks do on each device: when they have work, run,
are gated, held or armed, and why, and changes of the policy. The file opens in
ui.perfetto.dev and chrome://tracing. An interrupt ends it early, and what was recorded
is written, as it is if the daemon ends. As root all users' tasks are there, else your own.`,
		Example: "  xcli trace -o trace.json --for 5s",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usagef("say where to with -o FILE; - is standard output")
			}
			if span < minTrace || span > maxTrace {
				return cli.Usagef("--for %s: allowed are %s to %s", span, minTrace, maxTrace)
			}
			return o.trace(c, file, span)
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write; - is standard output")
	c.Flags().DurationVar(&span, "for", span, fmt.Sprintf("how long, %v to %v", minTrace, maxTrace))
	cli.Allow(c, "for", fmt.Sprintf("%v to %v", minTrace, maxTrace))
	return c
}

// errEnough ends a trace that has grown too large.
var errEnough = errors.New("enough")

func (o *options) trace(c *cobra.Command, file string, span time.Duration) error {
	return o.askUntil(c, func(ctx context.Context, conn *client.Client) error {
		out, err := create(c.OutOrStdout(), file)
		if err != nil {
			return err
		}
		defer out.drop()
		t, err := record(ctx, conn, span)
		if err != nil && len(t.Events) == 0 {
			return err
		}
		if err := errors.Join(perfetto.Write(out, t), out.keep()); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		if err != nil {
			return fmt.Errorf("%w; what was recorded until then is in %s", err, file)
		}
		if file != "-" {
			fmt.Fprintf(c.ErrOrStderr(), "%d events in %s; open it in ui.perfetto.dev or chrome://tracing\n", len(t.Events), file)
		}
		if t.Lost > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "%d events came too fast and are missing\n", t.Lost)
		}
		return nil
	}, syscall.SIGINT, syscall.SIGTERM)
}

// output is where a trace goes to.
type output struct {
	io.Writer
	keep func() error // it is complete
	drop func()       // whatever is not complete is not to be left
}

// create opens a file, before anything is recorded. One that is there, or that a link
// leads to, is replaced when the new one is complete; what is no file (a pipe, a
// terminal) is written to.
func create(stdout io.Writer, file string) (output, error) {
	if file == "-" {
		return output{stdout, func() error { return nil }, func() {}}, nil
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		out, err := os.OpenFile(file, os.O_WRONLY, 0)
		return output{out, func() error { return nil }, func() { _ = out.Close() }}, err
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	out, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o644))
	if err != nil {
		return output{}, err
	}
	return output{out, out.CloseAtomicallyReplace, func() { _ = out.Cleanup() }}, nil
}

// record traces for a span, or until ctx ends. An error with events is the daemon's end.
func record(ctx context.Context, conn *client.Client, span time.Duration) (perfetto.Trace, error) {
	var t perfetto.Trace
	if err := name(ctx, conn, &t); err != nil { // those of the end may not be had any more
		return t, err
	}
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	err := conn.Trace(limited, func(events []*xserverv1.TraceEvent, lost uint64) error {
		t.Events = append(t.Events, events...)
		t.Lost += lost
		if len(t.Events) >= maxTraced {
			return errEnough
		}
		return nil
	})
	if len(t.Events) > 0 {
		t.EndNS = t.Events[0].AtNs + uint64(time.Since(begin))
	}
	if limited.Err() == nil && !errors.Is(err, errEnough) {
		return t, err // the daemon's end, or its refusal
	}
	return t, name(ctx, conn, &t)
}

// name gives a trace the tasks that there are, and those that ended lately.
func name(ctx context.Context, conn *client.Client, t *perfetto.Trace) error {
	naming, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	tasks, ended, err := conn.Report(naming)
	if err == nil {
		t.Tasks = append(ended, tasks...)
	}
	return err
}
