package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/xserver/client"
)

// Predict is the experiment behind the row of that name: what kernels touch is learnt
// from runs with some sizes and foretold for runs with others, and compared with what
// those were seen to touch.
type Predict struct {
	Workloads []string
	Python    string // interpreter; empty: python3
	MiB       int    // of each buffer of the scientific kernels; 0: as suits the device
	Rounds    int    // launches of each of them in a run
	Layers    int    // of the language model
	Logs      string // directory in which what was seen and learnt stays; empty: it does not
}

// predictRun is a run of a workload: a program and its arguments.
type predictRun struct {
	script string // of PyTorch; empty: the scientific kernels
	args   []string
}

// predictRuns are the runs that are learnt from, and those that are judged by: with
// sizes that no run before had.
type predictRuns struct{ learn, judge []predictRun }

// WorkloadScience are the scientific kernels, WorkloadTraining is a ResNet-152's, and
// WorkloadLlama a language model's decode; the others are images classified by models
// of these names.
const (
	WorkloadScience  = "science"
	WorkloadTraining = "training"
	WorkloadLlama    = "llama"
)

var imageModels = []string{"resnet152", "vgg19", "inception_v3", "densenet201"}

// PredictWorkloads lists all.
func PredictWorkloads() []string {
	return append(append([]string{WorkloadScience}, imageModels...), WorkloadTraining, WorkloadLlama)
}

// Validate says what is wrong with the experiment.
func (p Predict) Validate() error {
	if len(p.Workloads) == 0 {
		return errors.New("no workload")
	}
	for _, w := range p.Workloads {
		if !slices.Contains(PredictWorkloads(), w) {
			return fmt.Errorf("workload %q is none of %s", w, strings.Join(PredictWorkloads(), ", "))
		}
	}
	return limit.First(
		limit.Check("mib", p.MiB, 0, 1024),
		limit.Check("rounds", p.Rounds, 1, 1000),
		limit.Check("layers", p.Layers, 1, 200),
	)
}

// runs are those of a workload.
func (p Predict) runs(workload string, mib, dense int) predictRuns {
	switch workload {
	case WorkloadScience:
		run := func(seed int) []predictRun {
			return []predictRun{{args: []string{"science", "--mib", strconv.Itoa(mib), "--dense", strconv.Itoa(dense), "--rounds", strconv.Itoa(p.Rounds), "--seed", strconv.Itoa(seed)}}}
		}
		return predictRuns{slices.Concat(run(1), run(3), run(4), run(5)), run(2)}
	case WorkloadTraining:
		run := func(batch, also string) predictRun {
			return predictRun{script: workloads.ScriptTrain, args: []string{"--seconds", "1", "--losses", "1", "--batch", batch, "--also", also}}
		}
		return predictRuns{[]predictRun{run("8", "20,3")}, []predictRun{run("14", "5")}}
	case WorkloadLlama:
		run := func(prompt, also, tokens string) predictRun {
			return predictRun{script: workloads.ScriptLLM, args: []string{"--seconds", "1", "--layers", strconv.Itoa(p.Layers), "--prompt", prompt, "--also", also, "--tokens", tokens}}
		}
		// Two decodes of one prompt of 700 tokens differ in their logits without us too (PyTorch
		// 2.11 on an H200), and what comes last is held to be the same: it is a short one.
		return predictRuns{[]predictRun{run("128", "700,17", "32")}, []predictRun{run("100", "333,1500", "28")}}
	}
	run := func(batch, also string) predictRun {
		args := []string{"--model", workload, "--seconds", "1", "--warm-up", "6", "--batch", batch, "--also", also}
		return predictRun{script: workloads.ScriptInfer, args: args}
	}
	return predictRuns{
		// One size says nothing of another, and libraries choose kernels by it; so there are
		// some, one after the other in one process, and not the smallest first, of which whole
		// tensors are in one block. None is larger: learning is to take 120 s at most, and the
		// first time that 360 MiB of VGG19's batch of 28 were touched took 5 s.
		[]predictRun{run("3", "4,12,9@256,1,2,7,8,5@320,6@304")},
		[]predictRun{run("5", "10,6@288")},
	}
}

// learning runs a program so that it is learnt from: into which templates, and with a
// log of what was seen.
type learning struct{ templates, log string }

func (w learning) dress(l *Lab, path string, args []string) (string, []string, []string, error) {
	under := &Under{Name: "learns", Level: LevelAuto, Hints: []string{"--learn"}}
	path, args, env, err := under.dress(l, path, args)
	return path, args, append(env, "XMSCHED_TEMPLATES="+w.templates, client.LearnLogVariable+"="+w.log), err
}

// RunPredict measures: rows for each workload, by templates, by allocations, and by
// statements where its kernels make any.
func (l *Lab) RunPredict(ctx context.Context, p Predict, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(p, report)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	if err := workloads.WriteScripts(l.dir); err != nil {
		return nil, err
	}
	if err := l.Daemon(ctx); err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	var out []rows.Row
	for i, w := range p.Workloads {
		report("predict "+w, i, len(p.Workloads))
		measured, err := l.predict(ctx, p, w)
		if err != nil {
			return out, fmt.Errorf("predict %s: %w", w, err)
		}
		out = append(out, measured...)
	}
	return out, nil
}

// Sizes of the scientific kernels: on the simulated device they are computed by a CPU.
const (
	scienceMiB, scienceDense       = 32, 700
	scienceMiBSim, scienceDenseSim = 16, 80
)

func (l *Lab) predict(ctx context.Context, p Predict, workload string) ([]rows.Row, error) {
	mib, dense := scienceMiB, scienceDense
	if l.Facts.Simulated {
		mib, dense = scienceMiBSim, scienceDenseSim
	}
	if p.MiB > 0 {
		mib = p.MiB
	}
	if workload != WorkloadScience && l.Facts.Simulated {
		l.note(fmt.Sprintf("predict %s: left out, the simulated GPU cannot run PyTorch's kernels", workload))
		return nil, nil
	}
	runs := p.runs(workload, mib, dense)
	dir := filepath.Join(cmp.Or(p.Logs, l.dir), "predict-"+workload)
	learnt, judged := learning{dir, dir + ".learnt"}, learning{"off", dir + ".judged"}
	took, err := l.predictRuns(ctx, p, runs.learn, learnt)
	if err != nil {
		return nil, fmt.Errorf("learning: %w", err)
	}
	if _, err := l.predictRuns(ctx, p, runs.judge, judged); err != nil {
		return nil, fmt.Errorf("judging: %w", err)
	}
	j, err := judge(dir, learnt.log, judged.log)
	if err != nil {
		return nil, err
	}
	return l.predictRows(workload, took, j), nil
}

// predictTimeout bounds one run: what is looked at is looked at alone, for 100 s in all
// at most.
const predictTimeout = 4 * time.Minute

// predictRuns makes the runs, one after the other, as nothing is looked at of programs that
// compete, and says how long they took.
func (l *Lab) predictRuns(ctx context.Context, p Predict, runs []predictRun, w way) (time.Duration, error) {
	began := time.Now()
	for _, r := range runs {
		if err := l.predictRun(ctx, p, r, w); err != nil {
			return 0, fmt.Errorf("%s %s: %w", r.script, strings.Join(r.args, " "), err)
		}
	}
	return time.Since(began), nil
}

func (l *Lab) predictRun(ctx context.Context, p Predict, r predictRun, w way) error {
	ctx, cancel := context.WithTimeoutCause(ctx, predictTimeout, fmt.Errorf("not done after %s", predictTimeout))
	defer cancel()
	c, err := l.startPredict(p, r, w)
	if err != nil {
		return err
	}
	defer c.Kill()
	if r.script != "" {
		if _, err := c.Await(ctx, "warm"); err != nil {
			return err
		}
		if err := c.Begin(); err != nil {
			return err
		}
	}
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return err
	}
	var end struct {
		Wrong     uint64 `json:"wrong"`
		Differing int    `json:"differing"`
	}
	if err := e.Into(&end); err != nil {
		return err
	}
	if end.Wrong > 0 || end.Differing > 0 {
		return fmt.Errorf("%d words, or %d results, are wrong while it is learnt from", end.Wrong, end.Differing)
	}
	return c.Finish(ctx)
}

func (l *Lab) startPredict(p Predict, r predictRun, w way) (*Child, error) {
	if r.script == "" {
		return l.startWork("scientific kernels", w, r.args...)
	}
	python, err := interpreter(p.Python)
	if err != nil {
		return nil, err
	}
	return l.start(r.script, w, nil, python, append([]string{filepath.Join(l.dir, r.script)}, r.args...)...)
}

// Modes of the row: predicted by what was learnt from page faults, by whole allocations,
// or by what was learnt from what kernels state of themselves. Faults tell blocks of
// 2 MiB, so that what is learnt from them says nothing of bytes; statements tell bytes.
const (
	ModeTemplate   = "template"
	ModeAllocation = "allocation"
	ModeStated     = "stated"
)

func (l *Lab) predictRows(workload string, took time.Duration, j judgement) []rows.Row {
	var out []rows.Row
	for _, mode := range []string{ModeTemplate, ModeAllocation} {
		v := j.by[mode]
		metrics := rows.Metrics{
			"false_negative_pct": v.score.Blocks.FalseNegative(), "false_positive_pct": v.score.Blocks.FalsePositive(),
			"missed_launches_pct": v.score.FalseNegative(), "vain_launches_pct": v.score.FalsePositive(),
			"eval_ns": v.evalNS, "launches": float64(v.score.Launches),
		}
		if mode == ModeTemplate {
			metrics["learn_s"], metrics["kernels_count"], metrics["known_launches_pct"] = took.Seconds(), float64(j.kernels), j.known()
			if k := v.known; k.Launches > 0 {
				metrics["known_false_negative_pct"], metrics["known_false_positive_pct"] = k.Blocks.FalseNegative(), k.Blocks.FalsePositive()
			}
		}
		out = append(out, l.Row("predict", mode, int(v.score.Launches), rows.Params{"workload": workload}, metrics))
	}
	if v := j.by[ModeStated]; v.stated.Launches > 0 {
		out = append(out, l.Row("predict", ModeStated, int(v.stated.Launches), rows.Params{"workload": workload}, rows.Metrics{
			"false_negative_bytes_pct": v.stated.Bytes.FalseNegative(), "false_positive_bytes_pct": v.stated.Bytes.FalsePositive(),
			"eval_ns": v.evalNS, "launches": float64(v.stated.Launches),
		}))
	}
	return out
}
