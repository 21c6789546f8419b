package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"xmsched/cmd/internal/cli"
	"xmsched/memory"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

func memoryCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:     "memory",
		Short:   "Show where the memory of the devices is, and change how it is managed",
		Example: "  xcli memory stats --watch\n  xcli memory set --budget 16GiB\n  xcli memory set --task 3 --limit 8GiB",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(memoryStatsCommand(o), memorySetCommand(o))
	return c
}

func memoryStatsCommand(o *options) *cobra.Command {
	var watch bool
	interval := time.Second
	c := &cobra.Command{
		Use:   "stats [--watch]",
		Short: "Show where every byte is and what moved",
		Long: `stats shows the devices with their budgets, and a line for each process that you may
see. LIMIT is what it may allocate. ALLOC is what it has allocated, of that on the
DEVICE and on the HOST; POOL is the host memory that was made for it, in use or not;
PINNED is other memory of it on the device, and WHY names what cannot be moved. TARGET
is what it may have on the device now, NEXT what its next turn touches ("all" where that
is not foretold). IN and OUT are what moved, and how fast while it did; STALL how long it
stood still for that; HIDDEN what part of it came in while another ran. TURN is the
length of its turns, where its memory asks for another than the policy's.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval < minInterval || interval > time.Hour {
				return cli.Usagef("interval %s: allowed are %s to 1h", interval, minInterval)
			}
			if !watch {
				return o.ask(c, func(ctx context.Context, conn *client.Client) error {
					return o.showMemory(ctx, conn, c.OutOrStdout())
				})
			}
			return o.watchMemory(c, interval)
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "show it again and again until ctrl-C; a terminal is redrawn")
	c.Flags().DurationVar(&interval, "interval", interval, "time between two pictures, 100ms to 1h")
	cli.Allow(c, "interval", "100ms to 1h")
	return c
}

// watchMemory shows the figures again and again.
func (o *options) watchMemory(c *cobra.Command, interval time.Duration) error {
	return o.askUntil(c, func(ctx context.Context, conn *client.Client) error {
		out := c.OutOrStdout()
		file, _ := out.(*os.File)
		redraw := !o.json && file != nil && term.IsTerminal(int(file.Fd()))
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			var text bytes.Buffer
			if redraw {
				text.WriteString("\x1b[H\x1b[2J")
			}
			asked, cancel := context.WithTimeout(ctx, answerTime)
			err := o.showMemory(asked, conn, &text)
			cancel()
			if ctx.Err() != nil {
				return nil // asked to end
			}
			if err != nil {
				return asUsage(err)
			}
			if _, err := out.Write(text.Bytes()); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}, syscall.SIGINT, syscall.SIGTERM)
}

// showMemory writes the figures as they are now.
func (o *options) showMemory(ctx context.Context, conn *client.Client, w io.Writer) error {
	stats, err := conn.Memory(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return cli.JSON(w, memoryJSON(stats))
	}
	if !stats.Managed {
		_, err := fmt.Fprintln(w, "memory is not managed here; start the daemon without --hbm-budget none")
		return err
	}
	fmt.Fprintf(w, "policy %s; host: %s\n", stats.Policy, hostText(stats.Host))
	if stats.Awaiting {
		fmt.Fprintln(w, "programs of before a restart are waited for; until then nobody is given more than he has")
	}
	for _, d := range stats.Devices {
		fmt.Fprintf(w, "\n%s  %s: %s\n", d.Name, d.Uuid, deviceText(d))
		if len(d.Processes) == 0 {
			continue
		}
		if err := memoryTable(d.Processes).Write(w); err != nil {
			return err
		}
	}
	if len(stats.Devices) == 0 {
		fmt.Fprintln(w, "\n"+nobody())
	}
	return nil
}

func hostText(h *xserverv1.HostMemory) string {
	text := fmt.Sprintf("%s in a pool of %s", amount(h.GetUsed()), amount(h.GetPool()))
	if h.GetLimitedBy() != "" {
		text = fmt.Sprintf("%s, at most %s (%s)", text, amount(h.Limit), h.LimitedBy)
	}
	if h.GetKept() > 0 {
		text += "; " + amount(h.Kept) + " of it clean copies"
	}
	if h.GetLeftBehind() > 0 {
		text += "; " + amount(h.LeftBehind) + " of programs that left the daemon"
	}
	if h.GetPassing() > 0 {
		text += "; " + amount(h.Passing) + " on its way from one program to another"
	}
	return text
}

// deviceText is a device in one line.
func deviceText(d *xserverv1.DeviceMemory) string {
	if d.Why != "" {
		return "not managed: " + d.Why
	}
	text := "budget " + amount(d.Budget)
	if d.Card != 0 {
		text += " of " + amount(d.Card)
	}
	text += fmt.Sprintf(", %s given, %s free; %s on the device, %s on the host, %s pinned", amount(d.Committed), amount(d.Free), amount(d.Resident), amount(d.Host), amount(d.Pinned))
	for _, more := range []struct {
		there bool
		text  string
	}{
		{d.Link > 0, fmt.Sprintf("link %.3g GB/s each way", float64(d.Link)/1e9)},
		{d.Slots > 0, "host pool " + amount(d.Slots)},
		{d.DriverOwned > 0, amount(d.DriverOwned) + " counted for the driver"},
		{d.LeftBehind > 0, amount(d.LeftBehind) + " of programs that left the daemon"},
		{d.Oversubscribed, "oversubscribed"},
		{d.Over > 0, "what is pinned exceeds the budget by " + amount(d.Over)},
		{d.HostShort, "evictions stand still, as the host has no room"},
	} {
		if more.there {
			text += "; " + more.text
		}
	}
	return text
}

func memoryTable(list []*xserverv1.ProcessMemory) *cli.Table {
	t := cli.NewTable("TASK", "PID", "NAME", "LIMIT", "ALLOC", "DEVICE", "HOST", "POOL", "PINNED", "TARGET", "NEXT", "IN", "OUT", "STALL", "HIDDEN", "TURN", "WHY")
	for _, p := range list {
		m := p.Memory
		limit, turn := "-", "-"
		if m.Limit > 0 {
			limit = amount(m.Limit)
		}
		if m.QuantumNs > 0 {
			turn = client.Duration(m.QuantumNs).String()
		}
		t.Row(p.Task, p.Pid, p.Name, limit, amount(m.Allocated), amount(m.Resident), amount(m.Host), amount(m.Slots), amount(m.Pinned),
			amount(m.Target), workingText(m), movedText(m.MovedIn, m.InPerS), movedText(m.MovedOut, m.OutPerS),
			client.Duration(m.StallNs).Round(time.Millisecond), hiddenText(m), turn, memoryNote(m))
	}
	return t
}

// workingText is what the next turn touches; unless that was foretold, all there is.
func workingText(m *xserverv1.Memory) string {
	if !m.Foretold {
		return "all"
	}
	return amount(m.WorkingSet)
}

func movedText(n uint64, rate float64) string {
	if rate == 0 {
		return amount(n)
	}
	return fmt.Sprintf("%s %.1f GB/s", amount(n), rate/1e9)
}

func hiddenText(m *xserverv1.Memory) string {
	if m.MovedIn == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*m.Hidden)
}

// memoryNote says what is worth a word about a process's memory.
func memoryNote(m *xserverv1.Memory) string {
	var notes []string
	if m.Held {
		notes = append(notes, "stopped while its memory moves "+m.Move)
	}
	if m.Waits {
		notes = append(notes, "waits for its turn")
	}
	if m.Asked > 0 {
		notes = append(notes, "asks for "+amount(m.Asked))
	}
	if m.Waste > 0 {
		notes = append(notes, amount(m.Waste)+" wasted")
	}
	if m.Hashed > 0 {
		notes = append(notes, fmt.Sprintf("%s not copied of %s compared", amount(m.Spared), amount(m.Hashed)))
	}
	if len(m.PinnedBy) > 0 {
		kinds := make([]string, 0, len(m.PinnedBy))
		for _, k := range m.PinnedBy {
			kinds = append(kinds, amount(k.Bytes)+" "+k.Name)
		}
		notes = append(notes, "pinned: "+strings.Join(kinds, ", "))
	}
	if m.Why != "" {
		notes = append(notes, m.Why)
	}
	return strings.Join(notes, "; ")
}

func amount(n uint64) string { return memory.Clamp(n, memory.MaxBytes).String() }

func memorySetCommand(o *options) *cobra.Command {
	var budget, host, policy, limit string
	var target client.Target
	c := &cobra.Command{
		Use:   "set [--budget SIZE] [--host-budget SIZE] [--policy NAME] [(--task ID | --pid PID) --limit SIZE]",
		Short: "Change how memory is managed, or what a task may allocate",
		Long: `set changes what is named, and nothing else. A budget below what cannot leave the
device is refused; one below what is there now is reached as the programs give up
theirs. A limit holds for each process of the task, those to come included, and is
refused below what one has allocated. "none" takes a limit or the host budget away, and
the budget "auto" is what the card has room for. Memory is left alone only by a daemon
that was started with --hbm-budget none.`,
		Example: "  xcli memory set --budget 16GiB\n  xcli memory set --task 3 --limit 8GiB",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var change client.MemoryChange
			var err error
			if strings.EqualFold(budget, "none") {
				return cli.Usagef("--budget none: only a start of the daemon with --hbm-budget none leaves memory alone; auto is what the card has room for")
			}
			if change.Budget, err = given(c, "budget", budget, "auto"); err != nil {
				return err
			}
			if change.HostBudget, err = given(c, "host-budget", host, "none"); err != nil {
				return err
			}
			if change.Limit, err = given(c, "limit", limit, "none"); err != nil {
				return err
			}
			if c.Flags().Changed("policy") {
				if _, err := memory.ModeByName(policy); err != nil {
					return cli.Usagef("%v", err)
				}
				change.Policy = &policy
			}
			named := c.Flags().Changed("task") || c.Flags().Changed("pid")
			switch {
			case named != (change.Limit != nil):
				return cli.Usagef("a limit is a task's: --limit SIZE with --task ID or --pid PID")
			case named:
				if err := checkTarget(c, target); err != nil {
					return err
				}
				change.Target = target
			case change == (client.MemoryChange{}):
				return cli.Usagef("nothing to change: allowed are --budget SIZE, --host-budget SIZE, --policy NAME, and --limit SIZE of a task")
			}
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				now, err := conn.SetMemory(ctx, change)
				if err != nil {
					return err
				}
				return o.memorySet(c.OutOrStdout(), now, change)
			})
		},
	}
	c.Flags().StringVar(&budget, "budget", "", "what all programs together may have on each device, or auto")
	c.Flags().StringVar(&host, "host-budget", "", "what moved memory may take of the host, or none")
	c.Flags().StringVar(&policy, "policy", "", "how memory is planned: "+strings.Join(memory.Modes(), ", "))
	c.Flags().StringVar(&limit, "limit", "", "what each process of the task may allocate on a device, or none")
	targetFlags(c, &target, "one process, by itself")
	return c
}

// given reads an amount that was given; zero is the word for none of it. nil: it was
// not given.
func given(c *cobra.Command, flag, text, zero string) (*uint64, error) {
	if !c.Flags().Changed(flag) {
		return nil, nil
	}
	n := uint64(0)
	if !strings.EqualFold(text, zero) {
		b, err := memory.ParseBytes(text)
		if err != nil {
			return nil, cli.Usagef("--%s: %v; or %s", flag, err, zero)
		}
		if b < memory.Granularity {
			return nil, cli.Usagef("--%s %s: allowed are %s to %s, and %s", flag, text, memory.Granularity, memory.MaxBytes, zero)
		}
		n = uint64(b)
	}
	return &n, nil
}

// memorySet says what holds now.
func (o *options) memorySet(w io.Writer, now *xserverv1.SetMemoryResponse, change client.MemoryChange) error {
	if o.json {
		reply := map[string]any{"budget": now.Budget, "host_budget": now.HostBudget, "policy": now.Policy}
		if change.Limit != nil {
			reply["task"], reply["limit"] = now.Task, *change.Limit
		}
		return cli.JSON(w, reply)
	}
	word := func(n uint64, zero string) string {
		if n == 0 {
			return zero
		}
		return amount(n)
	}
	_, err := fmt.Fprintf(w, "budget %s, host budget %s, policy %s\n", word(now.Budget, "auto"), word(now.HostBudget, "none"), now.Policy)
	if err == nil && change.Limit != nil {
		_, err = fmt.Fprintf(w, "task %d: limit %s\n", now.Task, word(*change.Limit, "none"))
	}
	return err
}
