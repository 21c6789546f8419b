package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"xmsched/bench/internal/limit"
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
	Levels   []Level  // of the backgrounds in the mode xmsched, which is measured once for each
}

// Validate says what is wrong with the experiment.
func (p P99) Validate() error {
	if err := limit.First(p.Requests.Validate(), p.Load.Validate(), limit.Check("rounds", p.Rounds, 1, maxRounds)); err != nil {
		return err
	}
	if p.Requests.Count < p.Rounds {
		return fmt.Errorf("%d requests do not fill %d rounds", p.Requests.Count, p.Rounds)
	}
	if len(p.Modes) == 0 {
		return errors.New("no modes")
	}
	for _, m := range p.Modes {
		if m != rows.ModeAlone && m != rows.ModeNative && m != rows.ModeXmsched {
			return fmt.Errorf("mode %q is none of alone, native, xmsched", m)
		}
	}
	if len(p.Levels) == 0 && slices.Contains(p.Modes, rows.ModeXmsched) {
		return errors.New("no level")
	}
	return nil
}

// variant is a mode with the level that it is measured at.
type variant struct {
	mode  string
	level Level
}

func (v variant) String() string {
	if v.mode == rows.ModeXmsched {
		return fmt.Sprintf("%s level %s", v.mode, v.level)
	}
	return v.mode
}

func (p P99) variants() []variant {
	var out []variant
	for _, m := range p.Modes {
		if m != rows.ModeXmsched {
			out = append(out, variant{mode: m})
			continue
		}
		for _, l := range p.Levels {
			out = append(out, variant{mode: m, level: l})
		}
	}
	return out
}

// P99Result is a row with the samples behind it.
type P99Result struct {
	Row       rows.Row
	Name      string // of the variant, for a legend
	LatencyUS []float64
}

// collected is what all rounds of a variant gave.
type collected struct {
	latency []float64
	gated   []float64
	perS    []float64
	level   int // in force
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
	all := map[variant]*collected{}
	for round := range p.Rounds {
		req := p.Requests
		req.Count = p.Requests.Count*(round+1)/p.Rounds - p.Requests.Count*round/p.Rounds
		for _, v := range p.variants() {
			what := fmt.Sprintf("%s, round %d of %d", v, round+1, p.Rounds)
			load := p.Load
			load.Level = v.level
			r, err := l.Pair(ctx, v.mode, req, load, func(done int) {
				if report != nil {
					report(what, done, req.Count)
				}
			})
			// Each variant has a daemon of its own, and the others none.
			l.StopDaemon()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			c := all[v]
			if c == nil {
				c = &collected{}
				all[v] = c
			}
			c.latency = append(c.latency, r.LatencyUS...)
			c.gated = append(c.gated, r.gated(v.mode, req.Burst)...)
			c.perS = append(c.perS, r.BackgroundPerS)
			c.level = r.Level
		}
	}
	return l.p99Rows(p, all)
}

func (l *Lab) p99Rows(p P99, all map[variant]*collected) ([]P99Result, error) {
	var out []P99Result
	var alone, aloneGated float64
	for _, v := range p.variants() {
		c := all[v]
		s, err := stats.Summarize(c.latency)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		metrics := rows.Metrics{
			"n": float64(s.N), "p50_us": s.P50, "p90_us": s.P90, "p99_us": s.P99, "max_us": s.Max,
			"background_per_s": mean(c.perS),
		}
		if v.mode == rows.ModeAlone {
			alone = s.P99
		}
		if alone > 0 {
			metrics["p99_ratio"] = s.P99 / alone
		}
		if g, err := stats.Summarize(c.gated); err == nil {
			if v.mode == rows.ModeAlone {
				aloneGated = g.P99
			} else {
				metrics["gated_count"] = float64(g.N)
				metrics["gated_p50_us"], metrics["gated_p99_us"] = g.P50, g.P99
				if aloneGated > 0 {
					metrics["gated_p99_ratio"] = g.P99 / aloneGated
				}
			}
		}
		out = append(out, P99Result{Row: l.Row("p99", v.mode, s.N, p.params(v.mode, c.level), metrics), Name: v.String(), LatencyUS: c.latency})
	}
	return out, nil
}

// params of a row; level is that in force in the mode xmsched.
func (p P99) params(mode string, level int) rows.Params {
	params := rows.Params{
		"request_us": p.Requests.RequestUS, "background_us": p.Load.KernelUS, "backgrounds": p.Load.Programs,
		"in_flight": p.Load.InFlight, "gap_us": p.Requests.GapUS,
	}
	if p.Requests.Burst > 0 {
		params["burst"], params["pause_us"] = p.Requests.Burst, p.Requests.PauseUS
	}
	if mode == rows.ModeXmsched {
		params["level"] = level
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
