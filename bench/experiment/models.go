package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
	"xmsched/hal/kernels"
)

// Interfaces through which two models of one process are scheduled. The first
// two run chains of kernels with a language model's shape, the last one PyTorch's
// own models.
const (
	InterfaceGo     = "go"
	InterfaceC      = "c"
	InterfacePython = "python"
)

// Models is the experiment behind the row of that name: two models in one
// process that schedules itself, without a daemon.
type Models struct {
	Interfaces []string
	Seconds    float64 // of each phase
	Rounds     int     // in which the phases take turns
	Threshold  int     // layers of the other model that are outstanding

	// Of the chains of kernels.
	Layers, Kernels int
	KernelUS        float64
	GapUS           float64 // between two tokens of the first

	// Of the PyTorch program.
	Python      string // interpreter; empty: python3
	TorchLayers int
	TorchGapMS  float64
}

// Validate says what is wrong with the experiment.
func (m Models) Validate() error {
	if len(m.Interfaces) == 0 {
		return errors.New("no interface to measure")
	}
	for _, i := range m.Interfaces {
		if !slices.Contains([]string{InterfaceGo, InterfaceC, InterfacePython}, i) {
			return fmt.Errorf("interface %q is none of go, c, python", i)
		}
	}
	return limit.First(
		limit.Check("seconds", m.Seconds, 0.01, maxRowSeconds),
		limit.Check("rounds", m.Rounds, 1, maxRounds),
		limit.Check("threshold", m.Threshold, 1, 65536),
		limit.Check("layers", m.Layers, 1, 1000),
		limit.Check("kernels", m.Kernels, 1, 1000),
		limit.Check("kernel-us", m.KernelUS, 1, 100_000),
		limit.Check("gap-us", m.GapUS, 0, maxPauseUS),
		limit.Check("torch-layers", m.TorchLayers, 1, 200),
		limit.Check("torch-gap-ms", m.TorchGapMS, 0, maxPauseUS/1e3),
	)
}

// modelsEnd is what the programs' last line holds besides.
type modelsEnd struct {
	Models    *workloads.ModelsResult `json:"models"`
	Wrong     uint64                  `json:"wrong"`     // words that differ from the closed form
	Differing uint64                  `json:"differing"` // tokens that differ from those of a run alone
}

// RunModels measures: three rows for each interface.
func (l *Lab) RunModels(ctx context.Context, m Models, report func(what string, done, total int)) ([]rows.Row, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	var out []rows.Row
	for i, name := range m.Interfaces {
		report("models, interface "+name, i, len(m.Interfaces))
		measured, err := l.runModels(ctx, m, name)
		if err != nil {
			return out, fmt.Errorf("models, interface %s: %w", name, err)
		}
		out = append(out, measured...)
	}
	return out, nil
}

func (l *Lab) runModels(ctx context.Context, m Models, name string) ([]rows.Row, error) {
	phases := 4 // as the programs have them
	span := time.Duration(float64(phases) * m.Seconds * float64(time.Second))
	allowed := setupTimeout + 2*span
	if name == InterfacePython {
		allowed += pytorchTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, allowed, fmt.Errorf("not done after %s", allowed))
	defer cancel()
	c, err := l.startModels(m, name)
	if err != nil {
		return nil, err
	}
	defer c.Kill()
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return nil, err
	}
	var end modelsEnd
	if err := e.Into(&end); err != nil {
		return nil, err
	}
	if err := c.Finish(ctx); err != nil {
		return nil, err
	}
	if end.Models == nil {
		return nil, errors.New("the result holds no phases")
	}
	return l.modelRows(m, name, end)
}

// startModels starts the program of an interface.
func (l *Lab) startModels(m Models, name string) (*Child, error) {
	seconds, rounds, threshold := number(m.Seconds), strconv.Itoa(m.Rounds), strconv.Itoa(m.Threshold)
	chain := []string{
		"--seconds", seconds, "--rounds", rounds, "--threshold", threshold, "--layers", strconv.Itoa(m.Layers),
		"--kernels", strconv.Itoa(m.Kernels), "--kernel-us", number(m.KernelUS), "--gap-us", number(m.GapUS),
	}
	if name == InterfaceGo {
		return l.startWork("models in Go", nil, append([]string{"models"}, chain...)...)
	}
	library, err := l.Places.Library("libxmsched_api.so")
	if err != nil {
		return nil, err
	}
	if name == InterfaceC {
		program, err := l.Places.Library("bench", "models")
		if err != nil {
			return nil, err
		}
		ptx := filepath.Join(l.dir, "kernels.ptx")
		if err := os.WriteFile(ptx, kernels.PTX(), 0o600); err != nil {
			return nil, fmt.Errorf("write the kernels: %w", err)
		}
		return l.start("models in C", nil, nil, program, append([]string{"--ptx", ptx, "--library", library}, chain...)...)
	}
	return l.startTorchModels(m, library, seconds, rounds, threshold)
}

func (l *Lab) startTorchModels(m Models, library, seconds, rounds, threshold string) (*Child, error) {
	python, err := interpreter(m.Python)
	if err != nil {
		return nil, err
	}
	if err := workloads.WriteScripts(l.dir); err != nil {
		return nil, err
	}
	env := append(slices.Clone(l.env), "XMSCHED_API_LIBRARY="+library)
	// In the source tree the package need not be installed.
	if source := filepath.Join(l.Places.Bin, "..", "shim", "python"); exists(source) {
		if path := os.Getenv("PYTHONPATH"); path != "" {
			source += ":" + path
		}
		env = append(env, "PYTHONPATH="+source)
	}
	return Start(Spec{Name: workloads.ScriptModels, Path: python, Env: env, Args: []string{
		filepath.Join(l.dir, workloads.ScriptModels), "--seconds", seconds, "--rounds", rounds, "--threshold", threshold,
		"--layers", strconv.Itoa(m.TorchLayers), "--gap-ms", number(m.TorchGapMS),
	}})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// modelRows makes a row of each phase in which the first model ran. Its P99 is
// compared with alone, the other's rate with its own alone, all of one process.
func (l *Lab) modelRows(m Models, name string, end modelsEnd) ([]rows.Row, error) {
	phases := map[string]workloads.ModelsPhase{}
	for _, p := range end.Models.Phases {
		phases[p.Mode] = p
	}
	alone, err := stats.Summarize(phases[rows.ModeAlone].LatencyUS)
	if err != nil {
		return nil, fmt.Errorf("alone: %w", err)
	}
	otherAlone := rate(phases["other"])
	params := rows.Params{"interface": name, "threshold": m.Threshold, "layers": m.Layers, "kernels": m.Kernels, "kernel_us": m.KernelUS, "gap_us": m.GapUS}
	if name == InterfacePython {
		params = rows.Params{"interface": name, "threshold": m.Threshold, "layers": m.TorchLayers, "gap_us": m.TorchGapMS * 1e3}
	}
	identical := 0.0
	if end.Wrong == 0 && end.Differing == 0 {
		identical = 1
	}
	var out []rows.Row
	for _, mode := range []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched} {
		p := phases[mode]
		s, err := stats.Summarize(p.LatencyUS)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mode, err)
		}
		metrics := rows.Metrics{"p50_us": s.P50, "p99_us": s.P99, "p50_ratio": s.P50 / alone.P50, "p99_ratio": s.P99 / alone.P99, "identical": identical}
		if mode != rows.ModeAlone && otherAlone > 0 {
			metrics["other_ratio"] = rate(p) / otherAlone
		}
		out = append(out, l.Row("models", mode, s.N, params, metrics))
	}
	return out, nil
}

func rate(p workloads.ModelsPhase) float64 {
	if p.SpanS <= 0 {
		return 0
	}
	return float64(p.Tokens) / p.SpanS
}
