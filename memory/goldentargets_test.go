package memory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"xmsched/compute"
)

func (g *golden) makePlanner(b *strings.Builder, d *datadriven.TestData) error {
	c := Config{}
	var err error
	if c.Budget, err = sizeArg(d, "budget"); err != nil {
		return err
	}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "mode":
			if c.Mode, err = ModeByName(a.Vals[0]); err != nil {
				fmt.Fprintln(b, err)
				return nil
			}
		case "wait":
			if c.WaitCap, err = time.ParseDuration(a.Vals[0]); err != nil {
				return err
			}
		}
	}
	if g.planner == nil {
		g.planner, err = NewPlanner(c)
	} else {
		err = g.planner.Configure(c)
	}
	if err != nil {
		fmt.Fprintln(b, err)
		return nil
	}
	c = g.planner.Config()
	fmt.Fprintf(b, "%s, budget %s, a turn is waited for %v at most\n", c.Mode, c.Budget, c.WaitCap)
	return nil
}

func (g *golden) decide(b *strings.Builder, d *datadriven.TestData) error {
	var at string
	for _, a := range d.CmdArgs {
		if a.Key == "at" {
			at = a.Vals[0]
		}
	}
	now, err := time.ParseDuration(at)
	if err != nil {
		return err
	}
	if strings.Contains(d.Input, "slot") || strings.Contains(d.Input, "expect") {
		g.slots, g.expected = nil, nil
	}
	for _, line := range strings.Split(d.Input, "\n") {
		if f := strings.Fields(line); len(f) > 0 {
			if err := g.line(f); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
		}
	}
	out := g.planner.Decide(now, slices.Values(g.slots), g.expected, g.claims)
	for i, t := range out.Targets {
		g.claims[i].Seen = t.Want
		fmt.Fprintf(b, "task %d: %s of %s, has %s", t.Task, t.Bytes, t.Desired, g.claims[i].Resident)
		if t.Move != Stay {
			fmt.Fprintf(b, ", %s", t.Move)
		}
		if t.Hold {
			b.WriteString(", held")
		}
		if t.Wait > 0 {
			fmt.Fprintf(b, ", waits %v", t.Wait.Round(time.Millisecond))
		}
		if t.Quantum > 0 {
			fmt.Fprintf(b, ", turns of %v", t.Quantum.Round(time.Millisecond))
		}
		b.WriteString("\n")
	}
	if out.Over > 0 {
		fmt.Fprintf(b, "pinned beyond the budget: %s\n", out.Over)
	}
	if out.Next > 0 {
		fmt.Fprintf(b, "next at %v\n", out.Next.Round(time.Millisecond))
	}
	return nil
}

func (g *golden) line(f []string) error {
	n, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return err
	}
	id := compute.TaskID(n)
	switch f[0] {
	case "slot":
		start, err := time.ParseDuration(f[2])
		if err != nil {
			return err
		}
		length, err := time.ParseDuration(f[3])
		g.slots = append(g.slots, compute.Slot{Task: id, Start: start, Length: length})
		return err
	case "expect":
		next, err := time.ParseDuration(f[2])
		if err != nil {
			return err
		}
		keep, err := strconv.Atoi(f[3])
		g.expected = append(g.expected, compute.Expectation{Task: id, NextReady: next, Keep: keep})
		return err
	}
	i := slices.IndexFunc(g.claims, func(c Claim) bool { return c.Task == id })
	if i < 0 {
		i = len(g.claims)
		g.claims = append(g.claims, Claim{Task: id})
	}
	c := &g.claims[i]
	c.Ready, c.Open, c.Stopped = false, false, false
	for _, w := range f[2:] {
		if w == "gone" {
			g.claims = slices.Delete(g.claims, i, i+1)
			return nil
		}
		if err := c.set(w); err != nil {
			return err
		}
	}
	return nil
}

// set changes a claim by a word of a transcript.
func (c *Claim) set(word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	amounts := map[string]*Bytes{
		"footprint": &c.Footprint, "working": &c.Working, "pinned": &c.Pinned, "resident": &c.Resident,
		"loading": &c.Loading, "asked": &c.Asked, "exchange": &c.Exchange, "limit": &c.Limit,
	}
	switch to := amounts[name]; {
	case to != nil:
		*to, err = ParseBytes(value)
	case name == "slice":
		c.Slice, err = time.ParseDuration(value)
	case name == "rank":
		c.Rank, err = strconv.Atoi(value)
	case name == "ready":
		c.Ready = true
	case name == "open":
		c.Open = true
	case name == "stopped":
		c.Stopped = true
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}
