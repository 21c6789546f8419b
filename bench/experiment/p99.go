package experiment

import (
	"context"
	"fmt"
	"slices"

	"xmsched/bench/rows"
	"xmsched/bench/stats"
)

// P99 is the experiment behind the row of that name: the latency of requests
// alone, beside a load without us, and under xmsched.
type P99 struct {
	Requests Requests // Count is the total of each mode, over all rounds
	Load     Load
	Rounds   int      // every round measures every mode once: what drifts, drifts for all
	Modes    []string // subset of alone, native, xmsched; alone comes first
	Level    int      // of the xmsched mode
}

// Validate says what is wrong with the experiment.
func (p P99) Validate() error {
	switch {
	case p.Rounds < 1:
		return fmt.Errorf("rounds is %d, want at least 1", p.Rounds)
	case p.Requests.Count < p.Rounds:
		return fmt.Errorf("%d requests do not fill %d rounds", p.Requests.Count, p.Rounds)
	case p.Load.Programs < 1:
		return fmt.Errorf("backgrounds is %d, want at least 1", p.Load.Programs)
	case len(p.Modes) == 0:
		return fmt.Errorf("no modes")
	}
	for _, m := range p.Modes {
		if m != rows.ModeAlone && m != rows.ModeNative && m != rows.ModeXmsched {
			return fmt.Errorf("mode %q is none of alone, native, xmsched", m)
		}
	}
	return nil
}

// P99Result is a row with the samples behind it.
type P99Result struct {
	Row       rows.Row
	LatencyUS []float64
}

// RunP99 measures. report, if set, is told what is being run and how far it is;
// it is called from other goroutines too, one call at a time a run.
func (l *Lab) RunP99(ctx context.Context, p P99, report func(what string, done, total int)) ([]P99Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if slices.Contains(p.Modes, rows.ModeXmsched) {
		if err := l.Places.Complete(); err != nil {
			return nil, err
		}
	}
	latency := map[string][]float64{}
	perS := map[string][]float64{}
	for round := range p.Rounds {
		req := p.Requests
		req.Count = p.Requests.Count*(round+1)/p.Rounds - p.Requests.Count*round/p.Rounds
		for _, mode := range p.Modes {
			what := fmt.Sprintf("%s, round %d of %d", mode, round+1, p.Rounds)
			r, err := l.Pair(ctx, mode, req, p.Load, func(done int) {
				if report != nil {
					report(what, done, req.Count)
				}
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			if mode != rows.ModeXmsched {
				l.StopDaemon()
			}
			latency[mode] = append(latency[mode], r.LatencyUS...)
			perS[mode] = append(perS[mode], r.BackgroundPerS)
		}
		l.StopDaemon() // the next round's first modes run without one
	}
	return l.p99Rows(p, latency, perS)
}

func (l *Lab) p99Rows(p P99, latency, perS map[string][]float64) ([]P99Result, error) {
	var out []P99Result
	alone := 0.0
	for _, mode := range p.Modes {
		s, err := stats.Summarize(latency[mode])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mode, err)
		}
		if mode == rows.ModeAlone {
			alone = s.P99
		}
		metrics := rows.Metrics{
			"n": float64(s.N), "p50_us": s.P50, "p90_us": s.P90, "p99_us": s.P99, "max_us": s.Max,
			"background_per_s": mean(perS[mode]),
		}
		if alone > 0 {
			metrics["p99_ratio"] = s.P99 / alone
		}
		out = append(out, P99Result{Row: l.Row("p99", mode, s.N, p.params(mode), metrics), LatencyUS: latency[mode]})
	}
	return out, nil
}

func (p P99) params(mode string) rows.Params {
	params := rows.Params{
		"request_us": p.Requests.RequestUS, "background_us": p.Load.KernelUS, "backgrounds": p.Load.Programs,
		"in_flight": p.Load.InFlight, "gap_us": p.Requests.GapUS,
	}
	if p.Requests.Burst > 0 {
		params["burst"], params["pause_us"] = p.Requests.Burst, p.Requests.PauseUS
	}
	if mode == rows.ModeXmsched {
		params["level"] = p.Level
		params["priority"], params["background_priority"] = p.Requests.Priority, p.Load.Priority
		if p.Load.Threshold > 0 {
			params["threshold"] = p.Load.Threshold
		}
		if p.Load.Batch > 0 {
			params["batch"] = p.Load.Batch
		}
	}
	return params
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(len(v), 1))
}
