package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// PyTorch is the experiment behind the row of that name: a language model's
// decode and a training, each alone, both without us, both under xmsched.
type PyTorch struct {
	Python   string // interpreter; empty: python3
	Seconds  float64
	Layers   int // of the language model; the real one has 32
	Batch    int // of the training
	Modes    []string
	Priority int   // of the decode; the training's is 0
	Level    Level // of both under xmsched
	// Once leaves out the second run of each program alone: later runs are then
	// compared with the first. It saves the time of loading both once more.
	Once bool
}

// Validate says what is wrong with the experiment.
func (p PyTorch) Validate() error {
	if len(p.Modes) == 0 || p.Modes[0] != rows.ModeAlone {
		return errors.New("the first mode must be alone, which the others are compared with")
	}
	for _, m := range p.Modes[1:] {
		if !slices.Contains(torchModes, m) {
			return fmt.Errorf("mode %q is none of %s", m, strings.Join(torchModes, ", "))
		}
	}
	return limit.First(
		limit.Check("seconds", p.Seconds, 0.1, maxRowSeconds),
		limit.Check("layers", p.Layers, 1, 200),
		limit.Check("batch", p.Batch, 1, 8192),
		limit.Check("priority", p.Priority, -maxPriority, maxPriority),
	)
}

// torchModes are the modes besides alone.
var torchModes = []string{rows.ModeNative, rows.ModeMPS, rows.ModeXmsched, rows.ModeOverMPS}

// scheduled says whether a mode has the daemon.
func scheduled(mode string) bool { return mode == rows.ModeXmsched || mode == rows.ModeOverMPS }

// pytorchTimeout bounds loading and warming of one program: two of them share
// the card and a cold file cache.
const pytorchTimeout = 4 * time.Minute

type llmResult struct {
	BeganS    float64   `json:"began_s"`
	EndedS    float64   `json:"ended_s"`
	LatencyMS []float64 `json:"latency_ms"`
	Tokens    []int     `json:"tokens"`
	Differing int       `json:"differing"`
}

type trainResult struct {
	BeganS   float64   `json:"began_s"`
	EndedS   float64   `json:"ended_s"`
	Batch    int       `json:"batch"`
	StepEndS []float64 `json:"step_ends_s"`
	Losses   []float64 `json:"losses"`
}

// imagesPerS counts the images of the steps that ended in the span.
func (r trainResult) imagesPerS(fromS, toS float64) float64 {
	steps := 0
	for _, t := range r.StepEndS {
		if t > fromS && t <= toS {
			steps++
		}
	}
	return float64(steps*r.Batch) / (toS - fromS)
}

// RunPyTorch measures. "alone" runs each program by itself twice and says
// whether the two runs were identical; the other modes are compared with them.
// So alone must be the first mode. A mode that is not to be had here is left out,
// and the lab's note says why.
func (l *Lab) RunPyTorch(ctx context.Context, p PyTorch, report func(what string, done, total int)) ([]rows.Row, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("pytorch: %w", err)
	}
	if slices.ContainsFunc(p.Modes, scheduled) {
		if err := l.Places.Complete(); err != nil {
			return nil, err
		}
	}
	python, err := interpreter(p.Python)
	if err != nil {
		return nil, fmt.Errorf("pytorch: %w", err)
	}
	if err := workloads.WriteScripts(l.dir); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	defer l.stopMPS()
	t := &torch{lab: l, p: p, python: python}
	var out []rows.Row
	for i, mode := range p.Modes {
		report("pytorch "+mode, i, len(p.Modes))
		var row rows.Row
		if mode == rows.ModeAlone {
			row, err = t.alone(ctx)
		} else {
			row, err = t.together(ctx, mode)
		}
		if skip := (*SkippedError)(nil); errors.As(err, &skip) {
			l.note(skip.Error())
			continue
		}
		if err != nil {
			return out, fmt.Errorf("pytorch %s: %w", mode, err)
		}
		out = append(out, row)
	}
	return out, nil
}

// torch is one run of the experiment, with what later modes are compared with.
type torch struct {
	lab    *Lab
	p      PyTorch
	python string

	tokens     []int
	losses     []float64
	p99MS      float64
	imagesPerS float64
}

func (t *torch) startLLM(w way, seconds float64) (*Child, error) {
	return t.start("llm.py", w, workloads.ScriptLLM, "--seconds", number(seconds), "--layers", strconv.Itoa(t.p.Layers))
}

func (t *torch) startTrain(w way, seconds float64) (*Child, error) {
	return t.start("train.py", w, workloads.ScriptTrain, "--seconds", number(seconds), "--batch", strconv.Itoa(t.p.Batch))
}

func (t *torch) start(name string, w way, script string, args ...string) (*Child, error) {
	return t.lab.start(name, w, nil, t.python, append([]string{filepath.Join(t.lab.dir, script)}, args...)...)
}

// finish reads the result of the measured part, which has begun.
func (t *torch) finish(ctx context.Context, c *Child, into any) error {
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return err
	}
	if err := e.Into(into); err != nil {
		return err
	}
	return c.Finish(ctx)
}

func (t *torch) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := pytorchTimeout + time.Duration(3*t.p.Seconds*float64(time.Second))
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", limit))
}

// both starts the two programs, in ways that may differ, and waits until they are
// loaded and warm: at the same time, for loading takes longer than measuring.
func (t *torch) both(ctx context.Context, forLLM, forTrain way, seconds float64) (llm, train *Child, err error) {
	defer func() {
		if err != nil {
			for _, c := range []*Child{llm, train} {
				if c != nil {
					c.Kill()
				}
			}
		}
	}()
	if llm, err = t.startLLM(forLLM, seconds); err != nil {
		return nil, nil, err
	}
	if train, err = t.startTrain(forTrain, seconds); err != nil {
		return llm, nil, err
	}
	for _, c := range []*Child{llm, train} {
		if _, err := c.Await(ctx, "warm"); err != nil {
			return llm, train, err
		}
	}
	return llm, train, nil
}

// single lets one of two warm programs run while the other waits for its turn.
func (t *torch) single(ctx context.Context, c *Child, into any) error {
	if err := c.Begin(); err != nil {
		return err
	}
	return t.finish(ctx, c, into)
}

// repeatSeconds is the length of the second run alone, of which only tokens and
// losses are used.
const repeatSeconds = 1

// alone measures each program by itself and runs it once more for identity:
// first without us, before anything is said of a run with us.
func (t *torch) alone(ctx context.Context) (rows.Row, error) {
	ctx, cancel := t.limit(ctx)
	defer cancel()
	llm, train, err := t.turns(ctx, t.p.Seconds)
	if err != nil {
		return rows.Row{}, err
	}
	t.tokens, t.losses = llm.Tokens, train.Losses
	if !t.p.Once {
		llmAgain, trainAgain, err := t.turns(ctx, min(t.p.Seconds, repeatSeconds))
		if err != nil {
			return rows.Row{}, err
		}
		t.tokens, t.losses = llmAgain.Tokens, trainAgain.Losses
		llm.Differing += llmAgain.Differing
	}
	return t.row(rows.ModeAlone, 0, llm, train, train.imagesPerS(train.BeganS, train.EndedS))
}

// turns runs first the one, then the other, each with the device for itself.
func (t *torch) turns(ctx context.Context, seconds float64) (l llmResult, r trainResult, err error) {
	llm, train, err := t.both(ctx, nil, nil, seconds)
	if err != nil {
		return l, r, err
	}
	defer llm.Kill()
	defer train.Kill()
	if err := t.single(ctx, llm, &l); err != nil {
		return l, r, err
	}
	return l, r, t.single(ctx, train, &r)
}

func (t *torch) together(ctx context.Context, mode string) (rows.Row, error) {
	ctx, cancel := t.limit(ctx)
	defer cancel()
	forLLM, forTrain, err := t.ways(ctx, mode)
	if err != nil {
		return rows.Row{}, err
	}
	defer t.lab.StopDaemon()
	llm, train, err := t.both(ctx, forLLM, forTrain, t.p.Seconds)
	if err != nil {
		return rows.Row{}, err
	}
	defer llm.Kill()
	defer train.Kill()
	level := 0
	if scheduled(mode) {
		if err := t.lab.awaitTasks(ctx, llm.Pid(), train.Pid()); err != nil {
			return rows.Row{}, err
		}
		// Both are warm: they have launched.
		if level, err = t.lab.effective(ctx, train.Pid(), t.level(mode)); err != nil {
			return rows.Row{}, err
		}
	}
	for _, c := range []*Child{train, llm} {
		if err := c.Begin(); err != nil {
			return rows.Row{}, err
		}
	}
	var l llmResult
	if err := t.finish(ctx, llm, &l); err != nil {
		return rows.Row{}, err
	}
	var r trainResult
	if err := t.finish(ctx, train, &r); err != nil {
		return rows.Row{}, err
	}
	return t.row(mode, level, l, r, r.imagesPerS(l.BeganS, l.EndedS))
}

// ways gives how the two programs run in a mode.
func (t *torch) ways(ctx context.Context, mode string) (forLLM, forTrain way, err error) {
	if mode == rows.ModeMPS || mode == rows.ModeOverMPS {
		if forLLM, err = t.lab.clientOfMPS(ctx, true); err != nil {
			return nil, nil, err
		}
		if forTrain, err = t.lab.clientOfMPS(ctx, false); err != nil {
			return nil, nil, err
		}
	}
	if !scheduled(mode) {
		return forLLM, forTrain, nil
	}
	level := t.level(mode)
	if err := t.lab.daemonFor(ctx, level); err != nil {
		return nil, nil, err
	}
	llm, train := &Under{Name: "llm", Priority: t.p.Priority, Level: level}, &Under{Name: "train", Level: level}
	if mode == rows.ModeOverMPS {
		return overMPS{llm, forLLM}, overMPS{train, forTrain}, nil
	}
	return llm, train, nil
}

// level is what both run at in a mode: the channels of clients of MPS are the
// server's, so that they have no Level 3.
func (t *torch) level(mode string) Level {
	if mode == rows.ModeOverMPS {
		return 2
	}
	return t.p.Level
}

// row judges identity against the repeated run alone: the same tokens (also in
// every later repetition of the prompt) and bit for bit the same losses.
func (t *torch) row(mode string, level int, l llmResult, r trainResult, imagesPerS float64) (rows.Row, error) {
	s, err := stats.Summarize(l.LatencyMS)
	if err != nil {
		return rows.Row{}, fmt.Errorf("llm.py: %w", err)
	}
	if len(l.Tokens) == 0 || len(r.Losses) == 0 {
		return rows.Row{}, errors.New("no tokens or no losses to compare")
	}
	identical := 0.0
	if l.Differing == 0 && slices.Equal(l.Tokens, t.tokens) && slices.Equal(r.Losses, t.losses) {
		identical = 1
	} else {
		fmt.Fprintf(os.Stderr, "pytorch %s: not identical: %d tokens of repetitions differ; tokens %v, want %v; losses %v, want %v\n",
			mode, l.Differing, l.Tokens, t.tokens, r.Losses, t.losses)
	}
	if mode == rows.ModeAlone {
		t.p99MS, t.imagesPerS = s.P99, imagesPerS
	}
	params := rows.Params{"layers": t.p.Layers, "batch": t.p.Batch, "seconds": t.p.Seconds}
	if scheduled(mode) {
		params["priority"], params["background_priority"], params["level"] = t.p.Priority, 0, level
	}
	total := 0.0
	for _, ms := range l.LatencyMS {
		total += ms
	}
	metrics := rows.Metrics{
		"llm_p50_ms": s.P50, "llm_p99_ms": s.P99, "llm_p99_ratio": s.P99 / t.p99MS,
		"llm_tokens_per_s": float64(s.N) / (total / 1e3), "train_img_per_s": imagesPerS, "identical": identical,
	}
	if t.imagesPerS > 0 { // what the training got: at this level it may starve
		metrics["train_ratio"] = imagesPerS / t.imagesPerS
	}
	return t.lab.Row("pytorch", mode, s.N, params, metrics), nil
}
