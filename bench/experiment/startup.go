package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/stats"
)

// Startup is the experiment behind the row of that name: how much later a
// program's first cuInit returns, and how much later a program without CUDA
// ends, when it is preloaded.
type Startup struct {
	InitPairs  int
	PlainPairs int
}

// RunStartup measures both; pairs alternate.
func (l *Lab) RunStartup(ctx context.Context, s Startup, report func(what string, done, total int)) ([]rows.Row, error) {
	if s.InitPairs < 1 || s.PlainPairs < 4 {
		return nil, errors.New("startup: want at least 1 pair of cuInit and 4 of a plain program")
	}
	if err := l.Places.Complete(); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(string, int, int) {}
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

// withoutCUDA starts the plain program itself with and without the library in
// LD_PRELOAD: xrun's own start is the same for every program and not in
// question. "Not measurable" means that the median of the paired differences is
// within the interquartile range of the plain starts: one more start without us
// varies by more.
func (l *Lab) withoutCUDA(ctx context.Context, pairs int, report func(string, int, int)) (rows.Row, error) {
	library, err := l.Places.Library("libxmsched.so")
	if err != nil {
		return rows.Row{}, err
	}
	env := cleanEnv()
	underUs := append(append([]string(nil), l.scheduledEnv()...), "LD_PRELOAD="+library)
	var plain, preloaded []float64
	for i := range pairs {
		if i%50 == 0 {
			report("a program without CUDA", i, pairs)
		}
		if ctx.Err() != nil {
			return rows.Row{}, context.Cause(ctx)
		}
		a, err := startAndEnd(plainProgram, env)
		if err != nil {
			return rows.Row{}, err
		}
		b, err := startAndEnd(plainProgram, underUs)
		if err != nil {
			return rows.Row{}, err
		}
		plain, preloaded = append(plain, a), append(preloaded, b)
	}
	n, err := stats.Median(plain)
	if err != nil {
		return rows.Row{}, err
	}
	extra, err := stats.PairedMedian(plain, preloaded)
	if err != nil {
		return rows.Row{}, err
	}
	noise, err := stats.InterquartileRange(plain)
	if err != nil {
		return rows.Row{}, err
	}
	return l.Row("startup", rows.ModeNoCUDA, pairs, rows.Params{"program": plainProgram}, rows.Metrics{
		"native_us": n, "extra_us": extra, "noise_us": noise, "extra_over_noise_ratio": extra / noise,
	}), nil
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
