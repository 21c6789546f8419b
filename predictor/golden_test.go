package predictor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"xmsched/memory"
)

// TestGolden runs the transcripts in testdata. Those of learning:
//
//	range A 64MiB ...         an allocation, named; a gap of 64 MiB follows
//	kernel NAME               what is told next is of this one
//	observe [grain=1] [grid=N] [lossy]
//	                          a launch: words of its parameters ("u32:7", "u64:7",
//	                          "A+1MiB"), then a line for each stretch it was seen
//	                          to touch ("A+0 4MiB read")
//	launch                    the same without stretches: is it worth a look, and
//	                          what it is predicted to touch
//	templates                 what is known of the kernel
//
// and those of plans:
//
//	plan
//	submit                    lines: queue, sequence, ID, stretches
//	complete QUEUE SEQUENCE
//	took ID DURATION ...    "away" before those of launches whose memory was not there
//	mark A+0 ...              a slow launch touched this
//	ahead HORIZON             what comes, and the working set
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
			g := &golden{t: t, library: NewLibrary(Config{}), named: make(map[string]uint64), next: 1 << 40}
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
	t       *testing.T
	library *Library
	model   *Model
	ranges  Ranges
	named   map[string]uint64
	next    uint64
	plan    *Plan
}

func (g *golden) command(b *strings.Builder, d *datadriven.TestData) error {
	var words []string
	for _, a := range d.CmdArgs {
		words = append(words, a.Key)
	}
	lines := strings.Split(strings.TrimSpace(d.Input), "\n")
	switch d.Cmd {
	case "range":
		for i := 0; i+1 < len(words); i += 2 {
			n, err := memory.ParseBytes(words[i+1])
			if err != nil {
				return err
			}
			g.named[words[i]] = g.next
			g.ranges.Add(Range{g.next, uint64(n)})
			g.next += (uint64(n)+Block-1)/Block*Block + 64<<20
		}
		return nil
	case "kernel":
		g.model = g.library.Kernel(Kernel{Key: Key{Name: words[0]}}, 1)
		return nil
	case "observe", "launch":
		return g.launch(b, d, lines)
	case "templates":
		for _, v := range g.model.Describe().Variants {
			fmt.Fprintf(b, "variant %v: verified %d of %d\n", v.When, v.Verified, v.Observations)
			for _, p := range v.Pointers {
				fmt.Fprintf(b, "  at %d %s: bytes %q start %q stride %q count %q, %s\n", p.At, p.Shape, p.Bytes, p.Start, p.Stride, p.Count, p.Access)
			}
		}
		return nil
	}
	return g.planCommand(b, d.Cmd, words, lines)
}

// address reads "A+1MiB".
func (g *golden) address(text string) (uint64, error) {
	name, offset, _ := strings.Cut(text, "+")
	base, ok := g.named[name]
	n, err := memory.ParseBytes("0" + offset)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s: no such address: %v", text, err)
	}
	return base + uint64(n), nil
}

// name is address the other way round.
func (g *golden) name(address uint64) string {
	in, _ := g.ranges.Find(address)
	for name, base := range g.named {
		if base == in.Base {
			return fmt.Sprintf("%s+%v", name, memory.Bytes(address-base))
		}
	}
	return fmt.Sprintf("%#x", address)
}

func (g *golden) touch(text string) (Touch, error) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return Touch{}, fmt.Errorf("%q is no stretch", text)
	}
	base, err := g.address(f[0])
	if err != nil {
		return Touch{}, err
	}
	n, err := memory.ParseBytes(f[1])
	a := map[string]Access{"read": Read, "write": Write, "both": Either}[f[2]]
	return Touch{Base: base, Bytes: uint64(n), Access: a}, err
}

func (g *golden) write(b *strings.Builder, t Touch) {
	fmt.Fprintf(b, "  %s %v", g.name(t.Base), memory.Bytes(t.Bytes))
	if t.Count > 1 {
		fmt.Fprintf(b, " x%d every %v", t.Count, memory.Bytes(t.Stride))
	}
	fmt.Fprintf(b, ", %v\n", t.Access)
}

func (g *golden) launch(b *strings.Builder, d *datadriven.TestData, lines []string) error {
	l := Launch{Grid: dim(1, 1, 1), Block: dim(128, 1, 1)}
	o := Observation{Grain: Block, Lossy: d.HasArg("lossy")}
	d.MaybeScanArgs(g.t, "grain", &o.Grain)
	d.MaybeScanArgs(g.t, "grid", &l.Grid[0])
	var p args
	for _, word := range strings.Fields(lines[0]) {
		kind, value, _ := strings.Cut(word, ":")
		n, err := strconv.ParseUint(value, 0, 64)
		switch kind {
		case "u32":
			p.u32(n)
		case "u64":
			p.u64(n)
		default:
			n, err = g.address(word)
			p.u64(n)
		}
		if err != nil {
			return err
		}
	}
	l.Params = p.b
	if d.Cmd == "launch" {
		touches, basis := g.model.AppendTouches(nil, &l, &g.ranges)
		fmt.Fprintf(b, "%v, worth a look: %v\n", basis, g.model.Worth(&l, &g.ranges))
		for _, t := range touches {
			g.write(b, t)
		}
		return nil
	}
	for _, line := range lines[1:] {
		t, err := g.touch(line)
		if err != nil {
			return err
		}
		o.Touched = append(o.Touched, t)
	}
	out := g.model.Observe(&l, &g.ranges, &o)
	fmt.Fprintf(b, "predicted from %v: right %v, dropped %v\n", out.Basis, out.Right, out.Dropped)
	return nil
}

func (g *golden) planCommand(b *strings.Builder, cmd string, words, lines []string) error {
	number := func(i int) uint64 { n, _ := strconv.ParseUint(words[i], 10, 64); return n }
	switch cmd {
	case "plan":
		g.plan = NewPlan(PlanConfig{Commands: 64, Touches: 256})
	case "submit":
		for _, line := range lines {
			parts := strings.Split(line, ",")
			var c Command
			if _, err := fmt.Sscan(parts[0], &c.Queue, &c.Sequence, &c.ID); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			for _, text := range parts[1:] {
				t, err := g.touch(text)
				if err != nil {
					return err
				}
				c.Touches = append(c.Touches, t)
			}
			g.plan.Submit(c)
		}
		fmt.Fprintf(b, "outstanding %d, period %d\n", g.plan.Outstanding(), g.plan.Period())
	case "complete":
		g.plan.Complete(uint32(number(0)), number(1))
		fmt.Fprintf(b, "outstanding %d, period %d\n", g.plan.Outstanding(), g.plan.Period())
	case "took":
		took := g.plan.Took
		for _, word := range words[1:] {
			if word == "away" {
				took = g.plan.TookAway
				continue
			}
			d, err := time.ParseDuration(word)
			if err != nil {
				return err
			}
			if took(number(0), d) {
				fmt.Fprintf(b, "%v was slow\n", d)
			}
		}
		fmt.Fprintf(b, "expected %v\n", g.plan.Expected(number(0)).Round(time.Microsecond))
	case "mark":
		for _, word := range words {
			a, err := g.address(word)
			if err != nil {
				return err
			}
			g.plan.Mark([]Touch{{Base: a, Bytes: 1}}, &g.ranges)
		}
	case "unmark":
		g.plan.Unmark()
	case "ahead":
		return g.ahead(b, words[0])
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func (g *golden) ahead(b *strings.Builder, horizon string) error {
	d, err := time.ParseDuration(horizon)
	if err != nil {
		return err
	}
	g.plan.Ahead(d, func(u Use) bool {
		fmt.Fprintf(b, "%v:", u.At.Round(time.Microsecond))
		g.write(b, u.Touch)
		return true
	})
	var w Working
	g.plan.WorkingSet(&w, d)
	fmt.Fprintf(b, "working set %v until %v:", memory.Bytes(w.Bytes), w.Until.Round(time.Microsecond))
	for _, r := range w.Ranges {
		fmt.Fprintf(b, " %s %v;", g.name(r.Base), memory.Bytes(r.Bytes))
	}
	b.WriteString("\n")
	return nil
}
