package experiment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// Preempt is the experiment behind the row of that name: how long a background
// program runs on after its gate closed, and how long it takes to go on after
// its gate opened.
//
// Three processes take part. The background runs under xrun and launches kernels
// of one length, each of which itself writes into host memory that it ended. A
// client of a higher class that uses no device is ready and idle in turn, by the
// clock; so the daemon closes and opens the background's gate as it would for
// any program. An observer reads gate word and kernels' words of the background
// from a process of its own. Nobody waits for the observer.
type Preempt struct {
	Levels    []Level
	KernelsUS []float64
	Closings  int // of each kernel length and level
	InFlight  int // kernels that the background has launched and not seen end
	Threshold int // 0: the default
	Batch     int // 0: the default
}

// Validate says what is wrong with the experiment.
func (p Preempt) Validate() error {
	if len(p.Levels) == 0 {
		return errors.New("no level")
	}
	for _, us := range p.KernelsUS {
		if err := limit.Check("kernel-us", us, 1, 1_000_000); err != nil {
			return err
		}
	}
	return limit.First(
		limit.Check("kernel lengths", len(p.KernelsUS), 1, 32),
		limit.Check("closings", p.Closings, 1, 10_000),
		limit.Check("in-flight", p.InFlight, 1, maxInFlight),
		limit.Check("threshold", p.Threshold, 0, maxBound),
		limit.Check("batch", p.Batch, 0, maxBound),
	)
}

// RunPreempt measures.
func (l *Lab) RunPreempt(ctx context.Context, p Preempt, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(p, report)
	if err != nil {
		return nil, err
	}
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	var out []rows.Row
	for _, level := range p.Levels {
		for i, us := range p.KernelsUS {
			what := fmt.Sprintf("preempt level %s, kernels of %v us", level, us)
			report(what, i, len(p.KernelsUS))
			row, err := l.preempt(ctx, p, level, us, perUS)
			if err != nil {
				return out, fmt.Errorf("%s: %w", what, err)
			}
			out = append(out, row)
		}
	}
	return out, nil
}

func (l *Lab) preempt(ctx context.Context, p Preempt, level Level, us, perUS float64) (rows.Row, error) {
	pulses := p.pulses(level, us)
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout+4*pulses.length(), errors.New("the closings did not end in time"))
	defer cancel()
	if err := l.Daemon(ctx); err != nil {
		return rows.Row{}, err
	}
	chain, wordsFD, err := l.startChain(ctx, p, level, us, perUS)
	if err != nil {
		return rows.Row{}, err
	}
	defer chain.Kill()
	pulser, err := l.startPulser(ctx, pulses)
	if err != nil {
		return rows.Row{}, err
	}
	defer pulser.Kill()
	observer, err := l.startWork("observer", nil, "observe",
		"--pid", strconv.Itoa(chain.Pid()), "--words-fd", strconv.Itoa(wordsFD), "--uuid", l.Facts.UUID)
	if err != nil {
		return rows.Row{}, err
	}
	defer observer.Kill()
	if _, err := observer.Await(ctx, workloads.KindReady); err != nil {
		return rows.Row{}, err
	}
	if err := chain.Begin(); err != nil {
		return rows.Row{}, err
	}
	inForce, err := l.effective(ctx, chain.Pid(), level)
	if err != nil {
		return rows.Row{}, err
	}
	stops, err := watchStops(ctx, pulses, chain, pulser, observer)
	if err != nil {
		return rows.Row{}, err
	}
	metrics, err := stopMetrics(stops)
	if err != nil {
		return rows.Row{}, err
	}
	return l.Row("preempt", rows.ModeXmsched, len(stops.StopUS), p.params(inForce, us), metrics), nil
}

// pulses says when the client of the higher class is ready.
type pulses struct {
	count              int
	hold, rest, spread time.Duration
}

// pulses gives times that let everything stop before the gate opens again, and
// run before it closes again: at Level 1 all that is queued runs on, the bound's
// default of 16 and a batch of 8; above, one kernel.
func (p Preempt) pulses(level Level, us float64) pulses {
	const slack = 2 * time.Millisecond
	kernel := time.Duration(us * float64(time.Microsecond))
	outstanding := 3
	if level < 2 {
		outstanding = max(p.Threshold, 16) + max(p.Batch, 8) + 4
	}
	return pulses{
		count: p.Closings, hold: time.Duration(outstanding)*kernel + slack,
		rest: 3*kernel + slack, spread: max(kernel, slack),
	}
}

func (p pulses) length() time.Duration {
	return time.Duration(p.count) * (p.hold + p.rest + p.spread)
}

func (l *Lab) startChain(ctx context.Context, p Preempt, level Level, us, perUS float64) (c *Child, wordsFD int, err error) {
	u := &Under{Name: "background", Level: level, Threshold: p.Threshold, Batch: p.Batch}
	c, err = l.startWork("chain", u, "chain", "--iterations", iterations(us, perUS), "--in-flight", strconv.Itoa(p.InFlight))
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			c.Kill()
		}
	}()
	e, err := c.Await(ctx, workloads.KindReady)
	if err != nil {
		return nil, 0, err
	}
	var ready workloads.Event
	if err := e.Into(&ready); err != nil {
		return nil, 0, err
	}
	if err := l.awaitTasks(ctx, c.Pid()); err != nil {
		return nil, 0, err
	}
	return c, ready.WordsFD, nil
}

func (l *Lab) startPulser(ctx context.Context, p pulses) (*Child, error) {
	c, err := l.startClient("pulser", nil, "client", "--role", string(workloads.RolePulse), "--uuid", l.Facts.UUID,
		"--priority", "10", "--edges", strconv.Itoa(p.count),
		"--hold", p.hold.String(), "--rest", p.rest.String(), "--spread", p.spread.String())
	if err != nil {
		return nil, err
	}
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

// watchStops lets the pulses begin beside the chain, which runs, and gives what
// the observer saw of them.
func watchStops(ctx context.Context, p pulses, chain, pulser, observer *Child) (*workloads.Stops, error) {
	if err := observer.Begin(); err != nil {
		return nil, err
	}
	const warmUp = 50 * time.Millisecond
	if err := pause(ctx, warmUp+p.rest); err != nil {
		return nil, err
	}
	if err := pulser.Begin(); err != nil {
		return nil, err
	}
	if _, err := pulser.Await(ctx, workloads.KindResult); err != nil {
		return nil, err
	}
	if err := pause(ctx, p.rest); err != nil {
		return nil, err
	}
	_ = observer.stdin.Close() // its end makes it tell
	var seen workloads.Event
	if err := result(ctx, observer, &seen); err != nil {
		return nil, err
	}
	if seen.Stops == nil {
		return nil, errors.New("observer: the result is empty")
	}
	if err := pulser.Finish(ctx); err != nil {
		return nil, err
	}
	_ = chain.stdin.Close()
	var ran workloads.Event
	if err := result(ctx, chain, &ran); err != nil {
		return nil, err
	}
	return seen.Stops, verified("chain", ran)
}

func result(ctx context.Context, c *Child, into *workloads.Event) error {
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return err
	}
	if err := e.Into(into); err != nil {
		return err
	}
	return c.Finish(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopMetrics makes metrics of what the observer saw. A kernel's length is the
// median time between the ends of two in a row while the gate is open, so the
// device's own gap between two kernels is in it. A resumption is the time until
// the first kernel ended less that length: until it began.
func stopMetrics(s *workloads.Stops) (rows.Metrics, error) {
	if len(s.StopUS) == 0 || len(s.ResumeUS) == 0 || len(s.HoldUS) != len(s.StopUS) {
		return nil, fmt.Errorf("the observer saw %d closings and %d resumptions of a running program; %d closings found it idle", len(s.StopUS), len(s.ResumeUS), s.Idle)
	}
	stop, err := stats.Summarize(s.StopUS)
	if err != nil {
		return nil, err
	}
	resume, err := stats.Summarize(s.ResumeUS)
	if err != nil {
		return nil, err
	}
	kernel, err := stats.Median(s.IntervalUS)
	if err != nil {
		return nil, fmt.Errorf("the observer saw no two kernels in a row end when they did (it paused for up to %v us): %w", s.GapUS, err)
	}
	unstopped := 0
	for i, us := range s.StopUS {
		if s.HoldUS[i]-us < 1.5*kernel { // the next one could still have been coming
			unstopped++
		}
	}
	return rows.Metrics{
		"stop_p50_us": stop.P50, "stop_p99_us": stop.P99, "stop_max_us": stop.Max,
		"stop_p99_over_us": stop.P99 - kernel,
		"resume_p50_us":    resume.P50 - kernel, "resume_p99_us": resume.P99 - kernel,
		"kernel_p50_us": kernel, "unstopped_count": float64(unstopped), "idle_count": float64(s.Idle),
		"observer_gap_max_us": s.GapUS,
	}, nil
}

func (p Preempt) params(level int, us float64) rows.Params {
	params := rows.Params{"level": level, "kernel_us": us, "in_flight": p.InFlight}
	if p.Threshold > 0 {
		params["threshold"] = p.Threshold
	}
	if p.Batch > 0 {
		params["batch"] = p.Batch
	}
	return params
}
