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
	"xmsched/hal/kernels"
)

// Launch is the experiment behind the row of that name: what a launch costs a
// foreign C program without us and preloaded, the two alternating.
type Launch struct {
	Modes     []string // subset of free, bounded, gated
	Threads   []int
	KernelUS  float64 // 0: the empty kernel
	Rounds    int     // pairs of processes
	Reps      int     // repetitions a process and thread count
	RepMS     int     // length of a repetition
	SyncEvery int     // wait for the stream after so many launches; 0: only at a repetition's end
}

// Validate says what is wrong with the experiment.
func (e Launch) Validate() error {
	if len(e.Modes) == 0 {
		return errors.New("no modes")
	}
	for _, m := range e.Modes {
		if _, ok := launchLevels[m]; !ok {
			return fmt.Errorf("mode %q is none of free, bounded, gated", m)
		}
	}
	for _, n := range e.Threads {
		if err := limit.Check("threads", n, 1, 256); err != nil {
			return err
		}
	}
	if slices.Contains(e.Modes, rows.ModeGated) && e.KernelUS < gatedKernelUS {
		return fmt.Errorf("kernel-us is %v, want at least %v in mode gated: a wait in front of every command is paid per kernel", e.KernelUS, gatedKernelUS)
	}
	return limit.First(
		limit.Check("thread counts", len(e.Threads), 1, 16),
		limit.Check("kernel-us", e.KernelUS, 0, maxKernelUS),
		limit.Check("rounds", e.Rounds, 1, maxRounds),
		limit.Check("reps", e.Reps, 1, 1000),
		limit.Check("rep-ms", e.RepMS, 1, 60_000),
		limit.Check("sync-every", e.SyncEvery, 0, 1_000_000),
	)
}

// gatedKernelUS is the shortest kernel of the mode gated.
const gatedKernelUS = 100.0

// launchLevels gives the level that a mode is measured at.
var launchLevels = map[string]Level{rows.ModeFree: LevelAuto, rows.ModeBounded: 1, rows.ModeGated: 2}

// launchTimeout bounds one process beyond its planned length.
const launchTimeout = 60 * time.Second

// RunLaunch measures. A free run has the daemon and no competitor; a bounded one
// (Level 1) and a gated one (Level 2) have a competitor of a higher class
// registered that never becomes ready: the gate stays open, and what is measured
// is the price of being ready to stop.
func (l *Lab) RunLaunch(ctx context.Context, e Launch, report func(what string, done, total int)) ([]rows.Row, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if err := l.Places.Complete(); err != nil {
		return nil, err
	}
	args, err := l.launchArgs(ctx, e)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	var out []rows.Row
	for _, mode := range e.Modes {
		if err := l.Daemon(ctx); err != nil {
			return nil, err
		}
		done := func() {}
		if mode != rows.ModeFree {
			if done, err = l.competitor(ctx); err != nil {
				return nil, err
			}
		}
		measured, err := l.launchMode(ctx, e, mode, args, report)
		done()
		if err != nil {
			return nil, fmt.Errorf("launch %s: %w", mode, err)
		}
		out = append(out, measured...)
	}
	return out, nil
}

func (l *Lab) launchArgs(ctx context.Context, e Launch) ([]string, error) {
	ptx := filepath.Join(l.dir, "kernels.ptx")
	if err := os.WriteFile(ptx, kernels.PTX(), 0o600); err != nil {
		return nil, fmt.Errorf("write the kernels: %w", err)
	}
	threads := make([]string, len(e.Threads))
	for i, n := range e.Threads {
		threads[i] = strconv.Itoa(n)
	}
	args := []string{
		"--wait", "--ptx", ptx, "--threads", strings.Join(threads, ","),
		"--reps", strconv.Itoa(e.Reps), "--rep-ms", strconv.Itoa(e.RepMS), "--sync-every", strconv.Itoa(e.SyncEvery),
	}
	if e.KernelUS > 0 {
		perUS, err := l.Calibrate(ctx)
		if err != nil {
			return nil, err
		}
		args = append(args, "--kernel", "xm_spin", "--iterations", iterations(e.KernelUS, perUS))
	}
	return args, nil
}

// competitor registers an idle task of a higher class on the lab's device; the
// returned function takes it away.
func (l *Lab) competitor(ctx context.Context) (func(), error) {
	c, err := l.startClient("competitor", nil, "client", "--role", string(workloads.RoleIdle), "--uuid", l.Facts.UUID, "--priority", "10")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, daemonTimeout, errors.New("the daemon did not answer in time"))
	defer cancel()
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	return c.Kill, nil
}

func (l *Lab) launchMode(ctx context.Context, e Launch, mode string, args []string, report func(string, int, int)) ([]rows.Row, error) {
	native := map[int][]float64{}
	preloaded := map[int][]float64{}
	for round := range e.Rounds {
		if report != nil {
			report("launch "+mode, round, e.Rounds)
		}
		sides := []struct {
			into map[int][]float64
			u    *Under
		}{{native, nil}, {preloaded, &Under{Name: "launchloop", Level: launchLevels[mode]}}}
		if round%2 == 1 { // neither side is always the first of its pair
			slices.Reverse(sides)
		}
		for _, side := range sides {
			each, err := l.launchOnce(ctx, e, args, side.u)
			if err != nil {
				return nil, err
			}
			for threads, ns := range each {
				side.into[threads] = append(side.into[threads], ns)
			}
		}
	}
	var out []rows.Row
	for _, threads := range e.Threads {
		params := rows.Params{"threads": threads, "kernel_us": e.KernelUS}
		if level := launchLevels[mode]; level != LevelAuto {
			params["level"] = int(level)
		}
		if e.SyncEvery > 0 {
			params["sync_every"] = e.SyncEvery
		}
		metrics, err := overhead(native[threads], preloaded[threads])
		if err != nil {
			return nil, fmt.Errorf("%d threads: %w", threads, err)
		}
		out = append(out, l.Row("launch", mode, e.Rounds, params, metrics))
	}
	return out, nil
}

// overhead compares pairs of processes: the difference is the median of the
// pairs' differences, not the difference of medians, so drift cancels.
func overhead(native, preloaded []float64) (rows.Metrics, error) {
	n, err := stats.Median(native)
	if err != nil {
		return nil, err
	}
	p, err := stats.Median(preloaded)
	if err != nil {
		return nil, err
	}
	d, err := stats.PairedMedian(native, preloaded)
	if err != nil {
		return nil, err
	}
	spread, err := stats.InterquartileRange(native)
	if err != nil {
		return nil, err
	}
	return rows.Metrics{
		"native_ns": n, "preloaded_ns": p, "overhead_ns": d, "overhead_pct": 100 * d / n, "native_spread_ns": spread,
	}, nil
}

// launchOnce runs the loop in one process and gives each thread count's median
// time a launch.
func (l *Lab) launchOnce(ctx context.Context, e Launch, args []string, u *Under) (map[int]float64, error) {
	planned := time.Duration(len(e.Threads)*(e.Reps+1)*e.RepMS) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, 4*planned+launchTimeout, errors.New("the launch loop did not end in time"))
	defer cancel()
	path, err := l.Places.Library("bench", "launchloop")
	if err != nil {
		return nil, err
	}
	c, err := l.start("launchloop", u, nil, path, args...)
	if err != nil {
		return nil, err
	}
	defer c.Kill()
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		return nil, err
	}
	if u != nil { // else the first launches would run unscheduled, or at another level
		if err := l.awaitTasks(ctx, c.Pid()); err != nil {
			return nil, err
		}
	}
	if err := c.Begin(); err != nil {
		return nil, err
	}
	if u != nil && u.Level != LevelAuto {
		if _, err := l.effective(ctx, c.Pid(), u.Level); err != nil {
			return nil, err
		}
	}
	if _, err := c.Await(ctx, "done"); err != nil {
		return nil, err
	}
	reps := map[int][]float64{}
	for _, ev := range c.Events() {
		if ev.Kind != "launches" {
			continue
		}
		var rep struct {
			Threads int     `json:"threads"`
			NS      float64 `json:"ns_per_launch"`
		}
		if err := ev.Into(&rep); err != nil {
			return nil, err
		}
		reps[rep.Threads] = append(reps[rep.Threads], rep.NS)
	}
	each := map[int]float64{}
	for _, threads := range e.Threads {
		if each[threads], err = stats.Median(reps[threads]); err != nil {
			return nil, fmt.Errorf("launchloop, %d threads: %w", threads, err)
		}
	}
	return each, c.Finish(ctx)
}
