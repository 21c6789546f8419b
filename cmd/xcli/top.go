package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"xmsched/cmd/internal/cli"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// minInterval is the daemon's own limit.
const minInterval = 100 * time.Millisecond

func topCommand(o *options) *cobra.Command {
	interval := time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the list again and again; q ends it",
		Long: "top redraws the list of tasks. Where standard output is no terminal, and with\n" +
			"--json, it prints the list once.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval < minInterval || interval > time.Hour {
				return cli.Usagef("interval %s: allowed are %s to 1h", interval, minInterval)
			}
			out, ok := c.OutOrStdout().(*os.File)
			if o.json || !ok || !term.IsTerminal(int(out.Fd())) {
				return o.ask(c, func(ctx context.Context, conn *client.Client) error {
					tasks, err := conn.ListTasks(ctx)
					if err != nil {
						return err
					}
					return o.print(c.OutOrStdout(), scheduled(tasks))
				})
			}
			return o.watch(c, out, interval)
		},
	}
	c.Flags().DurationVar(&interval, "interval", interval, "time between two pictures, 100ms to 1h")
	cli.Allow(c, "interval", "100ms to 1h")
	return c
}

// watch redraws until q, an interrupt or the end of the daemon.
func (o *options) watch(c *cobra.Command, out *os.File, interval time.Duration) error {
	dir, err := o.runDir()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	conn, err := client.Dial(ctx, dir)
	if err != nil {
		return err
	}
	defer conn.Close()

	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		old, err := term.MakeRaw(in)
		if err != nil {
			return fmt.Errorf("set terminal: %w", err)
		}
		defer func() { _ = term.Restore(in, old) }()
		go quitKeys(os.Stdin, stop) // ends with the process: a read of a terminal cannot be called off
	}
	const enter, leave = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l" // alternate screen, no cursor
	if _, err := io.WriteString(out, enter); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, leave) }()
	err = conn.Watch(ctx, interval, func(tasks []*xserverv1.Task) error {
		return draw(out, dir, interval, scheduled(tasks))
	})
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil // asked to end
	}
	return err
}

// quitKeys ends the picture at q, ctrl-C or ctrl-D.
func quitKeys(in io.Reader, stop func()) {
	var key [1]byte
	for {
		n, err := in.Read(key[:])
		if err != nil {
			return
		}
		if n == 1 && strings.IndexByte("qQ\x03\x04", key[0]) >= 0 {
			stop()
			return
		}
	}
}

// draw paints one picture in one write, cut to the terminal.
func draw(out *os.File, dir string, interval time.Duration, rows []row) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "xmsched in %s, every %s, %s; q ends\n\n", dir, interval, time.Now().Format(time.TimeOnly))
	if len(rows) == 0 {
		text.WriteString(nobody() + "\n")
	} else if err := table(rows).Write(&text); err != nil {
		return err
	}
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 { // serial lines and such do not know
		width, height = 80, 24
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	var screen strings.Builder
	screen.WriteString("\x1b[H")
	for _, line := range lines[:min(len(lines), height)] {
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:width])
		}
		screen.WriteString(line + "\x1b[K\r\n")
	}
	screen.WriteString("\x1b[J")
	_, err = io.WriteString(out, strings.Replace(screen.String(), "\r\n\x1b[J", "\x1b[J", 1))
	return err
}
