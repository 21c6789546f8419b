package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/cmd/xcli/internal/observe"
	"xmsched/nvx/bpf"
	"xmsched/xserver/client"
)

// observeOptions are the flags of xcli observe.
type observeOptions struct {
	*options
	all     bool
	seconds float64
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
	cli.Allow(c, "seconds", fmt.Sprintf("%g to %d", leastSeconds, mostSeconds))
	return c
}

// subject is the process that is meant, 0 for all.
func (o *observeOptions) subject(args []string) (int, error) {
	if !(o.seconds >= leastSeconds && o.seconds <= mostSeconds) {
		return 0, cli.Usagef("--seconds %g: allowed are %g to %d", o.seconds, leastSeconds, mostSeconds)
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
	observer, err := bpf.Open(bpf.Options{PID: pid})
	var denied *bpf.PermissionError
	switch {
	case errors.As(err, &denied):
		return cli.Usagef("%v", denied)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no process %d", pid)
	case err != nil:
		return err
	}
	command := commandLine(pid)
	err = watch(ctx, observer, pid, time.Duration(o.seconds*float64(time.Second)))
	if err == nil {
		err = o.report(out, progress, observer, pid, command)
	}
	return errors.Join(err, observer.Close())
}

// lookEvery is how often new programs are looked for, and whether the observed
// one still lives.
const lookEvery = 250 * time.Millisecond

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
		if pid == 0 {
			if err := observer.Look(); err != nil {
				return err
			}
		}
	}
}

func (o *observeOptions) report(out, progress io.Writer, observer *bpf.Observer, pid int, command []string) error {
	s, err := observer.Snapshot()
	if err != nil {
		return err
	}
	for _, l := range observe.Rest(s) {
		if _, err := fmt.Fprintln(progress, "xcli: "+l); err != nil {
			return err
		}
	}
	subjects := o.subjects(s, pid, command)
	if len(subjects) == 0 && !o.json {
		_, err := fmt.Fprintf(out, "no program used the CUDA driver in %v\n", s.Took.Round(100*time.Millisecond))
		return err
	}
	write := observe.Text
	if o.json {
		write = observe.JSON
	}
	for i := range subjects {
		if i > 0 && !o.json {
			if _, err := fmt.Fprint(out, "\n\n"); err != nil {
				return err
			}
		}
		if err := write(out, &subjects[i]); err != nil {
			return err
		}
	}
	return nil
}

// subjects are the processes to report, also those that have made no call.
func (o *observeOptions) subjects(s *bpf.Snapshot, pid int, command []string) []observe.Subject {
	figures := s.Processes
	for _, silent := range s.Silent {
		figures = append(figures, bpf.Figures{PID: silent, Name: processName(silent), Before: s.Took})
	}
	memory := deviceBytes()
	var subjects []observe.Subject
	for _, f := range figures {
		one := observe.Subject{Figures: f, Took: s.Took, DeviceBytes: memory, Devices: devicesOpen(f.PID), Command: command}
		if f.PID != pid {
			one.Command = commandLine(f.PID)
		}
		subjects = append(subjects, one)
	}
	return subjects
}

// deviceBytes is the memory of this machine's GPU, when a sheet says so and there
// is one sheet (xcli device makes them); else 0.
func deviceBytes() uint64 {
	dir, err := client.StateDir()
	if err != nil {
		return 0
	}
	return onlyDevice(dir)
}
