package memory

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"xmsched/compute"
)

// TestGolden runs the transcripts in testdata. Those of moves:
//
//	segments                  a table; lines: ID SIZE STATE [arena] [pin=N] [used=N]
//	order lru 3 1 2           lru, fifo, 2q or belady, and what was used, in order
//	future 1 2 3              what belady is told of
//	plan target=64MiB [wanted=3,1]
//	move credit=64MiB         start the plan; lists the steps that can be done at once
//	done copy-out 0           a step's result, and what can be done then
//	fail map 0 device         or host, copy, map
//	target 64MiB, stop, kill
//
// and those of targets:
//
//	planner budget=16GiB mode=allocation
//	decide at=10ms            lines: what has changed; and then everybody's target
//	  task 1 footprint=8GiB resident=2GiB ready stopped gone …
//	  slot 1 0s 100ms         the timeline, in place of the last one
//	  expect 2 40ms 10        a task, its next ready (0s: unknown), its keep
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
			g := &golden{table: NewTable()}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				var b strings.Builder
				if err := g.command(&b, d); err != nil {
					d.Fatalf(t, "%v", err)
				}
				if b.Len() == 0 {
					return "nothing\n"
				}
				return b.String()
			})
		})
	}
}

type golden struct {
	table *Table
	order Order
	plan  Plan
	move  Move
	open  []Step

	planner  *Planner
	claims   []Claim
	slots    []compute.Slot
	expected []compute.Expectation
}

func (g *golden) command(b *strings.Builder, d *datadriven.TestData) error {
	var words []string
	for _, a := range d.CmdArgs {
		words = append(words, a.Key)
	}
	switch d.Cmd {
	case "segments":
		return g.segments(b, d.Input)
	case "order":
		return g.makeOrder(words)
	case "future":
		ids, err := parseIDs(words)
		g.order.(*Belady).Plan(slices.Values(ids))
		return err
	case "plan":
		return g.makePlan(b, d)
	case "move":
		credit, err := sizeArg(d, "credit")
		g.open = nil
		g.move.Start(g.table, &g.plan, g.order, credit)
		g.steps(b)
		return err
	case "done", "fail":
		return g.result(b, d.Cmd, words)
	case "target":
		size, err := ParseBytes(words[0])
		g.move.SetTarget(size)
		g.steps(b)
		return err
	case "stop":
		g.move.Stop()
		g.steps(b)
		return nil
	case "kill":
		g.move.Kill()
		g.steps(b)
		return nil
	case "planner":
		return g.makePlanner(b, d)
	case "decide":
		return g.decide(b, d)
	}
	return fmt.Errorf("unknown command %q", d.Cmd)
}

func sizeArg(d *datadriven.TestData, name string) (Bytes, error) {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return ParseBytes(a.Vals[0])
		}
	}
	return 0, fmt.Errorf("no %s", name)
}

func parseIDs(words []string) (ids []ID, err error) {
	for _, w := range words {
		n, e := strconv.ParseUint(w, 10, 64)
		if e != nil {
			err = e
		}
		ids = append(ids, ID(n))
	}
	return ids, err
}

func (g *golden) segments(b *strings.Builder, input string) error {
	var list []Segment
	address := uint64(1) << 40
	for _, line := range strings.Split(input, "\n") {
		f := strings.Fields(line)
		ids, err := parseIDs(f[:1])
		if err != nil {
			return err
		}
		size, err := ParseBytes(f[1])
		if err != nil {
			return err
		}
		s := Segment{ID: ids[0], Bytes: size, Address: address, State: State(slices.Index(stateNames[:], f[2]))}
		for _, w := range f[3:] {
			name, value, _ := strings.Cut(w, "=")
			n, _ := strconv.ParseUint(value, 10, 64)
			switch name {
			case "arena":
				s.Arena = true
			case "pin":
				s.Pin = Pin(n)
			case "used":
				s.Used = n
			}
		}
		address += uint64(max(size, 0))
		list = append(list, s)
	}
	if err := g.table.Reset(list); err != nil {
		fmt.Fprintln(b, err)
		return nil
	}
	g.figures(b)
	return nil
}

func (g *golden) figures(b *strings.Builder) {
	f := g.table.Figures()
	fmt.Fprintf(b, "%d segments, %s: %s on the device, %s pinned, %s in the host\n",
		f.Segments, f.Allocated, f.Resident, f.Pinned, f.Host)
}

func (g *golden) makeOrder(words []string) error {
	switch words[0] {
	case "lru":
		g.order = NewLRU()
	case "fifo":
		g.order = NewFIFO()
	case "2q":
		g.order = NewTwoQueue(8)
	case "belady":
		g.order = NewBelady()
	}
	ids, err := parseIDs(words[1:])
	for _, id := range ids {
		g.order.Use(id)
	}
	return err
}

func (g *golden) makePlan(b *strings.Builder, d *datadriven.TestData) error {
	target, err := sizeArg(d, "target")
	if err != nil {
		return err
	}
	var wanted []ID
	for _, a := range d.CmdArgs {
		if a.Key == "wanted" {
			if wanted, err = parseIDs(a.Vals); err != nil {
				return err
			}
		}
	}
	g.plan.Build(g.table, Goal{Target: target, Order: g.order, Wanted: wanted})
	for i, batch := range g.plan.Out {
		fmt.Fprintf(b, "out %d: %v, %s\n", i, batch.IDs, batch.Bytes)
	}
	for i, batch := range g.plan.In {
		fmt.Fprintf(b, "in %d: %v, %s\n", i, batch.IDs, batch.Bytes)
	}
	return nil
}

// steps lists what can be done at once, and how the move stands.
func (g *golden) steps(b *strings.Builder) {
	for s, ok := g.move.Next(); ok; s, ok = g.move.Next() {
		g.open = append(g.open, s)
		fmt.Fprintf(b, "%s: %v\n", s, s.IDs)
	}
	if g.move.Starved() {
		fmt.Fprintln(b, "starved")
	}
	if !g.move.Over() {
		return
	}
	m := g.move.Moved()
	fmt.Fprintf(b, "over: %s out, %s in, %s restored\n", m.Out, m.In, m.Restored)
	if err := g.move.Err(); err != nil {
		fmt.Fprintln(b, err)
	}
	g.figures(b)
	for _, state := range []State{Device, Host, Away, Loading} {
		var ids []ID
		for s := range g.table.All() {
			if s.State == state {
				ids = append(ids, s.ID)
			}
		}
		if len(ids) > 0 {
			fmt.Fprintf(b, "%s: %v\n", state, ids)
		}
	}
}

func (g *golden) result(b *strings.Builder, verb string, words []string) error {
	batch, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	for i, s := range g.open {
		if strings.ReplaceAll(s.Act.String(), " ", "-") != words[0] || s.Batch != batch {
			continue
		}
		g.open = slices.Delete(g.open, i, i+1)
		if verb == "done" {
			g.move.Done(s)
		} else {
			g.move.Failed(s, map[string]error{
				"host": ErrHostMemory, "device": ErrDeviceMemory, "copy": ErrCopy, "map": ErrMap,
			}[words[2]])
		}
		g.steps(b)
		return nil
	}
	return fmt.Errorf("%v is not under way: %v", words, g.open)
}
