package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"time"

	"xmsched/bench/workloads"
	"xmsched/memory"
)

// Workloads of the row oversub besides the patterns of package workloads: PyTorch's.
const (
	WorkloadDecode = "decode" // a language model's
	WorkloadTrain  = "train"
	WorkloadMix    = "mix" // both in turn
)

// MemoryWorkloads lists all.
func MemoryWorkloads() []string {
	return append(workloads.Patterns(), WorkloadDecode, WorkloadTrain, WorkloadMix)
}

// hungry is a program whose memory may be more than there is, of one kind: how to
// start it, and how to read what it did.
type hungry interface {
	// start starts the i-th of them in a way.
	start(l *Lab, i int, w way) (*Child, error)
	// ready is the event with which it has its memory and waits for its beginning.
	ready() string
	// course reads its result.
	course(e Event) (course, error)
}

// course is how far a program was, and when.
type course struct {
	at    []int64   // CLOCK_MONOTONIC in ns, rising
	steps []float64 // that had ended by then
	ended int64     // when all had; 0: not said

	verified, wrong uint64
	said            string // of what it computed, equal in every run
}

// by is how many steps had ended at a time; between two marks it is taken to have
// gone on evenly.
func (c course) by(ns int64) float64 {
	i := sort.Search(len(c.at), func(i int) bool { return c.at[i] > ns })
	switch {
	case i == 0:
		return 0
	case i == len(c.at):
		return c.steps[i-1]
	}
	part := float64(ns-c.at[i-1]) / float64(c.at[i]-c.at[i-1])
	return c.steps[i-1] + part*(c.steps[i]-c.steps[i-1])
}

// perS is the rate over a span.
func (c course) perS(from, to int64) float64 {
	if to <= from {
		return 0
	}
	return (c.by(to) - c.by(from)) / time.Duration(to-from).Seconds()
}

// pieceOf is what a kernel of our programs goes over: what was asked for, or what
// keeps the device busy for some time and the memory in as many pieces as are needed.
func (l *Lab) pieceOf(given, task memory.Bytes, least int) memory.Bytes {
	if given > 0 {
		return given
	}
	usual := 256 * memory.MiB
	if l.Facts.Simulated {
		usual = 8 * memory.MiB
	}
	return max(memory.MiB, min(usual, task/memory.Bytes(least)/memory.MiB*memory.MiB))
}

// patterned is a program of our own kernels. No two that run together hold the same at first, where
// none of them has more pieces than this one, or than it is said to be apart from others.
type patterned struct {
	settings workloads.Touch
	apart    int // pieces
}

func (p patterned) start(l *Lab, i int, w way) (*Child, error) {
	return l.startWork(fmt.Sprintf("touch %d", i+1), w, p.arguments(i)...)
}

func (p patterned) arguments(i int) []string {
	t := p.settings
	return []string{
		"touch", "--pattern", t.Pattern, "--bytes", strconv.FormatUint(t.Bytes, 10), "--piece", strconv.FormatUint(t.Piece, 10),
		"--first", strconv.Itoa(i * max(p.apart, t.Pieces())), "--phase", strconv.Itoa(t.Phase), "--rounds", strconv.Itoa(t.Rounds), "--steps", strconv.Itoa(t.Steps),
		"--period", t.Period.String(), "--burst", strconv.Itoa(t.Burst), "--pause", t.Pause.String(),
	}
}

func (p patterned) ready() string { return workloads.KindReady }

func (p patterned) course(e Event) (course, error) {
	var r workloads.Event
	if err := e.Into(&r); err != nil {
		return course{}, err
	}
	if r.Touched == nil || len(r.Touched.AtNS) != len(r.Touched.Steps) {
		return course{}, errors.New("the result does not say how far the program was")
	}
	c := course{at: append([]int64{r.BeganNS}, r.Touched.AtNS...), steps: []float64{0}, ended: r.AtNS, verified: r.Verified, wrong: r.Wrong}
	for _, n := range r.Touched.Steps {
		c.steps = append(c.steps, float64(n))
	}
	return c, nil
}

// scripted is one of the PyTorch programs.
type scripted struct {
	python string
	script string
	args   []string
}

func (s scripted) start(l *Lab, i int, w way) (*Child, error) {
	return l.start(fmt.Sprintf("%s %d", s.script, i+1), w, nil, s.python, append([]string{filepath.Join(l.dir, s.script)}, s.args...)...)
}

func (s scripted) ready() string { return "warm" }

func (s scripted) course(e Event) (course, error) {
	var r struct {
		llmResult
		TokenEndS []float64 `json:"token_ends_s"`
		StepEndS  []float64 `json:"step_ends_s"`
		Losses    []float64 `json:"losses"`
	}
	if err := e.Into(&r); err != nil {
		return course{}, err
	}
	ends := r.StepEndS
	if s.script == workloads.ScriptLLM {
		ends = r.TokenEndS
	}
	c := course{at: []int64{int64(r.BeganS * 1e9)}, steps: []float64{0}, verified: uint64(len(r.Tokens) + len(r.Losses)), wrong: uint64(r.Differing)}
	for i, t := range ends {
		c.at, c.steps = append(c.at, int64(t*1e9)), append(c.steps, float64(i+1))
	}
	said, err := json.Marshal([]any{r.Tokens, r.Losses})
	c.said = string(said)
	return c, err
}

// torchPrograms are those of a workload, in turn.
func (l *Lab) torchPrograms(o Oversub, workload string) ([]hungry, error) {
	python, err := interpreter(o.Python)
	if err != nil {
		return nil, err
	}
	if err := workloads.WriteScripts(l.dir); err != nil {
		return nil, err
	}
	const untilTold = "3600"
	decode := scripted{python, workloads.ScriptLLM, []string{"--seconds", untilTold, "--layers", strconv.Itoa(o.Layers)}}
	train := scripted{python, workloads.ScriptTrain, []string{"--seconds", untilTold, "--batch", strconv.Itoa(o.Batch)}}
	switch workload {
	case WorkloadDecode:
		return []hungry{decode}, nil
	case WorkloadTrain:
		return []hungry{train}, nil
	}
	return []hungry{decode, train}, nil
}

// crew are running programs.
type crew struct {
	programs []hungry
	children []*Child
}

func (c *crew) pids() (pids []int) {
	for _, child := range c.children {
		pids = append(pids, child.Pid())
	}
	return pids
}

func (c *crew) kill() { endAll(c.children) }

// muster starts n programs, of the kinds in turn, and waits until each has its memory.
// ways gives how the i-th runs.
func (l *Lab) muster(ctx context.Context, kinds []hungry, n int, ways func(i int) way) (*crew, error) {
	c := &crew{}
	for i := range n {
		kind := kinds[i%len(kinds)]
		child, err := kind.start(l, i, ways(i))
		if err != nil {
			c.kill()
			return nil, err
		}
		c.programs, c.children = append(c.programs, kind), append(c.children, child)
	}
	for i, child := range c.children {
		if _, err := child.Await(ctx, c.programs[i].ready()); err != nil {
			c.kill()
			return nil, err
		}
	}
	return c, nil
}

// begin lets all begin.
func (c *crew) begin() error {
	for _, child := range c.children {
		if err := child.Begin(); err != nil {
			return err
		}
	}
	return nil
}

// dismiss has all end, which compare what they computed, and reads how far they were.
func (c *crew) dismiss(ctx context.Context) ([]course, error) {
	for _, child := range c.children {
		_ = child.stdin.Close() // its end makes it tell
	}
	return c.ends(ctx)
}

// ends waits until all have ended, and reads how far they were.
func (c *crew) ends(ctx context.Context) ([]course, error) {
	var out []course
	for i, child := range c.children {
		e, err := child.Await(ctx, workloads.KindResult)
		if err != nil {
			return nil, err
		}
		course, err := c.programs[i].course(e)
		if err != nil {
			return nil, err
		}
		if err := child.Finish(ctx); err != nil {
			return nil, err
		}
		out = append(out, course)
	}
	return out, nil
}

// torch says whether a workload is one of PyTorch's.
func torchWorkload(name string) bool {
	return slices.Contains([]string{WorkloadDecode, WorkloadTrain, WorkloadMix}, name)
}
