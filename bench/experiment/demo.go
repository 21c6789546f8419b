package experiment

import (
	"context"
	"fmt"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/stats"
)

// Demo is one look at the whole: a latency-critical program and a background
// one, alone, sharing the device without us, and under xmsched.
type Demo struct {
	Requests Requests
	Load     Load
	Alone    time.Duration // how long the load runs alone
}

// DemoPhase is one column of the demonstration.
type DemoPhase struct {
	Mode           string
	Latency        stats.Summary
	LatencyUS      []float64
	P99Ratio       float64 // to alone
	BackgroundPerS float64
	ShareOfAlone   float64 // of the background's kernels per second
	Verified       uint64  // result words compared with the closed form, all equal
	Level          int     // at which the background was governed under xmsched
}

// DefaultDemo gives a load that shows on both kinds of device what the highest
// level of the device can do. The requests come in bursts, as tokens of a
// language model do; the first of a burst finds the background running.
func DefaultDemo(quick bool) Demo {
	d := Demo{
		Requests: Requests{RequestUS: 1000, Kernels: 1, Count: 1200, GapUS: 50, Burst: 300, PauseUS: 300_000, Priority: 10},
		Load:     Load{Programs: 1, KernelUS: 1000, InFlight: 16},
		Alone:    2 * time.Second,
	}
	if quick {
		d.Requests.Count, d.Requests.Burst = 300, 150
		d.Alone = time.Second
	}
	return d
}

// Params of the rows of a phase; level is that in force under xmsched.
func (d Demo) Params(mode string, level int) rows.Params {
	return P99{Requests: d.Requests, Load: d.Load}.params(mode, level)
}

// RunDemo runs the three phases. report is told what is being run and how far
// it is.
func (l *Lab) RunDemo(ctx context.Context, d Demo, report func(what string, done, total int)) ([]DemoPhase, error) {
	if report == nil {
		report = func(string, int, int) {}
	}
	if err := l.Places.Complete(); err != nil {
		return nil, err
	}
	report("calibrate", 0, 1)
	if _, err := l.Calibrate(ctx); err != nil {
		return nil, err
	}
	report("background alone", 0, 1)
	alonePerS, err := l.LoadAlone(ctx, d.Load, d.Alone)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	var phases []DemoPhase
	for _, mode := range []string{rows.ModeAlone, rows.ModeNative, rows.ModeXmsched} {
		r, err := l.Pair(ctx, mode, d.Requests, d.Load, func(done int) { report(mode, done, d.Requests.Count) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mode, err)
		}
		s, err := stats.Summarize(r.LatencyUS)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mode, err)
		}
		p := DemoPhase{Mode: mode, Latency: s, LatencyUS: r.LatencyUS, BackgroundPerS: r.BackgroundPerS, Verified: r.Verified, Level: r.Level}
		if mode == rows.ModeAlone {
			p.BackgroundPerS = alonePerS
		}
		p.ShareOfAlone = p.BackgroundPerS / alonePerS
		phases = append(phases, p)
	}
	for i := range phases {
		phases[i].P99Ratio = phases[i].Latency.P99 / phases[0].Latency.P99
	}
	return phases, nil
}
