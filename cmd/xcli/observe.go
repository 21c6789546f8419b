package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/cmd/xcli/internal/observe"
	"xmsched/nvx/bpf"
	"xmsched/nvx/sheet"
	"xmsched/xserver/client"
)

// observeOptions are the flags of xcli observe.
type observeOptions struct {
	*options
	all     bool
	seconds float64
	limit   float64 // percent
}

// How long may be observed.
const (
	leastSeconds = 0.1
	mostSeconds  = 86400
)

func observeCommand(o *options) *cobra.Command {
	ob := &observeOptions{options: o}
	c := &cobra.Command{
		Use:   "observe PID | --all",
		Short: "Look at a running program, without a restart, and say what sharing would give it",
		Long: `observe looks at programs that use the GPU, whoever started them: it puts
breakpoints (uprobes) into the driver's library, or uses the probe sites of our
own where a program runs under xrun, and counts in the kernel. It shows launches,
copies, memory, when the device was busy as far as calls tell, what observing
cost, and the xrun line to use. The daemon is not needed. It ends after the given
time, when the process ends, or with Ctrl-C, and takes everything away.

Needs Linux 5.15 and root, or CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE for
programs of others). A call that is looked at takes some microseconds longer.`,
		Example: "  xcli observe 4711\n  xcli observe --all --seconds 30 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			pid, err := ob.subject(args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return ob.run(ctx, c.OutOrStdout(), c.ErrOrStderr(), pid)
		},
	}
	c.Flags().BoolVar(&ob.all, "all", false, "all programs that use the driver, also those that start meanwhile")
	c.Flags().Float64Var(&ob.seconds, "seconds", 10, "how long, in `seconds`")
	c.Flags().Float64Var(&ob.limit, "limit", 10, "let observing cost the programs at most this `percent` of the time: above it, launches and copies are looked at only now and then; 0: whatever it costs")
	cli.Allow(c, "limit", "0 to 100")
	cli.Allow(c, "seconds", fmt.Sprintf("%g to %d", leastSeconds, mostSeconds))
	return c
}

// subject is the process that is meant, 0 for all.
func (o *observeOptions) subject(args []string) (int, error) {
	if !(o.seconds >= leastSeconds && o.seconds <= mostSeconds) {
		return 0, cli.Usagef("--seconds %g: allowed are %g to %d", o.seconds, leastSeconds, mostSeconds)
	}
	if !(o.limit >= 0 && o.limit <= 100) {
		return 0, cli.Usagef("--limit %g: allowed are 0 to 100 percent", o.limit)
	}
	switch {
	case o.all && len(args) > 0:
		return 0, cli.Usagef("%s and --all: give one of them", args[0])
	case o.all:
		return 0, nil
	case len(args) == 0:
		return 0, cli.Usagef("no process: give its number, or --all")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		return 0, cli.Usagef("%q is not the number of a process", args[0])
	}
	return pid, nil
}

func (o *observeOptions) run(ctx context.Context, out, progress io.Writer, pid int) error {
	observer, err := bpf.Open(bpf.Options{PID: pid, LimitPercent: o.limit})
	var denied *bpf.PermissionError
	switch {
	case errors.As(err, &denied):
		return cli.Usagef("%v", denied)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no process %d", pid)
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintf(progress, "xcli: observing for %g s; Ctrl-C ends it\n", o.seconds); err != nil {
		return errors.Join(err, observer.Close())
	}
	err = watch(ctx, observer, pid, time.Duration(o.seconds*float64(time.Second)))
	if err == nil {
		err = o.report(out, progress, observer)
	}
	return errors.Join(err, observer.Close())
}

// lookEvery is how often new programs are looked for, the cost is held against its
// limit, and whether the observed process still lives.
const lookEvery = 100 * time.Millisecond

// watch lets time pass.
func watch(ctx context.Context, observer *bpf.Observer, pid int, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if pid != 0 && syscall.Kill(pid, 0) == syscall.ESRCH {
			return nil
		}
		if err := observer.Look(); err != nil {
			return err
		}
	}
}

func (o *observeOptions) report(out, progress io.Writer, observer *bpf.Observer) error {
	s, err := observer.Snapshot()
	if err != nil {
		return err
	}
	for _, l := range observe.Rest(s) {
		if _, err := fmt.Fprintln(progress, "xcli: "+l); err != nil {
			return err
		}
	}
	if len(s.Processes) == 0 && !o.json {
		_, err := fmt.Fprintf(out, "no program used the CUDA driver in %v\n", s.Took.Round(100*time.Millisecond))
		return err
	}
	write, between := observe.Text, "\n\n"
	if o.json {
		write, between = observe.JSON, ""
	}
	memory := deviceBytes()
	for i, f := range s.Processes {
		if i > 0 {
			if _, err := io.WriteString(out, between); err != nil {
				return err
			}
		}
		if err := write(out, &observe.Subject{Figures: f, Took: s.Took, DeviceBytes: memory}); err != nil {
			return err
		}
	}
	return nil
}

// deviceBytes is the memory of this machine's GPU, when there is one sheet of a
// real one (xcli device makes them); else 0.
func deviceBytes() uint64 {
	dir, err := client.StateDir()
	if err != nil {
		return 0
	}
	sheets, err := sheet.List(dir)
	sheets = slices.DeleteFunc(sheets, func(s *sheet.Sheet) bool { return s.Simulated })
	if err != nil || len(sheets) != 1 {
		return 0
	}
	return sheets[0].Device.MemoryBytes
}
