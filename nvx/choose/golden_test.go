package choose

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"xmsched/compute"
)

// TestGolden runs the transcripts in testdata. A command is a decision: its lines
// are what happened before it, and what follows is every order that changed.
//
//	chooser                         start anew
//	at 5ms                          a decision at this time, after these:
//	  add 1 level=3 rank=5          level below 3: nothing but its gate; mps: a client of MPS
//	  grain 1 200us                 the mean length of its commands
//	  policy 1 closed bounded       the policy's word
//	  ready 1                       or idle 1
//	  did 1                         it carried out what it was told last
//	  ran 2 6ms launching=5ms       a run of a foreground
//	  launched 2 3000               commands until then, in all
//	run 50ms                        a decision at every timer until this time
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
			g := &transcript{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out, err := g.command(d)
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

type transcript struct {
	chooser *Chooser
	tasks   map[compute.TaskID]*Task
}

func (g *transcript) command(d *datadriven.TestData) (string, error) {
	if d.Cmd == "chooser" {
		g.chooser, g.tasks = New(Costs{}), map[compute.TaskID]*Task{}
		return "a device of the H200's costs\n", nil
	}
	at, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return "", err
	}
	switch d.Cmd {
	case "at":
		for line := range strings.Lines(d.Input) {
			if err := g.happen(at, strings.Fields(line)); err != nil {
				return "", fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
		}
		return g.decide(at), nil
	case "run":
		var b strings.Builder
		for next := g.chooser.Next(); next != 0 && next <= at; next = g.chooser.Next() {
			fmt.Fprintf(&b, "at %v\n", next)
			for line := range strings.Lines(g.decide(next)) {
				b.WriteString("  " + line)
			}
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("unknown command %q", d.Cmd)
}

// happen takes in one line of a decision.
func (g *transcript) happen(at time.Duration, words []string) error {
	n, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return err
	}
	id := compute.TaskID(n)
	t := g.tasks[id]
	if t == nil && words[0] != "add" {
		return fmt.Errorf("no task %d", id)
	}
	switch words[0] {
	case "add":
		t = g.chooser.Add(id)
		g.tasks[id] = t
		able := words[2] == "level=3"
		g.chooser.SetAble(t, able, able)
		g.chooser.SetShares(t, words[2] == "level=mps")
		if len(words) > 3 {
			rank, err := strconv.Atoi(strings.TrimPrefix(words[3], "rank="))
			if err != nil {
				return err
			}
			g.chooser.SetRank(t, rank)
		}
	case "remove":
		g.chooser.Remove(t)
		delete(g.tasks, id)
	case "policy":
		modes := map[string]compute.Mode{"free": compute.Free, "bounded": compute.Bounded, "top": compute.Top}
		g.chooser.Verdict(t, words[2] == "open", modes[words[3]])
	case "ready":
		g.chooser.Ready(t, at)
	case "idle":
		g.chooser.Idle(t, at)
	case "did":
		g.chooser.Did(t, t.Order().Hold, t.Order().Slice)
	case "away":
		g.chooser.SetAway(t, true)
	case "kept":
		g.chooser.SetKept(t, words[2] == "out")
	case "grain":
		grain, err := time.ParseDuration(words[2])
		if err != nil {
			return err
		}
		g.chooser.SetGrain(t, grain)
	case "launched":
		total, err := strconv.ParseUint(words[2], 10, 64)
		if err != nil {
			return err
		}
		g.chooser.Launched(t, at, total)
	case "ran":
		run, err := time.ParseDuration(words[2])
		if err != nil {
			return err
		}
		launching, err := time.ParseDuration(strings.TrimPrefix(words[3], "launching="))
		if err != nil {
			return err
		}
		g.chooser.Ran(t, at, run, launching)
	default:
		return fmt.Errorf("nothing like that happens")
	}
	return nil
}

func (g *transcript) decide(at time.Duration) string {
	var b strings.Builder
	before := g.chooser.Regime()
	changed := g.chooser.Decide(at)
	if r := g.chooser.Regime(); r != before {
		fmt.Fprintf(&b, "%v\n", r)
	}
	for _, t := range changed {
		o := t.Order()
		gate, hold := "closed", ""
		if o.Open {
			gate = "open"
		}
		if o.Hold {
			hold = ", hold"
		}
		loose := ""
		if o.Loose > 0 {
			loose = fmt.Sprintf(", %d loose", o.Loose)
		}
		fmt.Fprintf(&b, "task %d: %s%s%s, slice %v: %v\n", t.ID(), gate, loose, hold, o.Slice, o.Reason)
	}
	if n := g.chooser.Next(); n != 0 {
		fmt.Fprintf(&b, "next at %v\n", n)
	}
	return b.String()
}
