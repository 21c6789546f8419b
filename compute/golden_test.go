package compute

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the transcripts in testdata. A command is an Apply: its
// lines are the events, and what follows is everything that came out of it.
//
//	scheduler policy=HPF            start anew
//	at 5ms                          one Apply at this time, with these events:
//	  add 1 gpu0 priority=10
//	  ready 1 gpu0
//	state                           what the listing says
//	plan gpu0                       timeline, and what is expected of the rest
//	run 50ms                        Apply at every timer until this time
//
// With -rewrite the transcripts are written again; commit that only if you
// understand what changed them.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("transcripts: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := &golden{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out, err := g.command(t, d)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				if out == "" {
					return "nothing\n"
				}
				return out
			})
		})
	}
}

type golden struct {
	s    *Scheduler
	next time.Duration
}

func (g *golden) command(t *testing.T, d *datadriven.TestData) (string, error) {
	var arg string
	if len(d.CmdArgs) > 0 {
		arg = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "scheduler":
		var name string
		d.ScanArgs(t, "policy", &name)
		p, err := PolicyByName(name)
		if err != nil {
			return err.Error() + "\n", nil
		}
		g.s, g.next = NewScheduler(p), 0
		return "policy " + p.Name() + "\n", nil
	case "at":
		now, err := time.ParseDuration(arg)
		if err != nil {
			return "", err
		}
		events, err := parseEvents(d.Input)
		if err != nil {
			return "", err
		}
		return g.apply(now, events...), nil
	case "run":
		until, err := time.ParseDuration(arg)
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for g.next != 0 && g.next <= until {
			fmt.Fprintf(&b, "at %v\n", g.next)
			b.WriteString(indent(g.apply(g.next, Tick{})))
		}
		return b.String(), nil
	case "state":
		return g.state(), nil
	case "plan":
		return g.plan(Device(arg)), nil
	}
	return "", fmt.Errorf("unknown command %q", d.Cmd)
}

func (g *golden) apply(now time.Duration, events ...Event) string {
	out := g.s.Apply(now, events...)
	g.next = out.Next
	return formatOutcome(out)
}

func formatOutcome(out Outcome) string {
	var b strings.Builder
	for _, gr := range out.Grants {
		fmt.Fprintf(&b, "task %d on %s: %s %s\n", gr.Task, gr.Device, gate(gr.Open), gr.Mode)
	}
	if len(out.Replanned) > 0 {
		fmt.Fprintf(&b, "replanned %v\n", out.Replanned)
	}
	if out.Next != 0 {
		fmt.Fprintf(&b, "next at %v\n", out.Next)
	}
	return b.String()
}

func (g *golden) state() string {
	var b strings.Builder
	for _, t := range g.s.State() {
		work := "idle"
		if t.Ready {
			work = fmt.Sprintf("ready since %v", t.ReadySince)
		}
		fmt.Fprintf(&b, "task %d on %s: priority %d, quantum %v, %s, %s %s, ran %v\n",
			t.Task, t.Device, t.Hints.Priority, t.Hints.Quantum, work, gate(t.Open), t.Mode, t.RunTime)
	}
	return b.String()
}

func (g *golden) plan(d Device) string {
	var b strings.Builder
	for slot := range g.s.Timeline(d) {
		end := "open end"
		if slot.Length != 0 {
			end = (slot.Start + slot.Length).String()
		}
		fmt.Fprintf(&b, "task %d: %v to %s\n", slot.Task, slot.Start, end)
	}
	for _, e := range g.s.Expected(d) {
		when := "unknown"
		if e.NextReady != 0 {
			when = e.NextReady.String()
		}
		fmt.Fprintf(&b, "task %d: expected ready %s, keep %d\n", e.Task, when, e.Keep)
	}
	return b.String()
}

func gate(open bool) string {
	if open {
		return "open"
	}
	return "closed"
}

func indent(s string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(s, "\n", "\n  "), "  ")
}

func parseEvents(input string) ([]Event, error) {
	var events []Event
	for _, line := range strings.Split(input, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		e, err := parseEvent(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("event %q: %w", line, err)
		}
		events = append(events, e)
	}
	return events, nil
}

func parseEvent(f []string) (Event, error) {
	if f[0] == "policy" {
		p, err := PolicyByName(f[1])
		return PolicyChanged{p}, err
	}
	if f[0] == "tick" {
		return Tick{}, nil
	}
	if f[0] == "switch" {
		cost, err := time.ParseDuration(f[2])
		return SwitchCost{Device(f[1]), cost}, err
	}
	n, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return nil, err
	}
	task, rest := TaskID(n), f[2:]
	switch f[0] {
	case "add":
		h, err := parseHints(rest[1:])
		return TaskAdded{task, Device(rest[0]), h}, err
	case "hint":
		h, err := parseHints(rest)
		return HintsChanged{task, h}, err
	case "remove":
		return TaskRemoved{task}, nil
	case "leave":
		return DeviceLeft{task, Device(rest[0])}, nil
	case "ready":
		return Ready{task, Device(rest[0])}, nil
	case "idle":
		return Idle{task, Device(rest[0])}, nil
	case "cpu":
		n, err := strconv.Atoi(rest[0])
		return CPUPriorityChanged{task, n}, err
	case "commands":
		length, err := time.ParseDuration(rest[1])
		return CommandLength{task, Device(rest[0]), length}, err
	case "overran":
		by, err := time.ParseDuration(rest[1])
		return Overran{Task: task, Device: Device(rest[0]), By: by}, err
	}
	return nil, fmt.Errorf("unknown event %q", f[0])
}

func parseHints(words []string) (h Hints, err error) {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		hint, ok := HintByName(name)
		switch {
		case name == "process":
			h.Process, err = strconv.ParseUint(value, 10, 64)
		case ok:
			err = hint.Parse(value, &h)
		default:
			err = fmt.Errorf("unknown hint %q", name)
		}
		if err != nil {
			return h, err
		}
	}
	return h, nil
}
