package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/xserver/client"
)

// Share is the experiment behind the row of that name: endless programs that are
// to get given shares of a device.
type Share struct {
	Targets []string // each like "75:25", the shares in percent
	// Kernels are lengths in us, one for all programs ("50") or one for each in turn
	// ("50+5000": mixed).
	Kernels []string
	Span    time.Duration // of each measured part, at least; see spanOf
	Policy  string
	Level   Level
	Quantum time.Duration // 0: the policy's
}

const maxShareSpan = 5 * time.Minute

// Validate says what is wrong with the experiment.
func (s Share) Validate() error {
	if len(s.Targets) == 0 || len(s.Kernels) == 0 {
		return errors.New("no target, or no kernel length")
	}
	for _, t := range s.Targets {
		if _, err := parseTarget(t); err != nil {
			return err
		}
	}
	for _, k := range s.Kernels {
		if _, err := parseKernels(k); err != nil {
			return err
		}
	}
	return limit.First(
		limit.Check("span", s.Span, 100*time.Millisecond, maxShareSpan),
		limit.Check("quantum", s.Quantum, 0, 10*time.Second),
	)
}

func parseTarget(text string) ([]float64, error) {
	var shares []float64
	sum := 0.0
	for _, part := range strings.Split(text, ":") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || !(v >= 1 && v <= 99) {
			return nil, fmt.Errorf("target %q: %q is no share from 1 to 99 percent", text, part)
		}
		shares = append(shares, v)
		sum += v
	}
	if len(shares) < 2 || math.Abs(sum-100) > 1e-9 {
		return nil, fmt.Errorf("target %q: want two shares or more that make 100", text)
	}
	return shares, nil
}

func parseKernels(text string) ([]float64, error) {
	var us []float64
	for _, part := range strings.Split(text, "+") {
		v, err := strconv.ParseFloat(part, 64)
		if err == nil {
			err = limit.Check("kernel-us", v, 1, maxKernelUS)
		}
		if err != nil {
			return nil, fmt.Errorf("kernels %q: %w", text, err)
		}
		us = append(us, v)
	}
	return us, nil
}

// shared is one program of a run.
type shared struct {
	kernelUS float64
	target   float64 // percent
	alonePS  float64 // kernels a second that it makes alone without us
	ownPS    float64 // and when it always has its turn under us, a competitor being idle
	fill     float64 // part of the device that it uses alone
	pace     bool    // measures the device first
	periodUS float64 // which makes a queued kernel so often
	load     *background
}

// leastFill is how much of the device each program has to use alone. Of what two
// programs leave unused, no scheduler can make shares: both run as if alone.
const leastFill = 0.97

// RunShare measures. Each length of kernels runs alone once, without us and under us
// beside an idle competitor; each mix of lengths without us once for each number of
// programs. Lengths with which a program alone does not fill the device are left out,
// and that is noted.
func (l *Lab) RunShare(ctx context.Context, s Share, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(s, report)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	r := &sharing{lab: l, s: s, alone: map[float64]float64{}, own: map[float64]float64{}, fill: map[float64]float64{}, native: map[string]float64{}}
	var out []rows.Row
	for i, kernels := range s.Kernels {
		for j, target := range s.Targets {
			what := fmt.Sprintf("share %s, kernels of %s us", target, kernels)
			report(what, i*len(s.Targets)+j, len(s.Kernels)*len(s.Targets))
			row, err := r.measure(ctx, target, kernels)
			if unfilled := (*unfilledError)(nil); errors.As(err, &unfilled) {
				l.note(what + ": " + unfilled.Error())
				continue
			}
			if err != nil {
				return out, fmt.Errorf("%s: %w", what, err)
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// unfilledError says that a program alone does not use the whole device.
type unfilledError struct{ kernelUS, fill float64 }

func (e *unfilledError) Error() string {
	return fmt.Sprintf("a program with kernels of %v us uses %.1f %% of the device alone, want %.0f %%: shares of it would say nothing", e.kernelUS, 100*e.fill, 100*leastFill)
}

// sharing remembers what later measurements are compared with.
type sharing struct {
	lab    *Lab
	s      Share
	level  int                 // in force
	alone  map[float64]float64 // kernels a second without us, by length
	own    map[float64]float64 // and under us
	fill   map[float64]float64 // part of the device that one program uses alone
	native map[string]float64  // what all programs got of the device, by lengths
}

func (r *sharing) programs(ctx context.Context, target, kernels string) ([]*shared, error) {
	shares, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	lengths, err := parseKernels(kernels)
	if err != nil {
		return nil, err
	}
	var all []*shared
	for i, share := range shares {
		p := &shared{kernelUS: lengths[i%len(lengths)], target: share}
		if p.alonePS, err = r.aloneRate(ctx, p.kernelUS); err != nil {
			return nil, err
		}
		if p.fill = r.fill[p.kernelUS]; p.fill < leastFill && !r.lab.Facts.Simulated {
			return nil, &unfilledError{p.kernelUS, p.fill}
		}
		if p.ownPS, err = r.ownRate(ctx, p.kernelUS); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (r *sharing) aloneRate(ctx context.Context, us float64) (float64, error) {
	if perS, ok := r.alone[us]; ok {
		return perS, nil
	}
	p := &shared{kernelUS: us, pace: true}
	perS, err := r.run(ctx, []*shared{p}, false, r.s.Span/2)
	if err != nil {
		return 0, fmt.Errorf("kernels of %v us alone: %w", us, err)
	}
	r.alone[us] = perS[0]
	r.fill[us] = filled(perS[0], us, p.periodUS)
	return perS[0], nil
}

// ownRate is what a program makes in its own turn: what a turn is worth differs by
// the length of kernels, for a wait in front of each costs the same.
func (r *sharing) ownRate(ctx context.Context, us float64) (float64, error) {
	if perS, ok := r.own[us]; ok {
		return perS, nil
	}
	if err := r.lab.daemonFor(ctx, r.s.Level); err != nil {
		return 0, err
	}
	done, err := r.lab.competitor(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	perS, err := r.run(ctx, []*shared{{kernelUS: us, target: 99}}, true, r.s.Span/2)
	if err != nil {
		return 0, fmt.Errorf("kernels of %v us in their own turn: %w", us, err)
	}
	r.own[us] = perS[0]
	return perS[0], nil
}

func (r *sharing) measure(ctx context.Context, target, kernels string) (rows.Row, error) {
	all, err := r.programs(ctx, target, kernels)
	if err != nil {
		return rows.Row{}, err
	}
	key := fmt.Sprintf("%d %s", len(all), kernels)
	if _, ok := r.native[key]; !ok {
		perS, err := r.run(ctx, all, false, r.s.Span/2)
		if err != nil {
			return rows.Row{}, fmt.Errorf("without us: %w", err)
		}
		r.native[key] = ofDevice(all, perS)
	}
	span := spanOf(all, r.s.Span)
	perS, err := r.run(ctx, all, true, span)
	if err != nil {
		return rows.Row{}, err
	}
	metrics, err := shareMetrics(all, perS, r.native[key])
	if err != nil {
		return rows.Row{}, err
	}
	metrics["span_error_pct"] = spanError(all, span)
	params := rows.Params{"target": target, "kernel_us": kernels, "policy": r.s.Policy, "level": r.level, "span_s": span.Seconds()}
	if r.s.Quantum > 0 {
		params["quantum_us"] = r.s.Quantum.Microseconds()
	}
	return r.lab.Row("share", rows.ModeXmsched, len(all), params, metrics), nil
}

// shareWarmUp is what passes before the measured part: policies begin a task with a
// credit of its own, and turns grow. It is longer where a program makes few kernels: how
// long they are is learnt from the first few dozen, and then turns are fitted to that, by
// which one may come a turn ahead.
const (
	shareWarmUp  = 1500 * time.Millisecond
	kernelsBegin = 80
)

// run gives the kernels a second of each program.
func (r *sharing) run(ctx context.Context, all []*shared, governed bool, span time.Duration) ([]float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout+2*span, errors.New("the programs did not end in time"))
	defer cancel()
	if governed {
		if err := r.lab.daemonFor(ctx, r.s.Level); err != nil {
			return nil, err
		}
		if err := r.lab.setPolicy(ctx, r.s.Policy); err != nil {
			return nil, err
		}
	}
	defer func() {
		for _, p := range all {
			if p.load != nil {
				p.load.child.Kill()
				p.load = nil
			}
		}
	}()
	if err := r.start(ctx, all, governed); err != nil {
		return nil, err
	}
	warmUp := shareWarmUp
	if governed {
		warmUp = max(warmUp, min(lastOf(all, kernelsBegin), maxShareSpan))
	}
	if err := pause(ctx, warmUp); err != nil {
		return nil, err
	}
	from := workloads.MonotonicNS()
	if err := pause(ctx, span); err != nil {
		return nil, err
	}
	to := workloads.MonotonicNS()
	ended := make([]ends, len(all))
	for i, p := range all {
		done, err := p.load.finish(ctx, to)
		if err != nil {
			return nil, err
		}
		if ended[i], err = endsOf(done, shareLoad(p.kernelUS).Group, from, to); err != nil {
			return nil, err
		}
	}
	return ratesOf(ended), nil
}

func (r *sharing) start(ctx context.Context, all []*shared, governed bool) error {
	perUS, err := r.lab.Calibrate(ctx)
	if err != nil {
		return err
	}
	var pids []int
	for i, p := range all {
		var w way
		if governed {
			u := &Under{Name: fmt.Sprintf("share-%v", p.target), Level: r.s.Level, Hints: []string{"--utilization", number(p.target)}}
			if r.s.Quantum > 0 {
				u.Hints = append(u.Hints, "--quantum", r.s.Quantum.String())
			}
			w = u
		}
		load := shareLoad(p.kernelUS)
		load.Pace = p.pace
		if p.load, err = r.lab.startBackground(i, perUS, load, w); err != nil {
			return err
		}
		e, err := p.load.child.Await(ctx, workloads.KindReady)
		if err != nil {
			return err
		}
		var ready workloads.Event
		if err := e.Into(&ready); err != nil {
			return err
		}
		p.periodUS = ready.PeriodUS
		pids = append(pids, p.load.child.Pid())
	}
	if governed {
		if err := r.lab.awaitTasks(ctx, pids...); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := p.load.child.Begin(); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := p.load.running(ctx, false); err != nil {
			return err
		}
		if governed {
			if r.level, err = r.lab.effective(ctx, p.load.child.Pid(), r.s.Level); err != nil {
				return err
			}
		}
	}
	return nil
}

// setPolicy has the lab's daemon take the policy.
func (l *Lab) setPolicy(ctx context.Context, name string) error {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return fmt.Errorf("set the policy: %w", err)
	}
	defer c.Close()
	if _, err := c.SetPolicy(ctx, name); err != nil {
		return fmt.Errorf("set the policy: %w", err)
	}
	return nil
}
