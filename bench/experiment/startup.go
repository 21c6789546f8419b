package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
)

// Startup is the experiment behind the row of that name: how much later a
// program's first cuInit returns, and how much later a program without CUDA
// ends, when it is preloaded.
type Startup struct {
	InitPairs  int
	PlainPairs int // rounds of the program without CUDA: plain, empty library, ours
}

// Validate says what is wrong with the experiment.
func (s Startup) Validate() error {
	return limit.First(
		limit.Check("init-pairs", s.InitPairs, 1, 1000),
		limit.Check("plain-pairs", s.PlainPairs, 4, 100_000),
	)
}

// RunStartup measures both; pairs alternate.
func (l *Lab) RunStartup(ctx context.Context, s Startup, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(s, report)
	if err != nil {
		return nil, err
	}
	if err := l.Daemon(ctx); err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	first, err := l.firstInit(ctx, s.InitPairs, report)
	if err != nil {
		return nil, err
	}
	plain, err := l.withoutCUDA(ctx, s.PlainPairs, report)
	if err != nil {
		return nil, err
	}
	return []rows.Row{first, plain}, nil
}

func (l *Lab) firstInit(ctx context.Context, pairs int, report func(string, int, int)) (rows.Row, error) {
	var native, preloaded []float64
	for i := range pairs {
		report("first cuInit", i, pairs)
		for _, side := range []struct {
			into *[]float64
			u    *Under
		}{{&native, nil}, {&preloaded, &Under{Name: "init"}}} {
			ms, err := l.initOnce(ctx, side.u)
			if err != nil {
				return rows.Row{}, fmt.Errorf("startup: %w", err)
			}
			*side.into = append(*side.into, ms)
		}
	}
	n, err := stats.Median(native)
	if err != nil {
		return rows.Row{}, err
	}
	p, err := stats.Median(preloaded)
	if err != nil {
		return rows.Row{}, err
	}
	extra, err := stats.PairedMedian(native, preloaded)
	if err != nil {
		return rows.Row{}, err
	}
	return l.Row("startup", rows.ModeFree, pairs, rows.Params{"program": "launchloop"}, rows.Metrics{
		"native_init_ms": n, "preloaded_init_ms": p, "first_init_extra_ms": extra,
	}), nil
}

func (l *Lab) initOnce(ctx context.Context, u *Under) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, launchTimeout, errors.New("cuInit did not return in time"))
	defer cancel()
	path, err := l.Places.Library("bench", "launchloop")
	if err != nil {
		return 0, err
	}
	c, err := l.start("launchloop", u, nil, path, "--init-only")
	if err != nil {
		return 0, err
	}
	defer c.Kill()
	e, err := c.Await(ctx, "init")
	if err != nil {
		return 0, err
	}
	var v struct {
		NS float64 `json:"init_ns"`
	}
	if err := e.Into(&v); err != nil {
		return 0, err
	}
	return v.NS / 1e6, c.Finish(ctx)
}

// plainProgram does nothing and uses no CUDA.
const plainProgram = "/bin/true"

// withoutCUDA starts the plain program with nothing in LD_PRELOAD, with a library
// that contains nothing, and with ours: preloading is the form of the product, so
// the reader sees both what ours adds to the start and what any library would.
// xrun's own start is the same for every program and not in question. The three
// starts take turns in being the first.
func (l *Lab) withoutCUDA(ctx context.Context, rounds int, report func(string, int, int)) (rows.Row, error) {
	ours, err := l.Places.Library("libxmsched.so")
	if err != nil {
		return rows.Row{}, err
	}
	empty, err := l.Places.Library("bench", "empty.so")
	if err != nil {
		return rows.Row{}, err
	}
	plain := l.env
	envs := [...][]string{
		plain,
		append(slices.Clone(plain), "LD_PRELOAD="+empty),
		append(l.scheduledEnv(), "LD_PRELOAD="+ours),
	}
	var us [len(envs)][]float64
	for i := range rounds {
		if i%50 == 0 {
			report("a program without CUDA", i, rounds)
		}
		if ctx.Err() != nil {
			return rows.Row{}, context.Cause(ctx)
		}
		for j := range envs {
			which := (i + j) % len(envs)
			took, err := startAndEnd(plainProgram, envs[which])
			if err != nil {
				return rows.Row{}, err
			}
			us[which] = append(us[which], took)
		}
	}
	metrics, err := plainStarts(us[0], us[1], us[2])
	if err != nil {
		return rows.Row{}, err
	}
	return l.Row("startup", rows.ModeNoCUDA, rounds, rows.Params{"program": plainProgram}, metrics), nil
}

// plainStarts compares starts without a library, with an empty one and with
// ours, in us. Differences are medians of the rounds' differences; noise_us is
// the interquartile range of the plain starts: one more start without us varies
// by as much.
func plainStarts(native, empty, ours []float64) (rows.Metrics, error) {
	n, err := stats.Median(native)
	if err != nil {
		return nil, err
	}
	extra, err := stats.PairedMedian(native, ours)
	if err != nil {
		return nil, err
	}
	emptyExtra, err := stats.PairedMedian(native, empty)
	if err != nil {
		return nil, err
	}
	overEmpty, err := stats.PairedMedian(empty, ours)
	if err != nil {
		return nil, err
	}
	noise, err := stats.InterquartileRange(native)
	if err != nil {
		return nil, err
	}
	if noise <= 0 {
		return nil, errors.New("startup: the starts do not vary: too few were measured")
	}
	return rows.Metrics{
		"native_us": n, "noise_us": noise, "extra_us": extra, "extra_over_noise_ratio": extra / noise,
		"empty_preload_extra_us": emptyExtra, "over_empty_us": overEmpty, "over_empty_noise_ratio": overEmpty / noise,
	}, nil
}

func startAndEnd(path string, env []string) (us float64, err error) {
	cmd := exec.Command(path)
	cmd.Env = env
	cmd.Stderr = os.Stderr // the loader's own complaint, if any, is for the user
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("startup: %s: %w", path, err)
	}
	return float64(time.Since(begun).Nanoseconds()) / 1e3, nil
}
