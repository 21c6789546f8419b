package experiment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// Cycles is the experiment behind the row of that name: a program that suspends
// and resumes its own channels at random moments while it does every kind of work
// whose result would show that something was lost. No daemon takes part.
type Cycles struct {
	Settings workloads.Cycles
	Holds    []string // what is suspended: compute, all; each is measured
}

// Validate says what is wrong with the experiment.
func (c Cycles) Validate() error {
	if len(c.Holds) == 0 {
		return errors.New("no hold")
	}
	for _, hold := range c.Holds {
		s := c.Settings
		s.Hold = hold
		if err := s.Validate(); err != nil {
			return err
		}
	}
	return limit.Check("holds", len(c.Holds), 1, 2)
}

// perCycle bounds a cycle beyond its planned times.
const perCycle = 20 * time.Millisecond

// RunCycles measures.
func (l *Lab) RunCycles(ctx context.Context, c Cycles, report func(what string, done, total int)) ([]rows.Row, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	var out []rows.Row
	for _, hold := range c.Holds {
		s := c.Settings
		s.Hold = hold
		row, err := l.cycles(ctx, s, func(done int) { report("cycles, "+hold+" groups", done, s.Count) })
		if err != nil {
			return out, fmt.Errorf("cycles, %s groups: %w", hold, err)
		}
		out = append(out, row)
	}
	return out, nil
}

func (l *Lab) cycles(ctx context.Context, c workloads.Cycles, report func(int)) (rows.Row, error) {
	limit := setupTimeout + time.Duration(c.Count)*(c.RunFor+c.HoldFor+perCycle)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the cycles did not end in time"))
	defer cancel()
	log, noLog := openKernelLog()
	if noLog == nil {
		defer log.close()
	} else {
		l.note(noLog.Error() + ": an Xid would not be seen")
	}
	onEvent := func(e Event) {
		var p workloads.Event
		if e.Kind == workloads.KindProgress && e.Into(&p) == nil {
			report(int(p.Count))
		}
	}
	child, err := l.startWatched("cycles", preloaded{}, onEvent, "cycles",
		"--cycles", strconv.Itoa(c.Count), "--hold", c.Hold, "--work", strings.Join(c.Work, ","),
		"--run-for", c.RunFor.String(), "--hold-for", c.HoldFor.String(), "--seed", strconv.FormatUint(c.Seed, 10))
	if err != nil {
		return rows.Row{}, err
	}
	defer child.Kill()
	if _, err := child.Await(ctx, workloads.KindReady); err != nil {
		return rows.Row{}, err
	}
	if err := child.Begin(); err != nil {
		return rows.Row{}, err
	}
	var r workloads.Event
	if err := result(ctx, child, &r); err != nil {
		return rows.Row{}, err
	}
	if r.Cycles == nil || r.Verified == 0 {
		return rows.Row{}, errors.New("no result was compared with the closed form")
	}
	params, metrics, err := l.cyclesRow(c, r)
	if err != nil {
		return rows.Row{}, err
	}
	params["kernel_log"] = "not readable"
	if noLog == nil {
		xids, err := log.xids()
		if err != nil {
			return rows.Row{}, err
		}
		for _, line := range xids {
			l.note("the kernel says: " + line)
		}
		params["kernel_log"] = "read"
		metrics["xid_count"] = float64(len(xids))
	}
	return l.Row("cycles", rows.ModeDirect, len(r.Cycles.HoldUS), params, metrics), nil
}

// cyclesRow makes a row of the result. A kind of work that was left out is told,
// and is not in the row's param "work".
func (l *Lab) cyclesRow(c workloads.Cycles, r workloads.Event) (rows.Params, rows.Metrics, error) {
	hold, err := stats.Summarize(r.Cycles.HoldUS)
	if err != nil {
		return nil, nil, err
	}
	resume, err := stats.Summarize(r.Cycles.ResumeUS)
	if err != nil {
		return nil, nil, err
	}
	metrics := rows.Metrics{
		"hold_p50_us": hold.P50, "hold_p99_us": hold.P99, "hold_max_us": hold.Max,
		"resume_p50_us": resume.P50, "resume_p99_us": resume.P99, "resume_max_us": resume.Max,
		"verified_count": float64(r.Verified), "wrong_count": float64(r.Wrong), "identical": 0,
		"compute_groups_count": float64(r.Cycles.ComputeGroups), "groups_count": float64(r.Cycles.Groups), "channels_count": float64(r.Cycles.Channels),
	}
	if r.Wrong == 0 {
		metrics["identical"] = 1
	}
	var done []string
	for _, w := range r.Cycles.Work {
		if w.Skipped != "" {
			l.note(fmt.Sprintf("work %s is left out: %s", w.Kind, w.Skipped))
			continue
		}
		done = append(done, w.Kind)
		metrics[strings.ReplaceAll(w.Kind, "-", "_")+"_rounds_count"] = float64(w.Rounds)
		if w.Wrong > 0 {
			l.note(fmt.Sprintf("work %s: %d of %d words are wrong", w.Kind, w.Wrong, w.Verified))
		}
	}
	return rows.Params{
		"hold": c.Hold, "cycles": c.Count, "run_us": c.RunFor.Microseconds(), "hold_us": c.HoldFor.Microseconds(),
		"seed": strconv.FormatUint(c.Seed, 10), "work": strings.Join(done, ","),
	}, metrics, nil
}
