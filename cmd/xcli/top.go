package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"xmsched/cmd/internal/cli"
	"xmsched/cmd/xcli/internal/top"
	"xmsched/xserver/client"
)

// Limits of the view.
const (
	minInterval = 100 * time.Millisecond // the daemon looks no more often itself
	minColumns  = 40
	maxColumns  = 500
	minLines    = 6
	maxLines    = 200
)

// appearance is how the view is to be.
type appearance struct {
	interval      time.Duration
	snapshot      bool
	width, height int
	ascii         bool
}

func topCommand(o *options) *cobra.Command {
	l := appearance{interval: time.Second, width: 80, height: 24}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live who has the GPU, and change priorities and the policy",
		Long: `top shows the tasks as they are: state, level, commands in their queues, the part of
the device that each had, with the last minute as a graph, and how long requests took
in the last half minute to minute (else ever), from turning ready to turning idle.

Keys: arrows select a task, + and - change its priority by 1, ] and [ by 10, p chooses
the policy, s sorts by GPU share, q ends it.

Where standard output is no terminal, and with --json, it prints the list once; with
--snapshot the picture, as text. It draws with characters beyond ASCII where the
locale has them.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			out, ok := c.OutOrStdout().(*os.File)
			switch {
			case l.snapshot:
				return o.snapshot(c, l)
			case o.json || !ok || !term.IsTerminal(int(out.Fd())):
				return o.ask(c, func(ctx context.Context, conn *client.Client) error {
					tasks, err := conn.ListTasks(ctx)
					if err != nil {
						return err
					}
					return o.print(c.OutOrStdout(), scheduled(tasks))
				})
			}
			return o.live(c, out, l)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.DurationVar(&l.interval, "interval", l.interval, "time between two pictures, 100ms to 1h")
	f.BoolVar(&l.snapshot, "snapshot", false, "print one picture, as text")
	f.IntVar(&l.width, "width", l.width, fmt.Sprintf("columns of a snapshot, %d to %d", minColumns, maxColumns))
	f.IntVar(&l.height, "height", l.height, fmt.Sprintf("lines of a snapshot, %d to %d", minLines, maxLines))
	f.BoolVar(&l.ascii, "ascii", !unicodeLocale(os.Getenv), "draw with ASCII alone")
	cli.Allow(c, "interval", "100ms to 1h")
	cli.Allow(c, "width", fmt.Sprintf("%d to %d", minColumns, maxColumns))
	cli.Allow(c, "height", fmt.Sprintf("%d to %d", minLines, maxLines))
	return c
}

func (l appearance) check() error {
	switch {
	case l.interval < minInterval || l.interval > time.Hour:
		return cli.Usagef("interval %s: allowed are %s to 1h", l.interval, minInterval)
	case l.width < minColumns || l.width > maxColumns:
		return cli.Usagef("width %d is out of range: %d to %d", l.width, minColumns, maxColumns)
	case l.height < minLines || l.height > maxLines:
		return cli.Usagef("height %d is out of range: %d to %d", l.height, minLines, maxLines)
	}
	return nil
}

// unicodeLocale says whether the terminal is told to show what is beyond ASCII.
func unicodeLocale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}

// daemon asks the daemon for the view.
type daemon struct {
	ctx  context.Context
	conn *client.Client
}

// Sample looks at the tasks and at the daemon.
func (d daemon) Sample() top.Sample {
	ctx, cancel := context.WithTimeout(d.ctx, answerTime)
	defer cancel()
	s := top.Sample{At: time.Now()}
	st, err := d.conn.Status(ctx)
	if err == nil {
		s.Policy, s.Uptime = st.Policy, time.Duration(st.UptimeNs)
		_, s.Policies, err = d.conn.Policy(ctx)
	}
	if err == nil {
		s.Tasks, _, err = d.conn.Report(ctx)
	}
	if s.Err = err; err == nil {
		s.Memory = d.memory(ctx)
	}
	return s
}

// memory is how full the devices are whose memory is known; without it the rest is
// shown.
func (d daemon) memory(ctx context.Context) map[string]top.Memory {
	r, err := d.conn.Memory(ctx)
	if err != nil {
		return nil
	}
	of := map[string]top.Memory{}
	for _, m := range r.Devices {
		used, total := m.Resident+m.DriverOwned, m.Card
		if total == 0 {
			used, total = m.Resident, m.Budget
		}
		if total > 0 {
			of[m.Uuid] = top.Memory{Used: used, Total: total}
		}
	}
	return of
}

// SetPriority changes a task's priority.
func (d daemon) SetPriority(task uint64, priority int) error {
	ctx, cancel := context.WithTimeout(d.ctx, answerTime)
	defer cancel()
	_, _, err := d.conn.SetHints(ctx, client.Target{Task: task}, client.Hints{Priority: &priority})
	return err
}

// SetPolicy changes the policy.
func (d daemon) SetPolicy(name string) error {
	ctx, cancel := context.WithTimeout(d.ctx, answerTime)
	defer cancel()
	_, err := d.conn.SetPolicy(ctx, name)
	return err
}

// snapshot prints one picture.
func (o *options) snapshot(c *cobra.Command, l appearance) error {
	return o.ask(c, func(ctx context.Context, conn *client.Client) error {
		asker := daemon{ctx, conn}
		s := asker.Sample()
		if s.Err != nil {
			return s.Err
		}
		m := top.New(asker, top.Options{Width: l.width, Height: l.height, ASCII: l.ascii, Plain: true}).With(s)
		_, err := fmt.Fprintln(c.OutOrStdout(), m.Picture())
		return err
	})
}

// live shows the view until it is asked to end.
func (o *options) live(c *cobra.Command, out io.Writer, l appearance) error {
	return o.askUntil(c, func(ctx context.Context, conn *client.Client) error {
		m := top.New(daemon{ctx, conn}, top.Options{Width: l.width, Height: l.height, ASCII: l.ascii, Interval: l.interval})
		_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out),
			tea.WithWindowSize(l.width, l.height), tea.WithFilter(l.sized)).Run()
		if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
			return nil // asked to end
		}
		return err
	}, syscall.SIGTERM, syscall.SIGHUP)
}

// sized gives a terminal that does not know its size, as in some containers, the
// size that is asked for: nothing would be drawn on it.
func (l appearance) sized(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, ok := msg.(tea.WindowSizeMsg); ok && (size.Width == 0 || size.Height == 0) {
		return tea.WindowSizeMsg{Width: l.width, Height: l.height}
	}
	return msg
}
